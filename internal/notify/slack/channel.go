package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify"
)

// noticeChannel posts notices to a Slack channel, each once: one that may already be
// there is looked for by its metadata first.
type noticeChannel struct {
	*Workspace
	id    string
	link  notify.Link
	since time.Time // when this service began

	mu     sync.Mutex      // guards doubts
	doubts map[string]bool // keys of notices that may have been posted although Slack did not confirm it
}

// NoticeChannel returns a channel that posts notices.
func (w *Workspace) NoticeChannel(c ChannelConfig, link notify.Link) notify.Channel {
	return &noticeChannel{Workspace: w, id: c.Channel, link: link, since: time.Now(), doubts: map[string]bool{}}
}

// Tell implements [notify.Channel].
func (c *noticeChannel) Tell(ctx context.Context, n notify.Notice) error {
	if n.Asks && c.ChannelOf(n.Service.Name, n.Playbook) == c.id {
		return nil // the approvals show the question there
	}
	sum := sha256.Sum256([]byte(n.Key))
	meta := Meta{Run: n.Run, Part: "notice-" + hex.EncodeToString(sum[:8])}
	if c.doubted(n) {
		found, err := c.Client.Find(ctx, c.id, n.At.Add(-time.Minute)) // the clocks differ
		if err != nil {
			return sharedReason(err)
		}
		for _, f := range found {
			if f.Same(meta) {
				return nil
			}
		}
	}
	_, err := c.Client.Post(ctx, c.id, meta, c.message(n))
	var no *fault.Error
	if errors.As(err, &no) && no.Unknown {
		c.doubt(n.Key, true)
	}
	if err != nil {
		return sharedReason(err)
	}
	c.doubt(n.Key, false)
	return nil
}

// doubted reports whether an earlier attempt may have posted this notice: one
// without an answer, or one before this service began.
func (c *noticeChannel) doubted(n notify.Notice) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubts[n.Key] || n.At.Before(c.since)
}

func (c *noticeChannel) doubt(key string, holds bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if holds {
		c.doubts[key] = true
		return
	}
	delete(c.doubts, key)
}

func (c *noticeChannel) message(n notify.Notice) Message {
	m := Notice{Text: n.Text, Link: c.link.Of(n)}
	if n.Run == "" {
		m.Words = "Open Responder"
	}
	if n.Urgent {
		m.Title = "A person is needed"
	}
	for _, f := range []Fact{
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

// sharedReason converts Slack's reasons to those that all channels share.
func sharedReason(err error) error {
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
