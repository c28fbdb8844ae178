package executor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Kinds of records in the stream control that this package writes.
const (
	KindPauseSet       = "pause.set"           // Pause
	KindPauseLifted    = "pause.lifted"        // Pause: who lifted it and why
	KindLoaded         = "playbooks.loaded"    // Loaded
	KindRejected       = "playbooks.rejected"  // Rejected
	KindPolicyLoaded   = "policy.loaded"       // PolicyLoaded
	KindPolicyRejected = "policy.rejected"     // Rejected
	KindPolicyRemoved  = "policy.removed"      // PolicyRemoved
	KindRunQuarantined = "run.quarantined"     // Quarantined
	KindRunReleased    = "run.released"        // Released
	KindRunRequested   = "run.requested"       // Requested: a person started a run
	KindRequestRefused = "run.request-refused" // RequestRefused: a person wanted one and got none
	KindNoticeDue      = "notice.due"          // Due: people have to be told
	KindNotice         = "notice"              // Notice: what became of it
)

// Scope is what a pause is about. Without service and playbook: everything.
type Scope struct {
	Service  string `json:"service,omitempty"`
	Playbook string `json:"playbook,omitempty"`
}

// covers reports whether runs of that playbook on that service are within it.
func (s Scope) covers(service, playbook string) bool {
	return (s.Service == "" || s.Service == service) && (s.Playbook == "" || s.Playbook == playbook)
}

func (s Scope) String() string {
	var parts []string
	if s.Service != "" {
		parts = append(parts, "service "+s.Service)
	}
	if s.Playbook != "" {
		parts = append(parts, "playbook "+s.Playbook)
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, " and ")
}

// Pause is a switch that is off: nothing new is begun within its scope.
type Pause struct {
	Scope  Scope     `json:"scope"`
	By     string    `json:"by"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// pauses is the projection of the pauses in the log.
type pauses struct {
	change sync.Mutex // one change at a time, from the log to the runs

	mu  sync.RWMutex // guards set; a leaf lock
	set map[Scope]Pause
}

// why reports which pause covers a playbook on a service, empty when none does.
func (p *pauses) why(service, playbook string) string {
	for _, x := range p.list() {
		if x.Scope.covers(service, playbook) {
			why := fmt.Sprintf("%s is paused by %s", x.Scope, x.By)
			if x.Reason != "" {
				why += ": " + x.Reason
			}
			return why
		}
	}
	return ""
}

// list returns the pauses, the widest and oldest first.
func (p *pauses) list() []Pause {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if len(p.set) == 0 {
		return nil
	}
	var out []Pause
	for _, x := range p.set {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b Pause) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(a.Scope.String(), b.Scope.String())
	})
	return out
}

// fold folds what the log says of a pause: it was set, or lifted.
func (p *pauses) fold(x Pause, set bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if set {
		p.set[x.Scope] = x
	} else {
		delete(p.set, x.Scope)
	}
}

// Pauses lists what is paused now.
func (e *Executor) Pauses() []Pause { return e.pauses.list() }

// Pause keeps runs within the scope from beginning anything new: no run starts
// and no lever applies. What is in the air is finished or undone. It holds
// until Unpause, also over restarts, and is durable when Pause returns.
func (e *Executor) Pause(ctx context.Context, s Scope, by, reason string) error {
	if by == "" {
		return fmt.Errorf("%w: who pauses?", ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.Ready(); err != nil {
		return err
	}
	e.pauses.change.Lock()
	defer e.pauses.change.Unlock()
	p := Pause{Scope: s, By: by, Reason: reason, Since: e.clock.now()}
	if err := e.appendControl(KindPauseSet, p); err != nil {
		return err
	}
	e.pauses.fold(p, true)
	return e.tellPauses()
}

// Unpause lifts the pause with exactly that scope. Alerts that it kept from
// starting a run, and that still fire as far as is known, are decided anew at
// once.
func (e *Executor) Unpause(ctx context.Context, s Scope, by, reason string) error {
	if by == "" {
		return fmt.Errorf("%w: who unpauses?", ErrInvalid)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.Ready(); err != nil {
		return err
	}
	e.pauses.change.Lock()
	defer e.pauses.change.Unlock()
	e.pauses.mu.RLock()
	_, ok := e.pauses.set[s]
	e.pauses.mu.RUnlock()
	if !ok {
		return fmt.Errorf("%w: %s is not paused", ErrNotFound, s)
	}
	lifted := Pause{Scope: s, By: by, Reason: reason, Since: e.clock.now()}
	if err := e.appendControl(KindPauseLifted, lifted); err != nil {
		return err
	}
	e.pauses.fold(lifted, false)
	defer e.poke()
	return e.tellPauses()
}

// tellPauses brings every open run in line with the pauses. The runs' own
// record of it is for their readers: what a pause forbids is asked of the
// pauses themselves, which are in force before any run is told.
func (e *Executor) tellPauses() error {
	const together = 200
	runs := e.openRuns()
	for part := range slices.Chunk(runs, together) {
		if err := e.tellSome(part); err != nil {
			return err
		}
	}
	return nil
}

func (e *Executor) tellSome(runs []*run) error {
	e.many.Lock()
	defer e.many.Unlock()
	for range 3 {
		b := e.batch()
		b.many = true
		for _, r := range runs {
			b.own(r)
			c := machine.Command{Kind: machine.CmdUnpause, Now: b.now}
			if why := e.pauses.why(r.state.Start.Service.Name, r.state.Start.Playbook); why != "" {
				c.Kind, c.Message = machine.CmdPause, why
			}
			if r.dead != nil || r.state.Phase == machine.PhaseEnded || r.state.Paused == c.Message {
				continue
			}
			if err := b.must(r, c); err != nil {
				b.unstage(r)
				e.quarantineRun(r, err)
			}
		}
		err := e.settle(b)
		if err == nil || !e.alive() {
			return err
		}
	}
	return fmt.Errorf("%w: runs keep moving, they learn of the pause later", ErrConflict)
}

// settle commits a batch over several runs, sees to what follows and gives
// back what it owns. After a conflict the runs are folded anew.
func (e *Executor) settle(b *batch) error {
	defer b.giveBack()
	err := b.commit()
	for _, r := range b.owned {
		switch st := b.byRun[r]; {
		case err == nil && st != nil && !st.fresh && len(st.events) > 0:
			e.follow(r)
		case err != nil && e.alive() && r.state.Head > 0 && r.dead == nil:
			if head, herr := e.o.Journal.Head(streamOf(r.id)); herr == nil && head != r.state.Head {
				err = joinRefold(err, e.refold(r))
			}
		}
	}
	return err
}

func joinRefold(err, again error) error {
	if again != nil {
		return fmt.Errorf("%w; %w", err, again)
	}
	return err
}

// openRuns lists the open runs, in the order of their ids, which is that of
// their start. Whoever locks several locks them in this order.
func (e *Executor) openRuns() []*run {
	e.mu.RLock()
	defer e.mu.RUnlock()
	out := make([]*run, 0, len(e.open))
	for _, r := range e.open {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *run) int { return strings.Compare(a.id, b.id) })
	return out
}
