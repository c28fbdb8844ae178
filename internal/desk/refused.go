package desk

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slack"
)

// unseen reports whether a run's message is certainly in no channel: it was not
// posted, or what it was to be posted to is closed to us.
func (d *Desk) unseen(t ticket) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return t.list == "" && d.nowhere(t.channel, t.ref, t.maybe)
}

// nowhere is unseen for any message. The caller holds mu.
func (d *Desk) nowhere(channel string, ref slack.Ref, maybe time.Time) bool {
	why := slack.Reason(d.memory.down[channel].reason)
	return ref == (slack.Ref{}) && (maybe.IsZero() || why == slack.Channel || why == slack.Archived)
}

// move journals that a run that nobody has seen is asked in another channel,
// because the configuration was corrected.
func (d *Desk) move(ctx context.Context, t ticket, channel string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	records := []Record{{Kind: KindAsking, Run: t.run, Channel: channel}}
	if _, was := d.memory.down[t.channel]; was && !d.used(t.channel, t.run) {
		records = append(records, Record{Kind: KindRecovered, Channel: t.channel}) // nobody waits for it any more
	}
	if err := d.note(ctx, records...); err != nil {
		return err
	}
	d.memory.tickets[t.run].maybe = time.Time{} // it is not posted yet, and nobody else posts
	return nil
}

// used reports whether something else than some runs is shown in a channel. The
// caller holds mu.
func (d *Desk) used(channel string, but ...string) bool {
	for _, t := range d.memory.tickets {
		if t.channel == channel && !slices.Contains(but, t.run) {
			return true
		}
	}
	return false
}

// unsendable goes on with a message that Slack refuses for what it is: people
// are told in plain words, and if those are refused too, it is an outage of the
// channel like any other. A question is never dropped.
func (d *Desk) unsendable(ctx context.Context, s *story, t ticket) (time.Time, error) {
	now, no := d.o.Now(), d.sender.last
	if t.plain != s.run.Head {
		d.change(t.run, func(t *ticket) { t.plain = s.run.Head })
		return now.Add(d.o.Pace), nil
	}
	again := now.Add(between(t.tries))
	d.change(t.run, func(t *ticket) { t.tries, t.wait = t.tries+1, again })
	if err := d.down(ctx, t.channel, no); err != nil {
		return time.Time{}, err
	}
	return d.stuck(ctx, s, t, again)
}

// waits says until when a message that was refused in plain words is not tried
// again as it is; zero: it is.
func (d *Desk) waits(s *story, t ticket) time.Time {
	if t.plain == s.run.Head && t.wait.After(d.o.Now()) {
		return t.wait
	}
	return time.Time{}
}

// between is the pause before a message is tried again that Slack refused so
// many times in plain words.
func between(tries int) time.Duration { return min(mostBackoff<<min(tries, 16), mostClosed) }

// plain is a run's message with nothing in it that Slack could refuse.
func (d *Desk) plain(s *story) slack.Message {
	run, about := s.run.Start.Run, s.run.Start.Service.Name
	n := slack.Notice{
		Title: "Acting on " + about, Link: d.o.Link(run),
		Text: "Slack refused the full message. On the command line: responder runs show " + run,
	}
	switch {
	case s.gate != nil && s.state == slack.Open:
		n.Title = "Approval needed for " + about
		n.Text = "Slack refused the full message. " + d.otherDoors(run)
	case s.gate != nil:
		n.Title = fmt.Sprintf("The question for %s is %s", about, s.state)
	}
	if s.final() {
		n.Title += ": the run ended " + string(s.run.Ending.Outcome)
	}
	return n.Message()
}

// lose journals that a message, the run's or the list's, is not in Slack any
// more, or not ours to edit. Another one is posted: people see how things ended
// although somebody cleaned up.
func (d *Desk) lose(ctx context.Context, r Record) (time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	no := d.sender.last
	r.Kind, r.Reason, r.Message = KindLost, string(no.Reason), no.Error()
	d.log.Warn("a message is not in slack any more, it is posted again", "run", r.Run, "err", no)
	if err := d.note(ctx, r); err != nil {
		return time.Time{}, err
	}
	if l := d.memory.lists[r.List]; r.List != "" && l != nil {
		l.maybe = time.Time{} // it is not posted yet, and nobody else posts
	} else if t := d.memory.tickets[r.Run]; t != nil {
		t.maybe = time.Time{}
	}
	return d.o.Now().Add(d.o.Pace), nil
}

// giveUpAfter is how long after a run has ended its message is tried to be
// brought up to date in a channel that does not take it.
const giveUpAfter = 7 * 24 * time.Hour

// stuck goes on with a message that a channel does not take: until long after
// the run has ended, and then no more. An outage of all of Slack does not count.
func (d *Desk) stuck(ctx context.Context, s *story, t ticket, again time.Time) (time.Time, error) {
	if no := d.sender.last; !lasting(no) || !d.overdue(s) {
		return again, nil
	}
	if err := d.finish(ctx, d.givenUp(Record{Run: t.run}, t.channel)); err != nil {
		return time.Time{}, err
	}
	if d.sender.last.Reason == slack.Invalid {
		return time.Time{}, nil // that message alone
	}
	return time.Time{}, d.giveUpOthers(ctx, t.channel)
}

// giveUpOthers gives up what is as old in the same channel: one call was enough
// to know.
func (d *Desk) giveUpOthers(ctx context.Context, channel string) error {
	d.mu.Lock()
	var runs []string
	for run, t := range d.memory.tickets {
		if t.channel == channel && t.list == "" {
			runs = append(runs, run)
		}
	}
	d.mu.Unlock()
	for _, run := range runs {
		state, events, ok := d.o.Runs.Run(run)
		if !ok || !d.overdue(tell(state, events)) {
			continue
		}
		if err := d.finish(ctx, d.givenUp(Record{Run: run}, channel)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Desk) givenUp(r Record, channel string) Record {
	no := d.sender.last
	d.log.Error("a message could not be brought up to date, it is given up", "run", r.Run, "err", no)
	r.Kind, r.Channel, r.Reason = KindClosed, channel, string(no.Reason)
	r.Message = fmt.Sprintf("given up %s after the end: %v", playbook.FormatDuration(giveUpAfter), no)
	return r
}

// lasting reports whether a failure is of one channel or one message, so that
// nothing but a person changes it.
func lasting(no *slack.Error) bool {
	return no != nil && (!wide(no.Reason) || no.Reason == slack.Invalid || no.Reason == slack.NotFound)
}

func (d *Desk) overdue(s *story) bool { return s.final() && d.o.Now().Sub(s.run.Ended) > giveUpAfter }
