package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

const streamLadder = "ladder"

// lesson is what a batch adds to the record of levers: it is appended with the
// batch and folded when that is durable.
type lesson struct {
	results   []LeverResult
	demotions []Demotion
	shadows   []ShadowEnd
	resolved  []string
}

// learn finds what the batch teaches of levers, and what people have to be told
// of that. The caller shares trust.change until the lesson is folded.
func (b *batch) learn() lesson {
	l := lesson{resolved: b.resolved, shadows: b.shadows}
	for _, st := range b.staged {
		s := *st.r.state
		if s.Playbook == nil {
			s.Playbook = st.state.Playbook
		}
		found := results(s, st.events)
		for _, d := range b.e.trust.demotions(found, b.now) {
			l.demotions = append(l.demotions, d)
			b.notices = append(b.notices, demoted(d, st.state.Start))
		}
		l.results = append(l.results, found...)
	}
	l.shadows = append(l.shadows, b.e.trust.recoveries(l.resolved, b.now)...)
	for i := range l.shadows {
		x := &l.shadows[i]
		if x.Recovered {
			x.Acted = b.e.ledger.actedSince(x.Service, x.Run, b.now.Add(-x.After))
		}
	}
	return l
}

// demoted is what people are told of a demotion.
func demoted(d Demotion, s machine.Start) machine.Effect {
	return machine.Effect{
		Key: fmt.Sprintf("ladder/%s/%s/demoted", d.Run, d.State), Run: d.Run, Playbook: d.Playbook, State: d.State,
		Service: s.Service, Alert: s.Alert, Text: d.text(),
	}
}

// demotions are those that results ask for, on top of what is known.
func (t *trust) demotions(results []LeverResult, at time.Time) []Demotion {
	if len(results) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Demotion
	after := map[LeverID]*leverTrust{}
	for _, r := range results {
		l := after[r.LeverID]
		if l == nil {
			l = &leverTrust{}
			if now := t.levers[r.LeverID]; now != nil {
				*l = *now
				l.last = slices.Clone(now.last)
			}
			after[r.LeverID] = l
		}
		l.add(r, at)
		if d, ok := l.demotion(r.LeverID, t.config); ok {
			l.demoted = &d
			out = append(out, d)
		}
	}
	return out
}

// append is what the lesson adds to the log; false: nothing.
func (l lesson) append(now time.Time) (audit.Append, bool) {
	recs := l.records(now)
	return audit.Append{Stream: streamLadder, After: audit.Any, Records: recs}, len(recs) > 0
}

func (l lesson) records(now time.Time) []audit.Record {
	var out []audit.Record
	add := func(kind string, v any) { out = append(out, audit.Record{Kind: kind, Time: now, Data: encode(v)}) }
	for _, r := range l.results {
		add(KindLeverResult, r)
	}
	for _, d := range l.demotions {
		add(KindLeverDemoted, d)
	}
	for _, s := range l.shadows {
		add(KindShadowEnded, s)
	}
	return out
}

// take folds a lesson that is durable.
func (t *trust) take(l lesson, now time.Time) {
	for _, r := range l.results {
		t.result(r, now)
	}
	for _, d := range l.demotions {
		t.demote(d)
	}
	t.resolved(l.resolved, now)
	for _, s := range l.shadows {
		t.shadowEnded(s)
	}
}

// loadTrust folds the stream ladder.
func (e *Executor) loadTrust() error {
	for rec, err := range e.o.Journal.Stream(streamLadder, 0) {
		if err == nil {
			err = e.trust.fold(rec)
		}
		if err != nil {
			return fmt.Errorf("read ladder: %w", err)
		}
	}
	return nil
}

func (t *trust) fold(rec audit.Record) error {
	switch rec.Kind {
	case KindLeverResult:
		r, err := decode[LeverResult](rec)
		if err != nil {
			return err
		}
		t.result(r, rec.Time)
	case KindLeverDemoted:
		d, err := decode[Demotion](rec)
		if err != nil {
			return err
		}
		d.At = rec.Time
		t.demote(d)
	case KindLeverPromoted:
		p, err := decode[Promotion](rec)
		if err != nil {
			return err
		}
		t.promote(p, rec.Time)
	case KindShadowEnded:
		s, err := decode[ShadowEnd](rec)
		if err != nil {
			return err
		}
		t.shadowEnded(s)
	}
	return nil
}

// PromoteLever lifts the demotion of a lever: id.State names its state or, where
// that is enough, its kind; id.Lever is not looked at. It raises nothing above what configuration, service,
// playbook, state and policy allow, and is durable when it returns. by and
// reason are for the record and must not be empty.
func (e *Executor) PromoteLever(ctx context.Context, id LeverID, by, reason string) error {
	switch {
	case by == "":
		return fmt.Errorf("%w: who promotes it?", ErrInvalid)
	case reason == "":
		return fmt.Errorf("%w: say why, for the record", ErrInvalid)
	}
	if err := errors.Join(ctx.Err(), e.Ready()); err != nil {
		return err
	}
	e.trust.change.Lock()
	defer e.trust.change.Unlock()
	ids, err := e.trust.named(id)
	if err != nil {
		return err
	}
	now := e.clock.now()
	var recs []audit.Record
	for _, id := range ids {
		recs = append(recs, audit.Record{Kind: KindLeverPromoted, Time: now, Data: encode(Promotion{LeverID: id, By: by, Reason: reason})})
	}
	if err := e.append(audit.Append{Stream: streamLadder, After: audit.Any, Records: recs}); err != nil {
		return err
	}
	for _, id := range ids {
		e.trust.promote(Promotion{LeverID: id, By: by, Reason: reason}, now)
	}
	return nil
}

// named finds the demoted levers that a person means: id.State is the name of a
// state or, where only one lever is of it, a kind.
func (t *trust) named(id LeverID) ([]LeverID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var byState, byKind []LeverID
	known := false
	for x, l := range t.levers {
		if x.Playbook != id.Playbook || x.Service != id.Service || (x.State != id.State && x.Lever != id.State) {
			continue
		}
		known = true
		switch {
		case l.demoted == nil:
		case x.State == id.State:
			byState = append(byState, x)
		default:
			byKind = append(byKind, x)
		}
	}
	switch what := fmt.Sprintf("lever %s of playbook %s on service %s", id.State, id.Playbook, id.Service); {
	case !known:
		return nil, fmt.Errorf("%w: there is no record of %s; 'responder ladder' lists them", ErrNotFound, what)
	case len(byState) > 0:
		return byState, nil
	case len(byKind) == 1:
		return byKind, nil
	case len(byKind) > 1:
		var states []string
		for _, x := range byKind {
			states = append(states, x.State)
		}
		slices.Sort(states)
		return nil, fmt.Errorf("%w: %s stands for several; name one of the states %s", ErrInvalid, what, strings.Join(states, ", "))
	default:
		return nil, fmt.Errorf("%w: %s is not demoted; 'responder ladder -o wide' names what else limits it", ErrConflict, what)
	}
}
