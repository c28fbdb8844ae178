package replay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/rehearsal"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// recorded names the checks that Prometheus alone can answer about the past. All
// others read what has no history, or act: engine.probe sends requests.
func recorded() []string {
	return []string{
		"engine.compare", "engine.kv_fit", "engine.progress", "engine.snapshot", "fleet.breaches", "gpu.health", "prometheus.query",
		"slo.burn", "slo.headroom", "traffic.shape",
	}
}

// steps returns the checks as they are about the past, and no lever. d has the
// Querier, Services and Now, and GPUs if dcgm-exporter has recorded them.
func steps(d step.Deps, assumed rehearsal.Findings) *step.Set {
	d.Workloads = goneWorkloads{}
	known := recorded()
	all := map[string]step.Kind{}
	for name, k := range kinds.All() {
		if k.Check == nil {
			continue
		}
		_, given := assumed[name]
		build := k.Check
		switch {
		case given:
			k.Check = func(step.Deps) step.Check { return assumedCheck{name, assumed} }
		case !slices.Contains(known, name), name == "gpu.health" && d.GPUs == nil:
			k.Check = func(step.Deps) step.Check { return goneCheck(name) }
		default:
			k.Check = func(d step.Deps) step.Check { return build(withCluster(d, name, assumed)) }
		}
		all[name] = k
	}
	return step.NewSet(d, all)
}

// withCluster adds what a check may know of the cluster by kube-state-metrics. Only
// those get it that read no more of a workload than was recorded.
func withCluster(d step.Deps, check string, assumed rehearsal.Findings) step.Deps {
	if d.Querier == nil {
		return d
	}
	switch cluster := (recordedCluster{q: d.Querier, now: d.Now}); check {
	case "engine.snapshot":
		d.Workloads = readyReplicas{recordedCluster: cluster, assumed: assumed}
	case "engine.compare", "engine.progress":
		d.Workloads = cluster
	case "gpu.health":
		d.Workloads, d.Nodes = cluster, cluster
	}
	return d
}

// gone is the answer about what nobody recorded.
func gone(what string) error {
	return &fault.Error{Reason: fault.NoData, Message: "not in the history: " + what}
}

// goneCheck is a check of what has no history, by its name.
type goneCheck string

// Run implements [step.Check].
func (c goneCheck) Run(context.Context, step.Input) (step.Finding, error) {
	return step.Finding{}, gone(string(c))
}

// assumedCheck answers what the caller assumes.
type assumedCheck struct {
	name string
	all  rehearsal.Findings
}

// Run implements [step.Check].
func (c assumedCheck) Run(_ context.Context, in step.Input) (step.Finding, error) {
	out, _, err := c.all.Of(c.name, in.Now)
	if err != nil {
		return step.Finding{}, &fault.Error{Reason: fault.NoData, Message: c.name + " is assumed to be unknown: " + err.Error()}
	}
	return step.Finding{Out: out, Facts: []string{"assumed, not in the history"}}, nil
}

// goneWorkloads has no history of workloads.
type goneWorkloads struct{}

// Workload implements [step.Workloads].
func (goneWorkloads) Workload(_ context.Context, ref kube.Ref) (kube.Workload, error) {
	return kube.Workload{}, gone(step.RefText(ref))
}

// Revisions implements [step.Workloads].
func (goneWorkloads) Revisions(_ context.Context, ref kube.Ref) ([]kube.Revision, error) {
	return nil, gone("the revisions of " + step.RefText(ref))
}

// Nodes implements [step.Workloads].
func (goneWorkloads) Nodes(_ context.Context, ref kube.Ref) ([]kube.Node, error) {
	return nil, gone("the nodes of " + step.RefText(ref))
}

// question is one query, which has one answer.
type question struct {
	expr     string
	from, to time.Time
	step     time.Duration // 0: an instant, at to
}

// archive is Prometheus, asked by several runs at once.
type archive struct {
	q     step.Querier
	slots chan struct{} // as many as may ask at once

	mu      sync.Mutex // guards what follows
	queries int
	kept    map[question]any // answers that are asked for again; nil: none are
}

// mostKept bounds the answers that are kept.
const mostKept = 100_000

// ask answers from what is kept, else asks within a slot.
func ask[T any](ctx context.Context, a *archive, q question, query func() (T, error)) (T, error) {
	a.mu.Lock()
	if was, ok := a.kept[q].(T); ok {
		a.mu.Unlock()
		return was, nil
	}
	a.queries++
	a.mu.Unlock()
	var none T
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return none, ctx.Err()
	}
	out, err := query()
	if err == nil && a.kept != nil {
		a.mu.Lock()
		if len(a.kept) < mostKept {
			a.kept[q] = out
		}
		a.mu.Unlock()
	}
	return out, err
}

// past is the archive as one run sees it. A question about a later time than the run
// has reached is refused: nobody could have answered it then.
type past struct {
	*archive
	now func() time.Time

	mu     sync.Mutex // guards what follows
	asked  int
	empty  int                // answers without a sample
	failed map[question]error // Prometheus gave no answer at all: what it holds is not known
}

// querier returns the past as checks want it; nil: there is no Prometheus.
func (p *past) querier() step.Querier {
	if p.q == nil {
		return nil
	}
	return p
}

// Instant implements [step.Querier].
func (p *past) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	if err := p.reached(at); err != nil {
		return slo.Vector{}, err
	}
	q := question{expr: expr, to: at}
	v, err := ask(ctx, p.archive, q, func() (slo.Vector, error) { return p.q.Instant(ctx, expr, at) })
	return v, p.count(q, err, len(v.Samples))
}

// Range implements [step.Querier].
func (p *past) Range(ctx context.Context, expr string, from, to time.Time, every time.Duration) (slo.Matrix, error) {
	if err := p.reached(to); err != nil {
		return slo.Matrix{}, err
	}
	q := question{expr, from, to, every}
	m, err := ask(ctx, p.archive, q, func() (slo.Matrix, error) { return p.q.Range(ctx, expr, from, to, every) })
	return m, p.count(q, err, len(m.Series))
}

func (p *past) reached(at time.Time) error {
	if now := p.now(); at.After(now) {
		return step.Invalid("the run is at %s and cannot know what is at %s", now.UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339))
	}
	return nil
}

// count records what became of a query, and returns its error.
func (p *past) count(q question, err error, found int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if away(step.AsError(err).Reason) {
			p.failed[q] = err
		}
		return err
	}
	delete(p.failed, q) // it was asked again
	p.asked++
	if found == 0 {
		p.empty++
	}
	return nil
}

// away reports whether a query failed for what Prometheus is now, which says nothing
// about the past.
func away(r fault.Reason) bool { return r.Retryable() || r == fault.Forbidden }

// away returns why Prometheus could not be asked; nil: it could.
func (p *past) away() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, err := range p.failed {
		return err
	}
	return nil
}

// blank reports whether questions were asked and none of them had an answer.
func (p *past) blank() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked > 0 && p.empty == p.asked
}
