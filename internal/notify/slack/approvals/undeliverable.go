package approvals

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/playbook"
)

// unseen reports whether a run's message is certainly in no channel: it was not
// posted, or its channel is closed to us.
func (a *Approvals) unseen(t ticket) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return t.list == "" && a.nowhere(t.channel, t.ref, t.maybe)
}

// nowhere is unseen for any message. The caller holds mu.
func (a *Approvals) nowhere(channel string, ref slack.Ref, maybe time.Time) bool {
	why := fault.Reason(a.memory.down[channel].reason)
	return ref == (slack.Ref{}) && (maybe.IsZero() || why == fault.NoChannel || why == fault.Archived)
}

// move journals that a run whose message nobody has seen is asked in another
// channel, because the configuration was corrected.
func (a *Approvals) move(ctx context.Context, t ticket, channel string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	records := []Record{{Kind: KindAsking, Run: t.run, Channel: channel}}
	if _, was := a.memory.down[t.channel]; was && !a.used(t.channel, t.run) {
		records = append(records, Record{Kind: KindRecovered, Channel: t.channel}) // nothing waits for it any more
	}
	if err := a.note(ctx, records...); err != nil {
		return err
	}
	a.memory.tickets[t.run].maybe = time.Time{} // it is not posted yet, and nobody else posts
	return nil
}

// used reports whether a channel shows anything other than the given runs. The
// caller holds mu.
func (a *Approvals) used(channel string, but ...string) bool {
	for _, t := range a.memory.tickets {
		if t.channel == channel && !slices.Contains(but, t.run) {
			return true
		}
	}
	return false
}

// unsendable handles a message that Slack refuses for its form. It sends a
// plain notice instead. If that is refused too, it counts as an outage of the
// channel. A question is never dropped.
func (a *Approvals) unsendable(ctx context.Context, s *timeline, t ticket) (time.Time, error) {
	now, no := a.o.Now(), a.sender.last
	if t.plain != s.run.Head {
		a.change(t.run, func(t *ticket) { t.plain = s.run.Head })
		return now.Add(a.o.Pace), nil
	}
	again := now.Add(between(t.tries))
	a.change(t.run, func(t *ticket) { t.tries, t.wait = t.tries+1, again })
	if err := a.down(ctx, t.channel, no); err != nil {
		return time.Time{}, err
	}
	return a.stuck(ctx, s, t, again)
}

// waits returns until when a refused plain notice is not tried again; zero: try
// now.
func (a *Approvals) waits(s *timeline, t ticket) time.Time {
	if t.plain == s.run.Head && t.wait.After(a.o.Now()) {
		return t.wait
	}
	return time.Time{}
}

// between returns the pause after a plain notice was refused a number of times.
func between(tries int) time.Duration { return min(mostBackoff<<min(tries, 16), mostClosed) }

// plain returns a run's notice, which holds nothing that Slack could refuse.
func (a *Approvals) plain(s *timeline) slack.Message {
	run, about := s.run.Start.Run, s.run.Start.Service.Name
	n := slack.Notice{
		Title: "Acting on " + about, Link: a.o.Link(run),
		Text: "Slack refused the full message. On the command line: responder runs show " + run,
	}
	switch {
	case s.gate != nil && s.state == slack.Open:
		n.Title = "Approval needed for " + about
		n.Text = "Slack refused the full message. " + a.commandLine(run)
	case s.gate != nil:
		n.Title = fmt.Sprintf("Approval for %s: %s", about, s.state)
	}
	if s.final() {
		n.Title += ": the run ended " + string(s.run.Ending.Outcome)
	}
	return n.Message()
}

// lose journals that a message, of the run or of the list, was deleted or can
// no longer be edited. Another one is posted, so that people see the outcome
// although somebody deleted the message.
func (a *Approvals) lose(ctx context.Context, r Record) (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	no := a.sender.last
	r.Kind, r.Reason, r.Message = KindLost, string(no.Reason), no.Error()
	a.log.Warn("message no longer in slack, posting it again", "run", r.Run, "err", no)
	if err := a.note(ctx, r); err != nil {
		return time.Time{}, err
	}
	if l := a.memory.lists[r.List]; r.List != "" && l != nil {
		l.maybe = time.Time{} // it is not posted yet, and nobody else posts
	} else if t := a.memory.tickets[r.Run]; t != nil {
		t.maybe = time.Time{}
	}
	return a.o.Now().Add(a.o.Pace), nil
}

// giveUpAfter is how long after the end of a run updates of its message are
// retried in a channel that does not accept them.
const giveUpAfter = 7 * 24 * time.Hour

// stuck handles a message that a channel does not accept: it retries until long
// after the run has ended, then gives up. An outage of all of Slack does not
// count.
func (a *Approvals) stuck(ctx context.Context, s *timeline, t ticket, again time.Time) (time.Time, error) {
	if no := a.sender.last; !lasting(no) || !a.overdue(s) {
		return again, nil
	}
	if err := a.finish(ctx, a.givenUp(Record{Run: t.run}, t.channel)); err != nil {
		return time.Time{}, err
	}
	if a.sender.last.Reason == fault.Invalid {
		return time.Time{}, nil // only that message
	}
	return time.Time{}, a.giveUpOthers(ctx, t.channel)
}

// giveUpOthers gives up equally old messages in the same channel: one call was
// enough to know.
func (a *Approvals) giveUpOthers(ctx context.Context, channel string) error {
	a.mu.Lock()
	var runs []string
	for run, t := range a.memory.tickets {
		if t.channel == channel && t.list == "" {
			runs = append(runs, run)
		}
	}
	a.mu.Unlock()
	for _, run := range runs {
		state, events, ok := a.o.Runs.Run(run)
		if !ok || !a.overdue(newTimeline(state, events)) {
			continue
		}
		if err := a.finish(ctx, a.givenUp(Record{Run: run}, channel)); err != nil {
			return err
		}
	}
	return nil
}

func (a *Approvals) givenUp(r Record, channel string) Record {
	no := a.sender.last
	a.log.Error("message not updated, giving up", "run", r.Run, "err", no)
	r.Kind, r.Channel, r.Reason = KindClosed, channel, string(no.Reason)
	r.Message = fmt.Sprintf("gave up %s after the run's end: %v", playbook.FormatDuration(giveUpAfter), no)
	return r
}

// lasting reports whether a failure concerns one channel or one message, so
// that only a person can resolve it.
func lasting(no *fault.Error) bool {
	return no != nil && (!wide(no.Reason) || no.Reason == fault.Invalid || no.Reason == fault.NotFound)
}

func (a *Approvals) overdue(s *timeline) bool {
	return s.final() && a.o.Now().Sub(s.run.Ended) > giveUpAfter
}

// relist moves the runs of a list that nobody has seen to the channels of the
// corrected configuration: one list for each channel.
func (a *Approvals) relist(ctx context.Context, l list) (bool, error) {
	a.mu.Lock()
	unseen := a.nowhere(l.channel, l.ref, l.maybe)
	a.mu.Unlock()
	if !unseen {
		return false, nil
	}
	to := map[string][]string{} // runs by channel
	var leave []string
	for _, run := range l.runs {
		state, _, ok := a.o.Runs.Run(run)
		if !ok {
			continue
		}
		if channel := a.o.Channel(state); channel != "" && channel != l.channel {
			to[channel], leave = append(to[channel], run), append(leave, run)
		}
	}
	if len(to) == 0 {
		return false, nil
	}
	var records []Record
	lists := map[string]bool{}
	for _, channel := range slices.Sorted(maps.Keys(to)) {
		key := newID()
		lists[key] = true
		for _, run := range to[channel] {
			records = append(records, Record{Kind: KindAsking, Run: run, Channel: channel, List: key})
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, was := a.memory.down[l.channel]; was && !a.used(l.channel, leave...) {
		records = append(records, Record{Kind: KindRecovered, Channel: l.channel}) // nothing waits for it any more
	}
	if err := a.note(ctx, records...); err != nil {
		return false, err
	}
	for key := range lists {
		a.memory.lists[key].maybe = time.Time{} // it is not posted yet, and nobody else posts
		a.sender.markList(key)
	}
	if len(leave) < len(l.runs) {
		a.sender.markList(l.key)
	}
	a.sender.wake()
	return true, nil
}
