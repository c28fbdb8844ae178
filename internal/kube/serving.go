package kube

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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

// Lowest is how few replicas may be ready while the node is emptied.
func (s Serving) Lowest() int { return max(s.Ready-s.Here, min(s.Keeps, s.Ready)) }

// union is a way in which controllers tell which pods work as one: they serve
// together or not at all.
type union struct {
	kind  string // of the object that makes them
	name  string // label with its name
	group string // label that tells its groups apart; empty: all of its pods are one
	size  string // annotation with the pods of a group; empty: nothing on a pod says it
}

const lwsName = "leaderworkerset.sigs.k8s.io/name"

// unions are those that say so on their pods. KServe's InferenceService with a
// workerSpec does not: its head and its workers are two Deployments. Its
// LLMInferenceService makes LeaderWorkerSets.
func unions() []union {
	const lws, grove = "leaderworkerset.sigs.k8s.io/", "grove.io/podcliquescalinggroup"
	return []union{
		// kubernetes-sigs/lws, api/leaderworkerset/v1: a group is made anew when any pod of it goes.
		{kind: "LeaderWorkerSet", name: lwsName, group: lws + "group-key", size: lws + "size"},
		// ai-dynamo/grove, operator/api/common/labels.go: a replica of a scaling group is a leader's and
		// its workers' PodCliques, as Dynamo has them for an engine over several nodes. A PodClique of no
		// scaling group is of pods that serve each by itself.
		{kind: "PodCliqueScalingGroup", name: grove, group: grove + "-replica-index"},
		// ray-project/kuberay, ray-operator/controllers/ray/utils/constant.go: which of a cluster's pods an
		// engine spans, no label says, and without its head none serves. While one is not ready, which an
		// autoscaler may have asked for and never gets, the others may serve or not.
		{kind: "RayCluster", name: "ray.io/cluster"},
	}
}

// unionOf finds what a pod is part of, and the group in it.
func unionOf(p *corev1.Pod) (u union, name, group string) {
	for _, u := range unions() {
		if name := p.Labels[u.name]; name != "" {
			return u, name, cmp.Or(p.Labels[u.group], name)
		}
	}
	return union{}, "", ""
}

// Leaders gives the object whose replicas are the workload's: of a
// LeaderWorkerSet the StatefulSet of its name, which makes a leader for each
// replica (kubernetes-sigs/lws, docs) and stands for it in the catalog.
func (r Ref) Leaders() Ref {
	if r.Kind == "LeaderWorkerSet" {
		r.Kind = "StatefulSet"
	}
	return r
}

// leads names the LeaderWorkerSet whose leaders the object makes; empty: none.
func (o *object) leads() string {
	if ref := metav1.GetControllerOf(&o.meta); ref != nil && ref.Kind == "LeaderWorkerSet" && o.statefulSet != nil {
		return ref.Name
	}
	return ""
}

// workers lists the pods of the groups of a LeaderWorkerSet that are not their leaders.
func (c *Client) workers(ctx context.Context, o *object) ([]corev1.Pod, error) {
	list, err := c.typed.CoreV1().Pods(o.ref.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.Set{lwsName: o.leads()}.String()})
	if err != nil {
		return nil, request{verb: "list", resource: "pods", namespace: o.ref.Namespace}.fail(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return controlledBy(p.OwnerReferences, o.meta.UID) }), nil
}

// groups makes of the leaders that are ready the groups that are: a leader
// without one of its workers serves nobody.
func (w *Workload) groups(lws string, pods []corev1.Pod) {
	ready := len(readyGroups(pods)[Ref{Kind: "LeaderWorkerSet", Namespace: w.Ref.Namespace, Name: lws}].ready)
	w.Ready, w.Available = min(w.Ready, ready), min(w.Available, ready)
}

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

// replica is the pods that work as one.
type replica struct {
	ready, staying, all, size int
	untold                    bool // or several times as one: nothing tells its groups apart
	gpus                      bool // one of its pods asks for GPUs
}

// counted is what the pods of a workload say of it.
type counted struct {
	ready   map[string]bool // the replicas that are ready
	unknown bool            // some of them may be
	gpus    bool            // its pods ask for GPUs
}

// readyGroups gives, by workload, the replicas of which every pod is ready and
// none is missing. Where nothing says how many there have to be, it is as many as
// the largest of the workload's replicas has: they are made alike.
func readyGroups(pods []corev1.Pod) map[Ref]counted {
	count := map[Ref]map[string]*replica{}
	largest := map[Ref]int{}
	for i := range pods {
		p := describeNodePod(&pods[i])
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
			need := r.size
			if need == 0 {
				need = max(r.all, largest[ref])
			}
			switch {
			case r.ready > 0 && r.ready >= need:
				c.ready[name] = true
			case r.ready > 0 && r.untold:
				c.unknown = true
			}
			c.gpus = c.gpus || r.gpus
		}
		out[ref] = c
	}
	return out
}

func (r *replica) add(p NodePod, pod *corev1.Pod) {
	u, name, _ := unionOf(pod)
	r.untold = r.untold || name != "" && u.size == "" && u.group == ""
	if u.size != "" {
		if size, err := strconv.Atoi(pod.Annotations[u.size]); err == nil {
			r.size = max(r.size, size)
		}
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
