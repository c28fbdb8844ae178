package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Quarantined is the record of a run that cannot be processed.
type Quarantined struct {
	Run   string `json:"run"`
	Head  uint64 `json:"head"` // of its stream when it was quarantined
	Error string `json:"error"`
}

// Released is the record of a run that was quarantined and that a person ended,
// having looked at what it may have left behind. The end of the run is in the
// same batch.
type Released struct {
	Run     string   `json:"run"`
	From    []string `json:"from,omitempty"` // the runs that handed over to it, oldest first
	By      string   `json:"by"`
	Channel string   `json:"door,omitempty"`
	Reason  string   `json:"reason"`
	Error   string   `json:"error"` // why it was quarantined
}

// quarantine is why and since when a run is in quarantine, as the log has it.
type quarantine struct {
	why error
	at  time.Time
}

// quarantineRun stops a run that cannot be processed. What it holds stays taken:
// nobody knows what it left behind, until a person has looked and releases it.
func (e *Executor) quarantineRun(r *run, why error) {
	if r.dead != nil || !e.alive() {
		return
	}
	r.quarantine(why, e.clock.now())
	e.timers.set(r, time.Time{})
	e.log.Error("run quarantined", "run", r.id, "err", why)
	e.later(KindRunQuarantined, &task{shared: true, decide: func(b *batch) error {
		s := b.state(r)
		b.record(KindRunQuarantined, Quarantined{Run: r.id, Head: s.Head, Error: why.Error()})
		b.notices = append(b.notices, machine.Effect{
			Key: "run/" + r.id + "/quarantined", Run: r.id, Playbook: s.Start.Playbook, State: s.Current, Urgent: true,
			Service: s.Start.Service, Alert: s.Start.Alert,
			Text: fmt.Sprintf("run %s cannot be processed and was quarantined; if it changed anything, that is still in place. Look, then: responder runs release %s --reason ... (%v)", r.id, r.id, why),
		})
		return nil
	}})
	e.wakeWaiters(e.ledger.Leave(r.id))
}

// release ends a run that was quarantined, on the word of a person: its locks,
// its place among the open runs and its alerts are free again.
func (e *Executor) release(ctx context.Context, id string, d *machine.Decision) error {
	switch {
	case d == nil || d.By == "":
		return fmt.Errorf("%w: who releases it?", ErrInvalid)
	case d.Reason == "":
		return fmt.Errorf("%w: say what you found, for the record", ErrInvalid)
	}
	var from []string
	return e.do(ctx, &task{
		person: true,
		decide: func(b *batch) error {
			r := e.find(id)
			if r == nil {
				return e.noRelease(id)
			}
			for _, h := range b.state(r).Start.Line {
				from = append(from, h.Run)
			}
			return b.release(r, d, from)
		},
		then: func() {
			e.dispatch.Forget(id, from)
			e.poke() // others were suppressed because of it
		},
	})
}

// release stages the end of a run that was quarantined. from are the runs that handed
// over to it.
func (b *batch) release(r *run, d *machine.Decision, from []string) error {
	switch {
	case r.dead == nil:
		return fmt.Errorf("%w: run %s is not quarantined; cancel it, or resolve it when it is held", ErrConflict, r.id)
	case r.flight != nil && r.flight.effect.Action.Mutates():
		return fmt.Errorf("%w: a change of run %s is still under way, try again in a moment", ErrConflict, r.id)
	}
	head, err := b.e.o.Journal.Head(streamOf(r.id))
	if err != nil {
		return fmt.Errorf("read run %s: %w", r.id, err)
	}
	b.record(KindRunReleased, Released{Run: r.id, From: from, By: d.By, Channel: d.Channel, Reason: d.Reason, Error: r.dead.Error()})
	end := machine.Event{Kind: machine.RunEnded, At: b.now, Ending: &machine.Ending{
		Outcome: machine.OutcomeReleased,
		Message: fmt.Sprintf("it was quarantined (%v); released by %s: %s", r.dead, d.By, d.Reason),
	}}
	st := b.stage(r)
	st.state, st.events, st.after = machine.Evolve(st.state, end), []machine.Event{end}, head // what could not be read is behind it
	st.state.Head = head + 1
	b.events++
	b.returnLoans(st.state)
	return nil
}

// noRelease is why a run that is not open cannot be released.
func (e *Executor) noRelease(id string) error {
	if s, ok := e.RunState(id); ok {
		if s.Ending == nil {
			return fmt.Errorf("%w: run %s is only just starting, try again in a moment", ErrConflict, id)
		}
		return fmt.Errorf("%w: run %s has ended %s", ErrConflict, id, s.Ending.Outcome)
	}
	if _, err := e.look(id); err != nil {
		return err
	}
	return fmt.Errorf("%w: run %s", ErrNotFound, id)
}

// salvage reads of a run that cannot be folded what others must know of it: what
// it is about, its alerts, its newest plan. What cannot be read is left out, and
// the run counts as one with a change in the air: its record does not say that
// there is none.
func (e *Executor) salvage(id string) machine.State {
	s := machine.State{Phase: machine.PhaseHeld}
	lever := &machine.Lever{Plan: &machine.Plan{}, Before: -1}
	for rec, err := range e.o.Journal.Stream(streamOf(id), 0) {
		if err != nil {
			break // what is left of it is not known either
		}
		s.Head++
		s.Updated = rec.Time
		ev, err := event(rec)
		if err != nil {
			ev = remains(rec)
		}
		remember(&s, lever, ev)
	}
	s.Lever, s.Start.Run = lever, id
	return s
}

// remember folds what an event says by itself.
func remember(s *machine.State, lever *machine.Lever, ev machine.Event) {
	switch ev.Kind {
	case machine.RunStarted:
		if ev.Start != nil {
			s.Start, s.Began, s.Truncated = *ev.Start, ev.At, ev.Start.Truncated
			if ev.Start.ByHand() {
				return
			}
			s.Episodes = s.Episodes.With(ev.Start.Alert.Episode(), &machine.Episode{Alert: ev.Start.Alert, Firing: true, Since: ev.At})
		}
	case machine.EpisodeJoined, machine.EpisodeRefired, machine.EpisodeResolved:
		if ev.Alert != nil {
			s.Episodes = s.Episodes.With(ev.Alert.Episode(), &machine.Episode{Alert: *ev.Alert, Firing: ev.Alert.Status == playbook.Firing, Since: ev.At})
		}
	case machine.StateEntered:
		s.Current = ev.State
	case machine.PlanCompleted:
		if ev.Plan != nil {
			lever.State, lever.Plan = ev.State, ev.Plan
		}
	case machine.Applied:
		s.Levers++
	case machine.Verified, machine.Kept:
		if ev.Loan != nil {
			s.Loans = append(s.Loans, *ev.Loan)
		}
	case machine.RunEnded:
		s.Phase, s.Ending, s.Ended = machine.PhaseEnded, ev.Ending, ev.At
		if ev.Ending == nil {
			s.Ending = &machine.Ending{Message: "how cannot be read"}
		}
	}
}

// remains is an event of which only little can be read.
func remains(rec audit.Record) machine.Event {
	ev := machine.Event{Kind: machine.EventKind(rec.Kind), At: rec.Time}
	var v struct {
		State string `json:"state"`
		Start *struct {
			Playbook string `json:"playbook"`
			Digest   string `json:"digest"`
			Loan     string `json:"loan"`
			Service  struct {
				Name string `json:"name"`
			} `json:"service"`
		} `json:"start"`
		Plan *struct {
			Locks []string `json:"locks"`
		} `json:"plan"`
	}
	if err := json.Unmarshal(rec.Data, &v); err != nil {
		return ev
	}
	ev.State = v.State
	if v.Start != nil {
		ev.Start = &machine.Start{Playbook: v.Start.Playbook, Digest: v.Start.Digest, Loan: v.Start.Loan}
		ev.Start.Service.Name = v.Start.Service.Name
	}
	if v.Plan != nil {
		ev.Plan = &machine.Plan{Locks: v.Plan.Locks}
	}
	return ev
}

// look returns a run from the log, as far as it can be read. The error is ErrNotFound or
// audit.ErrArchived.
func (e *Executor) look(id string) (machine.State, error) {
	s, err := e.fold(id)
	if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, audit.ErrArchived) {
		return s, err
	}
	s = e.salvage(id)
	s.Quarantine = &machine.Quarantine{Message: strings.TrimSpace(err.Error()), At: s.Updated}
	return s, nil
}
