package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/runview"
)

// runFact is one fact of a run, with what it takes to tell it.
type runFact struct {
	ID    string // the same fact has the same
	Run   string
	Event machine.Event // only kind and time, and a message that says so, when its entry cannot be read
	State machine.State // as it is now, which may be later
	Asked bool          // people were told something of the run, as far as is known

	// Unread is set for a reminder or an escalation when nobody can tell from
	// the run's state whether its question is open. It has to be told then.
	Unread bool
	Gate   *machine.Gate // the question, when Unread and its own entry can be read
}

// runBook is what a feed reads of runs.
type runBook interface {
	RunState(id string) (machine.State, bool)
	RunEvents(id string) ([]machine.Event, error)
}

// fact reads what an entry says, as far as it can be read.
func (f *feed) fact(run string, rec audit.Record) runFact {
	out := runFact{ID: fmt.Sprintf("%s@%d", run, rec.Index), Run: run}
	if err := json.Unmarshal(rec.Data, &out.Event); err != nil {
		f.log.Error("entry of a run cannot be read, it is told as far as it is known", "run", run, "err", err)
		out.Event = machine.Event{At: rec.Time, Message: fmt.Sprintf("this entry cannot be read; see: responder audit show %d", rec.Seq)}
	}
	out.Event.Kind = machine.EventKind(rec.Kind)
	var readable bool
	out.State, readable = f.runs.RunState(run)
	switch out.Event.Kind {
	case machine.RunEnded:
		out.Asked = f.asked(run)
	case machine.GateReminded, machine.GateEscalated:
		// Of a run that was set aside, only what can be salvaged is known.
		salvaged := out.State.Aside != nil && out.State.Gate == nil && out.State.Phase != machine.PhaseEnded
		if !readable || salvaged {
			out.Gate, out.Unread = f.question(run, rec.Index)
		}
	}
	return out
}

// asked reports whether people were told of a run, also when nobody can tell:
// what is told of its end then concerns nobody at worst.
func (f *feed) asked(run string) bool {
	events, err := f.runs.RunEvents(run)
	if err != nil {
		f.log.Error("run cannot be read, people may have been told of it", "run", run, "err", err)
		return true
	}
	return slices.ContainsFunc(events, func(e machine.Event) bool {
		return e.Kind == machine.GateOpened || e.Kind == machine.EffectStarted && e.Action == machine.ActionNotify
	})
}

// question looks in the entries of a run, whose state cannot be read, for the
// question that entry index is about. It is open unless a later entry closes it.
func (f *feed) question(run string, index uint64) (gate *machine.Gate, open bool) {
	events, err := f.runs.RunEvents(run)
	if err != nil {
		f.log.Error("run cannot be read, its question counts as open", "run", run, "err", err)
		return nil, true
	}
	for i, e := range events {
		switch {
		case e.Kind == machine.GateOpened && uint64(i) < index:
			gate = e.Gate
		case uint64(i) > index && (e.Kind == machine.GateOpened || closesGate(e.Kind)):
			return nil, false
		}
	}
	return gate, true
}

// closesGate reports whether nothing is asked any more after such an event.
func closesGate(kind machine.EventKind) bool {
	switch kind {
	case machine.GateDecided, machine.GateVoided, machine.GateExpired, machine.GateWithdrawn, machine.RunEnded:
		return true
	default:
		return false
	}
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
		Digest: e.Digest, Message: runview.Cut(e.Message, maxNoticeText),
	}
	if l := f.State.Lever; l != nil && l.Plan != nil && strings.HasPrefix(string(e.Kind), "lever.") && l.State == e.State {
		d.Plan = l.Plan.Summary
	}
	switch {
	case e.Kind == machine.RunStarted:
		d.Alert = start.Alert.Labels["alertname"]
	case e.Gate != nil:
		d.Digest, d.Deadline, d.Message = e.Gate.Digest, &e.Gate.Deadline, runview.Cut(e.Gate.Text, maxNoticeText)
	case e.Decision != nil:
		d.Approved, d.By, d.Digest, d.Message = &e.Decision.Approve, e.Decision.By, e.Decision.Digest, runview.Cut(e.Decision.Reason, maxNoticeText)
		d.BreakGlass = e.Decision.BreakGlass
	case e.Ending != nil:
		d.Outcome, d.Message = string(e.Ending.Outcome), runview.Cut(e.Ending.Message, maxNoticeText)
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
