package app

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/runview"
)

const (
	nodeReturn     = "node-return" // the shipped playbook that proves a node and lets pods onto it again
	mostGPUReasons = 5             // of one node
	noGPUs         = "none"        // the verdict of a node without GPUs
)

// nodeList returns the nodes that matter to services, with the open runs about each.
func (s *Service) nodeList(ctx context.Context) api.NodeList {
	seen := s.nodes.seen(ctx)
	list := api.NodeList{
		Nodes: make([]api.Node, 0, len(seen.nodes)), More: seen.more,
		Unknown: append([]string{}, seen.unknown...), Read: seen.at.UTC(), Now: s.world.Now().UTC(),
	}
	about := runsAboutNodes(s.executor.Open())
	for _, x := range seen.nodes {
		n := x.shown()
		n.Waits = s.waits(x, about[x.name])
		list.Nodes = append(list.Nodes, n)
	}
	return list
}

// runsAboutNodes returns open runs by the nodes that they are about: the one that an alert
// or a person named, and the one that a lever changes. The newest comes first.
func runsAboutNodes(open iter.Seq[*machine.State]) map[string][]*machine.State {
	out := map[string][]*machine.State{}
	for run := range open {
		names := map[string]bool{run.Start.Alert.Labels["node"]: true}
		if l := run.Lever; l != nil && l.Plan != nil && l.Plan.Target.Kind == "Node" {
			names[l.Plan.Target.Name] = true
		}
		delete(names, "")
		for name := range names {
			out[name] = append(out[name], run)
		}
	}
	for _, runs := range out {
		slices.SortFunc(runs, func(a, b *machine.State) int { return strings.Compare(b.Start.Run, a.Start.Run) })
	}
	return out
}

// shown returns the node as the API shows it, without what its return waits for.
func (x *seenNode) shown() api.Node {
	n := api.Node{
		Node: x.name, Ready: "unknown", Cause: x.cause, Conditions: []string{}, Claims: []string{}, Waits: []api.NodeWait{},
		GPUs: x.shownGPUs(), Services: []api.NodeService{},
	}
	for _, name := range slices.Sorted(maps.Keys(x.services)) {
		row := api.NodeService{Service: name, Replicas: len(x.services[name].ready)}
		for _, ready := range x.services[name].ready {
			if ready {
				row.Ready++
			}
		}
		n.Services = append(n.Services, row)
	}
	if x.cause != "" {
		return n
	}
	n.Ready = map[bool]string{true: "true", false: "false"}[x.state.Ready]
	n.Conditions = append(n.Conditions, x.state.Conditions...)
	if x.state.GPUsGone {
		n.Conditions = append(n.Conditions, "its device plugin offers no GPUs any more")
	}
	n.Bad = !x.state.Ready || len(n.Conditions) > 0
	n.Cordoned, n.CordonedBy = x.state.Unschedulable, x.state.CordonedBy
	n.Taken, n.Run, n.Since = x.out.Ours, x.out.Run, x.out.Since.UTC()
	for _, c := range x.state.Claims {
		if c.Why != kube.ClaimCordon { // which CordonedBy tells
			n.Claims = append(n.Claims, c.String())
		}
	}
	return n
}

func (x *seenNode) shownGPUs() api.NodeGPUs {
	if x.noGPUs {
		return api.NodeGPUs{Verdict: noGPUs, Why: []string{}}
	}
	out := api.NodeGPUs{Verdict: string(x.gpus.Verdict), Why: []string{}, Seen: len(x.gpus.GPUs), Source: x.gpus.Source, Read: x.gpus.TakenAt.UTC()}
	found := x.gpus.Findings()
	slices.SortStableFunc(found, func(a, b judge.Finding) int {
		switch {
		case a.Verdict.WorseThan(b.Verdict):
			return -1
		case b.Verdict.WorseThan(a.Verdict):
			return 1
		default:
			return 0
		}
	})
	for _, f := range found {
		if f.Verdict.WorseThan(judge.Busy) && len(out.Why) < mostGPUReasons {
			out.Why = append(out.Why, string(f.Verdict)+": "+strings.TrimPrefix(f.Where()+": "+f.Text, ": "))
		}
	}
	return out
}

// waits returns what the return of a node waits for: the runs about it, a repair that was
// asked for, and what is not known to be repaired.
func (s *Service) waits(x seenNode, runs []*machine.State) []api.NodeWait {
	out := []api.NodeWait{}
	for _, run := range runs {
		status, _ := runview.Standing(*run)
		out = append(out, api.NodeWait{Text: "run of " + run.Start.Playbook + ": " + status, Run: run.Start.Run})
	}
	if x.out.Reset != "" {
		out = append(out, api.NodeWait{Text: "a repair that was asked for: " + x.out.Reset})
	}
	if x.out.Unmended != "" {
		out = append(out, api.NodeWait{Text: x.out.Unmended})
	}
	if !x.out.Ours || len(runs) > 0 {
		return out
	}
	if s.library.set().ByName(nodeReturn) == nil {
		return append(out, api.NodeWait{Text: "a person: no playbook " + nodeReturn + " is loaded that would bring it back"})
	}
	service := "SERVICE"
	if run, known := s.executor.RunState(x.out.Run); known {
		service = run.Start.Service.Name
	}
	return append(out, api.NodeWait{
		Text: "a run of " + nodeReturn + ", which the alert GPUNodeRepaired starts, or: responder runs start " + nodeReturn + " --service " + service + " --label node=" + x.name + " --reason 'WHY'",
	})
}
