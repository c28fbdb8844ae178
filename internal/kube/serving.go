package kube

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Serving is a workload with pods on a node, in replicas: the pods of a group
// that works together count as one.
type Serving struct {
	Ref   Ref
	Ready int  // ready replicas in all
	Here  int  // of those, replicas with a pod on the node
	GPUs  bool // its pods ask for GPUs
	Keeps int  // ready replicas that a disruption budget of its own keeps, whatever is evicted; 0: none, or that cannot be told
}

// Lowest is how few replicas may be ready while the node is emptied.
func (s Serving) Lowest() int { return max(s.Ready-s.Here, min(s.Keeps, s.Ready)) }

// Labels and annotation of LeaderWorkerSet, whose groups of pods work as one:
// the group is made anew when any pod of it goes.
const (
	lwsName  = "leaderworkerset.sigs.k8s.io/name"
	lwsGroup = "leaderworkerset.sigs.k8s.io/group-key"
	lwsSize  = "leaderworkerset.sigs.k8s.io/size"
)

// serving counts the replicas of the workloads that have pods on the node, and
// marks those of the pods whose replica counts.
func serving(here []NodePod, all map[string][]corev1.Pod) []Serving {
	found := map[Ref]*Serving{}
	groups := map[Ref]map[string]bool{}
	for _, p := range here {
		if p.Owner == (Ref{}) || p.Daemon() || p.Static || p.Owner.Kind == "Job" {
			continue
		}
		if found[p.Owner] == nil {
			found[p.Owner], groups[p.Owner] = &Serving{Ref: p.Owner}, map[string]bool{}
		}
		found[p.Owner].GPUs = found[p.Owner].GPUs || p.GPUs > 0
		groups[p.Owner][p.Group] = true
	}
	for _, pods := range all {
		for ref, ready := range readyGroups(pods) {
			if s := found[ref]; s != nil {
				s.Ready, s.Keeps = len(ready), keeps(ref, here, pods)
				for group := range ready {
					if groups[ref][group] {
						s.Here++
					}
				}
				for i, p := range here {
					here[i].Serves = here[i].Serves || p.Owner == ref && ready[p.Group]
				}
			}
		}
	}
	out := make([]Serving, 0, len(found))
	for _, s := range found {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Serving) int {
		return cmp.Or(strings.Compare(a.Ref.Namespace, b.Ref.Namespace), strings.Compare(a.Ref.Name, b.Ref.Name), strings.Compare(a.Ref.Kind, b.Ref.Kind))
	})
	return out
}

// keeps is what a budget promises of a workload: only one that counts all of
// its pods, and nobody else's, and each of which is a replica by itself, promises
// replicas.
func keeps(ref Ref, here []NodePod, all []corev1.Pod) int {
	pods := 0
	for i := range all {
		if p := describeNodePod(&all[i]); p.Owner == ref {
			if p.Group != p.Name {
				return 0
			}
			pods++
		}
	}
	var promise *Budget
	for _, p := range here {
		if p.Owner != ref || !p.Ready || p.Leaving {
			continue
		}
		if len(p.Budgets) != 1 || p.Budgets[0].Expected != pods || promise != nil && promise.Name != p.Budgets[0].Name {
			return 0
		}
		promise = &p.Budgets[0]
	}
	if promise == nil {
		return 0
	}
	return promise.Desired
}

// readyGroups gives, by workload, the replicas of which every pod is ready and
// none is missing.
func readyGroups(pods []corev1.Pod) map[Ref]map[string]bool {
	type group struct{ ready, size int }
	count := map[Ref]map[string]*group{}
	for i := range pods {
		p := describeNodePod(&pods[i])
		if count[p.Owner] == nil {
			count[p.Owner] = map[string]*group{}
		}
		g := count[p.Owner][p.Group]
		if g == nil {
			g = &group{size: 1}
			count[p.Owner][p.Group] = g
		}
		if size, err := strconv.Atoi(pods[i].Annotations[lwsSize]); err == nil {
			g.size = max(g.size, size)
		}
		if p.Ready && !p.Leaving {
			g.ready++
		}
	}
	out := map[Ref]map[string]bool{}
	for ref, gs := range count {
		out[ref] = map[string]bool{}
		for name, g := range gs {
			if g.ready >= g.size {
				out[ref][name] = true
			}
		}
	}
	return out
}
