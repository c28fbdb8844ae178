package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// StatusKind declares node.status.
func StatusKind() playbook.Kind {
	return playbook.Kind{
		Name: "node.status",
		Role: playbook.RoleCheck,
		Doc: `Looks at the nodes that the service's pods run on, or at one: are they ready, which conditions are bad, do they take pods, who took them out, does
their device plugin offer GPUs, and does anybody else work on them (NVSentinel, medik8s, kured, Karpenter, a cluster autoscaler)? A node that cannot be read is
counted in ` + "`unread`" + `, and is in none of the other numbers. At most 20 nodes are read.`,
		With: step.Fields[statusWith](),
		Out:  step.Fields[statusOut](),
	}
}

const maxNodes = 20 // that are read, one request each

type statusWith struct {
	Node string `json:"node" doc:"Name of a node. Unset: those that the service's pods run on."`
}

type statusOut struct {
	Read    int         `json:"read" unit:"nodes" doc:"Nodes that were read."`
	Unread  int         `json:"unread" unit:"nodes" doc:"Nodes that could not be read, or are beyond the first 20."`
	Bad     int         `json:"bad" unit:"nodes" doc:"Nodes that are not ready, have a bad condition or offer no GPUs any more."`
	Out     int         `json:"out" unit:"nodes" doc:"Nodes that take no new pods, for whatever reason; bad ones and those that others work on are among them."`
	Claimed int         `json:"claimed" unit:"nodes" doc:"Nodes that somebody else works on."`
	Why     string      `json:"why" doc:"In a sentence."`
	Nodes   []nodeEntry `json:"nodes" doc:"The nodes, bad ones first."`
}

type nodeEntry struct {
	Name       string   `json:"name" doc:"Node."`
	Ready      bool     `json:"ready" doc:"Its Ready condition is True."`
	Bad        bool     `json:"bad" doc:"It is not ready, has a bad condition or offers no GPUs any more."`
	Out        bool     `json:"out" doc:"It takes no new pods."`
	CordonedBy string   `json:"cordoned_by" doc:"Who cordoned it, by the field manager: responder, kubectl, ...; empty: it is not cordoned, or nobody is known."`
	Conditions []string `json:"conditions" doc:"Conditions that are bad, e.g. MemoryPressure, Ready=Unknown."`
	Taints     []string `json:"taints" doc:"Taints, as KEY=VALUE:EFFECT."`
	Claims     []string `json:"claims" doc:"Who else works on it, and how that is known."`
	GPUs       int      `json:"gpus" doc:"GPUs that its device plugin offers."`
	Pool       string   `json:"pool" doc:"Label that names its pool; empty: it is in none."`
	Unchanged  float64  `json:"unchanged_seconds" unit:"seconds" doc:"Since one of its conditions last changed; 0: not known."`
}

type status struct {
	w     step.Workloads
	nodes step.Nodes
}

// NewStatus returns the check node.status.
func NewStatus(d step.Deps) step.Check { return status{d.Workloads, d.Nodes} }

// Run implements [step.Check].
func (c status) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[statusWith](StatusKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	if c.w == nil || c.nodes == nil {
		return step.Finding{}, step.NotConfigured("cluster", "kubernetes")
	}
	names := []string{with.Node}
	if with.Node == "" {
		if names, err = c.serving(ctx, in.Service); err != nil {
			return step.Finding{}, err
		}
	}
	out := statusOut{Nodes: []nodeEntry{}, Unread: max(0, len(names)-maxNodes)}
	var facts []string
	for _, name := range names[:min(len(names), maxNodes)] {
		n, err := c.nodes.Node(ctx, name)
		if err != nil {
			out.Unread++
			facts = append(facts, fmt.Sprintf("%s cannot be read: %v", name, err))
			continue
		}
		e := entryOf(n, in.Now)
		out.Read++
		out.count(e)
		out.Nodes = append(out.Nodes, e)
		if text := e.text(); text != "" {
			facts = append(facts, text)
		}
	}
	slices.SortStableFunc(out.Nodes, func(a, b nodeEntry) int { return rank(a) - rank(b) })
	out.Why = fmt.Sprintf("%d nodes: %d bad, %d take no new pods, %d in the hands of others, %d not read", len(names), out.Bad, out.Out, out.Claimed, out.Unread)
	return step.Finding{Out: out, Facts: append([]string{out.Why}, facts...)}, nil
}

// serving returns the names of the nodes that the service's pods run on.
func (c status) serving(ctx context.Context, svc playbook.Service) ([]string, error) {
	w, err := c.w.Workload(ctx, step.RefOf(svc))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range w.Pods {
		if p.Node != "" && !slices.Contains(names, p.Node) {
			names = append(names, p.Node)
		}
	}
	slices.Sort(names)
	return names, nil
}

func entryOf(n kube.NodeState, now time.Time) nodeEntry {
	e := nodeEntry{
		Name: n.Name, Ready: n.Ready, Bad: !n.Ready || len(n.Conditions) > 0 || n.GPUsGone, Out: n.Out(), CordonedBy: n.CordonedBy,
		Conditions: append([]string{}, n.Conditions...), Taints: []string{}, Claims: []string{}, GPUs: n.GPUs, Pool: n.Pool,
	}
	for _, t := range n.Taints {
		e.Taints = append(e.Taints, t.String())
	}
	for _, claim := range n.Claims {
		e.Claims = append(e.Claims, claim.String())
	}
	if !n.WellSince.IsZero() {
		e.Unchanged = max(0, now.Sub(n.WellSince).Seconds())
	}
	return e
}

func (out *statusOut) count(e nodeEntry) {
	for counter, yes := range map[*int]bool{&out.Bad: e.Bad, &out.Out: e.Out, &out.Claimed: len(e.Claims) > 0} {
		if yes {
			*counter++
		}
	}
}

// rank orders nodes: bad ones, those that are out, the others.
func rank(e nodeEntry) int {
	switch {
	case e.Bad:
		return 0
	case e.Out:
		return 1
	}
	return 2
}

// text says what is the matter with a node; empty: nothing.
func (e nodeEntry) text() string {
	var parts []string
	if !e.Ready {
		parts = append(parts, "not ready")
	}
	if len(e.Conditions) > 0 {
		parts = append(parts, "conditions "+strings.Join(e.Conditions, ", "))
	}
	if e.CordonedBy != "" {
		parts = append(parts, "cordoned by "+e.CordonedBy)
	}
	if len(e.Claims) > 0 {
		parts = append(parts, strings.Join(e.Claims, ", "))
	}
	if len(parts) == 0 && e.Out {
		parts = append(parts, "takes no new pods: "+strings.Join(e.Taints, ", "))
	}
	if len(parts) == 0 {
		return ""
	}
	return e.Name + ": " + strings.Join(parts, "; ")
}
