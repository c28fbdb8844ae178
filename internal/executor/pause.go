package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/ladder"
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
	KindRightRefused   = "right.refused"       // RightRefused: somebody lacked a right, other than about a run that can be processed
	KindNoticeDue      = "notice.due"          // Due: people have to be told
	KindNotice         = "notice"              // Notice: what became of it
	KindReported       = "report.made"         // Reported: a report over a period
	KindStalled        = "journal.stalled"     // Stalled: people were refused because the journal took nothing
)

// Scope is what a pause is about. Without service and playbook: everything.
type Scope struct {
	Service  string `json:"service,omitempty"`
	Playbook string `json:"playbook,omitempty"`
}

// Covers reports whether runs of that playbook on that service are within it.
func (s Scope) Covers(service, playbook string) bool {
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
	mu   sync.RWMutex // guards all below; only the loop changes set; a leaf lock
	set  map[Scope]Pause
	hold string // why no run may start in this process; empty: nothing of the kind
}

// why reports which pause covers a playbook on a service, empty when none does.
func (p *pauses) why(service, playbook string) string {
	if hold := p.held(); hold != "" {
		return hold
	}
	for _, x := range p.list() {
		if x.Scope.Covers(service, playbook) {
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

// has reports whether there is a pause with exactly that scope.
func (p *pauses) has(s Scope) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, ok := p.set[s]
	return ok
}

// setBy returns who set the pause with exactly that scope; empty: there is none.
func (p *pauses) setBy(s Scope) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.set[s].By
}

func (p *pauses) held() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.hold
}

func (p *pauses) setHold(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = why
}

// HoldStarts keeps every run from starting while the cluster is replaced: until release
// is called, or else until the process or the executor ends. Where runs are open it holds
// nothing and returns them. No run starts between that check and the hold. It is not
// recorded. Alerts that come in meanwhile are decided after release, or at the next
// start. why is the reason that people are told.
func (e *Executor) HoldStarts(ctx context.Context, why string) (release func(), open []machine.State, err error) {
	if err := e.Ready(); err != nil {
		return nil, nil, err
	}
	// Nobody would release a hold that begins after its caller has gone.
	err = e.do(context.WithoutCancel(ctx), &task{free: true, decide: func(*batch) error {
		only := true
		if open = e.Runs(Filter{Open: &only}); len(open) == 0 {
			e.pauses.setHold(why)
		}
		return nil
	}})
	release = func() {
		e.pauses.setHold("")
		e.poke()
	}
	return release, open, err
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
	t := &task{person: true}
	t.decide = func(b *batch) error {
		p := Pause{Scope: s, By: by, Reason: reason, Since: b.now}
		b.record(KindPauseSet, p)
		t.then = func() { e.pauses.fold(p, true) }
		return nil
	}
	if err := e.do(ctx, t); err != nil {
		return err
	}
	return e.tellPauses(ctx)
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
	t := &task{person: true}
	t.decide = func(b *batch) error {
		if !e.pauses.has(s) {
			return fmt.Errorf("%w: %s is not paused", ErrNotFound, s)
		}
		if reason == "" && e.pauses.setBy(s) == breaker {
			return fmt.Errorf("%w: missing reason: the circuit breaker paused %s; say what was found", ErrInvalid, s)
		}
		p := Pause{Scope: s, By: by, Reason: reason, Since: b.now}
		b.record(KindPauseLifted, p)
		all := s == Scope{}
		if all {
			b.ladder = append(b.ladder, audit.Record{Kind: ladder.KindRearmed, Time: b.now, Data: encode(ladder.Rearmed{By: by, Reason: reason})})
		}
		t.then = func() {
			e.pauses.fold(p, false)
			if all {
				e.ladder.Rearm()
			}
		}
		return nil
	}
	if err := e.do(ctx, t); err != nil {
		return err
	}
	defer e.poke()
	return e.tellPauses(ctx)
}

// tellPauses brings every open run in line with the pauses. The runs' own
// record of it is for their readers: what a pause forbids is asked of the
// pauses themselves, which are in force before any run is told.
func (e *Executor) tellPauses(ctx context.Context) error {
	var told []*task
	for _, r := range e.openRuns() {
		t := &task{shared: true, decide: func(b *batch) error { return b.tellPause(r) }}
		if err := e.post(t); err != nil {
			return err
		}
		told = append(told, t)
	}
	for _, t := range told {
		select {
		case err := <-t.done:
			if err != nil && !errors.Is(err, ErrConflict) {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("it is in force, and runs are still being told: %w", ctx.Err())
		}
	}
	return nil
}

// tellPause brings a run in line with the pauses.
func (b *batch) tellPause(r *run) error {
	s := b.state(r)
	c := machine.Command{Kind: machine.CmdUnpause, Now: b.now}
	if r.dead != nil || s.Phase == machine.PhaseEnded {
		return nil
	}
	if why := cmp.Or(b.e.paused(s), b.e.stops(s)); why != "" {
		c.Kind, c.Message = machine.CmdPause, why
	}
	// The words of a guard may change with the time.
	same := strings.HasPrefix(s.Paused, stopped) && strings.HasPrefix(c.Message, stopped)
	if same || s.Paused == c.Message {
		return nil
	}
	refused, err := b.turn(r, c)
	return errors.Join(refused, err)
}

// openRuns lists the open runs, in the order of their ids, which is that of
// their start.
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
