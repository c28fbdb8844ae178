package pagerduty

import (
	"context"
	"fmt"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/runview"
)

// maxText is the limit of a notice's text in the details, in bytes.
const maxText = 8 << 10

// channel opens one alert for each run, and resolves it when the run ends
// without needing a person.
type channel struct {
	client  *Client
	changes bool // also record what levers change
	link    notify.Link
}

// Tell implements [notify.Channel].
func (c *channel) Tell(ctx context.Context, n notify.Notice) error {
	severity := Warning
	if n.Urgent {
		severity = Critical
	}
	key, source := alertKey(n.Run), n.Service.Name
	if n.Run == "" { // about the service itself, such as a notification that cannot be processed
		key, source = alertKey(n.Key), "responder"
	}
	return c.client.Trigger(ctx, Alert{
		DedupKey: key, Summary: n.Text, Source: source, Severity: severity, Time: n.At,
		Component: n.Playbook, Group: n.Service.Namespace, Class: n.Alert.Labels["alertname"],
		Details: map[string]any{"run": n.Run, "state": n.State, "text": runview.Cut(n.Text, maxText), "labels": n.Alert.Labels},
		Links:   c.links(n.Run),
	})
}

// Follows implements [notify.Follower].
func (c *channel) Follows() []machine.EventKind {
	kinds := []machine.EventKind{machine.RunEnded}
	if c.changes {
		kinds = append(kinds, machine.Applied, machine.Undone)
	}
	return kinds
}

// TellFact implements [notify.Follower].
func (c *channel) TellFact(ctx context.Context, f notify.Fact) error {
	start := f.State.Start
	verb := map[machine.EventKind]string{machine.Applied: "changed", machine.Undone: "put back"}[f.Event.Kind]
	if f.Event.Kind == machine.Undone && f.Event.Then == machine.Keep {
		verb = "stopped, not put back"
	}
	switch {
	case verb != "":
		what := f.Plan()
		if what == "" {
			what = f.Event.State
		}
		return c.client.Change(ctx, Change{
			Summary: fmt.Sprintf("%s: %s: %s", start.Service.Name, verb, what), Source: "responder", Time: f.Event.At,
			Details: map[string]any{"run": f.Run, "playbook": start.Playbook, "state": f.Event.State}, Links: c.links(f.Run),
		})
	case f.Event.Ending != nil && f.PeopleTold && !needsPerson(f.Event.Ending.Outcome):
		return c.client.Resolve(ctx, alertKey(f.Run))
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

func (c *channel) links(run string) []Link {
	if link := c.link.Run(run); link != "" {
		return []Link{{Href: link, Text: "run " + run}}
	}
	return nil
}

func alertKey(run string) string { return "responder/" + run }
