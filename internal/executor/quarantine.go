package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// Quarantined is the record of a run that cannot be processed.
type Quarantined struct {
	Run   string `json:"run"`
	Head  uint64 `json:"head"` // of its stream when it was set aside
	Error string `json:"error"`
}

// Notice is the record of a message to people that belongs to no run's events.
type Notice struct {
	Key   string `json:"key"`
	Text  string `json:"text"`
	Error string `json:"error,omitempty"` // why it could not be delivered
}

// setAside stops a run that cannot be processed, for good. Its locks stay taken:
// nobody knows what it left behind. The caller owns the run.
func (e *Executor) setAside(r *run, why error) {
	if r.dead != nil || !e.alive() {
		return
	}
	r.dead = why
	e.timers.set(r, time.Time{})
	e.log.Error("run quarantined", "run", r.id, "err", why)
	q := Quarantined{Run: r.id, Head: r.state.Head, Error: why.Error()}
	e.spawn(func() {
		if err := e.appendControl(KindRunQuarantined, q); err != nil {
			e.log.Error("quarantine could not be recorded", "run", q.Run, "err", err)
		}
	})
	e.tell(machine.Effect{
		Key: "run/" + r.id + "/quarantined", Run: r.id, Playbook: r.state.Start.Playbook, State: r.state.Current,
		Service: r.state.Start.Service, Alert: r.state.Start.Alert,
		Text: fmt.Sprintf("run %s cannot be processed and was set aside; if it changed anything, that is still in place: %v", r.id, why),
	})
}

// announce tells people of what a run asks them. What a run ends with and why
// it is held it tells them itself: those messages must survive a crash.
func (e *Executor) announce(s machine.State, events []machine.Event) {
	for i := range events {
		if g := events[i].Gate; events[i].Kind == machine.GateOpened && g != nil {
			e.tell(machine.Effect{
				Key: g.ID, Run: s.Start.Run, Playbook: s.Start.Playbook, State: s.Current, Service: s.Start.Service, Alert: s.Start.Alert,
				Text: fmt.Sprintf("run %s asks until %s: %s", s.Start.Run, g.Deadline.UTC().Format(time.RFC3339), g.Text),
			})
		}
	}
}

// tell sends a message to people, beside everything else, and records whether
// it was delivered.
func (e *Executor) tell(eff machine.Effect) {
	eff.Action, eff.Attempt, eff.At, eff.Timeout = machine.ActionNotify, 1, e.clock.now(), 15*time.Second
	e.spawn(func() {
		out := e.do(e.ctx, eff)
		n := Notice{Key: eff.Key, Text: eff.Text}
		if out.Status != machine.StatusOK {
			n.Error = out.Message
			e.log.Warn("people could not be told", "run", eff.Run, "err", out.Message)
		}
		if err := e.appendControl(KindNotice, n); err != nil && e.alive() {
			e.log.Error("notice could not be recorded", "run", eff.Run, "err", err)
		}
	})
}

// careful finds a record or run that kills the process, which no recover
// catches. Every start is counted in a cell of the journal, and the count goes
// back to zero when the process has lived for a while or stops in order. After
// a few bad starts in a row, what is about to be processed is written down
// first, one thing at a time; what the process died over three times, at the same
// place, is set aside. Panics in our own code need none of this: they are
// recovered and what caused them is set aside at once.
type careful struct {
	journal *audit.Journal
	alive   func() bool

	mu   sync.Mutex // guards cell; held, when on, while one thing is processed
	cell starts
	on   bool
}

// starts is the cell's content.
type starts struct {
	Bad     int            `json:"bad"`               // starts in a row without a good end
	Doing   string         `json:"doing,omitempty"`   // subject@position under way
	Strikes map[string]int `json:"strikes,omitempty"` // deaths by subject@position
}

const (
	cellStarts  = "executor/starts"
	carefulFrom = 3           // bad starts before things are written down
	strikesMost = 3           // deaths over one thing before it is set aside: kill -9 is no fault of what was under way
	goodAfter   = time.Minute // of life: the start was good
)

// started counts a start, and gives what is to be set aside.
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
	if c.cell.Strikes == nil {
		c.cell.Strikes = map[string]int{}
	}
	if c.cell.Doing != "" {
		c.cell.Strikes[c.cell.Doing]++
		c.cell.Doing = ""
	}
	c.on = c.cell.Bad >= carefulFrom
	c.cell.Bad++
	poison := map[string]bool{}
	for what, n := range c.cell.Strikes {
		if n >= strikesMost {
			poison[what] = true
		}
	}
	return poison, c.write()
}

func (c *careful) write() error { return c.journal.SetMeta(cellStarts, encode(c.cell)) }

// enter notes, when care is needed, that something is about to be processed.
// The function it gives notes that it was survived.
func (c *careful) enter(subject, position string) func() {
	c.mu.Lock()
	if !c.on {
		c.mu.Unlock()
		return func() {}
	}
	c.cell.Doing = subject + "@" + position
	if err := c.write(); err != nil {
		c.cell.Doing = ""
		c.mu.Unlock()
		return func() {}
	}
	return func() {
		defer c.mu.Unlock()
		if !c.alive() {
			return // it may be what ended the executor
		}
		c.cell.Doing = ""
		_ = c.write() //nolint:errcheck // the next entry writes it again; a journal that fails stops the executor elsewhere
	}
}

// run ends the careful time once the process has lived long enough.
func (c *careful) run(ctx context.Context) {
	timer := time.NewTimer(goodAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = false
	c.cell.Bad = 0
	_ = c.write() //nolint:errcheck // a journal that fails stops the executor elsewhere; the count is only too high
}

// stopped counts a stop in order.
func (c *careful) stopped(failure error) error {
	if failure != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cell.Bad, c.cell.Doing = 0, ""
	return c.write()
}
