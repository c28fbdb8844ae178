package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// notOurCordon returns an error if the node is cordoned by somebody else.
func notOurCordon(kind string, n kube.NodeState) error {
	if n.Unschedulable && (n.CordonedBy != kube.FieldManager || n.Annotations[kube.MarkCordon] == "" && n.Annotations[kube.MarkDrain] == "") {
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"%s: node %s was cordoned by %s, not by Responder", kind, n.Name, orSomebody(n.CordonedBy))}
	}
	return nil
}

// takesOut adds to a plan which nodes of the pool take no pods already, for the
// guard that bounds them.
func takesOut(plan *machine.Plan, v kube.NodeView) []string {
	name := v.Node.Pool
	if name == "" {
		name = "all nodes with GPUs"
		if !v.Node.HasGPUs {
			name = "all nodes"
		}
	}
	pool := &machine.NodePool{Name: name, Size: len(v.Pool)}
	var out []string
	for _, n := range v.Pool {
		if n.Name == v.Node.Name || !n.Out() {
			continue
		}
		out = append(out, n.Name)
		pool.Out = append(pool.Out, n.Name+" ("+whyOut(n)+")")
	}
	plan.Pool = pool
	plan.Locks = append(plan.Locks, "pool:"+name)
	return out
}

func whyOut(n kube.NodeState) string {
	var why []string
	for _, c := range n.Claims {
		why = append(why, c.By)
	}
	if n.Unschedulable && n.CordonedBy == kube.FieldManager {
		key, _ := kube.ParseMark(n.Annotations[kube.MarkCordon])
		if key == "" {
			key, _ = kube.ParseMark(n.Annotations[kube.MarkDrain])
		}
		run, _, _ := strings.Cut(key, "/")
		why = append(why, "cordoned by run "+run)
	}
	if !n.Ready {
		why = append(why, "not ready")
	}
	if bad := kube.Troubles(n.Conditions); len(bad) > 0 {
		why = append(why, strings.Join(bad, ", "))
	}
	if n.GPUsGone {
		why = append(why, "none of its GPUs is offered")
	}
	if len(why) == 0 {
		why = append(why, "tainted by Responder")
	}
	return strings.Join(why, ", ")
}

// untouched returns the capacity of a service whose pods stay.
func (l node) untouched(ctx context.Context, svc playbook.Service) (machine.Capacity, error) {
	if l.w == nil {
		return machine.Capacity{}, step.NotConfigured("cluster", "kubernetes")
	}
	w, err := l.w.Workload(ctx, step.RefOf(svc))
	if err != nil {
		return machine.Capacity{}, err
	}
	return machine.Capacity{ReadyNow: w.Ready, LowestReady: w.Ready, ReadyAfter: w.Ready}, nil
}

// capacity fills in what evicting pods costs: the run's own service, other
// services that are in the catalog or use GPUs, and notes on the rest. A
// replica whose pods all stay is not lost.
func (l node) capacity(ctx context.Context, plan *machine.Plan, svc playbook.Service, v kube.NodeView) error {
	own, err := l.untouched(ctx, svc)
	if err != nil {
		return err
	}
	plan.Capacity = own
	byRef := step.ByWorkload(l.services())
	plan.Lowest = map[string]int{}
	var rest []string
	for _, s := range v.Serving {
		c := machine.Capacity{ReadyNow: s.Ready, LowestReady: s.Lowest(), ReadyAfter: s.Ready - s.Here}
		switch idle := !slices.ContainsFunc(v.Pods, func(p kube.NodePod) bool { return p.Owner == s.Ref && (p.Ready || p.Head) }); {
		case s.Unknown && idle:
			plan.Notes = append(plan.Notes, "how many replicas of "+step.RefText(s.Ref)+" are ready is not known, and is told as 0: some of its pods are not, and nothing says which of them work together; none of those here is ready or their head, so that none is lost")
			plan.Lowest[step.RefText(s.Ref)] = 0
		case s.Unknown:
			c = machine.Capacity{Unknown: true}
			plan.Notes = append(plan.Notes, "how many replicas of "+step.RefText(s.Ref)+" are ready is not known: some of its pods are not, and nothing says which of them work together")
		default:
			plan.Lowest[step.RefText(s.Ref)] = s.Lowest()
		}
		known, cataloged := byRef[s.Ref.Leaders()]
		switch {
		case s.Ref.Leaders() == step.RefOf(svc).Leaders():
			plan.Capacity = c
			if s.Here > 0 {
				plan.Notes = append(plan.Notes, fmt.Sprintf("%d of its %d ready replicas have to find room on other nodes", s.Here, s.Ready))
			}
		case cataloged:
			plan.Others = append(plan.Others, machine.Affected{Service: known.Name, MinReady: known.MinReady, Capacity: c})
		case s.GPUs:
			plan.Others = append(plan.Others, machine.Affected{Service: step.RefText(s.Ref), Namespace: s.Ref.Namespace, Capacity: c})
		case s.Unknown:
			plan.Lowest[step.RefText(s.Ref)] = 0 // without GPUs, and no service: no guard asks about it
			plan.Rest = append(plan.Rest, machine.Affected{Service: step.RefText(s.Ref), Namespace: s.Ref.Namespace, Capacity: c})
			rest = append(rest, step.RefText(s.Ref))
		case s.Here > 0:
			plan.Rest = append(plan.Rest, machine.Affected{Service: step.RefText(s.Ref), Namespace: s.Ref.Namespace, Capacity: c})
			rest = append(rest, fmt.Sprintf("%s (%d of %d ready)", step.RefText(s.Ref), s.Here, s.Ready))
		}
	}
	if len(rest) > 0 {
		plan.Notes = append(plan.Notes, "also moved: "+strings.Join(rest, ", "))
	}
	return nil
}

// moves holds the pods to evict, after refusals.
type moves struct {
	pods   []kube.NodePod
	leaves bool // others have told pods to go, which are still there
	notes  []string
}

// movable selects the pods to evict as kubectl drain does: pods of DaemonSets
// and static pods stay; pods without a controller are refused, and so are pods
// with an emptyDir unless its loss was agreed to.
func movable(kind, node string, pods []kube.NodePod, emptyDir bool) (moves, error) {
	var m moves
	var alone, local, stay []string
	for _, p := range pods {
		switch {
		case p.Leaving && !p.Static:
			m.notes = append(m.notes, p.String()+" is leaving already")
			m.leaves = m.leaves || departs(p)
			continue
		case p.Static || p.Daemon() && !p.Done:
			stay = append(stay, p.String())
			continue
		case p.Done:
		case p.Owner == kube.Ref{}:
			alone = append(alone, p.String())
		case len(p.EmptyDir) > 0:
			local = append(local, fmt.Sprintf("%s (%s)", p, strings.Join(p.EmptyDir, ", ")))
		}
		m.pods = append(m.pods, p)
	}
	var refused []string
	if len(alone) > 0 {
		refused = append(refused, fmt.Sprintf("%s on node %s has no controller: nothing would recreate it", strings.Join(alone, ", "), node))
	}
	if len(local) > 0 && !emptyDir {
		refused = append(refused, fmt.Sprintf("the emptyDir of %s would be lost: set delete_emptydir_data: true to accept that", strings.Join(local, ", ")))
	}
	switch {
	case len(refused) > 0:
		return m, &fault.Error{Reason: fault.OutOfBounds, Message: kind + ": " + strings.Join(refused, "; ")}
	case len(local) > 0:
		m.notes = append(m.notes, "lost with their pods: emptyDir of "+strings.Join(local, ", "))
	}
	if len(stay) > 0 {
		m.notes = append(m.notes, "stay on the node: "+strings.Join(stay, ", "))
	}
	return m, nil
}

// forecast checks whether the disruption budgets let the pods go. A budget that
// never does is an error; one that does not now is a note, and so is the
// server's answer to a dry-run of each eviction.
func (l node) forecast(ctx context.Context, kind string, pods []kube.NodePod) (notes []string, lacks string, err error) {
	byBudget := map[string][]kube.NodePod{}
	budgets := map[string]kube.Budget{}
	for _, p := range pods {
		if len(p.Budgets) > 1 {
			return nil, "", &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
				"%s: pod %s is under more than one PodDisruptionBudget (%s, %s): the API server evicts no such pod", kind, p, p.Budgets[0].Name, p.Budgets[1].Name)}
		}
		for _, b := range p.Budgets {
			if b.Never() {
				return nil, "", &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
					"%s: PodDisruptionBudget %s never lets pod %s go: it demands %d healthy pods of %d", kind, b.Name, p, b.Desired, b.Expected)}
			}
			byBudget[b.Name], budgets[b.Name] = append(byBudget[b.Name], p), b
		}
	}
	for _, name := range sortedKeys(byBudget) {
		if b, n := budgets[name], len(byBudget[name]); b.Allowed < n {
			notes = append(notes, fmt.Sprintf("PodDisruptionBudget %s lets %d of the %d pods go now (%d healthy, %d demanded): the others wait until their successors are ready",
				name, b.Allowed, n, b.Healthy, b.Desired))
		}
	}
	for _, p := range pods {
		blocked, err := l.c.Evict(ctx, kube.Eviction{Namespace: p.Namespace, Name: p.Name, UID: p.UID, DryRun: true})
		lack, err := step.LackedRight(err)
		switch {
		case err != nil:
			return nil, "", err
		case lack != "":
			return notes, lack, nil
		case blocked != "":
			notes = append(notes, fmt.Sprintf("the server would not evict %s now: %s", p, blocked))
		}
	}
	return notes, "", nil
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// podRefs returns the UIDs of pods, in the order of eviction.
func podRefs(pods []kube.NodePod, serving []kube.Serving) []podRef {
	out := make([]podRef, 0, len(pods))
	for _, p := range pods {
		out = append(out, podRef{p.Namespace, p.Name, p.UID, p.Serves || untold(p, serving)})
	}
	return out
}

// untold reports whether a pod is ready while the readiness of its replica is
// unknown.
func untold(pod kube.NodePod, serving []kube.Serving) bool {
	return pod.Ready && slices.ContainsFunc(serving, func(s kube.Serving) bool { return s.Ref == pod.Owner && s.Unknown })
}
