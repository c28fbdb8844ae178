package notify

import (
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// pending returns what people are told of a question or a wait that lasts.
func (r *Router) pending(f Fact) (Notice, bool) {
	if f.Event.Kind == machine.GuardsReminded {
		return f.waiting()
	}
	return r.undecided(f)
}

// waiting returns what the default channels are told of a run that waits; false:
// it waits no more, or its state cannot be read, which people are told otherwise.
func (f Fact) waiting() (Notice, bool) {
	start, c := f.State.Start, f.State.Consent()
	if c.WaitFrom.IsZero() {
		return Notice{}, false
	}
	text := fmt.Sprintf("Run %s has waited since %s, and does nothing for %s meanwhile: %s. It waits until %s at most.",
		f.Run, c.WaitFrom.UTC().Format(time.RFC3339), start.Service.Name, f.Event.Message, c.WaitUntil.UTC().Format(time.RFC3339))
	if run, _ := f.State.WaitsFor(); run != "" {
		text += fmt.Sprintf(" responder runs show %s tells what that one does.", run)
	}
	return Notice{
		Key: f.ID, Run: f.Run, Playbook: start.Playbook, State: f.Event.State, Service: start.Service, Alert: start.Alert, At: f.Event.At, Text: text,
	}, true
}

// undecided returns what people are told of a question that is still open;
// false: the fact is no reminder and no escalation, or its question was closed
// meanwhile. A reminder goes where questions are told by default, but not to the
// Slack channel that shows the question: its thread has the reminder. An
// escalation goes to the channels of its tier, or to every channel when the
// tier cannot be read.
func (r *Router) undecided(f Fact) (Notice, bool) {
	kind, tier, start := f.Event.Kind, f.Event.Tier, f.State.Start
	if kind != machine.GateReminded && kind != machine.GateEscalated {
		return Notice{}, false
	}
	g := f.State.Gate
	if f.unread {
		g = f.gate
	}
	if !f.unread && (g == nil || f.Event.At.Before(g.Opened)) {
		return Notice{}, false
	}
	n := Notice{
		Run: f.Run, Playbook: start.Playbook, State: f.Event.State, Service: start.Service, Alert: start.Alert, At: f.Event.At,
		Text: f.question(g), Urgent: f.unread || kind == machine.GateEscalated,
	}
	about := f.ID
	if g != nil {
		about = g.ID
	}
	switch {
	case kind == machine.GateReminded:
		n.Key, n.Asks = about+"/reminder", !f.unread // Slack approvals cannot show an unreadable run
	case g != nil && tier >= 1 && tier <= len(g.Tiers):
		n.Key, n.To = fmt.Sprintf("%s/tier-%d", about, tier), g.Tiers[tier-1].To
	default:
		n.Key = fmt.Sprintf("%s/tier-%d", about, tier)
		for _, m := range r.members {
			n.To = append(n.To, m.Name)
		}
	}
	return n, true
}

// question returns the text about a question that nobody has decided, as far as
// it is known.
func (f Fact) question(g *machine.Gate) string {
	how := fmt.Sprintf("responder approve %s, or responder deny %s --reason ...", f.Run, f.Run)
	if g == nil {
		return fmt.Sprintf("A question may be open: the state of run %s cannot be read, and nobody has decided%s. Look: responder runs show %s; then %s", f.Run, f.tier(), f.Run, how)
	}
	text := fmt.Sprintf("Nobody has decided: %s\nRun %s asks since %s, until %s. Needed: %s. %s",
		g.Text, f.Run, g.Opened.UTC().Format(time.RFC3339), g.Deadline.UTC().Format(time.RFC3339), g.Needed(), how)
	if f.unread {
		text += fmt.Sprintf("\nThe state of the run cannot be read%s: whether the question is still open, responder runs show %s may tell.", f.tier(), f.Run)
	}
	return text
}

// tier names the tier of an escalation.
func (f Fact) tier() string {
	if f.Event.Tier == 0 {
		return ""
	}
	return fmt.Sprintf(" (tier %d)", f.Event.Tier)
}

// question looks for the question that entry index of a run is about, when the
// run's state cannot be read. It is open unless a later entry closes it.
func (f *Feed) question(run string, index uint64) (gate *machine.Gate, open bool) {
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

// closesGate reports whether no question is open after such an event.
func closesGate(kind machine.EventKind) bool {
	switch kind {
	case machine.GateDecided, machine.GateVoided, machine.GateExpired, machine.GateWithdrawn, machine.RunEnded:
		return true
	default:
		return false
	}
}
