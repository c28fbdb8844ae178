package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// CompareKind declares engine.compare.
func CompareKind() playbook.Kind {
	return playbook.Kind{
		Name: "engine.compare",
		Role: playbook.RoleCheck,
		Doc: `Compares the service's replicas by the objective that it misses most: is one replica slow or stuck, all on one node, all of one revision, or all of
them? A replica is bad when it stands still, or misses the objective by more than chance and at three times the share of the others together. What each
missed before the alert began stands beside it: a replica that was bad before is not what changed. It needs the label ` + "`pod`" + ` on the engine's series. With
fewer than two replicas that serve there is nothing to compare.`,
		With: step.Fields[compareWith](),
		Out:  step.Fields[compareOut](),
	}
}

type compareWith struct {
	Window step.Duration `json:"window" default:"5m" doc:"Over which requests are counted."`
	Before step.Duration `json:"before" doc:"How long ago the window ended that is compared with. Unset: 1h, and at least until 30m before the alert began."`
}

type compareOut struct {
	Scope    string       `json:"scope" enum:"none,one_replica,one_node,one_revision,some,all,unknown" doc:"Which replicas are bad; none: no objective is missed and none stands still."`
	Why      string       `json:"why" doc:"The same in a sentence with figures."`
	Pod      string       `json:"pod" doc:"The bad replica of one_replica; empty otherwise."`
	Node     string       `json:"node" doc:"The node of one_node, and of one_replica; empty otherwise."`
	Revision int64        `json:"revision" doc:"The revision of one_revision; 0 otherwise."`
	Before   *float64     `json:"ratio_before,omitempty" unit:"ratio" doc:"Bad share of the service's requests before the alert began; absent: not known."`
	Replicas []replicaOut `json:"replicas" doc:"All that were compared, the worst first, at most 20."`
}

type replicaOut struct {
	Pod      string  `json:"pod" doc:"Pod."`
	Node     string  `json:"node" doc:"Its node; empty: not known."`
	Revision int64   `json:"revision" doc:"Its revision; 0: not known."`
	Bad      bool    `json:"bad" doc:"It is slow or stuck, and others are not."`
	Stuck    bool    `json:"stuck" doc:"It runs requests and takes no step."`
	Requests float64 `json:"requests" unit:"requests" doc:"Requests that it finished in the window."`
	Ratio    float64 `json:"ratio" unit:"ratio" doc:"Bad share of them; 0 without any."`

	Before *float64 `json:"ratio_before,omitempty" unit:"ratio" doc:"The same before the alert began; absent: it served nothing then, or that is not known."`
}

// replica is one that is compared.
type replica struct {
	replicaOut
	counts slo.Counts
}

// Values of compareOut.Scope.
const (
	scopeNone     = "none"
	scopeReplica  = "one_replica"
	scopeNode     = "one_node"
	scopeRevision = "one_revision"
	scopeSome     = "some"
	scopeAll      = "all"
	scopeUnknown  = "unknown"
)

const (
	timesOthers = 3  // bad shares of the others together that a bad replica has at least
	maxReplicas = 20 // that evidence lists
)

type compare struct {
	q step.Querier
	w step.Workloads
}

// NewCompare returns the check engine.compare.
func NewCompare(d step.Deps) step.Check { return compare{d.Querier, d.Workloads} }

// Run implements [step.Check].
func (c compare) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[compareWith](CompareKind(), in.With)
	switch {
	case err != nil:
		return step.Finding{}, err
	case c.q == nil:
		return step.Finding{}, step.NotConfigured("Prometheus", "prometheus.url")
	case c.w == nil:
		return step.Finding{}, step.NotConfigured("cluster", "kubernetes")
	case with.Before == 0:
		with.Before = max(step.Duration(beforeAlert(in)), with.Window)
	case with.Before < with.Window:
		return step.Finding{}, step.Invalid("engine.compare: before is %s, less than the window %s", time.Duration(with.Before), time.Duration(with.Window))
	}
	found := func(out compareOut) (step.Finding, error) {
		if out.Replicas == nil {
			out.Replicas = []replicaOut{}
		}
		out.Replicas = out.Replicas[:min(len(out.Replicas), maxReplicas)]
		return step.Finding{Out: out, Facts: []string{out.Why}}, nil
	}
	if len(in.Service.SLOs) == 0 {
		return found(compareOut{Scope: scopeUnknown, Why: "the service has no objectives to compare its replicas by"})
	}
	w, err := c.w.Workload(ctx, step.RefOf(in.Service))
	if err != nil {
		return step.Finding{}, err
	}
	q, span := step.Patient(c.q), slo.Span{Window: time.Duration(with.Window)}
	earlier := slo.Span{Window: span.Window, Offset: time.Duration(with.Before)}
	m, err := slo.Measure(ctx, q, step.Objectives(in.Service), in.Now, span, earlier)
	if err != nil {
		return step.Finding{}, err
	}
	worst, factor, missed := step.Missed(m, in.Alert)
	if !missed && len(m.Stuck) == 0 {
		return found(noneMissed(m))
	}
	replicas, lack, err := perReplica(ctx, q, worst.Each("pod"), in.Now, span, earlier)
	if err != nil {
		return step.Finding{}, err
	}
	for _, r := range m.Stuck {
		if replicas[r.Name] == nil {
			replicas[r.Name] = &replica{replicaOut: replicaOut{Pod: r.Name}}
		}
		replicas[r.Name].Stuck = true
	}
	test := slo.Test{Objective: worst.Objective.Objective, Factor: factor}
	out := scope(place(replicas, w.Pods), w.Pods, test, step.BadWord(worst.Objective.Indicator))
	switch {
	case out.Scope == scopeUnknown && lack != "":
		out.Why += ": " + lack
	case out.Scope != scopeUnknown && missed:
		out.before(worst.Counts[1])
	}
	return found(out)
}

// noneMissed returns the evidence of a service that misses no objective, as far as they
// can be measured.
func noneMissed(m slo.Measurement) compareOut {
	for _, x := range m.Measured {
		if x.Reason != "" {
			return compareOut{Scope: scopeUnknown, Why: fmt.Sprintf("whether %s is missed is not known: %s", x.Name(), x.Detail)}
		}
	}
	return compareOut{Scope: scopeNone, Why: "no replica stands still and no objective is missed"}
}

// before adds what the service missed earlier.
func (out *compareOut) before(was slo.Counts) {
	if out.Before = known(was.Bad / was.Total); out.Before != nil {
		out.Why += "; before the alert " + slo.Percent(*out.Before) + " of all were"
	}
}

// perReplica measures an objective of each replica now and earlier. lack says why some
// are not known.
func perReplica(ctx context.Context, q step.Querier, each slo.Ask, at time.Time, now, earlier slo.Span) (replicas map[string]*replica, lack string, err error) {
	replicas = map[string]*replica{}
	if len(each.Objectives) == 0 {
		return replicas, "", nil
	}
	by, err := slo.Measure(ctx, q, each, at, now, earlier)
	if err != nil {
		return nil, "", err
	}
	for _, x := range by.Measured {
		lack = cmp.Or(lack, x.Detail)
		if x.Reason == "" && x.Value != "" && x.Counts[0].Total > 0 {
			n, was := x.Counts[0], x.Counts[1]
			replicas[x.Value] = &replica{replicaOut{Pod: x.Value, Requests: math.Round(n.Total), Ratio: n.Ratio(), Before: known(was.Bad / was.Total)}, n}
		}
	}
	return replicas, lack, nil
}

// place adds where the replicas run, worst first. What is no pod of the workload
// any more is left out.
func place(replicas map[string]*replica, pods []kube.Pod) []replica {
	var out []replica
	for _, p := range pods {
		if r := replicas[p.Name]; r != nil {
			r.Node, r.Revision = p.Node, p.Revision
			out = append(out, *r)
		}
	}
	slices.SortStableFunc(out, func(a, b replica) int {
		switch {
		case a.Stuck != b.Stuck && a.Stuck, a.Stuck == b.Stuck && a.Ratio > b.Ratio:
			return -1
		case a.Stuck == b.Stuck && a.Ratio == b.Ratio:
			return strings.Compare(a.Pod, b.Pod)
		}
		return 1
	})
	return out
}

// scope tells bad replicas from the others, and what the bad ones have in common.
func scope(replicas []replica, pods []kube.Pod, test slo.Test, word string) compareOut {
	out := compareOut{Scope: scopeUnknown, Why: "the replicas cannot be compared: fewer than two of them show requests under the label pod"}
	var bad, rest []replica
	for i := range replicas {
		r := &replicas[i]
		others := slo.Counts{}
		for j, o := range replicas {
			if j != i && !o.Stuck && o.Ratio < r.Ratio/timesOthers {
				others.Bad, others.Total = others.Bad+o.counts.Bad, others.Total+o.counts.Total
			}
		}
		test.Now = r.counts
		stands, _ := test.Stands()
		r.Bad = r.Stuck || stands == slo.Breached && others.Total > 0 && slo.Heads(others, r.counts) == slo.Rising
		if r.Bad {
			bad = append(bad, *r)
		} else {
			rest = append(rest, *r)
		}
		out.Replicas = append(out.Replicas, r.replicaOut)
	}
	if len(replicas) < 2 {
		return out
	}
	if len(bad) == 0 || len(rest) == 0 {
		out.Scope, out.Why = scopeAll, fmt.Sprintf("all %d replicas suffer alike: from %s to %s of their requests are %s",
			len(replicas), slo.Percent(replicas[len(replicas)-1].Ratio), slo.Percent(replicas[0].Ratio), word)
		return out
	}
	out.shared(bad, rest, pods)
	var names []string
	for _, r := range bad {
		is := fmt.Sprintf("%s of %.0f requests are %s", slo.Percent(r.Ratio), r.Requests, word)
		if r.Stuck {
			is = "runs requests and takes no step"
		}
		names = append(names, fmt.Sprintf("%s on %s (%s)", r.Pod, step.OrNone(r.Node), is))
	}
	others := slo.Counts{}
	for _, r := range rest {
		others.Bad, others.Total = others.Bad+r.counts.Bad, others.Total+r.counts.Total
	}
	out.Why = fmt.Sprintf("%s: %s; of the %d others %s", out.words(), step.FirstOf(names, 5, ", "), len(rest), orNothing(others, word))
	return out
}

// shared finds what bad replicas share and the others do not.
func (out *compareOut) shared(bad, rest []replica, pods []kube.Pod) {
	revision, node := bad[0].Revision, bad[0].Node
	same := func(of func(replica) bool) bool {
		return !slices.ContainsFunc(bad, func(r replica) bool { return !of(r) }) && !slices.ContainsFunc(rest, of)
	}
	revisions := map[int64]bool{}
	for _, p := range pods {
		revisions[p.Revision] = true
	}
	switch {
	case revision != 0 && len(revisions) > 1 && same(func(r replica) bool { return r.Revision == revision }):
		out.Scope, out.Revision = scopeRevision, revision
	case len(bad) == 1:
		out.Scope, out.Pod, out.Node = scopeReplica, bad[0].Pod, node
	case node != "" && same(func(r replica) bool { return r.Node == node }):
		out.Scope, out.Node = scopeNode, node
	default:
		out.Scope = scopeSome
	}
}

func (out *compareOut) words() string {
	switch out.Scope {
	case scopeReplica:
		return "one replica is bad"
	case scopeNode:
		return "the replicas on one node are bad"
	case scopeRevision:
		return fmt.Sprintf("the replicas of revision %d are bad", out.Revision)
	}
	return "some replicas are bad"
}

func orNothing(c slo.Counts, word string) string {
	if !(c.Total > 0) {
		return "no request finished"
	}
	return slo.Percent(c.Ratio()) + " of the requests are " + word
}
