package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify"
)

// feedOptions is what a channel wants to know of every run.
type feedOptions struct {
	name  string // of the channel
	kinds []machine.EventKind
	send  func(ctx context.Context, f runFact) error
}

// runFact is one fact of a run, with what it takes to tell it.
type runFact struct {
	ID    string // the same fact has the same
	Run   string
	Event machine.Event
	State machine.State // as it is now, which may be later
	Asked bool          // people were told something of the run
}

// runBook is what a feed reads of runs.
type runBook interface {
	RunState(id string) (machine.State, bool)
	RunEvents(id string) ([]machine.Event, error)
}

// feed sends the facts of runs to one channel, each at least once and in the
// journal's order. Where it stands is kept in a cell of the journal, so what
// happens while the receiver is down, or this service, is sent later. A
// channel that is new begins with what happens from now on.
type feed struct {
	feedOptions
	journal *audit.Journal
	runs    runBook
	log     *slog.Logger
	next    uint64 // position in the log
	saved   uint64 // of next, in the cell
}

const (
	feedFirst = time.Second // before a fact is sent again
	feedMost  = time.Minute // between two attempts
	feedSave  = 1000        // entries without a fact after which the position is kept
)

func (f *feed) cell() string { return "feed/" + f.name }

// run sends until ctx is done.
func (f *feed) run(ctx context.Context) error {
	changed, end := f.journal.Watch()
	defer end()
	if err := f.begin(); err != nil {
		return err
	}
	for {
		if err := f.catchUp(ctx); err != nil {
			// The service goes on without: runs never wait for who is told.
			f.log.Error("channel cannot follow the journal, it is tried again", "err", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *feed) begin() error {
	raw, err := f.journal.Meta(f.cell())
	if err != nil {
		return fmt.Errorf("read the position of channel %s: %w", f.name, err)
	}
	if raw == nil {
		f.next = f.journal.Size()
		return f.save()
	}
	at, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		return fmt.Errorf("read the position of channel %s: %w", f.name, err)
	}
	f.next, f.saved = min(at, f.journal.Size()), at
	return nil
}

func (f *feed) save() error {
	if err := f.journal.SetMeta(f.cell(), []byte(strconv.FormatUint(f.next, 10))); err != nil {
		return fmt.Errorf("keep the position of channel %s: %w", f.name, err)
	}
	f.saved = f.next
	return nil
}

func (f *feed) catchUp(ctx context.Context) error {
	for rec, err := range f.journal.Log(f.next) {
		if err != nil {
			if errors.Is(err, audit.ErrClosed) {
				return nil
			}
			return fmt.Errorf("channel %s: %w", f.name, err)
		}
		run, isRun := strings.CutPrefix(rec.Stream, runStreams)
		wanted := isRun && slices.Contains(f.kinds, machine.EventKind(rec.Kind))
		if wanted && !f.deliver(ctx, run, rec) {
			return nil // ctx is done; the fact is sent after the next start
		}
		f.next = rec.Seq + 1
		if wanted || f.next-f.saved >= feedSave {
			if err := f.save(); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliver sends one fact until it is taken; false when ctx ends before. One
// that the receiver refuses for what it is is left out: it would block the rest
// for ever.
func (f *feed) deliver(ctx context.Context, run string, rec audit.Record) bool {
	for wait := feedFirst; ; wait = min(2*wait, feedMost) {
		fact, err := f.fact(run, rec) // each time: what it is about may be over
		if err != nil {
			f.log.Error("fact cannot be told", "run", run, "err", err)
			return true
		}
		err = f.send(ctx, fact)
		var e *notify.Error
		switch {
		case err == nil:
			return true
		case errors.As(err, &e) && e.Reason == notify.Invalid:
			f.log.Error("fact is refused and left out", "run", run, "step", rec.Kind, "err", err)
			return true
		case e != nil && e.RetryAfter > wait:
			wait = e.RetryAfter
		}
		f.log.Warn("fact could not be told, it is tried again", "run", run, "step", rec.Kind, "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}

func (f *feed) fact(run string, rec audit.Record) (runFact, error) {
	out := runFact{ID: fmt.Sprintf("%s@%d", run, rec.Index), Run: run, Event: machine.Event{Kind: machine.EventKind(rec.Kind)}}
	if err := json.Unmarshal(rec.Data, &out.Event); err != nil {
		return out, fmt.Errorf("entry %d of the journal: %w", rec.Seq, err)
	}
	out.State, _ = f.runs.RunState(run)
	if out.Event.Kind != machine.RunEnded {
		return out, nil
	}
	events, err := f.runs.RunEvents(run)
	if err != nil {
		return out, err
	}
	out.Asked = slices.ContainsFunc(events, func(e machine.Event) bool {
		return e.Kind == machine.GateOpened || e.Kind == machine.EffectStarted && e.Action == machine.ActionNotify
	})
	return out, nil
}

func kindsNamed(names []string) []machine.EventKind {
	out := make([]machine.EventKind, len(names))
	for i, n := range names {
		out[i] = machine.EventKind(n)
	}
	return out
}

// factData is the data of a fact's CloudEvent.
type factData struct {
	Run      string `json:"run"`
	Playbook string `json:"playbook"`
	Service  string `json:"service"`
	State    string `json:"state,omitempty"`
	Link     string `json:"link,omitempty"`

	Alert      string     `json:"alert,omitempty"`      // run.started: its name
	Plan       string     `json:"plan,omitempty"`       // of a lever: what it changes, in words
	Digest     string     `json:"digest,omitempty"`     // gate.opened, gate.decided: of the plan
	Deadline   *time.Time `json:"deadline,omitempty"`   // gate.opened
	Approved   *bool      `json:"approved,omitempty"`   // gate.decided
	By         string     `json:"by,omitempty"`         // gate.decided
	BreakGlass bool       `json:"breakGlass,omitempty"` // gate.decided: alone, in an emergency
	Outcome    string     `json:"outcome,omitempty"`    // run.ended
	Message    string     `json:"message,omitempty"`
}

// fact tells a webhook a fact of a run.
func (w webhookNotices) fact(ctx context.Context, f runFact) error {
	e, start := f.Event, f.State.Start
	d := factData{
		Run: f.Run, Playbook: start.Playbook, Service: start.Service.Name, State: e.State, Link: w.link.run(f.Run),
		Digest: e.Digest, Message: cut(e.Message, maxNoticeText),
	}
	if l := f.State.Lever; l != nil && l.Plan != nil && strings.HasPrefix(string(e.Kind), "lever.") && l.State == e.State {
		d.Plan = l.Plan.Summary
	}
	switch {
	case e.Kind == machine.RunStarted:
		d.Alert = start.Alert.Labels["alertname"]
	case e.Gate != nil:
		d.Digest, d.Deadline, d.Message = e.Gate.Digest, &e.Gate.Deadline, cut(e.Gate.Text, maxNoticeText)
	case e.Decision != nil:
		d.Approved, d.By, d.Digest, d.Message = &e.Decision.Approve, e.Decision.By, e.Decision.Digest, cut(e.Decision.Reason, maxNoticeText)
		d.BreakGlass = e.Decision.BreakGlass
	case e.Ending != nil:
		d.Outcome, d.Message = string(e.Ending.Outcome), cut(e.Ending.Message, maxNoticeText)
	}
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode fact: %w", err)
	}
	return w.hook.Send(ctx, notify.Event{
		ID: f.ID, Source: w.link.source(), Type: eventPrefix + string(e.Kind), Subject: f.Run, Time: e.At, Data: data,
	})
}

// fact records changes, and takes back the page of a run that ended without
// needing a person.
func (p pagerDutyNotices) fact(ctx context.Context, f runFact) error {
	start := f.State.Start
	verb := map[machine.EventKind]string{machine.Applied: "changed", machine.Undone: "put back"}[f.Event.Kind]
	switch {
	case verb != "":
		what := f.Event.State
		if l := f.State.Lever; l != nil && l.Plan != nil && l.State == f.Event.State {
			what = l.Plan.Summary
		}
		return p.pagerDuty.Change(ctx, notify.Change{
			Summary: fmt.Sprintf("%s: %s: %s", start.Service.Name, verb, what), Source: "responder", Time: f.Event.At,
			Details: map[string]any{"run": f.Run, "playbook": start.Playbook, "state": f.Event.State}, Links: p.links(f.Run),
		})
	case f.Event.Ending != nil && f.Asked && !needsPerson(f.Event.Ending.Outcome):
		return p.pagerDuty.Resolve(ctx, pagerKey(f.Run))
	default:
		return nil
	}
}

// needsPerson reports whether somebody has to take over after such an end.
func needsPerson(o machine.RunOutcome) bool {
	switch o {
	case machine.OutcomeEscalated, machine.OutcomeHandedOver, machine.OutcomeUndoFailed:
		return true
	default:
		return false
	}
}
