package approvals

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
)

// show updates the message of one run, by one call of Slack at most. It returns
// when to continue; zero: when the run changes. An error is the journal's.
func (a *Approvals) show(ctx context.Context, run string) (time.Time, error) {
	t, known := a.ticket(run)
	if at := a.ready(t.channel); known && t.list == "" && !at.IsZero() {
		return at, nil // before it is read: thousands may wait, and are looked at every second
	}
	state, events, ok := a.o.Runs.Run(run)
	if !ok {
		return a.unread(ctx, t, known)
	}
	if !t.unread.IsZero() {
		a.change(run, func(t *ticket) { t.unread, t.gone = time.Time{}, false })
	}
	s := newTimeline(state, events)
	channel := a.o.Channel(state)
	switch {
	case known && channel != "" && channel != t.channel && a.unseen(t):
		if err := a.move(ctx, t, channel); err != nil {
			return time.Time{}, err
		}
		t, _ = a.ticket(run)
	case known:
		channel = t.channel
	case !s.shown() || channel == "" || s.gate != nil && s.final():
		return time.Time{}, nil // nobody was asked in Slack, and nothing is left to ask
	}
	if at := a.ready(channel); !at.IsZero() && t.list == "" {
		return at, nil
	}
	if !known || s.gate != nil && t.gate != s.gate.ID {
		delete(a.sender.budget, t.gate)
		if err := a.ask(ctx, s, channel, !known); err != nil {
			return time.Time{}, err
		}
		t, _ = a.ticket(run)
	}
	if t.list != "" {
		a.sender.markList(t.list)
		return a.threadOfList(ctx, s, t)
	}
	return a.send(ctx, s, t)
}

// ticket returns a copy of the state of a run's message.
func (a *Approvals) ticket(run string) (ticket, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.memory.tickets[run]
	if t == nil {
		return ticket{}, false
	}
	return *t, true
}

// change alters the part of a message's state that is not journaled.
func (a *Approvals) change(run string, f func(*ticket)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.memory.tickets[run]; t != nil {
		f(t)
	}
}

// ask journals the intent to show a run, and the identifier of its newest
// question. In a burst, new questions go to a list.
func (a *Approvals) ask(ctx context.Context, s *timeline, channel string, first bool) error {
	r := Record{Kind: KindAsking, Run: s.run.Start.Run, Channel: channel}
	if s.gate != nil {
		r.Gate, r.Digest, r.ID = s.gate.ID, s.gate.Digest, newID()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if first && s.gate != nil {
		r.List = a.burst(channel)
	}
	if r.List != "" {
		r.Lines = s.asked // the list covers these events
	}
	if err := a.note(ctx, r); err != nil {
		return err
	}
	if first {
		a.memory.tickets[r.Run].maybe = time.Time{} // it is not posted yet, and nobody else posts
	}
	if l := a.memory.lists[r.List]; r.List != "" && l != nil {
		l.until = a.o.Now().Add(a.o.Burst.Window)
		if len(l.runs) == 1 {
			l.maybe = time.Time{}
		}
	}
	return nil
}

// newID draws an identifier for a button: 128 random bits.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// send posts the run's message, edits it, or writes to its thread.
func (a *Approvals) send(ctx context.Context, s *timeline, t ticket) (time.Time, error) {
	if t.ref == (slack.Ref{}) {
		return a.post(ctx, s, t)
	}
	m, look := a.message(ctx, s, t)
	head := s.run.Head
	if look != t.look && t.head != head {
		return a.edit(ctx, s, t, m, look)
	}
	if lines := s.since(t.lines); len(lines) > 0 {
		return a.thread(ctx, s, t, t.ref, lines)
	}
	if look == t.look && t.head != head && s.state == slack.Open {
		return a.shown(ctx, s, t, look, t.lines) // no visible change
	}
	if s.final() {
		return time.Time{}, a.finish(ctx, Record{Kind: KindClosed, Run: t.run})
	}
	return time.Time{}, nil
}

// edit updates the run's message.
func (a *Approvals) edit(ctx context.Context, s *timeline, t ticket, m slack.Message, look string) (time.Time, error) {
	if at := a.waits(s, t); !at.IsZero() {
		return at, nil
	}
	if t.plain == s.run.Head {
		m = a.plain(s)
	}
	again, taken, fatal := a.sent(ctx, t.channel, a.o.Slack.Update(ctx, t.ref, meta(t.run, "run", s.run.Head), m))
	switch {
	case fatal != nil:
		return time.Time{}, fatal
	case taken:
		return a.shown(ctx, s, t, look, t.lines)
	case !again.IsZero():
		return a.stuck(ctx, s, t, again)
	case a.sender.last.Reason == fault.NotFound:
		return a.lose(ctx, Record{Run: t.run})
	default:
		return a.unsendable(ctx, s, t)
	}
}

// post posts the run's message to its channel, unless an earlier attempt did.
func (a *Approvals) post(ctx context.Context, s *timeline, t ticket) (time.Time, error) {
	if !t.maybe.IsZero() {
		ref, at, err := a.find(ctx, t.channel, meta(t.run, "run", 0), t.maybe)
		if err != nil {
			return at, err
		}
		if !at.IsZero() {
			return a.stuck(ctx, s, t, at)
		}
		a.change(t.run, func(t *ticket) { t.maybe = time.Time{} })
		if ref != (slack.Ref{}) {
			return a.posted(ctx, Record{Kind: KindPosted, Run: t.run, Channel: ref.Channel, TS: ref.TS})
		}
	}
	if s.final() && s.gate != nil && !t.lost {
		return time.Time{}, a.finish(ctx, Record{Kind: KindClosed, Run: t.run}) // too late to ask
	}
	if at := a.waits(s, t); !at.IsZero() {
		return at, nil
	}
	m, look := a.message(ctx, s, t)
	if t.plain == s.run.Head {
		m = a.plain(s)
	}
	ref, err := a.o.Slack.Post(ctx, t.channel, meta(t.run, "run", s.run.Head), m)
	var no *fault.Error
	if errors.As(err, &no) && no.Unknown {
		a.change(t.run, func(t *ticket) { t.maybe = a.o.Now() })
	}
	again, taken, fatal := a.sent(ctx, t.channel, err)
	switch {
	case fatal != nil:
		return time.Time{}, fatal
	case !taken && again.IsZero():
		return a.unsendable(ctx, s, t)
	case !taken:
		return a.stuck(ctx, s, t, again)
	}
	if _, err := a.posted(ctx, Record{Kind: KindPosted, Run: t.run, Channel: ref.Channel, TS: ref.TS}); err != nil {
		return time.Time{}, err
	}
	lines := uint64(0)
	for _, l := range s.thread {
		lines = l.after // the message covers what happened before
	}
	return a.shown(ctx, s, t, look, lines)
}

func (a *Approvals) posted(ctx context.Context, r Record) (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.o.Now(), a.note(ctx, r)
}

// find looks for a message that an earlier attempt may have posted.
func (a *Approvals) find(ctx context.Context, channel string, want slack.Meta, since time.Time) (slack.Ref, time.Time, error) {
	found, err := a.o.Slack.Find(ctx, channel, since.Add(-time.Minute)) // the clocks differ
	if err != nil {
		again, _, fatal := a.sent(ctx, channel, err)
		if again.IsZero() && fatal == nil {
			again = a.o.Now().Add(mostBackoff)
		}
		return slack.Ref{}, again, fatal
	}
	for _, f := range found {
		if f.Same(want) {
			return f.Ref, time.Time{}, nil
		}
	}
	return slack.Ref{}, time.Time{}, nil
}

// shown journals that people see the current state of the run, and returns when
// to continue.
func (a *Approvals) shown(ctx context.Context, s *timeline, t ticket, look string, lines uint64) (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	owed := len(s.since(lines)) > 0
	r := Record{Kind: KindSent, Run: t.run, Head: s.run.Head, Lines: lines}
	if owed {
		r.Head = 0 // a start looks at it again
	}
	if err := a.note(ctx, r); err != nil {
		return time.Time{}, err
	}
	a.memory.tickets[t.run].look = look
	if owed || s.final() {
		return a.o.Now().Add(a.o.Pace), nil
	}
	return time.Time{}, nil
}

// finish journals that nothing follows.
func (a *Approvals) finish(ctx context.Context, r Record) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.memory.tickets[r.Run]; t != nil {
		delete(a.sender.budget, t.gate)
	}
	return a.note(ctx, r)
}

// message renders the run, with a fingerprint of what people will notice.
func (a *Approvals) message(ctx context.Context, s *timeline, t ticket) (slack.Message, string) {
	link := a.o.Link(t.run)
	if s.gate == nil {
		n := s.acting(link)
		return n.Message(), fingerprint(n)
	}
	question := s.approval(t.id, link, a.budgetOf(ctx, s), a.o.Now())
	m := question.Message()
	question.Burning = 0
	return m, fingerprint(question)
}

func fingerprint(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return newID() // unreachable unless a number is NaN or infinite: then every look counts as a change
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

const budgetWithin = 5 * time.Second

// budgetOf asks once for each question how much error budget is left.
func (a *Approvals) budgetOf(ctx context.Context, s *timeline) *slack.Budget {
	if a.o.Budget == nil {
		return nil
	}
	if b, ok := a.sender.budget[s.gate.ID]; ok {
		return b
	}
	ctx, cancel := context.WithTimeout(ctx, budgetWithin)
	defer cancel()
	b := a.o.Budget(ctx, s.run)
	a.sender.budget[s.gate.ID] = b
	return b
}

func meta(run, part string, head uint64) slack.Meta {
	return slack.Meta{Run: run, Part: part, Rev: strconv.FormatUint(head, 10)}
}
