package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Steps carries out effects in the world. Do is called concurrently, but only
// once at a time for one run. It returns within the effect's Timeout or a
// little later; when ctx ends early the outcome of a read does not matter.
type Steps interface {
	Do(ctx context.Context, e machine.Effect) machine.Outcome
}

// Options of New. Journal, Playbooks, Services and Steps are required.
type Options struct {
	Journal   *audit.Journal
	Intake    *dispatch.Intake     // admits the notifications; nil: they are only found in the journal
	Playbooks func() *playbook.Set // the set in force now; never nil
	Kinds     []playbook.Kind      // to compile playbooks of runs whose document is no longer in the set
	Services  dispatch.Services
	Steps     Steps
	Window    time.Duration       // after a run that ended with people, in which alerts start no other run on its service while its own fire; 0: none
	Guards    guard.Config        // the zero value: guard.Defaults
	Policy    guard.Policy        // nil: there is none, and only playbooks say who is asked
	Autonomy  playbook.Autonomy   // ceiling over everything; the zero value observes
	Ladder    *ladder.TrackRecord // empty: the start folds it; the executor alone changes it. nil: one of its own

	// Catalog lists the services in force now, with their levels, and returns an error
	// when it cannot say whether these are all. A service that is not among all of them
	// is only observed. Nil: levels of services are not looked at, and no run is
	// started by hand.
	Catalog func() ([]playbook.Service, error)

	Now  func() time.Time // nil: time.Now. All times of runs are of this clock
	Pace float64          // seconds of Now that pass in a real second; 0: 1

	Parallel    int           // checks and plans under way at once over all runs; 0: 64
	MaxOpenRuns int           // more alerts than that are suppressed, with the reason; 0: 20000
	Grace       time.Duration // how long a stop waits for changes under way, in real time; 0: 30 s

	Log       *slog.Logger            // nil: nothing is logged
	Failpoint func(name string) error // called at the places Failpoints lists; an error stops the executor there. Nil in production
}

// Failpoints lists the places at which tests stop the executor, in the order a
// run reaches them.
func Failpoints() []string {
	return []string{
		"dispatch-before-append", "dispatch-after-append",
		"effect-before", "effect-after",
		"run-before-append", "run-after-append",
	}
}

// Executor runs playbooks. Its methods may be called concurrently.
type Executor struct {
	o     Options
	log   *slog.Logger
	clock clock

	mu      sync.RWMutex // guards the fields below it; a leaf lock
	open    map[string]*run
	ended   []string // ids of ended runs, oldest first
	ready   bool
	ending  bool // Run is about to return: nothing new is begun
	failure error
	stalled error // the journal takes nothing right now; it is tried again
	workers sync.WaitGroup
	ctx     context.Context //nolint:containedctx // what effects and appends of the running Run live under; Command comes from outside of it
	stop    context.CancelCauseFunc

	tasks *tasks        // for the loop
	slots chan struct{} // one per check or plan under way

	// What the loop decides from. Where others read it, too, it has a leaf lock.
	target   map[runKey]*run   // open runs by what they are about
	about    map[string][]*run // open runs that alerts started, by service
	timers   timers
	library  *library
	ledger   *guard.Ledger
	told     toldOnce
	ladder   *ladder.TrackRecord
	requests *requests
	pauses   pauses
	reported reported
	dispatch *dispatch.Dispatcher
	crashes  *crashGuard

	saveEvery int           // see the constant
	changes   atomic.Uint64 // see Changes

	poked    chan struct{}     // a pause was lifted: see reconsider
	due      []Due             // messages that were due at the start
	endings  map[string]ending // of runs that handed alerts over or released them; while loading
	ids      runIDs
	decoders sync.Pool // of *decoder, with the texts met lately
}

// New makes an executor over an open journal. Nothing happens before Run.
func New(o Options) (*Executor, error) {
	switch {
	case o.Journal == nil:
		return nil, errors.New("executor: no journal")
	case o.Playbooks == nil || o.Services == nil || o.Steps == nil:
		return nil, errors.New("executor: playbooks, services and steps are required")
	case o.Pace < 0 || o.Parallel < 0 || o.MaxOpenRuns < 0 || o.Grace < 0 || o.Window < 0:
		return nil, errors.New("executor: a bound is negative")
	}
	if err := o.Guards.Check(); err != nil {
		return nil, err
	}
	if o.Ladder == nil {
		var err error
		if o.Ladder, err = ladder.New(ladder.Config{}); err != nil {
			return nil, err
		}
	}
	o = o.withDefaults()
	e := &Executor{
		o: o, log: o.Log, clock: clock{o.Now, o.Pace},
		open: map[string]*run{}, endings: map[string]ending{}, target: map[runKey]*run{}, about: map[string][]*run{}, tasks: newTasks(), slots: make(chan struct{}, o.Parallel), poked: make(chan struct{}, 1),
		ledger: guard.NewLedger(o.Guards), told: toldOnce{}, ladder: o.Ladder, requests: newRequests(), ids: newRunIDs(), pauses: pauses{set: map[Scope]Pause{}},
	}
	e.timers.clock, e.saveEvery = e.clock, saveEvery
	e.changes.Store(uint64(e.clock.now().UnixNano())) //nolint:gosec // of this age
	e.library = &library{e: e, at: map[string]uint64{}, compiled: map[string]*playbook.Playbook{}}
	e.crashes = newCrashGuard(o.Journal, e.alive)
	e.dispatch = dispatch.New(dispatch.Options{Journal: o.Journal, Intake: o.Intake, Services: o.Services, Window: o.Window, Blames: e.crashes.blames, Log: o.Log})
	return e, nil
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Pace == 0 {
		o.Pace = 1
	}
	if o.Parallel == 0 {
		o.Parallel = 64
	}
	if o.MaxOpenRuns == 0 {
		o.MaxOpenRuns = 20_000
	}
	if o.Grace == 0 {
		o.Grace = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Failpoint == nil {
		o.Failpoint = func(string) error { return nil }
	}
	return o
}

// Run folds what the journal holds and works until ctx is done or the journal
// fails. It may be called once. When ctx is done it waits for changes under
// way, at most Options.Grace: their outcomes are worth having.
func (e *Executor) Run(ctx context.Context) error {
	inner, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	e.mu.Lock()
	if e.ctx != nil {
		e.mu.Unlock()
		return errors.New("executor: Run was called before")
	}
	e.ctx, e.stop = inner, stop
	e.mu.Unlock()

	if err := e.load(); err != nil {
		e.fail(fmt.Errorf("start the executor: %w", err))
		e.tasks.close(e.err())
		return e.err()
	}
	var loop, readers sync.WaitGroup
	end := make(chan struct{})
	loop.Go(func() { e.loop(end) })
	reading, endReaders := context.WithCancel(ctx)
	defer endReaders()
	e.resume(ctx)
	readers.Go(func() { e.dispatchLoop(reading) })
	readers.Go(func() { e.crashes.run(reading) })
	e.log.Info("executor ready", "runs", e.countOpen())
	select {
	case <-ctx.Done():
	case <-inner.Done():
	}
	e.setReady(false)
	e.crashes.end()
	endReaders()
	readers.Wait()
	e.drain()
	close(end)
	loop.Wait()
	if e.err() == nil && e.dispatch.Unsaved() > 0 {
		e.keepSnapshot(e.dispatch.Snapshot())
	}
	if err := e.crashes.stopped(e.err()); err != nil {
		return errors.Join(e.err(), err)
	}
	return e.err()
}

// resume begins again what was open before anything else can move a run. While the
// journal takes nothing that waits, and can be stopped.
func (e *Executor) resume(ctx context.Context) {
	if err := e.recordSet(ctx); err != nil && e.alive() && ctx.Err() == nil {
		e.fail(fmt.Errorf("record playbooks: %w", err))
	}
	e.resumeAll(ctx)
	if ctx.Err() == nil {
		e.deliverDue()
		e.setReady(true)
	}
}

// drain waits for the effects under way, then cuts them off. A change that is
// cut off will be looked for at the next start.
func (e *Executor) drain() {
	e.mu.Lock()
	e.ending = true
	e.mu.Unlock()
	_ = e.do(e.ctx, &task{free: true, decide: func(*batch) error { //nolint:errcheck // the executor has failed: then all is cut off
		for _, r := range e.openRuns() {
			if r.flight != nil && !r.flight.effect.Action.Mutates() {
				r.flight.cut() // reads are asked again at the next start
			}
		}
		return nil
	}})
	done := make(chan struct{})
	go func() {
		e.workers.Wait()
		close(done)
	}()
	if e.err() == nil {
		timer := time.NewTimer(e.o.Grace)
		defer timer.Stop()
		select {
		case <-done:
			return
		case <-timer.C:
			e.log.Warn("changes under way are cut off", "grace", e.o.Grace)
		}
	}
	e.stop(context.Canceled)
	<-done
}

func (e *Executor) setStalled(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if (err == nil) != (e.stalled == nil) {
		if err != nil {
			e.log.Error("journal takes nothing, trying again", "err", err)
		} else {
			e.log.Info("journal takes records again")
		}
	}
	e.stalled = err
}

func (e *Executor) stallError() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.stalled
}

// register makes a run one of the open ones.
func (e *Executor) register(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list(r)
}

// list adds an open run to what is looked for by its subject, under mu.
func (e *Executor) list(r *run) {
	defer e.changes.Add(1)
	e.open[r.id] = r
	s := r.state.Start
	if s.Playbook == "" {
		return // of one that cannot be read, too little is known
	}
	e.target[keyOf(s)] = r
	if !s.ByHand() {
		e.about[s.Service.Name] = append(e.about[s.Service.Name], r)
	}
}

// unlist takes an open run out, under mu.
func (e *Executor) unlist(r *run) {
	defer e.changes.Add(1)
	delete(e.open, r.id)
	s := r.state.Start
	if k := keyOf(s); e.target[k] == r {
		delete(e.target, k)
	}
	left := slices.DeleteFunc(e.about[s.Service.Name], func(x *run) bool { return x == r })
	if len(left) == 0 {
		delete(e.about, s.Service.Name)
	} else {
		e.about[s.Service.Name] = left
	}
}

// Ready reports why the executor does not work; nil when it does.
func (e *Executor) Ready() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	switch {
	case e.failure != nil:
		return e.failure
	case !e.ready:
		return ErrNotReady
	default:
		return e.stalled
	}
}

func (e *Executor) setReady(ready bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready = ready
}

// fail ends the executor: what it knows and what the journal holds may differ
// from now on. A restart repairs that.
func (e *Executor) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure == nil {
		e.failure = err
		e.log.Error("executor stopped", "err", err)
	}
	if e.stop != nil {
		e.stop(err)
	}
}

func (e *Executor) err() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.failure
}

// spawn runs fn beside the executor, unless it is about to stop.
func (e *Executor) spawn(fn func()) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.ending || e.failure != nil || e.ctx == nil {
		return false
	}
	e.workers.Go(fn)
	return true
}

// alive reports whether work may go on.
func (e *Executor) alive() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.failure == nil && e.ctx != nil && e.ctx.Err() == nil
}

// at stops the executor at a failpoint.
func (e *Executor) at(name string) error {
	if err := e.o.Failpoint(name); err != nil {
		err = fmt.Errorf("failpoint %s: %w", name, err)
		e.fail(err)
		return err
	}
	return nil
}

// guarded runs fn and turns a panic into an error. What panicked is quarantined
// by the caller; the process goes on.
func guarded(fn func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *panicError:
			err = p // met again where it is counted
		default:
			err = &panicError{value: p, stack: debug.Stack()}
		}
	}()
	return fn()
}

// panicError is a panic of our own code over one record or run.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }
