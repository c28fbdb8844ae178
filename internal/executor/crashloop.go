package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/audit"
)

// crashGuard finds the record that kills the process where no recover helps: a
// stack that overflows, memory that runs out. (Panics of our own code are
// recovered, and what caused them is quarantined at once.)
//
// After a bad end the guard is on until the process has lived for a minute or
// stops in order. While it is on, each place is written to a cell of the journal
// before it is worked on, and removed afterwards. A place is one notification,
// or one attempt at one effect of a run; a run that moves on is at another place.
// The next start counts the bad end against the places that it finds in the cell,
// and forgets all others: only ends in a row count.
//
// A place with a count is a suspect. Suspects wait a second and are then worked
// on one at a time, a notification without others in its batch, so that only one
// of them is in the cell when the process dies. Whoever kills the process soon
// after each start clears the suspects by that. A place with too many ends is
// quarantined.
type crashGuard struct {
	journal *audit.Journal
	alive   func() bool
	wait    time.Duration // before a suspect is worked on

	turn chan struct{} // held while a suspect is worked on
	quit chan struct{} // closed when the executor is about to stop

	blamed map[string]bool // quarantined: set by started, and never changed

	mu   sync.Mutex // guards everything below; held while the cell is written
	cell starts
	on   bool
}

// starts is the cell's content.
type starts struct {
	Up     bool           `json:"up,omitempty"`     // a process has begun and not stopped in order
	Care   bool           `json:"care,omitempty"`   // it writes down what it works on
	Places []string       `json:"places,omitempty"` // those under way
	Ends   map[string]int `json:"ends,omitempty"`   // bad ends in a row, by place
}

const (
	cellStarts  = "executor/starts"
	goodAfter   = time.Minute // of life: the start was good
	suspectWait = time.Second

	endsNote = 2 // a notification waits for nobody, and takes milliseconds
	endsRun  = 3
)

func newCrashGuard(journal *audit.Journal, alive func() bool) *crashGuard {
	return &crashGuard{journal: journal, alive: alive, wait: suspectWait, turn: make(chan struct{}, 1), quit: make(chan struct{})}
}

// started counts how the last process ended. It reports whether that was a bad
// end of a process that wrote nothing down.
func (c *crashGuard) started() (first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw, err := c.journal.Meta(cellStarts)
	if err != nil {
		return false, fmt.Errorf("read starts: %w", err)
	}
	if len(raw) > 0 && json.Unmarshal(raw, &c.cell) != nil {
		c.cell = starts{} // of another version: begin anew
	}
	first = c.cell.Up && !c.cell.Care
	c.on = c.cell.Up
	c.cell = c.cell.next()
	c.blamed = c.cell.blamed()
	return first, c.write()
}

// next is the cell at the start after that end.
func (s starts) next() starts {
	out := starts{Up: true, Care: s.Up, Ends: map[string]int{}}
	if !s.Up {
		return out // in order
	}
	for _, place := range s.Places {
		out.Ends[place] = s.Ends[place] + 1
	}
	return out
}

// blamed are the places over which the process ended too often.
func (s starts) blamed() map[string]bool {
	out := map[string]bool{}
	for place, n := range s.Ends {
		limit := endsNote
		if strings.HasPrefix(place, prefixRun) {
			limit = endsRun
		}
		out[place] = n >= limit
	}
	return out
}

// suspect counts a bad end against a place that was not written down.
func (c *crashGuard) suspect(place string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cell.Ends[place]++
	return c.write()
}

// write keeps the cell. A journal that is full keeps nobody from starting or
// stopping: what it does not take is not counted.
func (c *crashGuard) write() error {
	if err := c.journal.SetMeta(cellStarts, encode(c.cell)); !isStall(err) {
		return err
	}
	return nil
}

// suspects reports whether the process may have died over the place before.
func (c *crashGuard) suspects(place string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.on && c.cell.Ends[place] > 0
}

// blames reports whether the process died over the place too often: it is not
// worked on any more.
func (c *crashGuard) blames(place string) bool { return c.blamed[place] }

// visit is the work on some places.
type visit struct {
	c       *crashGuard
	places  []string
	on      bool
	suspect bool // it holds the turn
	left    bool
}

// enter waits until it is the turn of the places. ok is false when the executor
// stops before that.
func (c *crashGuard) enter(ctx context.Context, places ...string) (v *visit, ok bool) {
	c.mu.Lock()
	v = &visit{c: c, places: places, on: c.on}
	c.mu.Unlock()
	if !v.on || !slices.ContainsFunc(places, c.suspects) {
		return v, true
	}
	if !c.sleep(ctx, c.wait) {
		return nil, false
	}
	select {
	case c.turn <- struct{}{}:
		v.suspect = true
		return v, true
	case <-ctx.Done():
	case <-c.quit:
	}
	return nil, false
}

// begin records that the places are worked on from now on. Where the work waits
// for something else in between, it pauses: an end of the process is then not
// theirs.
func (v *visit) begin() {
	if v.on {
		v.c.record(func() { v.c.cell.Places = append(v.c.cell.Places, v.places...) })
	}
}

func (v *visit) pause() {
	if v.on && v.c.alive() { // else it may be what ended the executor
		v.c.record(func() { v.c.away(v.places) })
	}
}

// survived records that the work is done. It may be called twice.
func (v *visit) survived() {
	if v == nil || !v.on || v.left {
		return
	}
	v.left = true
	if v.c.alive() { // else it may be what ended the executor
		v.c.record(func() {
			v.c.away(v.places)
			for _, place := range v.places {
				delete(v.c.cell.Ends, place)
			}
		})
	}
	if v.suspect {
		<-v.c.turn
	}
}

// record changes the cell. The guard may have been switched off meanwhile.
func (c *crashGuard) record(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.on {
		return
	}
	change()
	_ = c.write() //nolint:errcheck // a journal that fails stops the executor elsewhere
}

// away takes places out of the cell.
func (c *crashGuard) away(places []string) {
	c.cell.Places = slices.DeleteFunc(c.cell.Places, func(place string) bool { return slices.Contains(places, place) })
}

func (c *crashGuard) sleep(ctx context.Context, d time.Duration) bool {
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

// run switches the guard off once the process has lived long enough.
func (c *crashGuard) run(ctx context.Context) {
	if !c.sleep(ctx, goodAfter) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on, c.cell = false, starts{Up: true, Ends: map[string]int{}}
	_ = c.write() //nolint:errcheck // a journal that fails stops the executor elsewhere; the next start is only more careful
}

// end lets nobody wait for a turn any longer.
func (c *crashGuard) end() { close(c.quit) }

// stopped records a stop in order.
func (c *crashGuard) stopped(failure error) error {
	if failure != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on, c.cell = false, starts{}
	return c.write()
}
