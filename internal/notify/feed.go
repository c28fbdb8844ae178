package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// runStreams is the prefix of the journal's streams of runs.
const runStreams = "run/"

// Runs is what a feed reads of runs. Its methods may be called concurrently.
type Runs interface {
	RunState(id string) (machine.State, bool)
	RunEvents(id string) ([]machine.Event, error)
}

// Feed sends the facts of runs to one channel, each at least once and in the
// journal's order. Its position is kept in a cell of the journal, so what
// happens while the receiver or this service is down is sent later. A channel
// that is new begins with what happens from now on, and with the reminders and
// escalations of questions that are still open.
type Feed struct {
	Name string // of the channel

	router  *Router
	channel Channel
	kinds   []machine.EventKind // of the facts that the channel follows
	journal *audit.Journal
	runs    Runs
	log     *slog.Logger
	at      position
	saved   uint64 // of at.Next, in the cell
}

const (
	feedFirst = time.Second // before a fact is sent again
	feedMost  = time.Minute // between two attempts
	feedSave  = 1000        // entries without a fact after which the position is saved
)

// Feeds returns one feed for each channel, and drops the positions of channels
// that are no longer configured. A nil router has no channels.
func (r *Router) Feeds(journal *audit.Journal, runs Runs) ([]*Feed, error) {
	var all []*Feed
	if r != nil {
		for _, m := range r.members {
			all = append(all, r.feed(m, journal, runs))
		}
	}
	return all, forgetPositions(journal, all)
}

func (r *Router) feed(m Member, journal *audit.Journal, runs Runs) *Feed {
	f := &Feed{Name: m.Name, router: r, channel: m.Channel, journal: journal, runs: runs, log: r.log}
	if follower, ok := m.Channel.(Follower); ok {
		f.kinds = follower.Follows()
	}
	return f
}

// Run sends facts until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	changed, end := f.journal.Watch()
	defer end()
	if err := f.begin(); err != nil {
		return err
	}
	for {
		if err := f.catchUp(ctx); err != nil {
			// The service continues without this channel: runs never wait for it.
			f.log.Error("channel cannot follow the journal, retrying", "err", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *Feed) catchUp(ctx context.Context) error {
	if done, err := f.sendOwed(ctx); err != nil || !done {
		return err
	}
	for rec, err := range f.journal.Log(f.at.Next, runStreams) {
		if errors.Is(err, audit.ErrArchived) { // too old to tell anybody
			f.at.Next = rec.Seq + 1
			continue
		}
		if err != nil {
			if errors.Is(err, audit.ErrClosed) {
				return nil
			}
			return fmt.Errorf("channel %s: %w", f.Name, err)
		}
		run, isRun := strings.CutPrefix(rec.Stream, runStreams)
		wanted := isRun && f.wants(machine.EventKind(rec.Kind))
		if wanted && !f.deliver(ctx, run, rec) {
			return nil // ctx has ended; the fact is sent after the next start
		}
		f.at.Next = rec.Seq + 1
		if wanted || f.at.Next-f.saved >= feedSave {
			if err := f.save(); err != nil {
				return err
			}
		}
	}
	return nil
}

// wants reports whether events of a kind concern the channel: those that it
// follows, and those about questions that nobody decides and long waits.
func (f *Feed) wants(kind machine.EventKind) bool {
	return kind == machine.GateReminded || kind == machine.GateEscalated || kind == machine.GuardsReminded || slices.Contains(f.kinds, kind)
}

// deliver sends one fact until it is taken; false: ctx ended before. A fact
// that the receiver refuses as invalid is left out, because it would block the
// rest for ever.
func (f *Feed) deliver(ctx context.Context, run string, rec audit.Record) bool {
	for wait := feedFirst; ; wait = min(2*wait, feedMost) {
		err := f.send(ctx, f.fact(run, rec)) // read each time: its question may be closed meanwhile
		var e *fault.Error
		switch {
		case err == nil:
			return true
		case errors.As(err, &e) && e.Reason == fault.Invalid:
			f.log.Error("fact refused, left out", "run", run, "step", rec.Kind, "err", err)
			return true
		case e != nil && e.RetryAfter > wait:
			wait = e.RetryAfter
		}
		f.log.Warn("fact not sent, retrying", "run", run, "step", rec.Kind, "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

// send tells the channel a fact, and the question that it is about if nobody
// has decided it, or the wait if it lasts.
func (f *Feed) send(ctx context.Context, fact Fact) error {
	if n, open := f.router.pending(fact); open && slices.Contains(f.router.recipients(n), f.Name) {
		if err := f.channel.Tell(ctx, n); err != nil {
			return err
		}
	}
	if !slices.Contains(f.kinds, fact.Event.Kind) {
		return nil
	}
	return f.channel.(Follower).TellFact(ctx, fact) // only a follower has kinds
}

// fact reads an entry and what is known of its run.
func (f *Feed) fact(run string, rec audit.Record) Fact {
	out := Fact{ID: fmt.Sprintf("%s@%d", run, rec.Index), Run: run, Event: f.event(run, rec)}
	var readable bool
	out.State, readable = f.runs.RunState(run)
	switch out.Event.Kind {
	case machine.RunEnded:
		out.PeopleTold = f.peopleTold(run)
	case machine.GateReminded, machine.GateEscalated:
		// Only a part of the state of a quarantined run is known.
		partial := out.State.Quarantine != nil && out.State.Gate == nil && out.State.Phase != machine.PhaseEnded
		if !readable || partial {
			out.gate, out.unread = f.question(run, rec.Index)
		}
	}
	return out
}

// event decodes an entry. Of one that cannot be read it returns what is known.
func (f *Feed) event(run string, rec audit.Record) machine.Event {
	var e machine.Event
	if err := json.Unmarshal(rec.Data, &e); err != nil {
		f.log.Error("entry of a run cannot be read, sending what is known", "run", run, "err", err)
		e = machine.Event{At: rec.Time, Message: fmt.Sprintf("this entry cannot be read; see: responder audit show %d", rec.Seq)}
	}
	e.Kind = machine.EventKind(rec.Kind)
	return e
}

// peopleTold reports whether people were told of a run. It is true for a run
// that cannot be read: at worst the end is sent to people whom it does not
// concern.
func (f *Feed) peopleTold(run string) bool {
	events, err := f.runs.RunEvents(run)
	if err != nil {
		f.log.Error("run cannot be read, people may have been told of it", "run", run, "err", err)
		return true
	}
	return slices.ContainsFunc(events, func(e machine.Event) bool {
		return e.Kind == machine.GateOpened || e.Kind == machine.EffectStarted && e.Action == machine.ActionNotify
	})
}
