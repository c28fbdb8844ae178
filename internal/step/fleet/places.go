package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
)

// places looks at the nodes that all services have pods on, and at the GPUs of
// every service.
func (c breaches) places(ctx context.Context, found, healthy []party) (places map[string]place, notes []string) {
	readings, notes := c.readings(ctx, found)
	for i := range found {
		found[i].ails = slices.ContainsFunc(readings, found[i].suffers)
	}
	names := commonNodes(found)
	if len(names) == 0 || c.n == nil {
		return nil, notes
	}
	names = names[:min(len(names), maxNodes)]
	at := make([]place, len(names))
	each(len(names), func(i int) {
		at[i] = c.place(ctx, names[i], healthy)
	})
	places = map[string]place{}
	for i, name := range names {
		places[name] = at[i]
		if at[i].unread != nil {
			notes = append(notes, fmt.Sprintf("node %s could not be read: %v", name, at[i].unread))
		}
	}
	for _, r := range readings {
		if p, common := places[r.Node]; common && p.trouble == "" && r.Verdict.WorseThan(judge.Uncertain) {
			p.trouble = worstOf(r.NodeJudgement)
			places[r.Node] = p
		}
	}
	return places, notes
}

// place looks at one node: its conditions, and which services have pods there.
func (c breaches) place(ctx context.Context, name string, healthy []party) (out place) {
	n, err := c.n.Node(ctx, name)
	if err != nil {
		return place{unread: err}
	}
	if !n.Ready {
		out.trouble = "it is not ready"
	}
	if len(n.Conditions) > 0 {
		out.trouble = "its condition is " + strings.Join(n.Conditions, ", ")
	}
	pods, err := c.n.NodePods(ctx, name)
	if err != nil {
		return place{unread: err}
	}
	out.tenants = map[string]bool{}
	for _, p := range healthy {
		if slices.ContainsFunc(pods, func(pod kube.NodePod) bool { return !pod.Done && holds(p.svc, pod) }) {
			out.tenants[p.name()] = true
		}
	}
	return out
}

// holds reports whether a pod may be one of the service's workload, by its name:
// every controller begins it with its own.
func holds(svc playbook.Service, pod kube.NodePod) bool {
	return pod.Namespace == svc.Namespace && strings.HasPrefix(pod.Name, svc.Workload.Name+"-")
}

// reading is what is known of the GPUs of a node.
type reading struct {
	judge.NodeJudgement
	snapshot gpu.Snapshot
}

// readings judges the GPUs of the nodes of services; nil without a source. notes
// say of how many nodes nobody asked.
func (c breaches) readings(ctx context.Context, ps []party) (out []reading, notes []string) {
	var nodes []string // of the first services first: this one is among them
	for _, p := range ps {
		for _, n := range slices.Sorted(maps.Keys(p.nodes)) {
			if !slices.Contains(nodes, n) {
				nodes = append(nodes, n)
			}
		}
	}
	if c.gpus == nil || len(nodes) == 0 {
		return nil, nil
	}
	if more := len(nodes) - maxNodes; more > 0 {
		notes = append(notes, fmt.Sprintf("GPUs were read on %d nodes; on %d more they were not", maxNodes, more))
		nodes = nodes[:maxNodes]
	}
	answers := c.gpus.Snapshots(ctx, nodes, 0)
	for i, j := range judge.Answers(c.now(), answers) { // the readings are younger than the question
		out = append(out, reading{j, answers[i].Snapshot})
	}
	return out, notes
}

// suffers reports whether a GPU that the service's pods hold is at fault, or any
// of the node where that is not known.
func (p party) suffers(r reading) bool {
	if !p.nodes[r.Node] {
		return false
	}
	held, known := r.snapshot.Held(p.svc.Namespace, p.pods)
	return slices.ContainsFunc(r.GPUs, func(g judge.Judgement) bool {
		return g.Verdict.WorseThan(judge.Uncertain) && (!known || len(held) == 0 || held[g.UUID])
	})
}

// worstOf returns the worst finding about a node.
func worstOf(j judge.NodeJudgement) string {
	worst, text := judge.Uncertain, ""
	note := func(where string, r judge.Reason) {
		if r.Verdict.WorseThan(worst) {
			worst, text = r.Verdict, where+r.Text
		}
	}
	for _, r := range j.Reasons {
		note("", r)
	}
	for _, g := range j.GPUs {
		for _, r := range g.Reasons {
			note(fmt.Sprintf("GPU %d: ", g.Index), r)
		}
	}
	return text
}

// heat looks for GPUs that slow down for heat, under this service and then under
// the others.
func (c breaches) heat(ctx context.Context, f fleet, found []party) (cause, []string) {
	if c.w == nil || c.gpus == nil {
		return cause{}, nil
	}
	one := []party{f.own}
	c.readNodes(ctx, one)
	if one[0].unread != nil {
		return cause{}, []string{fmt.Sprintf("heat is not known: the workload of %s could not be read: %v", f.own.name(), one[0].unread)}
	}
	hot := map[string][]string{}
	notes := c.note(ctx, hot, one)
	if len(hot) == 0 {
		return cause{}, notes
	}
	// Those that breach first: of the others not all may be read.
	rest := slices.Clone(found)
	for _, p := range f.others {
		if p.stands != slo.Breached {
			rest = append(rest, p)
		}
	}
	rest = slices.DeleteFunc(rest, func(p party) bool { return p.name() == f.own.name() })
	some := rest[:min(len(rest), maxRead)]
	c.readNodes(ctx, some)
	notes = append(notes, c.note(ctx, hot, some)...)
	if n := unread(some) + len(rest) - len(some) + f.rest; n > 0 {
		notes = append(notes, fmt.Sprintf("of %d services it is not known whether they run on hot nodes", n))
	}
	return hotRoom(f.own.name(), hot), notes
}

func (c breaches) readNodes(ctx context.Context, ps []party) {
	each(len(ps), func(i int) {
		ps[i].unread = c.readWorkload(ctx, &ps[i], c.now())
	})
}

// note adds the hot nodes of services, and returns what could not be looked at.
func (c breaches) note(ctx context.Context, hot map[string][]string, ps []party) []string {
	readings, notes := c.readings(ctx, ps)
	for _, r := range readings {
		if !slices.ContainsFunc(r.GPUs, func(g judge.Judgement) bool { return g.Throttle == judge.Thermal }) {
			continue
		}
		for _, p := range ps {
			if p.nodes[r.Node] {
				hot[p.name()] = append(hot[p.name()], r.Node)
			}
		}
	}
	return notes
}
