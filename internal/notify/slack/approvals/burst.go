package approvals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
)

// listed is how many runs one list holds. Slack shows fewer at once; the rest
// appear as others are decided.
const listed = 40

// burst returns the list for a new question; empty: a message of its own. The
// caller holds mu.
func (d *Approvals) burst(channel string) string {
	now := d.o.Now()
	asks := slices.DeleteFunc(d.sender.asks[channel], func(at time.Time) bool { return now.Sub(at) > d.o.Burst.Window })
	d.sender.asks[channel] = append(asks, now)
	if len(asks) < d.o.Burst.Gates {
		return ""
	}
	for key, l := range d.memory.lists {
		if l.channel == channel && now.Before(l.until) && len(l.runs) < listed {
			return key
		}
	}
	return newID()
}

// showList updates a list. It returns when to continue; zero: when one of its
// runs changes.
func (d *Approvals) showList(ctx context.Context, key string) (time.Time, error) {
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
	if moved, err := d.relist(ctx, l); moved || err != nil {
		return time.Time{}, err
	}
	g := d.digest(l)
	look := fingerprint(g.Digest)
	m := g.Message()
	if l.plain == look {
		if m = g.plain(); l.wait.After(d.o.Now()) {
			return l.wait, nil
		}
	}
	if l.ref == (slack.Ref{}) {
		return d.postList(ctx, l, g, m, look)
	}
	if look != l.sent {
		again, taken, fatal := d.sent(ctx, l.channel, d.o.Slack.Update(ctx, l.ref, meta(l.key, "list", 0), m))
		switch {
		case fatal != nil:
			return time.Time{}, fatal
		case taken:
			d.changeList(key, func(l *list) { l.sent = look })
			return d.o.Now().Add(d.o.Pace), nil
		case again.IsZero() && d.sender.last.Reason == fault.NotFound:
			return d.lose(ctx, Record{List: key})
		default:
			return d.stuckList(ctx, l, g, look, again)
		}
	}
	if len(g.owed) > 0 {
		for _, run := range g.owed {
			d.sender.mark(run) // its thread is due
		}
		return d.o.Now().Add(d.o.Pace), nil
	}
	if !g.open {
		return time.Time{}, d.finish(ctx, Record{Kind: KindClosed, List: key})
	}
	return time.Time{}, nil
}

func (d *Approvals) postList(ctx context.Context, l list, g digest, m slack.Message, look string) (time.Time, error) {
	if !l.maybe.IsZero() {
		ref, at, err := d.find(ctx, l.channel, meta(l.key, "list", 0), l.maybe)
		if err != nil {
			return at, err
		}
		if !at.IsZero() {
			return d.stuckList(ctx, l, g, look, at)
		}
		d.changeList(l.key, func(l *list) { l.maybe = time.Time{} })
		if ref != (slack.Ref{}) {
			return d.posted(ctx, Record{Kind: KindPosted, List: l.key, Channel: ref.Channel, TS: ref.TS})
		}
	}
	ref, err := d.o.Slack.Post(ctx, l.channel, meta(l.key, "list", 0), m)
	var no *fault.Error
	if errors.As(err, &no) && no.Unknown {
		d.changeList(l.key, func(l *list) { l.maybe = d.o.Now() })
	}
	again, taken, fatal := d.sent(ctx, l.channel, err)
	switch {
	case fatal != nil:
		return time.Time{}, fatal
	case !taken:
		return d.stuckList(ctx, l, g, look, again)
	}
	d.changeList(l.key, func(l *list) { l.sent = look })
	return d.posted(ctx, Record{Kind: KindPosted, List: l.key, Channel: ref.Channel, TS: ref.TS})
}

// stuckList handles a list that Slack does not accept, as with a run's own
// message. again is zero when Slack refused its form.
func (d *Approvals) stuckList(ctx context.Context, l list, g digest, look string, again time.Time) (time.Time, error) {
	if again.IsZero() {
		if l.plain != look {
			d.changeList(l.key, func(l *list) { l.plain = look })
			return d.o.Now().Add(d.o.Pace), nil
		}
		again = d.o.Now().Add(between(l.tries))
		d.changeList(l.key, func(l *list) { l.tries, l.wait = l.tries+1, again })
		if err := d.down(ctx, l.channel, d.sender.last); err != nil {
			return time.Time{}, err
		}
	}
	if g.open || !lasting(d.sender.last) || d.o.Now().Sub(g.ended) <= giveUpAfter {
		return again, nil
	}
	return time.Time{}, d.finish(ctx, d.givenUp(Record{List: l.key}, l.channel))
}

// changeList alters the part of a list's state that is not journaled.
func (d *Approvals) changeList(key string, f func(*list)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.memory.lists[key]; l != nil {
		f(l)
	}
}

// digest is what a list shows, and what is left to do about it.
type digest struct {
	slack.Digest
	open  bool      // one of its runs continues
	ended time.Time // the end of its last run
	owed  []string  // runs whose thread is incomplete
}

// plain returns a list's notice, which holds nothing that Slack could refuse.
func (g digest) plain() slack.Message {
	return slack.Notice{Title: g.Title, Link: g.Link, Text: "Slack refused the full list. On the command line: responder runs list"}.Message()
}

// digest renders a list. A run that cannot be read counts as open for a while.
func (d *Approvals) digest(l list) digest {
	g, waiting := digest{Digest: slack.Digest{Link: d.o.Link("")}}, 0
	for _, run := range l.runs {
		state, events, ok := d.o.Runs.Run(run)
		t, _ := d.ticket(run)
		if !ok {
			if t.gone {
				g.Entries = append(g.Entries, unreadEntry(t, d.o.Link(run)))
				g.ended = later(g.ended, t.unread)
				continue
			}
			if g.open = true; t.unread.IsZero() {
				g.owed = append(g.owed, run) // it is looked at by itself from then on
			}
			continue
		}
		s := newTimeline(state, events)
		if s.gate == nil {
			continue
		}
		if g.Since.IsZero() || s.gate.Opened.Before(g.Since) {
			g.Since = s.gate.Opened
		}
		g.open = g.open || !s.final()
		g.ended = later(g.ended, s.run.Ended)
		if len(s.since(t.lines)) > 0 {
			g.owed = append(g.owed, run)
		}
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
	return g
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
