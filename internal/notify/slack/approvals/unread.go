package approvals

import (
	"context"
	"time"

	"github.com/inference-responder/responder/internal/notify/slack"
)

// Retries of a run that cannot be read. A slow reader of its journal is a
// temporary cause. After unreadMost the run is no longer waited for, because it
// would keep every later start from forgetting closed records.
const (
	unreadEvery = time.Minute
	unreadMost  = 10 * time.Minute
)

// reasonUnread is the reason of giving up the message of an unreadable run.
const reasonUnread = "unreadable"

// unread handles a run that cannot be read: a notice replaces a question that
// cannot be decided here.
func (a *Approvals) unread(ctx context.Context, t ticket, known bool) (time.Time, error) {
	now := a.o.Now()
	switch {
	case !known:
		return time.Time{}, nil
	case t.unread.IsZero():
		a.log.Error("run shown in slack cannot be read", "run", t.run)
		a.change(t.run, func(t *ticket) { t.unread = now })
		return now.Add(unreadEvery), nil
	case now.Sub(t.unread) < unreadMost:
		return now.Add(unreadEvery), nil
	case t.list != "":
		a.change(t.run, func(t *ticket) { t.gone = true })
		a.sender.markList(t.list)
		return time.Time{}, nil
	case t.ref == (slack.Ref{}):
		return time.Time{}, a.finish(ctx, unreadable(t))
	}
	again, taken, fatal := a.sent(ctx, t.channel, a.o.Slack.Update(ctx, t.ref, meta(t.run, "run", t.head), unreadNotice(t.run, a.o.Link(t.run)).Message()))
	switch {
	case fatal != nil:
		return time.Time{}, fatal
	case taken, again.IsZero(), lasting(a.sender.last) && now.Sub(t.unread) > giveUpAfter:
		return time.Time{}, a.finish(ctx, unreadable(t))
	default:
		return again, nil
	}
}

func unreadable(t ticket) Record {
	return Record{Kind: KindClosed, Run: t.run, Channel: t.channel, Reason: reasonUnread, Message: "the run cannot be read; its message is no longer updated"}
}

func unreadNotice(run, link string) slack.Notice {
	return slack.Notice{
		Title: "A run cannot be read", Link: link,
		Text: "The state of run " + run + " is unknown, and it cannot be decided in Slack. Check it on the command line: responder runs show " + run,
	}
}

// unreadEntry returns such a run as an entry of a list.
func unreadEntry(t ticket, link string) slack.Entry {
	return slack.Entry{ID: t.id, Service: t.run, Title: "cannot be read: responder runs show " + t.run, State: reasonUnread, Link: link}
}
