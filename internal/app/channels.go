package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/step"
)

// channel is one place where people are told. What it was told before, by the
// notice's key, it may be told again.
type channel interface {
	tell(ctx context.Context, n step.Notice) error
}

// Channels tells people: the channels a notice names, or the default ones, and
// always the log. It is safe for concurrent use.
type Channels struct {
	log      *slog.Logger
	byName   map[string]channel
	defaults []string
	feeds    []feedOptions // one for each channel: facts of runs that it wants, and escalations
	any      bool          // any name will do: whom it does not know, the default ones stand for

	mu   sync.Mutex // guards told and keys
	told map[string][]string
	keys []string // of told, oldest first
}

// toldMost is how many notices are remembered, so that one that some channels
// have and others not is tried again only where it is missing.
const toldMost = 1000

// openChannels makes the channels of a configuration; nil when it has none. It
// connects to nothing. slack is nil when none is configured.
func openChannels(c config.Config, slack *workspace, log *slog.Logger) (*Channels, error) {
	if len(c.Channels) == 0 {
		return nil, nil
	}
	all := &Channels{log: log, byName: map[string]channel{}, told: map[string][]string{}}
	link := linker(c.ExternalURL)
	for i, ch := range c.Channels {
		if err := all.open(ch, slack, link); err != nil {
			return nil, c.Blame(fmt.Errorf("channel %s: %w", ch.Name, err), fmt.Sprintf("channels[%d]", i))
		}
		if ch.Default {
			all.defaults = append(all.defaults, ch.Name)
		}
	}
	return all, nil
}

func (c *Channels) open(ch config.Channel, slack *workspace, link linker) error {
	switch {
	case ch.Webhook != nil:
		w, err := notify.NewWebhook(notify.WebhookOptions{URL: ch.Webhook.URL, TokenFile: ch.Webhook.TokenFile, CAFile: ch.Webhook.CAFile})
		if err != nil {
			return err
		}
		hook := webhookNotices{w, link}
		c.byName[ch.Name] = hook
		c.feeds = append(c.feeds, c.escalating(feedOptions{name: ch.Name, kinds: kindsNamed(ch.Webhook.Events), send: hook.fact}))
	case ch.PagerDuty != nil:
		p, err := notify.NewPagerDuty(notify.PagerDutyOptions{URL: ch.PagerDuty.URL, RoutingKeyFile: ch.PagerDuty.RoutingKeyFile, CAFile: ch.PagerDuty.CAFile})
		if err != nil {
			return err
		}
		pages := pagerDutyNotices{p, link}
		c.byName[ch.Name] = pages
		kinds := []machine.EventKind{machine.RunEnded} // what is over pages nobody any more
		if ch.PagerDuty.Changes {
			kinds = append(kinds, machine.Applied, machine.Undone)
		}
		c.feeds = append(c.feeds, c.escalating(feedOptions{name: ch.Name, kinds: kinds, send: pages.fact}))
	case slack == nil:
		return errors.New("there is no Slack workspace; slack in the configuration describes it") // unreachable: the configuration was checked
	default:
		c.byName[ch.Name] = newSlackNotices(slack, ch.Slack.Channel, link)
		c.feeds = append(c.feeds, c.escalating(feedOptions{name: ch.Name}))
	}
	return nil
}

// Notify tells every channel the notice is for, at once. A channel that is not
// configured any more is made up for by the default ones: people are told.
func (c *Channels) Notify(ctx context.Context, n step.Notice) error {
	c.log.Info("notification", "run", n.Run, "playbook", n.Playbook, "step", n.State, "text", n.Text)
	names := c.namesFor(n)
	failures := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		if c.has(n.Key, name) {
			continue
		}
		all.Go(func() {
			if failures[i] = c.byName[name].tell(ctx, n); failures[i] == nil {
				c.remember(n.Key, name)
			}
		})
	}
	all.Wait()
	return notTold(names, failures)
}

func (c *Channels) namesFor(n step.Notice) []string {
	var names []string
	for _, name := range n.To {
		if c.byName[name] == nil && c.any {
			names = append(names, c.defaults...)
			continue
		}
		if c.byName[name] == nil {
			c.log.Error("channel is not configured, the default ones are told", "run", n.Run, "step", n.State, "err", "no channel "+name)
			names = append(names, c.defaults...)
			continue
		}
		names = append(names, name)
	}
	if len(n.To) == 0 {
		names = slices.Clone(c.defaults)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// notTold joins what went wrong. The reason is one that is worth another
// attempt when any of them is.
func notTold(names []string, failures []error) error {
	var reason fault.Reason
	var lines []string
	for i, err := range failures {
		if err == nil {
			continue
		}
		lines = append(lines, names[i]+": "+err.Error())
		var e *fault.Error
		why := fault.ServerError
		if errors.As(err, &e) {
			why = e.Reason
		}
		if reason == fault.None || why.Retryable() {
			reason = why
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return &fault.Error{Reason: reason, Message: "not told: " + strings.Join(lines, "; ")}
}

func (c *Channels) has(key, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return key != "" && slices.Contains(c.told[key], name)
}

func (c *Channels) remember(key, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told[key] == nil {
		c.keys = append(c.keys, key)
	}
	c.told[key] = append(c.told[key], name)
	if len(c.keys) > toldMost {
		delete(c.told, c.keys[0])
		c.keys = c.keys[1:]
	}
}

// knows reports whether a name that a playbook or a policy tells is a channel's.
// A nil receiver has none.
func (c *Channels) knows(name string) bool { return c != nil && c.byName[name] != nil }

// refuse refuses what tells channels that are not configured, one problem each.
// Where any name will do, it only says that a service will.
func (c *Channels) refuse(unknown []string) error {
	if c == nil || !c.any {
		return errors.New(strings.Join(unknown, "\n"))
	}
	for _, problem := range unknown {
		c.log.Warn("the log stands for a channel that is not there; a service refuses this until its configuration names it", "err", problem)
	}
	return nil
}

// allows refuses playbooks that name channels which are not configured.
func (c *Channels) allows(set *playbook.Set) error {
	var unknown []string
	for _, pb := range set.All() {
		for _, st := range pb.States {
			for _, name := range st.To {
				if !c.knows(name) {
					unknown = append(unknown, fmt.Sprintf("%s:%d:%d: state %s tells channel %q, which is not configured; channels in the configuration names it",
						strings.TrimSuffix(pb.Source, ":1"), st.Line, st.Column, st.Name, name))
				}
			}
		}
	}
	if len(unknown) > 0 {
		return c.refuse(unknown)
	}
	return nil
}

// escalates refuses a policy that names channels which are not configured.
func (c *Channels) escalates(file string, set *policy.Set) error {
	var unknown []string
	for _, ch := range set.Channels() {
		if !c.knows(ch.Name) {
			unknown = append(unknown, fmt.Sprintf("%s:%d:%d: %s: tells channel %q, which is not configured; channels in the configuration names it",
				file, ch.Line, ch.Column, ch.Path, ch.Name))
		}
	}
	if len(unknown) > 0 {
		return c.refuse(unknown)
	}
	return nil
}

// linker is the configured external URL. Empty: there are no links.
type linker string

// run is where people see a run; empty when there is none, or no address of
// ours is configured.
func (l linker) run(id string) string {
	if l == "" || id == "" {
		return ""
	}
	return strings.TrimSuffix(string(l), "/") + "/runs/" + id
}

// source is who says it, as CloudEvents want it: a URI reference.
func (l linker) source() string {
	if l == "" {
		return "/responder"
	}
	return string(l)
}

// Bounds of what a CloudEvent of ours carries.
const (
	maxNoticeText = 8 << 10  // bytes
	maxNoticeData = 48 << 10 // bytes: the envelope has to fit too
	eventPrefix   = "io.github.inference-responder."
)

// noticeData is the data of a notice's CloudEvent.
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

// webhookNotices tells a webhook.
type webhookNotices struct {
	hook *notify.Webhook
	link linker
}

func (w webhookNotices) tell(ctx context.Context, n step.Notice) error {
	d := noticeData{
		Run: n.Run, Playbook: n.Playbook, State: n.State, Service: n.Service.Name, Urgent: n.Urgent,
		Text: runview.Cut(n.Text, maxNoticeText), Link: w.link.run(n.Run), Alert: n.Alert,
	}
	data, err := d.encode()
	if err != nil {
		return err
	}
	return w.hook.Send(ctx, notify.Event{ID: n.Key, Source: w.link.source(), Type: eventPrefix + "notice", Subject: n.Run, Time: n.At, Data: data})
}

// encode leaves out what is large before it leaves people untold: annotations
// first, then labels.
func (d noticeData) encode() ([]byte, error) {
	data, err := json.Marshal(d)
	if err == nil && len(data) > maxNoticeData {
		d.Alert.Annotations = nil
		data, err = json.Marshal(d)
	}
	if err == nil && len(data) > maxNoticeData {
		d.Alert = playbook.Alert{Fingerprint: d.Alert.Fingerprint, Status: d.Alert.Status, StartsAt: d.Alert.StartsAt}
		data, err = json.Marshal(d)
	}
	if err != nil {
		return nil, fmt.Errorf("encode notice: %w", err)
	}
	return data, nil
}

// pagerDutyNotices tells PagerDuty: one alert a run, which is resolved when the
// run ends without needing a person.
type pagerDutyNotices struct {
	pagerDuty *notify.PagerDuty
	link      linker
}

func (p pagerDutyNotices) tell(ctx context.Context, n step.Notice) error {
	severity := notify.Warning
	if n.Urgent {
		severity = notify.Critical
	}
	key, source := pagerKey(n.Run), n.Service.Name
	if n.Run == "" { // about the service itself, such as a notification that cannot be processed
		key, source = pagerKey(n.Key), "responder"
	}
	return p.pagerDuty.Trigger(ctx, notify.Alert{
		DedupKey: key, Summary: n.Text, Source: source, Severity: severity, Time: n.At,
		Component: n.Playbook, Group: n.Service.Namespace, Class: n.Alert.Labels["alertname"],
		Details: map[string]any{"run": n.Run, "state": n.State, "text": runview.Cut(n.Text, maxNoticeText), "labels": n.Alert.Labels},
		Links:   p.links(n.Run),
	})
}

func (p pagerDutyNotices) links(run string) []notify.Link {
	if link := p.link.run(run); link != "" {
		return []notify.Link{{Href: link, Text: "run " + run}}
	}
	return nil
}

func pagerKey(run string) string { return "responder/" + run }
