package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/step"
)

// escalating makes a channel's feed tell the questions that nobody decides: a
// reminder where questions are told by default, an escalation where its tier
// names the channel. Each channel follows the journal by itself, so neither
// Slack nor another channel that is down keeps it from being told.
func (c *Channels) escalating(o feedOptions) feedOptions {
	facts, send := slices.Clone(o.kinds), o.send
	o.send = func(ctx context.Context, f runFact) error {
		if n, open := c.undecided(f); open && slices.Contains(c.namesFor(n), o.name) {
			if err := c.byName[o.name].tell(ctx, n); err != nil {
				return err
			}
		}
		if !slices.Contains(facts, f.Event.Kind) {
			return nil
		}
		return send(ctx, f)
	}
	for _, kind := range []machine.EventKind{machine.GateReminded, machine.GateEscalated} {
		if !slices.Contains(o.kinds, kind) {
			o.kinds = append(slices.Clone(o.kinds), kind)
		}
	}
	return o
}

// undecided is what people are told of a question that is open still; false:
// the fact is no reminder and no escalation, or the question was closed
// meanwhile and concerns nobody any more. A reminder is not repeated in the
// Slack channel where the question itself stands: its thread has it. Whom a tier
// names that cannot be read, nobody knows: every channel is told.
func (c *Channels) undecided(f runFact) (step.Notice, bool) {
	kind, tier, start := f.Event.Kind, f.Event.Tier, f.State.Start
	if kind != machine.GateReminded && kind != machine.GateEscalated {
		return step.Notice{}, false
	}
	g := f.State.Gate
	if f.Unread {
		g = f.Gate
	}
	if !f.Unread && (g == nil || f.Event.At.Before(g.Opened)) {
		return step.Notice{}, false
	}
	n := step.Notice{
		Run: f.Run, Playbook: start.Playbook, State: f.Event.State, Service: start.Service, Alert: start.Alert, At: f.Event.At,
		Text: f.asks(g), Urgent: f.Unread || kind == machine.GateEscalated,
	}
	about := f.ID
	if g != nil {
		about = g.ID
	}
	switch {
	case kind == machine.GateReminded:
		n.Key, n.Asks = about+"/reminder", !f.Unread // the desk cannot read it either
	case g != nil && tier >= 1 && tier <= len(g.Tiers):
		n.Key, n.To = fmt.Sprintf("%s/tier-%d", about, tier), g.Tiers[tier-1].To
	default:
		n.Key, n.To = fmt.Sprintf("%s/tier-%d", about, tier), slices.Sorted(maps.Keys(c.byName))
	}
	return n, true
}

// asks reports what nobody has decided, as far as it is known.
func (f runFact) asks(g *machine.Gate) string {
	how := fmt.Sprintf("responder approve %s, or responder deny %s --reason ...", f.Run, f.Run)
	if g == nil {
		return fmt.Sprintf("A question may be open: the state of run %s cannot be read, and nobody has decided%s. Look: responder runs show %s; then %s", f.Run, f.tier(), f.Run, how)
	}
	text := fmt.Sprintf("Nobody has decided: %s\nRun %s asks since %s, until %s. Needed: %s. %s",
		g.Text, f.Run, g.Opened.UTC().Format(time.RFC3339), g.Deadline.UTC().Format(time.RFC3339), g.Needed(), how)
	if f.Unread {
		text += fmt.Sprintf("\nThe state of the run cannot be read%s: whether the question is still open, responder runs show %s may tell.", f.tier(), f.Run)
	}
	return text
}

// tier names the tier of an escalation.
func (f runFact) tier() string {
	if f.Event.Tier == 0 {
		return ""
	}
	return fmt.Sprintf(" (tier %d)", f.Event.Tier)
}
