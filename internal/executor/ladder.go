package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// learn finds what the batch adds to the track record of levers, and what people
// have to be told of that.
func (b *batch) learn() {
	l := ladder.Additions{Resolved: b.resolved, Observed: slices.Clone(b.observed)}
	for _, st := range b.runs {
		s := *st.r.state
		if s.Playbook == nil {
			s.Playbook = st.state.Playbook
		}
		found := ladder.Results(s, st.events)
		for _, d := range b.e.ladder.Demotions(found, b.now) {
			l.Demotions = append(l.Demotions, d)
			b.notices = append(b.notices, demoted(d, st.state.Start))
		}
		l.Results = append(l.Results, found...)
	}
	if broke, ok := b.e.ladder.Breaks(l.Results, b.now); ok && !b.e.pauses.has(Scope{}) {
		b.broke = &Pause{By: breaker, Reason: broke.Reason(), Since: b.now}
		b.record(KindPauseSet, *b.broke)
		b.notices = append(b.notices, machine.Effect{Key: "breaker/" + b.now.UTC().Format(time.RFC3339Nano), Text: broke.Text(), Urgent: true})
	}
	b.e.ladder.Recover(&l, b.now, b.e.ledger.ActedSince)
	b.learned = l
}

// breaker is who sets the pause of the circuit breaker.
const breaker = "responder"

// pauseAll puts the circuit breaker's pause in force. Only the loop calls it.
func (e *Executor) pauseAll(p Pause) {
	e.pauses.fold(p, true)
	e.log.Warn("everything is paused", "by", p.By, "reason", p.Reason)
	for _, r := range e.openRuns() {
		e.later(KindPauseSet, &task{shared: true, decide: func(b *batch) error { return b.tellPause(r) }})
	}
}

// demoted is what people are told of a demotion.
func demoted(d ladder.Demotion, s machine.Start) machine.Effect {
	return machine.Effect{
		Key: fmt.Sprintf("ladder/%s/%s/demoted", d.Run, d.State), Run: d.Run, Playbook: d.Playbook, State: d.State,
		Service: s.Service, Alert: s.Alert, Text: d.Text(),
	}
}

// loadLadder folds the stream ladder.
func (e *Executor) loadLadder() error {
	for rec, err := range e.o.Journal.Stream(ladder.Stream, 0) {
		if err == nil {
			err = e.ladder.Fold(rec)
		}
		if err != nil {
			return fmt.Errorf("read ladder: %w", err)
		}
	}
	return nil
}

// PromoteLever lifts the demotion of a lever: id.State names its state or, where
// that is enough, its kind; id.Lever is not looked at. It raises nothing
// above what configuration, service, playbook, state and policy allow, and is
// durable when it returns. by and reason are for the record and must not be empty.
func (e *Executor) PromoteLever(ctx context.Context, id ladder.LeverID, by, reason string) error {
	switch {
	case by == "":
		return fmt.Errorf("%w: who promotes it?", ErrInvalid)
	case reason == "":
		return fmt.Errorf("%w: say why, for the record", ErrInvalid)
	}
	if err := errors.Join(ctx.Err(), e.Ready()); err != nil {
		return err
	}
	t := &task{person: true}
	t.decide = func(b *batch) error {
		ids, err := e.ladder.Named(id)
		switch {
		case errors.Is(err, ladder.ErrNoRecord):
			return fmt.Errorf("%w: %w", ErrNotFound, err)
		case errors.Is(err, ladder.ErrAmbiguous):
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		case err != nil:
			return fmt.Errorf("%w: %w", ErrConflict, err)
		}
		var lifted []ladder.Promotion
		for _, id := range ids {
			p := ladder.Promotion{LeverID: id, By: by, Reason: reason}
			lifted = append(lifted, p)
			b.ladder = append(b.ladder, audit.Record{Kind: ladder.KindLeverPromoted, Time: b.now, Data: encode(p)})
		}
		t.then = func() {
			for _, p := range lifted {
				e.ladder.Promote(p, b.now)
			}
		}
		return nil
	}
	return e.do(ctx, t)
}

// endObserved returns up waiting for alerts that were only observed where it has
// been long enough.
func (e *Executor) endObserved(ctx context.Context) error {
	const together = 256
	ends := e.ladder.Overdue(e.clock.now())
	for part := range slices.Chunk(ends, together) {
		err := e.do(ctx, &task{decide: func(b *batch) error {
			b.observed = part
			return nil
		}})
		if err != nil {
			return fmt.Errorf("record what became of observed alerts: %w", err)
		}
	}
	return nil
}

// observedOutcome returns what became of the alerts of an ended run, nil when it did not
// end observed at a lever.
func (e *Executor) observedOutcome(s machine.State) *machine.ObservedOutcome {
	if s.Ending == nil || s.Ending.Outcome != machine.OutcomeObserved || s.Lever == nil || !s.Lever.Would {
		return nil
	}
	out := &machine.ObservedOutcome{Until: s.Ended.Add(ladder.WatchedFor)}
	if e.ladder.Watches(s.Start.Run) {
		return out
	}
	end, ok := e.observedEnd(s.Start.Run, s.Ended)
	if !ok {
		return nil // it is older than this record
	}
	out.Known, out.Recovered, out.After, out.Acted = true, end.Recovered, end.After, end.Acted
	return out
}

// observedEnd finds the record of a run that ended then. Only a day's records can
// have it.
func (e *Executor) observedEnd(run string, ended time.Time) (ladder.ObservedEnd, bool) {
	const slack = time.Hour // for a clock that was set, a service that was down
	from, err := e.o.Journal.Since(ladder.Stream, ended.Add(-slack))
	if err != nil {
		return ladder.ObservedEnd{}, false
	}
	for rec, err := range e.o.Journal.Stream(ladder.Stream, from) {
		if err != nil {
			return ladder.ObservedEnd{}, false
		}
		if rec.Kind != ladder.KindObservedEnded {
			continue
		}
		if s, err := decode[ladder.ObservedEnd](rec); err == nil && s.Run == run {
			return s, true
		}
	}
	return ladder.ObservedEnd{}, false
}

// Ladder lists the levers there is a record of, by playbook, service and state.
// Of f only Service and Playbook are looked at.
func (e *Executor) Ladder(f Filter) []ladder.Entry {
	return e.ladder.List(f.Service, f.Playbook, e.levels())
}

// Outlook is a lever on a service, tried or not.
type Outlook struct {
	ladder.Entry
	Missing int // proofs in a row until the next level is proposed; 0: none, or nothing ever is
}

// Levers returns what lists the levers that a playbook has for a service, in the order of its
// document, with the configuration and the catalog of now.
func (e *Executor) Levers() func(p *playbook.Playbook, service string) []Outlook {
	now := e.levels()
	return func(p *playbook.Playbook, service string) []Outlook {
		var out []Outlook
		for _, st := range p.States {
			if st.Kind == playbook.StateLever {
				entry, missing := e.ladder.Of(ladder.LeverID{Playbook: p.Name, Service: service, State: st.Name, Lever: st.Step}, now)
				out = append(out, Outlook{entry, missing})
			}
		}
		return out
	}
}

// levels are what configuration, catalog and playbooks say of levels now.
func (e *Executor) levels() ladder.Levels {
	now := ladder.Levels{Ceiling: e.o.Autonomy, Playbooks: e.o.Playbooks()}
	if e.o.Catalog != nil {
		now.Services = map[string]playbook.Service{}
		known, _ := e.o.Catalog() //nolint:errcheck // of a service that is not known no level is shown
		for _, s := range known {
			now.Services[s.Name] = s
		}
	}
	return now
}
