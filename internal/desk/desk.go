package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/slack"
)

// Runs reads runs. Its methods may be called concurrently.
type Runs interface {
	// Changes delivers the id of each run that something became durable of,
	// from the call on, until ctx ends; then the channel is closed. Several
	// changes may come as one.
	Changes(ctx context.Context) <-chan string
	// Open gives the runs that have not ended.
	Open() []machine.State
	// Run gives a run and its events; false when there is none or it cannot
	// be read.
	Run(id string) (machine.State, []machine.Event, bool)
}

// Control takes commands to runs. It returns once the outcome is durable; the
// text of its errors is shown to the person who clicked.
type Control interface {
	Command(ctx context.Context, run string, c machine.Command) error
}

// Memory is the desk's stream in the journal. Only the desk writes it.
type Memory interface {
	// Fold yields every record so far, in order, but for those that were
	// forgotten.
	Fold(func(Record)) error
	// Append makes records durable, all or none, and gives the index of the
	// first.
	Append(ctx context.Context, records ...Record) (uint64, error)
	// Forget says that no record before the index has to be folded any more.
	Forget(before uint64) error
}

// Slack is what the desk needs of [slack.Client].
type Slack interface {
	Post(ctx context.Context, channel string, meta slack.Meta, m slack.Message) (slack.Ref, error)
	Reply(ctx context.Context, parent slack.Ref, meta slack.Meta, m slack.Message) (slack.Ref, error)
	Update(ctx context.Context, ref slack.Ref, meta slack.Meta, m slack.Message) error
	Ephemeral(ctx context.Context, channel, userID string, m slack.Message) error
	OpenModal(ctx context.Context, click slack.Click, m slack.Modal) error
	Find(ctx context.Context, channel string, since time.Time) ([]slack.Found, error)
	FindReplies(ctx context.Context, parent slack.Ref) ([]slack.Found, error)
}

// Names says who a Slack user is.
type Names interface {
	// Person gives the identity and the groups of a Slack user. The error says
	// to the person why they cannot decide: unknown, a guest, Slack does not
	// answer. It never guesses.
	Person(ctx context.Context, userID string) (Person, error)
}

// Person is who decides, as policies and playbooks name them.
type Person struct {
	Name   string   // without the prefix user:
	Groups []string // without the prefix group:
}

// Storm is when many gates become one list.
type Storm struct {
	Gates  int           // more than so many in a window; 0: 5
	Window time.Duration // 0: 1 m
}

// Options of New. Runs, Control, Memory, Slack, Names and Channel are required.
type Options struct {
	Runs    Runs
	Control Control
	Memory  Memory
	Slack   Slack
	Names   Names

	// Channel gives the ID of the channel in which a run is shown; empty: the
	// run is not shown in Slack.
	Channel func(machine.State) string
	// Link gives the address of a run's page; nil or empty: there is none.
	Link func(run string) string
	// Budget gives what is left of the service's error budget; nil or a nil
	// answer: not known. It is asked once for each question and may take a
	// few seconds.
	Budget func(context.Context, machine.State) *slack.Budget

	Storm Storm
	Pace  time.Duration // least time between two messages in a channel; 0: 1 s, as Slack asks
	Now   func() time.Time
	Log   *slog.Logger
	// Observe is told of every call of Slack that sends something; nil: nobody.
	Observe func(err error)
	// Refusing is told why a click led to nothing, by the desk's own judgement;
	// what the receiver refuses it does not see. nil: nobody.
	Refusing func(reason string)
}

// Desk shows runs in Slack and takes decisions from there. Its methods may be
// called concurrently.
type Desk struct {
	o   Options
	log *slog.Logger

	// mu guards the memory, and orders its journal: what is appended under it
	// is folded before anybody else looks.
	mu       sync.Mutex
	memory   *memory
	refusals refusals
	weighed  uint64 // index up to which was looked what can be forgotten
	knows    bool   // the memory is folded; before, what is needed is not known
	forgot   uint64 // what was said to be

	loaded chan struct{} // closed once the memory is folded
	sender sender
}

// New makes a desk. Nothing happens before Run.
func New(o Options) (*Desk, error) {
	if o.Runs == nil || o.Control == nil || o.Memory == nil || o.Slack == nil || o.Names == nil || o.Channel == nil {
		return nil, errors.New("desk: runs, control, memory, slack, names and channel are required")
	}
	if o.Pace < 0 || o.Storm.Gates < 0 || o.Storm.Window < 0 {
		return nil, errors.New("desk: a bound is negative")
	}
	o.Storm.Gates = cmp.Or(o.Storm.Gates, 5)
	o.Storm.Window = cmp.Or(o.Storm.Window, time.Minute)
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
	d := &Desk{o: o, log: o.Log, memory: newMemory(), loaded: make(chan struct{})}
	d.sender = newSender()
	return d, nil
}

// Run shows runs until ctx ends or the journal fails. Slack being down is no
// reason to end. The executor must be ready, so that the runs are there.
func (d *Desk) Run(ctx context.Context) error {
	changes := d.o.Runs.Changes(ctx) // before what is there is read: nothing falls between
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
				return errors.New("follow runs: the journal cannot be read on")
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

// Started is closed once the desk knows what is in Slack, so that clicks on it
// are taken.
func (d *Desk) Started() <-chan struct{} { return d.loaded }

// load folds the desk's stream and marks what may have changed since.
func (d *Desk) load() error {
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
			continue // people see it as it is
		}
		if s.Gate != nil || d.memory.tickets[s.Start.Run] != nil || s.Levers > 0 {
			d.sender.mark(s.Start.Run)
		}
	}
	for run := range d.memory.tickets {
		if _, ok := open[run]; !ok {
			d.sender.mark(run) // it ended while nobody looked
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
func (d *Desk) note(ctx context.Context, records ...Record) error {
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

// forgetEvery is how many records come before what is over is forgotten: as
// many more than needed a start reads at most.
const forgetEvery = 1000

// forget keeps a start from reading what is over. The caller holds mu.
func (d *Desk) forget() {
	d.weighed = d.memory.next
	before := d.memory.needed()
	if before <= d.forgot {
		return
	}
	if err := d.o.Memory.Forget(before); err != nil {
		d.log.Warn("the next start reads more than it needs", "err", err)
		return
	}
	d.forgot = before
}
