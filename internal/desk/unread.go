package desk

import (
	"context"
	"time"

	"github.com/inference-responder/responder/internal/slack"
)

// A run that cannot be read is tried again for a while, as its journal may be
// read by somebody who is slow, and then not waited for any more: it would keep
// every later start from forgetting what is over.
const (
	unreadEvery = time.Minute
	unreadMost  = 10 * time.Minute
)

// reasonUnread is why a message is given up whose run cannot be read.
const reasonUnread = "unreadable"

// unread goes on with a run that cannot be read: people are told so in place of
// a question that nobody here can answer for.
func (d *Desk) unread(ctx context.Context, t ticket, known bool) (time.Time, error) {
	now := d.o.Now()
	switch {
	case !known:
		return time.Time{}, nil
	case t.unread.IsZero():
		d.log.Error("a run that is shown in slack cannot be read", "run", t.run)
		d.change(t.run, func(t *ticket) { t.unread = now })
		return now.Add(unreadEvery), nil
	case now.Sub(t.unread) < unreadMost:
		return now.Add(unreadEvery), nil
	case t.list != "":
		d.change(t.run, func(t *ticket) { t.gone = true })
		d.sender.markList(t.list)
		return time.Time{}, nil
	case t.ref == (slack.Ref{}):
		return time.Time{}, d.finish(ctx, unreadable(t))
	}
	again, taken, fatal := d.sent(ctx, t.channel, d.o.Slack.Update(ctx, t.ref, meta(t.run, "run", t.head), unreadNotice(t.run, d.o.Link(t.run)).Message()))
	switch {
	case fatal != nil:
		return time.Time{}, fatal
	case taken, again.IsZero(), lasting(d.sender.last) && now.Sub(t.unread) > giveUpAfter:
		return time.Time{}, d.finish(ctx, unreadable(t))
	default:
		return again, nil
	}
}

func unreadable(t ticket) Record {
	return Record{Kind: KindClosed, Run: t.run, Channel: t.channel, Reason: reasonUnread, Message: "the run cannot be read, so its message is not kept up to date any more"}
}

func unreadNotice(run, link string) slack.Notice {
	return slack.Notice{
		Title: "A run cannot be read", Link: link,
		Text: "What became of run " + run + " is not known here, and nothing can be decided about it in Slack. A person has to look: responder runs show " + run,
	}
}

// unreadEntry is such a run in a storm's list.
func unreadEntry(t ticket, link string) slack.Entry {
	return slack.Entry{ID: t.id, Service: t.run, Title: "cannot be read: responder runs show " + t.run, State: reasonUnread, Link: link}
}
