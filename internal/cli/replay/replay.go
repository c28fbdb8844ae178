package replay

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rehearsal"
	"github.com/inference-responder/responder/internal/step"
)

// Options is what a replay is about. From, To, Now, Resolve and Playbooks are
// required.
type Options struct {
	From, To time.Time // episodes that began in [From, To)
	Now      time.Time // the present: what is later cannot be asked

	Querier   step.Querier // nil: there is no Prometheus, and all that it would answer is unknown
	GPUs      GPUs         // as dcgm-exporter has recorded them; nil: they are not in the history
	Resolve   Resolve
	Services  func() []playbook.Service
	Playbooks *playbook.Set
	Against   *playbook.Set      // another set to compare with; nil: none
	Window    time.Duration      // incident.window of the service
	Autonomy  playbook.Autonomy  // of the service
	Assumed   rehearsal.Findings // results of checks in place of what was

	Parallel int            // queries at once; 0: 4
	Progress func(Progress) // called now and then, by one goroutine at a time; nil: never
}

// GPUs returns the GPUs as a Prometheus shows them at a time.
type GPUs func(q step.Querier, now func() time.Time) step.GPUs

// Progress is how far a replay is.
type Progress struct {
	Done, Total int // notifications
	Queries     int
}

// Run replays the notifications. If the context ends, the report covers what was done.
func Run(ctx context.Context, o Options, all []playbook.Notification) (Report, error) {
	if o.Parallel <= 0 {
		o.Parallel = 4
	}
	chosen := choose(all, o.From, o.To, o.Resolve)
	w := &work{o: &o, chosen: &chosen, slots: make(chan struct{}, o.Parallel)}
	for _, p := range chosen.parts {
		w.at.Total += len(p.notes)
	}
	results := make([]result, len(chosen.parts))
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(o.Parallel)
	for i, p := range chosen.parts {
		group.Go(func() (err error) {
			results[i], err = w.part(working, p)
			return err
		})
	}
	err := group.Wait()
	interrupted := ctx.Err() != nil
	if err != nil && (!interrupted || !errors.Is(err, ctx.Err())) {
		return Report{}, err
	}
	return newReport(&o, &chosen, results, interrupted), nil
}

// result is what became of one service.
type result struct {
	base, against *timeline // against nil: nothing to compare with
	queries       int
}

// work is a replay under way.
type work struct {
	o      *Options
	chosen *selection
	slots  chan struct{} // of all services together

	mu sync.Mutex // guards at, and calls of Progress
	at Progress
}

// part replays one service, with each set of playbooks.
func (w *work) part(ctx context.Context, p part) (r result, err error) {
	a := &archive{q: w.o.Querier, slots: w.slots}
	if w.o.Against != nil {
		a.kept = map[question]any{}
	}
	defer func() { a.kept, r.queries = nil, a.queries }()
	seen := 0
	played := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		a.mu.Lock()
		asked := a.queries
		a.mu.Unlock()
		w.at.Done++
		w.at.Queries += asked - seen
		seen = asked
		if w.o.Progress != nil {
			w.o.Progress(w.at)
		}
	}
	r.base = newTimeline(w.o, w.o.Playbooks, a, w.chosen, p.service)
	if err := r.base.play(ctx, p.notes, played); err != nil || w.o.Against == nil {
		return r, err
	}
	r.against = newTimeline(w.o, w.o.Against, a, w.chosen, p.service)
	return r, r.against.play(ctx, p.notes, func() {})
}
