package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/audit"
)

// careful finds the record that kills the process, which no recover catches: a
// stack that overflows, memory that runs out. (Panics in our own code need none
// of this: they are recovered, and what caused them is set aside at once.)
//
// The rule. After an end that was not in order, everything that is processed is
// first written to a cell of the journal, one thing at a time, until the process
// has lived for a minute or stops in order. A place is a notification, or one
// attempt at one effect of a run; when a run moves on it is at another place.
// When the next start finds a place in the cell, the process died over it:
//
//   - Only ends in a row count. A place that was survived, and one that was not
//     under way at the last end, has a clean record. Ends with nothing under way
//     clear all.
//   - A suspect is processed after a while, when everything else has begun.
//     Who kills the process from outside, again and again and soon after its
//     start, does it while the suspect waits, and so clears it.
//   - A place that is under way for longer than calm waits for the world: it no
//     longer holds up others, and a kill while it waits tells little. It takes
//     nine of those to set a run aside, against three quick ones.
//   - A notification takes milliseconds and waits for nobody: two ends are
//     enough. When it is the only one that was not dispatched at the first end,
//     that one counts. A batch in which the process died is taken one by one.
type careful struct {
	journal *audit.Journal
	alive   func() bool
	pause   func(points int) time.Duration // before a suspect is processed

	busy chan struct{} // held while one thing is processed, until it is calm
	quit chan struct{} // closed when the executor is about to stop

	mu   sync.Mutex // guards everything below
	cell starts
	on   bool
}

// starts is the cell's content.
type starts struct {
	Up     bool           `json:"up,omitempty"`     // a process has begun and not stopped in order
	Care   bool           `json:"care,omitempty"`   // it writes down what it processes
	Doing  string         `json:"doing,omitempty"`  // the place under way
	Slow   []string       `json:"slow,omitempty"`   // places that were begun and are calm
	Points map[string]int `json:"points,omitempty"` // against places, from ends in a row
	Narrow uint64         `json:"narrow,omitempty"` // notifications before this position are taken one by one
}

const (
	cellStarts = "executor/starts"
	goodAfter  = time.Minute     // of life: the start was good
	calm       = 5 * time.Second // under way: it waits for the world

	pointsQuick = 3 // an end while the place was under way and not calm
	pointsSlow  = 1 // an end while it was calm

	pointsNote = 2 * pointsQuick // against a notification: it is set aside
	pointsRun  = 3 * pointsQuick // against an effect of a run: the run is
)

func newCareful(journal *audit.Journal, alive func() bool) *careful {
	return &careful{journal: journal, alive: alive, pause: probation, busy: make(chan struct{}, 1), quit: make(chan struct{})}
}

// probation is how long a suspect waits, so that others are under way first.
func probation(points int) time.Duration {
	switch {
	case points == 0:
		return 0
	case points < 2*pointsQuick:
		return time.Second
	default:
		return 5 * time.Second
	}
}

// started takes in how the last process ended, and gives what is to be set
// aside.
func (c *careful) started() (map[string]bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw, err := c.journal.Meta(cellStarts)
	if err != nil {
		return nil, fmt.Errorf("read starts: %w", err)
	}
	if len(raw) > 0 && json.Unmarshal(raw, &c.cell) != nil {
		c.cell = starts{} // of another version: begin anew
	}
	c.on = c.cell.Up
	c.cell = c.cell.next()
	poison := map[string]bool{}
	for place, n := range c.cell.Points {
		limit := pointsNote
		if strings.HasPrefix(place, prefixRun) {
			limit = pointsRun
		}
		if n >= limit {
			poison[place] = true
		}
	}
	return poison, c.write()
}

// next is the cell at the start after that end.
func (s starts) next() starts {
	out := starts{Up: true, Care: s.Up, Points: map[string]int{}}
	if !s.Up {
		return out // in order
	}
	out.Narrow = s.Narrow
	if s.Doing != "" {
		out.Points[s.Doing] = s.Points[s.Doing] + pointsQuick
		var index, offset, n uint64
		if _, err := fmt.Sscanf(s.Doing, "intake@%d/%d+%d", &index, &offset, &n); err == nil {
			out.Narrow = max(out.Narrow, index+n)
		}
	}
	for _, place := range s.Slow {
		out.Points[place] = s.Points[place] + pointsSlow
	}
	return out
}

// suspect counts the first end of all against the one notification that was
// received and not dispatched.
func (c *careful) suspect(place string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cell.Points[place] += pointsQuick
	return c.write()
}

// firstEnd reports whether the process before this one wrote nothing down and
// did not stop in order.
func (c *careful) firstEnd() (bool, error) {
	raw, err := c.journal.Meta(cellStarts)
	if err != nil {
		return false, fmt.Errorf("read starts: %w", err)
	}
	var s starts
	if len(raw) > 0 && json.Unmarshal(raw, &s) != nil {
		return false, nil
	}
	return s.Up && !s.Care, nil
}

func (c *careful) write() error { return c.journal.SetMeta(cellStarts, encode(c.cell)) }

// oneByOne reports whether the notification at that position is processed by
// itself.
func (c *careful) oneByOne(index uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.on && index < c.cell.Narrow
}

// enter writes down, when care is needed, that a place is about to be
// processed. leave writes that it was survived; it may be called twice. ok is
// false when the executor stops before it is the place's turn.
func (c *careful) enter(ctx context.Context, place string) (leave func(), ok bool) {
	c.mu.Lock()
	on, wait := c.on, c.pause(c.cell.Points[place])
	c.mu.Unlock()
	if !on {
		return func() {}, true
	}
	if wait > 0 && !c.sleep(ctx, wait) {
		return nil, false
	}
	select {
	case c.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	case <-c.quit:
		return nil, false
	}
	c.mu.Lock()
	c.cell.Doing = place
	_ = c.write() //nolint:errcheck // a journal that fails stops the executor elsewhere
	c.mu.Unlock()
	m := &mark{c: c, place: place}
	m.timer = time.AfterFunc(calm, m.calm)
	return m.leave, true
}

func (c *careful) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.quit:
	}
	return false
}

// mark is one place under way.
type mark struct {
	c     *careful
	place string
	timer *time.Timer

	calmed, left bool // guarded by c.mu
}

// calm lets others go on beside a place that waits for the world.
func (m *mark) calm() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.left || m.calmed || !m.c.alive() {
		return
	}
	m.calmed = true
	if m.c.on {
		m.c.cell.Doing = ""
		m.c.cell.Slow = append(m.c.cell.Slow, m.place)
		_ = m.c.write() //nolint:errcheck // a journal that fails stops the executor elsewhere
	}
	<-m.c.busy
}

// leave writes down that the place was survived.
func (m *mark) leave() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.left {
		return
	}
	m.left = true
	m.timer.Stop()
	if m.c.on && m.c.alive() { // else it may be what ended the executor
		if m.calmed {
			m.c.cell.Slow = slices.DeleteFunc(m.c.cell.Slow, func(p string) bool { return p == m.place })
		} else {
			m.c.cell.Doing = ""
		}
		maps.DeleteFunc(m.c.cell.Points, func(p string, _ int) bool { return p == m.place })
		_ = m.c.write() //nolint:errcheck // the next entry writes it again; a journal that fails stops the executor elsewhere
	}
	if !m.calmed {
		<-m.c.busy
	}
}

// run ends the careful time once the process has lived long enough.
func (c *careful) run(ctx context.Context) {
	if !c.sleep(ctx, goodAfter) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on, c.cell = false, starts{Up: true, Points: map[string]int{}}
	_ = c.write() //nolint:errcheck // a journal that fails stops the executor elsewhere; the next start is only too careful
}

// end lets nobody wait for a turn any longer.
func (c *careful) end() { close(c.quit) }

// stopped counts a stop in order.
func (c *careful) stopped(failure error) error {
	if failure != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on, c.cell = false, starts{}
	return c.write()
}
