package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/step"
)

// escalating makes a channel's feed tell the questions that nobody decides: a
// reminder where questions are told by default, an escalation where its tier
// names the channel. Each channel follows the journal by itself, so neither
// Slack nor another channel that is down keeps it from being told.
func (c *channels) escalating(o feedOptions) feedOptions {
	facts, send := slices.Clone(o.kinds), o.send
	o.send = func(ctx context.Context, f runFact) error {
		if n, open := undecided(f); open && slices.Contains(c.namesFor(n), o.name) {
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
// Slack channel where the question itself stands: its thread has it.
func undecided(f runFact) (step.Notice, bool) {
	g, start := f.State.Gate, f.State.Start
	if g == nil || f.Event.At.Before(g.Opened) {
		return step.Notice{}, false
	}
	n := step.Notice{
		Run: f.Run, Playbook: start.Playbook, State: f.Event.State, Service: start.Service, Alert: start.Alert, At: f.Event.At,
		Text: fmt.Sprintf("Nobody has decided: %s\nRun %s asks since %s, until %s. Needed: %s. responder approve %s, or responder deny %s --reason ...",
			g.Text, f.Run, g.Opened.UTC().Format(time.RFC3339), g.Deadline.UTC().Format(time.RFC3339), g.Needed(), f.Run, f.Run),
	}
	switch tier := f.Event.Tier; {
	case f.Event.Kind == machine.GateReminded:
		n.Key, n.Asks = g.ID+"/reminder", true
	case f.Event.Kind == machine.GateEscalated && tier >= 1 && tier <= len(g.Tiers):
		n.Key, n.To, n.Urgent = fmt.Sprintf("%s/tier-%d", g.ID, tier), g.Tiers[tier-1].To, true
	default:
		return step.Notice{}, false
	}
	return n, true
}
