package approvals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack"
)

// Runs reads runs. Its methods may be called concurrently.
type Runs interface {
	// Changes delivers the ID of each run that gets a durable change after the
	// call, until ctx ends; then the channel is closed. Several changes may be
	// delivered as one.
	Changes(ctx context.Context) <-chan string
	// Open returns the runs that have not ended.
	Open() []machine.State
	// Run returns a run and its events; false if it does not exist or cannot be
	// read.
	Run(id string) (machine.State, []machine.Event, bool)
}

// Control sends commands to runs. Command returns once the outcome is durable.
// The text of its errors is shown to the person who clicked.
type Control interface {
	Command(ctx context.Context, run string, c machine.Command) error
}

// Memory is the stream of Slack approvals in the journal. It has no other
// writer.
type Memory interface {
	// Fold yields every record so far, in order, except those that were
	// forgotten.
	Fold(func(Record)) error
	// Append makes records durable, all or none, and returns the index of the
	// first.
	Append(ctx context.Context, records ...Record) (uint64, error)
	// Forget records that no record before the index has to be folded again.
	Forget(before uint64) error
}

// Slack is the part of [slack.Client] that is used here.
type Slack interface {
	Post(ctx context.Context, channel string, meta slack.Meta, m slack.Message) (slack.Ref, error)
	Reply(ctx context.Context, parent slack.Ref, meta slack.Meta, m slack.Message) (slack.Ref, error)
	Update(ctx context.Context, ref slack.Ref, meta slack.Meta, m slack.Message) error
	Ephemeral(ctx context.Context, channel, userID string, m slack.Message) error
	OpenModal(ctx context.Context, click slack.Click, m slack.Modal) error
	Find(ctx context.Context, channel string, since time.Time) ([]slack.Found, error)
	FindReplies(ctx context.Context, parent slack.Ref) ([]slack.Found, error)
}

// Names looks up the identities of Slack users.
type Names interface {
	// Person returns the identity and the groups of a Slack user. The error
	// tells the person why they cannot decide: unknown, a guest, Slack does not
	// answer. It never guesses.
	Person(ctx context.Context, userID string) (Person, error)
}

// Person is a decider, as policies and playbooks name them.
type Person struct {
	Name   string   // without the prefix "user:"
	Groups []string // without the prefix "group:"
}

// Burst configures when many gates are grouped into one list.
type Burst struct {
	Gates  int           // more than this many gates in a window are grouped; 0: 5
	Window time.Duration // 0: 1 min
}

// Options of New. Runs, Control, Memory, Slack, Names and Channel are required.
type Options struct {
	Runs    Runs
	Control Control
	Memory  Memory
	Slack   Slack
	Names   Names

	// Channel returns the ID of the channel in which a run is shown; empty: the
	// run is not shown in Slack.
	Channel func(machine.State) string
	// Link returns the address of a run's page; nil or empty: there is none.
	Link func(run string) string
	// Budget returns what is left of the service's error budget; nil or a nil
	// answer: unknown. It is called once for each question and may take a few
	// seconds.
	Budget func(context.Context, machine.State) *slack.Budget

	Burst Burst
	Pace  time.Duration // minimum time between two messages in a channel; 0: 1 s, as Slack asks
	Now   func() time.Time
	Log   *slog.Logger
	// Observe is called with the result of every call of Slack that sends
	// something. It may be nil.
	Observe func(err error)
	// Refusing is called with the reason when a click is refused here. Refusals
	// by the receiver are not included. It may be nil.
	Refusing func(reason string)
}

// Approvals shows runs in Slack and accepts decisions from there. Its methods
// may be called concurrently.
type Approvals struct {
	o   Options
	log *slog.Logger

	// mu guards the memory and orders its journal: what is appended under it is
	// folded before any other goroutine reads the memory.
	mu       sync.Mutex
	memory   *memory
	refusals refusals
	weighed  uint64 // index up to which forgettable records were looked for
	knows    bool   // the memory is folded; before, it is unknown which records are needed
	forgot   uint64 // last index given to Memory.Forget

	loaded chan struct{} // closed once the memory is folded
	sender sender
}

// New returns an Approvals. Nothing happens before Run.
func New(o Options) (*Approvals, error) {
	if o.Runs == nil || o.Control == nil || o.Memory == nil || o.Slack == nil || o.Names == nil || o.Channel == nil {
		return nil, errors.New("slack approvals: runs, control, memory, slack, names and channel are required")
	}
	if o.Pace < 0 || o.Burst.Gates < 0 || o.Burst.Window < 0 {
		return nil, errors.New("slack approvals: a limit is negative")
	}
	o.Burst.Gates = cmp.Or(o.Burst.Gates, 5)
	o.Burst.Window = cmp.Or(o.Burst.Window, time.Minute)
	o.Pace = cmp.Or(o.Pace, time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Link == nil {
		o.Link = func(string) string { return "" }
	}
	if o.Observe == nil {
		o.Observe = func(error) {}
	}
	if o.Refusing == nil {
		o.Refusing = func(string) {}
	}
	d := &Approvals{o: o, log: o.Log, memory: newMemory(), loaded: make(chan struct{})}
	d.sender = newSender()
	return d, nil
}

// Run shows runs until ctx ends or the journal fails. It continues while Slack
// is down. The executor must be ready, so that the runs exist.
func (d *Approvals) Run(ctx context.Context) error {
	changes := d.o.Runs.Changes(ctx) // before existing runs are read, so that no change is missed
	if err := d.load(); err != nil {
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case run, ok := <-changes:
			if !ok && ctx.Err() == nil {
				return errors.New("follow runs: the journal can no longer be read")
			}
			if !ok {
				return ctx.Err()
			}
			d.sender.mark(run)
		case <-d.sender.woken:
		case <-timer.C:
		}
		next, err := d.work(ctx, changes)
		if err != nil {
			return err
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(max(0, next.Sub(d.o.Now())))
		}
	}
}

// Started returns a channel that is closed once the messages in Slack are
// known, so that clicks on them are accepted.
func (d *Approvals) Started() <-chan struct{} { return d.loaded }

// load folds the stream and marks the runs that may have changed since.
func (d *Approvals) load() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.o.Memory.Fold(d.memory.fold); err != nil {
		return fmt.Errorf("read what was shown in Slack: %w", err)
	}
	for _, t := range d.memory.tickets {
		t.doubt = true
	}
	open := map[string]uint64{}
	for _, s := range d.o.Runs.Open() {
		open[s.Start.Run] = s.Head
		if t := d.memory.tickets[s.Start.Run]; t != nil && t.head == s.Head && t.maybe.IsZero() && s.Aside == nil {
			continue // people see its current state
		}
		if s.Gate != nil || d.memory.tickets[s.Start.Run] != nil || s.Levers > 0 {
			d.sender.mark(s.Start.Run)
		}
	}
	for run := range d.memory.tickets {
		if _, ok := open[run]; !ok {
			d.sender.mark(run) // it ended while the service was down
		}
	}
	for key := range d.memory.lists {
		d.sender.markList(key)
	}
	d.knows = true
	close(d.loaded)
	d.forget()
	return nil
}

// note makes records durable and folds them. The caller holds mu.
func (d *Approvals) note(ctx context.Context, records ...Record) error {
	now := d.o.Now()
	for i := range records {
		records[i].At = now
	}
	first, err := d.o.Memory.Append(ctx, records...)
	if err != nil {
		return fmt.Errorf("record what is shown in Slack: %w", err)
	}
	for i, r := range records {
		r.Index = first + uint64(i)
		d.memory.fold(r)
	}
	if d.knows && d.memory.next-d.weighed >= forgetEvery {
		d.forget()
	}
	return nil
}

// forgetEvery is how many records are written before closed ones are forgotten.
// A start reads at most that many more than it needs.
const forgetEvery = 1000

// forget keeps a start from reading closed records. The caller holds mu.
func (d *Approvals) forget() {
	d.weighed = d.memory.next
	before := d.memory.needed()
	if before <= d.forgot {
		return
	}
	if err := d.o.Memory.Forget(before); err != nil {
		d.log.Warn("closed records not forgotten; the next start reads more than it needs", "err", err)
		return
	}
	d.forgot = before
}
