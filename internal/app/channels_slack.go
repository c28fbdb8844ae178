package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/step"
)

// slackNotices tells a Slack channel, each notice once: one that may be there
// already is looked for by its metadata first.
type slackNotices struct {
	*workspace
	channel string
	link    linker
	since   time.Time // when this service began

	mu     sync.Mutex      // guards doubts
	doubts map[string]bool // keys of notices that Slack may have although it did not say so
}

func newSlackNotices(w *workspace, channel string, link linker) *slackNotices {
	return &slackNotices{workspace: w, channel: channel, link: link, since: time.Now(), doubts: map[string]bool{}}
}

func (s *slackNotices) tell(ctx context.Context, n step.Notice) error {
	if n.Asks && s.ChannelOf(n.Service.Name, n.Playbook) == s.channel {
		return nil // the desk asks it there, with all that belongs to it
	}
	sum := sha256.Sum256([]byte(n.Key))
	meta := slack.Meta{Run: n.Run, Part: "notice-" + hex.EncodeToString(sum[:8])}
	if s.doubted(n) {
		found, err := s.client.Find(ctx, s.channel, n.At.Add(-time.Minute)) // the clocks differ
		if err != nil {
			return slackFailure(err)
		}
		for _, f := range found {
			if f.Same(meta) {
				return nil
			}
		}
	}
	_, err := s.client.Post(ctx, s.channel, meta, s.message(n))
	var no *fault.Error
	if errors.As(err, &no) && no.Unknown {
		s.doubt(n.Key, true)
	}
	if err != nil {
		return slackFailure(err)
	}
	s.doubt(n.Key, false)
	return nil
}

// doubted reports whether an earlier attempt may have told this notice: one
// without an answer, or one of an earlier life of this service.
func (s *slackNotices) doubted(n step.Notice) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubts[n.Key] || n.At.Before(s.since)
}

func (s *slackNotices) doubt(key string, holds bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if holds {
		s.doubts[key] = true
		return
	}
	delete(s.doubts, key)
}

func (s *slackNotices) message(n step.Notice) slack.Message {
	m := slack.Notice{Text: n.Text, Link: s.link.run(n.Run)}
	if n.Urgent {
		m.Title = "A person is needed"
	}
	for _, f := range []slack.Fact{
		{Name: "Service", Value: n.Service.Name},
		{Name: "Alert", Value: n.Alert.Labels["alertname"]},
		{Name: "Playbook", Value: n.Playbook},
		{Name: "Run", Value: n.Run},
	} {
		if f.Value != "" {
			m.Facts = append(m.Facts, f)
		}
	}
	return m.Message()
}

// slackFailure is Slack's reason in the words that all channels share.
func slackFailure(err error) error {
	var no *fault.Error
	if !errors.As(err, &no) {
		return err
	}
	reason := fault.ServerError
	switch no.Reason {
	case fault.RateLimited:
		reason = fault.Throttled
	case fault.BadToken, fault.MissingScope:
		reason = fault.Forbidden
	case fault.Archived, fault.NoChannel, fault.NotFound:
		reason = fault.NotFound
	case fault.Invalid:
		reason = fault.Invalid
	case fault.Unreachable:
		reason = fault.Unreachable
	default: // the rest is Slack's trouble and worth another attempt
	}
	return &fault.Error{Reason: reason, Message: no.Error(), RetryAfter: no.RetryAfter}
}
