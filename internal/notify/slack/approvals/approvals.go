package approvals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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
	Name     string   // without the prefix "user:"
	Groups   []string // without the prefix "group:"
	Declared bool     // the configuration lists the person
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

	Burst slack.Burst
	Pace  time.Duration // minimum time between two messages in a channel; 0: 1 s, as Slack asks
	Now   func() time.Time
	Log   *slog.Logger

	Registry prometheus.Registerer // of the metrics; nil: none
	Socket   bool                  // clicks come over Socket Mode, whose connection is a metric
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

	loaded  chan struct{}      // closed once the memory is folded
	refused chan slack.Refused // refusals of the receiver that are not recorded yet
	sender  sender
	metrics *metrics
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
	a := &Approvals{o: o, log: o.Log, memory: newMemory(), loaded: make(chan struct{}), refused: make(chan slack.Refused, maxRefused)}
	a.sender = newSender()
	a.metrics = newMetrics(o.Registry, o.Socket, a.Down)
	return a, nil
}

// Run shows runs until ctx ends or the journal fails. It continues while Slack
// is down. The executor must be ready, so that the runs exist.
func (a *Approvals) Run(ctx context.Context) error {
	changes := a.o.Runs.Changes(ctx) // before existing runs are read, so that no change is missed
	if err := a.load(); err != nil {
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
			a.sender.mark(run)
		case <-a.sender.woken:
		case <-timer.C:
		}
		next, err := a.work(ctx, changes)
		if err != nil {
			return err
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(max(0, next.Sub(a.o.Now())))
		}
	}
}

// Started returns a channel that is closed once the messages in Slack are
// known, so that clicks on them are accepted.
func (a *Approvals) Started() <-chan struct{} { return a.loaded }

// load folds the stream and marks the runs that may have changed since.
func (a *Approvals) load() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.o.Memory.Fold(a.memory.fold); err != nil {
		return fmt.Errorf("read what was shown in Slack: %w", err)
	}
	for _, t := range a.memory.tickets {
		t.doubt = true
	}
	open := map[string]uint64{}
	for _, s := range a.o.Runs.Open() {
		open[s.Start.Run] = s.Head
		if t := a.memory.tickets[s.Start.Run]; t != nil && t.head == s.Head && t.maybe.IsZero() && s.Quarantine == nil {
			continue // people see its current state
		}
		if s.Gate != nil || a.memory.tickets[s.Start.Run] != nil || s.Levers > 0 {
			a.sender.mark(s.Start.Run)
		}
	}
	for run := range a.memory.tickets {
		if _, ok := open[run]; !ok {
			a.sender.mark(run) // it ended while the service was down
		}
	}
	for key := range a.memory.lists {
		a.sender.markList(key)
	}
	a.knows = true
	close(a.loaded)
	a.forget()
	return nil
}

// note makes records durable and folds them. The caller holds mu.
func (a *Approvals) note(ctx context.Context, records ...Record) error {
	now := a.o.Now()
	for i := range records {
		records[i].At = now
	}
	first, err := a.o.Memory.Append(ctx, records...)
	if err != nil {
		return fmt.Errorf("record what is shown in Slack: %w", err)
	}
	for i, r := range records {
		r.Index = first + uint64(i)
		a.memory.fold(r)
	}
	if a.knows && a.memory.next-a.weighed >= forgetEvery {
		a.forget()
	}
	return nil
}

// forgetEvery is how many records are written before closed ones are forgotten.
// A start reads at most that many more than it needs.
const forgetEvery = 1000

// forget keeps a start from reading closed records. The caller holds mu.
func (a *Approvals) forget() {
	a.weighed = a.memory.next
	before := a.memory.needed()
	if before <= a.forgot {
		return
	}
	if err := a.o.Memory.Forget(before); err != nil {
		a.log.Warn("closed records not forgotten; the next start reads more than it needs", "err", err)
		return
	}
	a.forgot = before
}
