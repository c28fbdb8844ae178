package approvals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
)

// since returns the lines of the thread after a number of events.
func (s *timeline) since(events uint64) []line {
	i := slices.IndexFunc(s.thread, func(l line) bool { return l.after > events })
	if i < 0 {
		return nil
	}
	return s.thread[i:]
}

// threadOfList writes the events of a run in a list to the thread of the list,
// once the list is posted.
func (a *Approvals) threadOfList(ctx context.Context, s *timeline, t ticket) (time.Time, error) {
	a.mu.Lock()
	var parent slack.Ref
	if l := a.memory.lists[t.list]; l != nil {
		parent = l.ref
	}
	a.mu.Unlock()
	lines := s.since(t.lines)
	if parent == (slack.Ref{}) || len(lines) == 0 {
		return time.Time{}, nil
	}
	if at := a.ready(t.channel); !at.IsZero() {
		return at, nil
	}
	return a.thread(ctx, s, t, parent, lines)
}

// thread writes pending lines to the thread of the run's message, or of its
// list, as one message.
func (a *Approvals) thread(ctx context.Context, s *timeline, t ticket, parent slack.Ref, lines []line) (time.Time, error) {
	last := lines[len(lines)-1]
	if t.doubt {
		at, err := a.written(ctx, t, parent)
		return at, err
	}
	m := a.progress(s, t, lines).Message()
	if t.terse == last.after {
		m = slack.Notice{Text: "Slack refused what happened in run " + t.run + ". On the command line: responder runs show " + t.run}.Message()
	}
	_, err := a.o.Slack.Reply(ctx, parent, slack.Meta{Run: t.run, Part: "thread-" + strconv.FormatUint(last.after, 10)}, m)
	var no *fault.Error
	if errors.As(err, &no) && no.Unknown {
		a.change(t.run, func(t *ticket) { t.doubt = true })
	}
	again, taken, fatal := a.sent(ctx, t.channel, err)
	switch {
	case fatal != nil:
		return time.Time{}, fatal
	case taken:
		return a.shown(ctx, s, t, t.look, last.after)
	case !again.IsZero():
		return a.stuck(ctx, s, t, again)
	case a.sender.last.Reason == fault.NotFound && t.list != "":
		a.sender.markList(t.list)
		return a.lose(ctx, Record{List: t.list})
	case a.sender.last.Reason == fault.NotFound:
		return a.lose(ctx, Record{Run: t.run})
	case t.terse != last.after:
		a.change(t.run, func(t *ticket) { t.terse = last.after })
		return a.o.Now().Add(a.o.Pace), nil
	default:
		return a.leave(ctx, t, last.after)
	}
}

// progress returns the pending lines as one entry. In a shared thread it names
// the run.
func (a *Approvals) progress(s *timeline, t ticket, lines []line) slack.Progress {
	last := lines[len(lines)-1]
	p := last.Progress
	p.Link, p.Lines = a.o.Link(t.run), slices.Clone(p.Lines)
	if t.list != "" {
		p.Text = fmt.Sprintf("%s, run %s: %s", s.run.Start.Service.Name, t.run, p.Text)
	}
	for _, l := range lines[:len(lines)-1] {
		p.Lines = append(p.Lines, l.At.UTC().Format("15:04:05")+" "+l.Text)
	}
	return p
}

// leave journals that a line of the thread is omitted because Slack refuses it
// in every form. The message itself and the command line show the same facts.
func (a *Approvals) leave(ctx context.Context, t ticket, lines uint64) (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	no := a.sender.last
	a.log.Error("slack refused a line of a run's thread, omitting it", "run", t.run, "err", no)
	return a.o.Now().Add(a.o.Pace), a.note(ctx, Record{Kind: KindLeft, Run: t.run, Lines: lines, Reason: string(no.Reason), Message: no.Error()})
}

// written checks how much of the thread was written before the restart.
func (a *Approvals) written(ctx context.Context, t ticket, parent slack.Ref) (time.Time, error) {
	replies, err := a.o.Slack.FindReplies(ctx, parent)
	if err != nil {
		again, _, fatal := a.sent(ctx, t.channel, err)
		if !again.IsZero() || fatal != nil {
			return again, fatal
		}
	}
	lines := t.lines
	for _, r := range replies {
		var n uint64
		if _, err := fmt.Sscanf(r.Part, "thread-%d", &n); err == nil && r.Run == t.run {
			lines = max(lines, n)
		}
	}
	a.change(t.run, func(t *ticket) { t.doubt, t.lines = false, lines })
	return a.o.Now(), nil
}
