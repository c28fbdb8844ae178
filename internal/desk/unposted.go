package desk

import (
	"context"
	"time"

	"github.com/inference-responder/responder/internal/slack"
)

// unseen reports whether a run's message is certainly in no channel: it was not
// posted, or what it was to be posted to is closed to us.
func (d *Desk) unseen(t ticket) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	why := slack.Reason(d.memory.down[t.channel])
	return t.ref == (slack.Ref{}) && t.list == "" && (t.maybe.IsZero() || why == slack.Channel || why == slack.Archived)
}

// move journals that a run that nobody has seen is asked in another channel,
// because the configuration was corrected.
func (d *Desk) move(ctx context.Context, t ticket, channel string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	records := []Record{{Kind: KindAsking, Run: t.run, Channel: channel}}
	if _, was := d.memory.down[t.channel]; was && !d.used(t) {
		records = append(records, Record{Kind: KindRecovered, Channel: t.channel}) // nobody waits for it any more
	}
	if err := d.note(ctx, records...); err != nil {
		return err
	}
	d.memory.tickets[t.run].maybe = time.Time{} // it is not posted yet, and nobody else posts
	return nil
}

// used reports whether something else is shown in the channel of a ticket. The
// caller holds mu.
func (d *Desk) used(t ticket) bool {
	for _, other := range d.memory.tickets {
		if other.run != t.run && other.channel == t.channel {
			return true
		}
	}
	for _, l := range d.memory.lists {
		if l.channel == t.channel {
			return true
		}
	}
	return false
}

// unpostable goes on with a message that Slack refuses for what it is: people
// are asked in plain words, and if those are refused too, it is an outage of the
// channel like any other. A question is never dropped.
func (d *Desk) unpostable(ctx context.Context, t ticket, no *slack.Error) (time.Time, error) {
	now := d.o.Now()
	if !t.plain {
		d.change(t.run, func(t *ticket) { t.plain = true })
		return now.Add(d.o.Pace), nil
	}
	return now.Add(mostBackoff), d.down(ctx, t.channel, no)
}

// plain is a run's message with nothing in it that Slack could refuse.
func (d *Desk) plain(s *story) slack.Message {
	n := slack.Notice{
		Title: "Acting on " + s.run.Start.Service.Name, Link: d.o.Link(s.run.Start.Run),
		Text: "Slack refused the full message. On the command line: responder runs show " + s.run.Start.Run,
	}
	if s.gate != nil {
		n.Title = "Approval needed for " + s.run.Start.Service.Name
		n.Text = "Slack refused the full message. " + d.otherDoors(s.run.Start.Run)
	}
	return n.Message()
}
