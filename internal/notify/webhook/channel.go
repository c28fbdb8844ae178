package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

// Limits of the content of an event.
const (
	maxText = 8 << 10  // bytes
	maxData = 48 << 10 // bytes; the envelope needs some of maxEvent
)

// typePrefix begins the type of every event.
const typePrefix = "io.github.inference-responder."

// channel sends notices and facts of runs to a webhook.
type channel struct {
	client *Client
	events []string // kinds of the facts that are sent
	link   notify.Link
}

// noticeData is the data of a notice's event.
type noticeData struct {
	Run      string         `json:"run"`
	Playbook string         `json:"playbook"`
	State    string         `json:"state"`
	Service  string         `json:"service"`
	Urgent   bool           `json:"urgent"` // a person has to take over
	Text     string         `json:"text"`
	Link     string         `json:"link,omitempty"`
	Alert    playbook.Alert `json:"alert"`
}

// Tell implements [notify.Channel].
func (c *channel) Tell(ctx context.Context, n notify.Notice) error {
	d := noticeData{
		Run: n.Run, Playbook: n.Playbook, State: n.State, Service: n.Service.Name, Urgent: n.Urgent,
		Text: runview.Cut(n.Text, maxText), Link: c.link.Of(n), Alert: n.Alert,
	}
	data, err := d.encode()
	if err != nil {
		return err
	}
	return c.client.Send(ctx, Event{ID: n.Key, Source: c.source(), Type: typePrefix + "notice", Subject: n.Run, Time: n.At, Data: data})
}

// source is the CloudEvents source: a URI reference.
func (c *channel) source() string {
	if c.link == "" {
		return "/responder"
	}
	return string(c.link)
}

// encode omits what is large, so that the notice arrives at all: annotations
// first, then labels.
func (d noticeData) encode() ([]byte, error) {
	data, err := json.Marshal(d)
	if err == nil && len(data) > maxData {
		d.Alert.Annotations = nil
		data, err = json.Marshal(d)
	}
	if err == nil && len(data) > maxData {
		d.Alert = playbook.Alert{Fingerprint: d.Alert.Fingerprint, Status: d.Alert.Status, StartsAt: d.Alert.StartsAt}
		data, err = json.Marshal(d)
	}
	if err != nil {
		return nil, fmt.Errorf("encode notice: %w", err)
	}
	return data, nil
}

// factData is the data of a fact's event.
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

// Follows implements [notify.Follower].
func (c *channel) Follows() []machine.EventKind {
	kinds := make([]machine.EventKind, len(c.events))
	for i, name := range c.events {
		kinds[i] = machine.EventKind(name)
	}
	return kinds
}

// TellFact implements [notify.Follower].
func (c *channel) TellFact(ctx context.Context, f notify.Fact) error {
	e, start := f.Event, f.State.Start
	d := factData{
		Run: f.Run, Playbook: start.Playbook, Service: start.Service.Name, State: e.State, Link: c.link.Run(f.Run),
		Digest: e.Digest, Message: runview.Cut(e.Message, maxText),
	}
	if strings.HasPrefix(string(e.Kind), "lever.") {
		d.Plan = f.Plan()
	}
	switch {
	case e.Kind == machine.RunStarted:
		d.Alert = start.Alert.Labels["alertname"]
	case e.Gate != nil:
		d.Digest, d.Deadline, d.Message = e.Gate.Digest, &e.Gate.Deadline, runview.Cut(e.Gate.Text, maxText)
	case e.Decision != nil:
		d.Approved, d.By, d.Digest, d.Message = &e.Decision.Approve, e.Decision.By, e.Decision.Digest, runview.Cut(e.Decision.Reason, maxText)
		d.BreakGlass = e.Decision.BreakGlass
	case e.Ending != nil:
		d.Outcome, d.Message = string(e.Ending.Outcome), runview.Cut(e.Ending.Message, maxText)
	}
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode fact: %w", err)
	}
	return c.client.Send(ctx, Event{ID: f.ID, Source: c.source(), Type: typePrefix + string(e.Kind), Subject: f.Run, Time: e.At, Data: data})
}
