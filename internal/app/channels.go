package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/notify/alertmanager"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
	"github.com/inference-responder/responder/internal/step"
)

// OpenNotifications makes the channels in which people are told and decide, and
// the silences. Its errors name their place in the configuration.
func OpenNotifications(c config.Config, w *World, log *slog.Logger) (err error) {
	if w.Slack, err = openSlack(c, log); err != nil {
		return err
	}
	if w.Channels, err = openChannels(c, w.Slack, log); err != nil {
		return err
	}
	if w.Channels != nil {
		w.Deps.Notifier = notifier{w.Channels}
	}
	if c.Silence.Enabled {
		if w.Silences, err = alertmanager.NewSilences(c.Silence); err != nil {
			return c.Blame(err, "silence")
		}
	}
	return nil
}

// openChannels opens the channels of a configuration; nil when it has none. It
// does not connect. w is nil when there is no Slack workspace.
func openChannels(c config.Config, w *workspace, log *slog.Logger) (*notify.Router, error) {
	if len(c.Channels) == 0 {
		return nil, nil
	}
	o := notify.Options{Log: log}
	link := notify.Link(c.ExternalURL)
	for i, ch := range c.Channels {
		m := notify.Member{Name: ch.Name, Default: ch.Default}
		if ch.Slack != nil { // the configuration was checked: there is a workspace
			m.Channel = w.NoticeChannel(*ch.Slack, link)
		} else {
			var err error
			if m.Channel, err = ch.Settings().Open(link); err != nil {
				return nil, c.Blame(fmt.Errorf("channel %s: %w", ch.Name, err), fmt.Sprintf("channels[%d]", i))
			}
		}
		o.Channels = append(o.Channels, m)
	}
	return notify.New(o), nil
}

// notifier is the router as steps see it.
type notifier struct{ router *notify.Router }

// Notify implements [step.Notifier].
func (n notifier) Notify(ctx context.Context, notice step.Notice) error {
	return n.router.Notify(ctx, notify.Notice(notice))
}

// playbooksTell returns a check that refuses playbooks that name channels which
// are not configured.
func playbooksTell(router *notify.Router) func(*playbook.Set) error {
	return func(set *playbook.Set) error {
		var unknown []string
		for _, pb := range set.All() {
			for _, st := range pb.States {
				for _, name := range st.To {
					if !router.Knows(name) {
						unknown = append(unknown, fmt.Sprintf("%s:%d:%d: state %s tells channel %q, which is not configured; channels in the configuration names it",
							strings.TrimSuffix(pb.Source, ":1"), st.Line, st.Column, st.Name, name))
					}
				}
			}
		}
		return router.RefuseUnknown(unknown)
	}
}

// policyTells returns a check that refuses a policy that names channels which are
// not configured.
func policyTells(router *notify.Router) func(file string, set *policy.Set) error {
	return func(file string, set *policy.Set) error {
		var unknown []string
		for _, ch := range set.Channels() {
			if !router.Knows(ch.Name) {
				unknown = append(unknown, fmt.Sprintf("%s:%d:%d: %s: tells channel %q, which is not configured; channels in the configuration names it",
					file, ch.Line, ch.Column, ch.Path, ch.Name))
			}
		}
		return router.RefuseUnknown(unknown)
	}
}
