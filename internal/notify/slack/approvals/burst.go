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
func (a *Approvals) burst(channel string) string {
	now := a.o.Now()
	asks := slices.DeleteFunc(a.sender.asks[channel], func(at time.Time) bool { return now.Sub(at) > a.o.Burst.Window })
	a.sender.asks[channel] = append(asks, now)
	if len(asks) < a.o.Burst.Gates {
		return ""
	}
	for key, l := range a.memory.lists {
		if l.channel == channel && now.Before(l.until) && len(l.runs) < listed {
			return key
		}
	}
	return newID()
}

// showList updates a list. It returns when to continue; zero: when one of its
// runs changes.
func (a *Approvals) showList(ctx context.Context, key string) (time.Time, error) {
	a.mu.Lock()
	known := a.memory.lists[key]
	if known == nil {
		a.mu.Unlock()
		return time.Time{}, nil
	}
	l := *known
	a.mu.Unlock()
	if at := a.ready(l.channel); !at.IsZero() {
		return at, nil
	}
	if moved, err := a.relist(ctx, l); moved || err != nil {
		return time.Time{}, err
	}
	g := a.digest(l)
	look := fingerprint(g.Digest)
	m := g.Message()
	if l.plain == look {
		if m = g.plain(); l.wait.After(a.o.Now()) {
			return l.wait, nil
		}
	}
	if l.ref == (slack.Ref{}) {
		return a.postList(ctx, l, g, m, look)
	}
	if look != l.sent {
		again, taken, fatal := a.sent(ctx, l.channel, a.o.Slack.Update(ctx, l.ref, meta(l.key, "list", 0), m))
		switch {
		case fatal != nil:
			return time.Time{}, fatal
		case taken:
			a.changeList(key, func(l *list) { l.sent = look })
			return a.o.Now().Add(a.o.Pace), nil
		case again.IsZero() && a.sender.last.Reason == fault.NotFound:
			return a.lose(ctx, Record{List: key})
		default:
			return a.stuckList(ctx, l, g, look, again)
		}
	}
	if len(g.owed) > 0 {
		for _, run := range g.owed {
			a.sender.mark(run) // its thread is due
		}
		return a.o.Now().Add(a.o.Pace), nil
	}
	if !g.open {
		return time.Time{}, a.finish(ctx, Record{Kind: KindClosed, List: key})
	}
	return time.Time{}, nil
}

func (a *Approvals) postList(ctx context.Context, l list, g digest, m slack.Message, look string) (time.Time, error) {
	if !l.maybe.IsZero() {
		ref, at, err := a.find(ctx, l.channel, meta(l.key, "list", 0), l.maybe)
		if err != nil {
			return at, err
		}
		if !at.IsZero() {
			return a.stuckList(ctx, l, g, look, at)
		}
		a.changeList(l.key, func(l *list) { l.maybe = time.Time{} })
		if ref != (slack.Ref{}) {
			return a.posted(ctx, Record{Kind: KindPosted, List: l.key, Channel: ref.Channel, TS: ref.TS})
		}
	}
	ref, err := a.o.Slack.Post(ctx, l.channel, meta(l.key, "list", 0), m)
	var no *fault.Error
	if errors.As(err, &no) && no.Unknown {
		a.changeList(l.key, func(l *list) { l.maybe = a.o.Now() })
	}
	again, taken, fatal := a.sent(ctx, l.channel, err)
	switch {
	case fatal != nil:
		return time.Time{}, fatal
	case !taken:
		return a.stuckList(ctx, l, g, look, again)
	}
	a.changeList(l.key, func(l *list) { l.sent = look })
	return a.posted(ctx, Record{Kind: KindPosted, List: l.key, Channel: ref.Channel, TS: ref.TS})
}

// stuckList handles a list that Slack does not accept, as with a run's own
// message. again is zero when Slack refused its form.
func (a *Approvals) stuckList(ctx context.Context, l list, g digest, look string, again time.Time) (time.Time, error) {
	if again.IsZero() {
		if l.plain != look {
			a.changeList(l.key, func(l *list) { l.plain = look })
			return a.o.Now().Add(a.o.Pace), nil
		}
		again = a.o.Now().Add(between(l.tries))
		a.changeList(l.key, func(l *list) { l.tries, l.wait = l.tries+1, again })
		if err := a.down(ctx, l.channel, a.sender.last); err != nil {
			return time.Time{}, err
		}
	}
	if g.open || !lasting(a.sender.last) || a.o.Now().Sub(g.ended) <= giveUpAfter {
		return again, nil
	}
	return time.Time{}, a.finish(ctx, a.givenUp(Record{List: l.key}, l.channel))
}

// changeList alters the part of a list's state that is not journaled.
func (a *Approvals) changeList(key string, f func(*list)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.memory.lists[key]; l != nil {
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
func (a *Approvals) digest(l list) digest {
	g, waiting := digest{Digest: slack.Digest{Link: a.o.Link("")}}, 0
	for _, run := range l.runs {
		state, events, ok := a.o.Runs.Run(run)
		t, _ := a.ticket(run)
		if !ok {
			if t.gone {
				g.Entries = append(g.Entries, unreadEntry(t, a.o.Link(run)))
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
		g.Entries = append(g.Entries, s.entry(t.id, a.o.Link(run)))
	}
	slices.SortStableFunc(g.Entries, func(x, y slack.Entry) int {
		if (x.State == slack.Open) != (y.State == slack.Open) {
			if x.State == slack.Open {
				return -1
			}
			return 1
		}
		return x.Deadline.Compare(y.Deadline)
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
