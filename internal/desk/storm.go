package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/slack"
)

// listed is how many runs one list holds, so that all of them are shown.
const listed = 40

// storm says in which list a new question goes; empty: it gets a message of its
// own. The caller holds mu.
func (d *Desk) storm(channel string) string {
	now := d.o.Now()
	asks := slices.DeleteFunc(d.sender.asks[channel], func(at time.Time) bool { return now.Sub(at) > d.o.Storm.Window })
	d.sender.asks[channel] = append(asks, now)
	if len(asks) < d.o.Storm.Gates {
		return ""
	}
	for key, l := range d.memory.lists {
		if l.channel == channel && now.Before(l.until) && len(l.runs) < listed {
			return key
		}
	}
	return newID()
}

// showList brings a storm's list up to date. It says when to go on; zero: when
// one of its runs changes.
func (d *Desk) showList(ctx context.Context, key string) (time.Time, error) {
	d.mu.Lock()
	known := d.memory.lists[key]
	if known == nil {
		d.mu.Unlock()
		return time.Time{}, nil
	}
	l := *known
	d.mu.Unlock()
	if at := d.ready(l.channel); !at.IsZero() {
		return at, nil
	}
	g, open := d.digest(l)
	look := fingerprint(g)
	if l.ref == (slack.Ref{}) {
		return d.postList(ctx, l, g, look)
	}
	if look != l.sent {
		again, taken, fatal := d.sent(ctx, l.channel, d.o.Slack.Update(ctx, l.ref, meta(l.key, "list", 0), g.Message()))
		if fatal != nil || !taken {
			return again, fatal
		}
		d.looked(key, look)
		if !open {
			return d.o.Now().Add(d.o.Pace), nil
		}
		return time.Time{}, nil
	}
	if !open {
		return time.Time{}, d.finish(ctx, Record{Kind: KindClosed, List: key})
	}
	return time.Time{}, nil
}

func (d *Desk) postList(ctx context.Context, l list, g slack.Digest, look string) (time.Time, error) {
	if !l.maybe.IsZero() {
		ref, at, err := d.find(ctx, l.channel, meta(l.key, "list", 0), l.maybe)
		if err != nil || !at.IsZero() {
			return at, err
		}
		d.doubtList(l.key, time.Time{})
		if ref != (slack.Ref{}) {
			return d.posted(ctx, Record{Kind: KindPosted, List: l.key, Channel: ref.Channel, TS: ref.TS})
		}
	}
	ref, err := d.o.Slack.Post(ctx, l.channel, meta(l.key, "list", 0), g.Message())
	var no *slack.Error
	if errors.As(err, &no) && no.Unknown {
		d.doubtList(l.key, d.o.Now())
	}
	again, taken, fatal := d.sent(ctx, l.channel, err)
	if fatal == nil && !taken && again.IsZero() {
		return d.o.Now().Add(mostBackoff), d.down(ctx, l.channel, no) // not shown: an outage like any other
	}
	if fatal != nil || !taken {
		return again, fatal
	}
	d.looked(l.key, look)
	return d.posted(ctx, Record{Kind: KindPosted, List: l.key, Channel: ref.Channel, TS: ref.TS})
}

func (d *Desk) doubtList(key string, since time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.memory.lists[key]; l != nil {
		l.maybe = since
	}
}

func (d *Desk) looked(key, look string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.memory.lists[key]; l != nil {
		l.sent = look
	}
}

// digest renders a list, and reports whether any of its runs goes on.
func (d *Desk) digest(l list) (slack.Digest, bool) {
	g := slack.Digest{Link: d.o.Link("")}
	open, waiting := false, 0
	for _, run := range l.runs {
		state, events, ok := d.o.Runs.Run(run)
		if !ok {
			continue
		}
		s := tell(state, events)
		if s.gate == nil {
			continue
		}
		t, _ := d.ticket(run)
		if g.Since.IsZero() || s.gate.Opened.Before(g.Since) {
			g.Since = s.gate.Opened
		}
		open = open || !s.final()
		if s.state == slack.Open {
			waiting++
		}
		g.Entries = append(g.Entries, s.entry(t.id, d.o.Link(run)))
	}
	slices.SortStableFunc(g.Entries, func(a, b slack.Entry) int {
		if (a.State == slack.Open) != (b.State == slack.Open) {
			if a.State == slack.Open {
				return -1
			}
			return 1
		}
		return a.Deadline.Compare(b.Deadline)
	})
	g.Title = fmt.Sprintf("%d of %d questions are open", waiting, len(g.Entries))
	return g, open
}
