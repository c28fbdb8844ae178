package kube

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Serving is a workload with pods on a node, in replicas: the pods of a group
// that works together count as one.
type Serving struct {
	Ref     Ref
	Ready   int  // ready replicas in all
	Here    int  // of those, replicas with a pod on the node
	GPUs    bool // its pods ask for GPUs, those on other nodes too where they work with these
	Keeps   int  // ready replicas that a disruption budget of its own keeps, whatever is evicted; 0: none, or that cannot be told
	Unknown bool // some of its pods are ready and some are not, and which work together nothing says: the numbers are 0 and mean nothing
}

// Lowest is the smallest number of ready replicas while the node is drained.
func (s Serving) Lowest() int { return max(s.Ready-s.Here, min(s.Keeps, s.Ready)) }

// serving counts the replicas of the workloads with pods on the node and marks the
// pods whose replica counts.
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
		for ref, c := range readyGroups(pods) {
			if s := found[ref]; s != nil {
				s.Ready, s.Keeps, s.Unknown = len(c.ready), keeps(ref, here, pods), c.unknown
				s.GPUs = s.GPUs || c.gpus
				for group := range c.ready {
					if groups[ref][group] {
						s.Here++
					}
				}
				for i, p := range here {
					here[i].Serves = here[i].Serves || p.Owner == ref && c.ready[p.Group]
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

// keeps returns how many replicas a budget guarantees. Only a budget that covers
// all pods of the workload and no others, where each pod is a replica by itself,
// guarantees any.
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

// replica is a set of pods that work as one.
type replica struct {
	ready, staying, all, size int
	untold                    bool // or several times as one: nothing tells them apart
	gpus                      bool // one of its pods asks for GPUs
}

// counted is the result of counting the pods of a workload.
type counted struct {
	ready   map[string]bool // the replicas that are ready
	unknown bool            // some of them may be
	gpus    bool            // its pods ask for GPUs
}

// readyGroups returns, by workload, the replicas of which every pod is ready and
// none is missing. If nothing declares the size of a replica, it is that of the
// workload's largest replica: they are made alike. Pods without a mark that
// separates them may be several replicas if they are more than one replica has.
func readyGroups(pods []corev1.Pod) map[Ref]counted {
	count := map[Ref]map[string]*replica{}
	largest := map[Ref]int{}
	grouped := map[Ref]map[bool]bool{}
	for i := range pods {
		p := describeNodePod(&pods[i])
		if grouped[p.Owner] == nil {
			grouped[p.Owner] = map[bool]bool{}
		}
		u, _, _ := unionOf(&pods[i])
		grouped[p.Owner][u.kind != ""] = true
		if count[p.Owner] == nil {
			count[p.Owner] = map[string]*replica{}
		}
		r := count[p.Owner][p.Group]
		if r == nil {
			r = &replica{}
			count[p.Owner][p.Group] = r
		}
		r.add(p, &pods[i])
		largest[p.Owner] = max(largest[p.Owner], r.staying)
	}
	out := map[Ref]counted{}
	for ref, replicas := range count {
		c := counted{ready: map[string]bool{}}
		for name, r := range replicas {
			need := max(r.size, r.staying) // more than one has are of several, and whose the ready ones are nothing says
			if r.size == 0 {
				need = max(r.all, largest[ref])
			}
			switch {
			case r.ready > 0 && r.ready >= need:
				c.ready[name] = true
			case r.ready > 0 && need != r.size && (r.untold || r.size > 0):
				c.unknown = true
			}
			c.gpus = c.gpus || r.gpus
		}
		if len(grouped[ref]) > 1 && len(c.ready) > 0 { // such as a head that does not say that it has workers
			c.ready, c.unknown = map[string]bool{}, true
		}
		out[ref] = c
	}
	return out
}

func (r *replica) add(p NodePod, pod *corev1.Pod) {
	if u, _, _ := unionOf(pod); u.kind != "" {
		r.untold = r.untold || u.group == ""
		r.size = max(r.size, u.sizeOf(pod))
	}
	if p.Done {
		return
	}
	r.all++
	r.gpus = r.gpus || p.GPUs > 0
	if !p.Leaving {
		r.staying++
	}
	if p.Ready && !p.Leaving {
		r.ready++
	}
}
