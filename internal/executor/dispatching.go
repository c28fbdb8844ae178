package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// askAgain is how long an alert waits that was suppressed for a reason whose end
// is not announced: a catalog that does not answer, too many open runs.
const askAgain = 15 * time.Second

// dispatchLoop reads the intake until ctx is done. It reads, decodes and looks for
// services; what becomes of alerts is decided by the loop.
func (e *Executor) dispatchLoop(ctx context.Context) {
	changed, end := e.o.Journal.Watch()
	defer end()
	prune := time.NewTicker(10 * time.Minute)
	defer prune.Stop()
	retry := time.NewTicker(askAgain)
	defer retry.Stop()
	e.poke() // a pause may have been lifted just before the process ended
	e.saveDispatch(ctx)
	for {
		err := e.dispatchAll(ctx)
		if err == nil {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			case <-e.poked:
				err = e.reconsider(ctx)
			case <-retry.C:
				if e.dispatch.Retries() {
					err = e.reconsider(ctx)
				}
			case <-prune.C:
				err = e.prune(ctx)
			}
		}
		if ctx.Err() != nil || !e.alive() {
			return
		}
		if err != nil {
			e.fail(fmt.Errorf("dispatch notifications: %w", err))
			return
		}
	}
}

// dispatchAll decides all notifications that wait.
func (e *Executor) dispatchAll(ctx context.Context) error {
	for more := true; more && ctx.Err() == nil && e.alive(); {
		var err error
		if more, err = e.dispatchSome(ctx); err != nil {
			return err
		}
		e.saveDispatch(ctx)
	}
	return nil
}

// prune forgets what is too old to matter.
func (e *Executor) prune(ctx context.Context) error {
	err := e.do(ctx, &task{free: true, decide: func(*batch) error {
		now := e.clock.now()
		e.dispatch.Prune(now)
		e.ledger.Prune(now)
		e.requests.prune(now)
		return nil
	}})
	if err != nil {
		return err
	}
	return e.endObserved(ctx)
}

// dispatchSome decides the next notifications in one batch. It reports whether
// there may be more.
func (e *Executor) dispatchSome(ctx context.Context) (bool, error) {
	notes, err := e.dispatch.Next()
	if err != nil || len(notes) == 0 {
		return false, err
	}
	notes = e.withoutSuspects(notes)
	err = e.dispatchBatch(ctx, notes)
	if len(notes) > 1 && isBroken(err) {
		return true, e.oneByOne(ctx, notes)
	}
	return true, e.unlessBroken(ctx, notes[0], err)
}

// oneByOne finds the notification in a batch that cannot be processed.
func (e *Executor) oneByOne(ctx context.Context, notes []dispatch.Note) error {
	for i := range notes {
		err := e.unlessBroken(ctx, notes[i], e.dispatchBatch(ctx, notes[i:i+1]))
		if err != nil || e.dispatch.Halfway() { // a large notification goes on in the next batch
			return err
		}
	}
	return nil
}

// isBroken reports whether what was decided about cannot be processed.
func isBroken(err error) bool {
	var p *panicError
	return errors.As(err, &p) || errors.Is(err, audit.ErrInvalid)
}

// unlessBroken quarantines a notification that cannot be processed, and
// returns every other error.
func (e *Executor) unlessBroken(ctx context.Context, n dispatch.Note, why error) error {
	if !isBroken(why) {
		return why
	}
	return e.decideAlerts(ctx, nil, func(d *dispatch.Decision) { d.Quarantine(n, why) })
}

// withoutSuspects returns the first notifications, up to one over which the
// process may have died: that one is decided alone.
func (e *Executor) withoutSuspects(notes []dispatch.Note) []dispatch.Note {
	for i, place := range e.dispatch.Places(notes) {
		if e.crashes.suspects(place) {
			return notes[:max(i, 1)]
		}
	}
	return notes
}

// dispatchBatch decides notifications and commits what follows.
func (e *Executor) dispatchBatch(ctx context.Context, notes []dispatch.Note) error {
	visit, ok := e.crashes.enter(ctx, e.dispatch.Places(notes)...)
	if !ok {
		return nil // the executor stops
	}
	defer visit.survived()
	for set := e.o.Playbooks(); ; set = nil {
		visit.begin()
		found := e.dispatch.Resolve(notes, set)
		visit.pause()
		err := e.decideAlerts(ctx, found, func(d *dispatch.Decision) {
			visit.begin()
			d.Notifications(notes)
			visit.pause() // what follows is the disk's
		})
		if !errors.Is(err, errStale) {
			return err
		}
	}
}

// errStale: services have to be asked again.
var errStale = errors.New("the playbooks changed meanwhile")

// decideAlerts has the loop decide what becomes of alerts, and makes it true.
func (e *Executor) decideAlerts(ctx context.Context, found dispatch.Resolved, decide func(d *dispatch.Decision)) error {
	t := &task{}
	t.decide = func(b *batch) error {
		d := e.dispatch.Decide(batchRuns{b}, b.now, b.set, found)
		decide(d)
		if d.Stale {
			return errStale
		}
		b.dispatch, b.resolved = d.Records(), d.Resolved
		b.notices = append(b.notices, d.Notices...)
		t.then = d.Commit
		return nil
	}
	return e.do(ctx, t)
}

// poke wakes the dispatcher to decide suppressed alerts again.
func (e *Executor) poke() {
	select {
	case e.poked <- struct{}{}:
	default: // it will look anyway
	}
}

// reconsider decides anew about alerts that were suppressed and still fire.
// Alertmanager would mention them only hours later. It is done when a pause is
// lifted, and at the start: the process may have died in between.
func (e *Executor) reconsider(ctx context.Context) error {
	waiting, err := e.dispatch.Suppressed(e.clock.now())
	if err != nil {
		return err
	}
	for _, w := range waiting {
		for len(w.Alerts) > 0 {
			took, err := e.reconsiderSome(ctx, w)
			if err != nil {
				return err
			}
			w.Alerts = w.Alerts[took:]
		}
	}
	return nil
}

// reconsiderSome decides as many of the alerts as fit one batch, and returns how
// many. What cannot be decided is quarantined, as it is for a new notification.
func (e *Executor) reconsiderSome(ctx context.Context, w dispatch.Waiting) (took int, err error) {
	visit, ok := e.crashes.enter(ctx, w.Place())
	if !ok {
		return len(w.Alerts), nil // the executor stops
	}
	defer visit.survived()
	err = errStale
	for set := e.o.Playbooks(); errors.Is(err, errStale); set = nil {
		visit.begin()
		found := e.dispatch.ResolveAgain(w, set)
		visit.pause()
		err = e.decideAlerts(ctx, found, func(d *dispatch.Decision) {
			visit.begin()
			took = d.Again(w)
			visit.pause()
		})
	}
	if isBroken(err) {
		took, why := len(w.Alerts), err
		return took, e.decideAlerts(ctx, nil, func(d *dispatch.Decision) { d.QuarantineAgain(w, why) })
	}
	return took, err
}

// batchRuns is a batch as the dispatcher sees it.
type batchRuns struct{ b *batch }

// About implements dispatch.Runs.
func (x batchRuns) About(playbook, service string) (dispatch.Run, bool) {
	return x.run(x.b.joinable(playbook, service))
}

// Open implements dispatch.Runs.
func (x batchRuns) Open(id string) (dispatch.Run, bool) { return x.run(x.find(id)) }

func (x batchRuns) find(id string) *run {
	for _, st := range x.b.runs {
		if st.r.id == id {
			return st.r
		}
	}
	return x.b.e.find(id)
}

func (x batchRuns) run(r *run) (dispatch.Run, bool) {
	if r == nil {
		return dispatch.Run{}, false
	}
	s := x.b.state(r)
	if s.Phase == machine.PhaseEnded {
		return dispatch.Run{}, false
	}
	return dispatch.Run{ID: r.id, Playbook: s.Start.Playbook, Usable: r.dead == nil, Closing: s.Closing != nil, Full: s.Full()}, true
}

// Tell implements dispatch.Runs. A panic over the alert quarantines the run, not
// the notification, unless the run begins with it: then there is none yet.
func (x batchRuns) Tell(id string, a playbook.Alert, truncated bool) {
	b, r := x.b, x.find(id)
	err := b.must(r, machine.Command{Kind: machine.CmdAlert, Now: b.now, Alert: &a, Truncated: truncated})
	switch {
	case err == nil:
	case b.byRun[r].fresh:
		panic(err) // the notification is quarantined, and the run dropped
	default:
		b.unstage(r)
		b.e.quarantineRun(r, err)
	}
}

// Start implements dispatch.Runs.
func (x batchRuns) Start(s machine.Start, p *playbook.Playbook) (id string, no dispatch.Refusal) {
	b, e := x.b, x.b.e
	if why := e.pauses.why(s.Service.Name, s.Playbook); why != "" {
		return "", dispatch.Refusal{Why: why, Retry: why == e.pauses.held()} // nobody lifts a hold
	}
	if e.countOpen()+len(b.runs) >= e.o.MaxOpenRuns {
		return "", dispatch.Refusal{Why: fmt.Sprintf("%d runs are open already", e.o.MaxOpenRuns), Retry: true}
	}
	s.Run, s.Autonomy = e.ids.next(b.now), e.o.Autonomy
	if err := b.start(s, p, nil); err != nil {
		panic(err) // unreachable unless the machine refuses its own start: the notification is quarantined
	}
	return s.Run, dispatch.Refusal{}
}

// Full implements dispatch.Runs.
func (x batchRuns) Full() bool { return x.b.full() }
