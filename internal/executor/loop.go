package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/audit"
)

// A task is something for the loop to decide. The loop is the one goroutine that
// owns all runs and everything that is decided from: nobody else changes them.
type task struct {
	// decide stages in b what shall become true. It changes nothing else, since it
	// is called again, on another batch, when somebody else wrote to the journal or
	// the journal took nothing. After an error nothing of it is committed.
	decide func(b *batch) error

	// then sees to what is not in the journal, once the batch is durable and
	// published, and before the runs that it staged go on. Nil: nothing.
	then func()

	shared bool // may be committed in one batch with other shared tasks
	free   bool // stages nothing, and gets no batch: it does not wait for the journal
	person bool // somebody waits for the answer: while the journal takes nothing it is refused and not kept

	ctx  context.Context //nolint:containedctx // whose end means that nobody wants it any more
	done chan error      // takes the one answer

	answered bool // by the loop
}

// tasks is the queue in front of the loop. It has no bound of its own: there is
// at most one task for each effect under way, timer and waiting caller.
type tasks struct {
	mu     sync.Mutex // guards all below; a leaf lock
	queue  []*task
	closed error         // why nothing is taken any more
	wake   chan struct{} // says that there is something in the queue
}

func newTasks() *tasks { return &tasks{wake: make(chan struct{}, 1)} }

func (q *tasks) put(t *task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return q.closed
	}
	q.queue = append(q.queue, t)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

// take empties the queue.
func (q *tasks) take() []*task {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.queue
	q.queue = nil
	return all
}

// close refuses every task from now on, and those that wait.
func (q *tasks) close(why error) {
	q.mu.Lock()
	q.closed = why
	left := q.queue
	q.queue = nil
	q.mu.Unlock()
	answer(left, why)
}

// do hands a task to the loop and waits until it is durable and published, or
// refused. The loop itself never calls it. When ctx ends first the task may be
// decided all the same.
func (e *Executor) do(ctx context.Context, t *task) error {
	t.ctx = ctx
	if err := e.post(t); err != nil {
		return err
	}
	select {
	case err := <-t.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the executor has not answered: %w", ctx.Err())
	}
}

// post hands a task to the loop and does not wait.
func (e *Executor) post(t *task) error {
	if t.ctx == nil {
		t.ctx = context.Background()
	}
	t.done = make(chan error, 1)
	return e.tasks.put(t)
}

// later hands a task over whose failure nobody waits for.
func (e *Executor) later(what string, t *task) {
	decide := t.decide
	t.decide = func(b *batch) error {
		err := decide(b)
		if err != nil {
			e.log.Error("not recorded", "kind", what, "err", err)
		}
		return err
	}
	_ = e.post(t) //nolint:errcheck // the executor has stopped: the next start sees to it
}

// stallFirst and stallMost bound the wait between two attempts while the journal
// takes nothing.
const (
	stallFirst = 20 * time.Millisecond
	stallMost  = 2 * time.Second
)

// loop decides tasks and fires timers until end is closed or the executor has
// failed. Tasks that are left are refused.
func (e *Executor) loop(end <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var kept []*task // which the journal did not take
	var wait time.Duration
	var retry time.Time
	defer func() {
		why := e.err()
		if why == nil {
			why = ErrNotReady
		}
		answer(kept, why)
		e.tasks.close(why)
	}()
	for {
		queue := append(e.ticks(), runFree(e.tasks.take())...)
		if len(kept) > 0 && time.Now().Before(retry) {
			kept = append(kept, e.refusePersons(queue)...)
		} else if queue = append(kept, queue...); len(queue) > 0 {
			kept = e.decideAll(queue)
			if !e.alive() {
				return
			}
			if len(kept) == 0 {
				wait = 0
				continue
			}
			wait = min(max(2*wait, stallFirst), stallMost)
			retry = time.Now().Add(wait)
		}
		next := e.timers.next()
		if len(kept) > 0 {
			next = min(next, max(time.Until(retry), time.Millisecond))
		}
		timer.Reset(next)
		select {
		case <-e.tasks.wake:
		case <-timer.C:
		case <-end:
			return
		case <-e.ctx.Done():
			return
		}
	}
}

// runFree runs the tasks that stage nothing, and returns the others.
func runFree(queue []*task) []*task {
	return slices.DeleteFunc(queue, func(t *task) bool {
		if t.free {
			t.answer(guarded(func() error { return t.decide(nil) }))
		}
		return t.free
	})
}

// refusePersons answers those tasks that somebody waits for, and returns the others.
func (e *Executor) refusePersons(queue []*task) []*task {
	return slices.DeleteFunc(queue, func(t *task) bool {
		if t.person {
			t.answer(e.stallError())
		}
		return t.person
	})
}

// decideAll decides tasks in their order, shared ones together. It returns those
// that are not answered, because the journal takes nothing or the executor stops.
func (e *Executor) decideAll(queue []*task) []*task {
	for len(queue) > 0 && e.alive() {
		n := 1
		for queue[0].shared && n < len(queue) && queue[n].shared {
			n++
		}
		err := e.decide(queue[:n])
		queue = unanswered(queue)
		if isStall(err) {
			e.setStalled(err)
			if kept := e.refusePersons(queue); len(kept) > 0 {
				return kept
			}
			return []*task{e.stallRecord(err)}
		}
	}
	return queue
}

// Stalled is the record that people were refused because the journal took nothing.
type Stalled struct {
	Since time.Time `json:"since"` // when the first of them was
	Why   string    `json:"why"`
}

// stallRecord returns the task that is tried again while nothing else is: without one
// nobody would learn that the journal takes records again, and people stay refused.
func (e *Executor) stallRecord(why error) *task {
	record := Stalled{Since: e.clock.now(), Why: why.Error()}
	return &task{ctx: context.Background(), done: make(chan error, 1), decide: func(b *batch) error {
		b.record(KindStalled, record)
		return nil
	}}
}

// mostWriters is how often tasks are decided anew because somebody else wrote.
const mostWriters = 4

// decide commits the first tasks of a group in one batch, as many as fit. An
// error is the journal's, and means that they are to be decided again.
func (e *Executor) decide(group []*task) error {
	for range mostWriters {
		b := e.batch()
		in := b.stageAll(unanswered(group))
		err := b.write()
		switch {
		case err == nil:
			b.publish(in)
			answer(in, nil)
			return nil
		case isStall(err):
			return err
		case errors.Is(err, audit.ErrConflict):
			if err := e.refoldAll(b); err != nil {
				e.fail(err)
				return err
			}
		case errors.Is(err, audit.ErrInvalid) && len(in) > 1:
			for _, t := range in {
				if err := e.decide([]*task{t}); err != nil {
					return err
				}
			}
			return nil
		default:
			answer(in, err)
			return nil
		}
	}
	err := errors.New("somebody else keeps writing the streams of runs; is a second executor running on this journal?")
	e.fail(err)
	return err
}

// isStall reports whether the journal wrote nothing and may take it later.
func isStall(err error) bool {
	return errors.Is(err, audit.ErrFull) || errors.Is(err, audit.ErrDiskFull)
}

func answer(tasks []*task, err error) {
	for _, t := range tasks {
		t.answer(err)
	}
}

func (t *task) answer(err error) {
	t.answered = true
	t.done <- err
}

func unanswered(tasks []*task) []*task {
	var out []*task
	for _, t := range tasks {
		if !t.answered {
			out = append(out, t)
		}
	}
	return out
}
