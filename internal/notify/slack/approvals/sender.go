package approvals

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
)

// sender holds what waits to be sent, and when it may be sent.
type sender struct {
	mu    sync.Mutex // guards runs, lists and fresh, which clicks also set
	runs  map[string]bool
	lists map[string]bool
	fresh bool          // past failures no longer predict the next attempt
	woken chan struct{} // receives when something was marked from outside the loop

	// Used only by the loop.
	next   map[string]time.Time // by channel: earliest time of the next message
	fails  map[string]int       // by channel: consecutive failures
	asks   map[string][]time.Time
	budget map[string]*slack.Budget // by gate
	last   *fault.Error             // why Slack did not accept the last message
}

func newSender() sender {
	return sender{
		runs: map[string]bool{}, lists: map[string]bool{}, woken: make(chan struct{}, 1),
		next: map[string]time.Time{}, fails: map[string]int{}, asks: map[string][]time.Time{}, budget: map[string]*slack.Budget{},
	}
}

func (s *sender) mark(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[run] = true
}

func (s *sender) markList(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists[key] = true
}

func (s *sender) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// refresh allows an immediate attempt of everything, if that was requested.
func (s *sender) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fresh {
		clear(s.next)
		clear(s.fails)
		s.fresh = false
	}
}

// Renewed reports a new token: messages that waited because of the old one are
// tried at once.
func (a *Approvals) Renewed() {
	a.sender.mu.Lock()
	a.sender.fresh = true
	a.sender.mu.Unlock()
	a.sender.wake()
}

// take empties and returns the marked runs, in the order of their start.
func (s *sender) take() []string { return s.empty(s.runs) }

func (s *sender) takeLists() []string { return s.empty(s.lists) }

func (s *sender) empty(marked map[string]bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Sorted(maps.Keys(marked))
	clear(marked)
	return all
}

// work updates the messages as far as the pace and Slack allow, and returns
// when to continue; zero: when something changes. An error is the journal's.
func (a *Approvals) work(ctx context.Context, changes <-chan string) (time.Time, error) {
	var next time.Time
	later := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	a.sender.refresh()
	runs := a.sender.take()
	slices.SortStableFunc(runs, func(x, y string) int { return cmp.Compare(a.urgency(x), a.urgency(y)) })
	for _, run := range runs {
		drain(changes, &a.sender)
		at, err := a.show(ctx, run)
		if err != nil {
			return next, err
		}
		if !at.IsZero() {
			a.sender.mark(run)
			later(at)
		}
	}
	for _, key := range a.sender.takeLists() { // those that the runs have just changed too
		at, err := a.showList(ctx, key)
		if err != nil {
			return next, err
		}
		if !at.IsZero() {
			a.sender.markList(key)
			later(at)
		}
	}
	return next, ctx.Err()
}

// drain receives pending changes, so that only the newest state is sent.
func drain(changes <-chan string, s *sender) {
	for {
		select {
		case run, ok := <-changes:
			if !ok {
				return
			}
			s.mark(run)
			s.wake()
		default:
			return
		}
	}
}

// urgency orders questions that nobody has seen before edits.
func (a *Approvals) urgency(run string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.memory.tickets[run]; t != nil && t.ref != (slack.Ref{}) {
		return 1
	}
	return 0
}

// ready returns when the channel may get its next message; zero: now.
func (a *Approvals) ready(channel string) time.Time {
	at := a.sender.next[channel]
	if all := a.sender.next[""]; all.After(at) {
		at = all
	}
	if at.After(a.o.Now()) {
		return at
	}
	return time.Time{}
}

// sent keeps the pace of a channel and records what Slack accepts. It returns
// when to try again, zero if the message was accepted, and an error of the
// journal. A message that Slack refuses for its form is not sent again
// unchanged: then both are zero and taken is false.
func (a *Approvals) sent(ctx context.Context, channel string, err error) (again time.Time, taken bool, fatal error) {
	a.metrics.called(err)
	now := a.o.Now()
	if err == nil {
		a.sender.next[channel] = now.Add(a.o.Pace)
		delete(a.sender.fails, channel)
		delete(a.sender.fails, "")
		return time.Time{}, true, a.recovered(ctx, channel)
	}
	if ctx.Err() != nil {
		return time.Time{}, false, ctx.Err()
	}
	var no *fault.Error
	if !errors.As(err, &no) {
		no = &fault.Error{Reason: fault.Unreachable, Message: "slack: unreachable", Err: err}
	}
	a.sender.last = no
	if no.Reason == fault.Invalid || no.Reason == fault.NotFound {
		a.log.Error("slack refused a message", "err", err)
		return time.Time{}, false, nil
	}
	where, most := channel, mostClosed
	if wide(no.Reason) {
		where, most = "", mostBackoff
	}
	a.sender.fails[where]++
	again = now.Add(max(min(backoff(a.sender.fails[where]), most), no.RetryAfter))
	a.sender.next[where] = again
	return again, false, a.down(ctx, where, no)
}

// wide reports whether a failure concerns all of Slack, not one channel.
func wide(r fault.Reason) bool { return r != fault.Archived && r != fault.NoChannel }

// The longest pauses between two attempts.
const (
	mostBackoff = time.Minute      // while Slack is down
	mostClosed  = 10 * time.Minute // for a channel that is closed to us, or a message that Slack refuses
)

// backoff doubles with each consecutive failure.
func backoff(fails int) time.Duration {
	return time.Second << min(fails-1, 16)
}

// down journals that Slack does not accept messages, once for each reason. A
// rate limit is not an outage.
func (a *Approvals) down(ctx context.Context, channel string, no *fault.Error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if no.Reason == fault.RateLimited || a.memory.down[channel].reason == string(no.Reason) {
		return nil
	}
	a.log.Error("slack accepts no messages; approvals can be decided on the command line", "err", no)
	return a.note(ctx, Record{Kind: KindOutage, Channel: channel, Reason: string(no.Reason), Message: no.Error()})
}

func (a *Approvals) recovered(ctx context.Context, channel string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range []string{channel, ""} {
		if _, was := a.memory.down[c]; was {
			a.log.Info("slack accepts messages again")
			if err := a.note(ctx, Record{Kind: KindRecovered, Channel: c}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Down returns why Slack accepts no messages, by channel; "" stands for all of
// Slack. Empty: it accepts them.
func (a *Approvals) Down() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]string, len(a.memory.down))
	for c, o := range a.memory.down {
		out[c] = o.reason
	}
	return out
}
