package step

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// Set carries out the effects of runs. It is safe for concurrent use.
type Set struct {
	deps     Deps
	checks   map[string]Check
	levers   map[string]Lever
	planners map[string]Planner
}

// NewSet returns a set of these kinds of steps.
func NewSet(d Deps, kinds map[string]Kind) *Set {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Prober == nil {
		d.Prober = newNetProber(d.Networks)
	}
	if d.Notifier == nil {
		d.Notifier = logNotifier{d.Log}
	}
	s := &Set{deps: d, checks: map[string]Check{}, levers: map[string]Lever{}, planners: map[string]Planner{}}
	for name, k := range kinds {
		switch {
		case k.Check != nil:
			s.checks[name] = k.Check(d)
		case k.Lever != nil:
			s.levers[name] = k.Lever(d)
		default:
			s.planners[name] = k.Planner(d)
		}
	}
	return s
}

// Do carries out one effect within its timeout and returns the outcome. It does
// not panic. A mutation whose outcome is not known is StatusUnknown, and so is
// one during which a step panicked.
func (s *Set) Do(ctx context.Context, e machine.Effect) (out machine.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			s.deps.Log.Error("step panicked", "run", e.Run, "step", e.Step, "panic", p)
			out = machine.Outcome{Status: machine.StatusFailed, Reason: fault.Panic, Message: fmt.Sprintf("%s panicked: %v", e.Step, p)}
			if e.Action.Mutates() {
				out.Status = machine.StatusUnknown
			}
		}
	}()
	if e.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.Timeout)
		defer cancel()
	}
	in := Input{Run: e.Run, Key: e.Key, Service: e.Service, Alert: e.Alert, With: e.With, Now: s.deps.Now(), OperatorConfirmed: e.OperatorConfirmed, OperatorMade: e.OperatorMade, MergeBy: e.MergeBy, Verdict: e.Verdict}
	switch e.Action {
	case machine.ActionCheck:
		if len(e.Gather) > 0 {
			return s.gather(ctx, e, in)
		}
		return s.check(ctx, e, in)
	case machine.ActionPlan:
		return s.plan(ctx, e, in)
	case machine.ActionVerify:
		return s.prove(ctx, e, in)
	case machine.ActionNotify:
		return s.notify(ctx, e)
	case machine.ActionApply, machine.ActionUndo, machine.ActionSettle, machine.ActionUnwind:
		return s.change(ctx, e, in)
	default:
		return outcomeOf(Invalid("unknown action %q", e.Action), machine.StatusFailed)
	}
}

func (s *Set) check(ctx context.Context, e machine.Effect, in Input) machine.Outcome {
	c, ok := s.checks[e.Step]
	if !ok {
		return outcomeOf(Invalid("no check is called %q", e.Step), machine.StatusFailed)
	}
	found, err := c.Run(ctx, in)
	if err != nil {
		return outcomeOf(err, machine.StatusFailed)
	}
	data, err := json.Marshal(found.Out)
	if err != nil {
		return outcomeOf(Invalid("%s: the evidence cannot be encoded: %v", e.Step, err), machine.StatusFailed)
	}
	return machine.Outcome{Status: machine.StatusOK, Data: data, Facts: found.Facts}
}

func (s *Set) plan(ctx context.Context, e machine.Effect, in Input) machine.Outcome {
	l, ok := s.planner(e.Step)
	if !ok {
		return outcomeOf(Invalid("no lever is called %q", e.Step), machine.StatusFailed)
	}
	plan, err := l.Plan(ctx, in)
	if err != nil {
		routed, err := s.routed(ctx, e, in, err)
		if err != nil {
			return outcomeOf(err, machine.StatusRefused)
		}
		plan = *routed
	}
	_, plan.Stepwise = s.levers[plan.Step].(stepwise)
	s.measure(ctx, in, &plan)
	s.measureOthers(ctx, in, &plan)
	s.share(ctx, in, &plan)
	kept := s.capture(ctx, e, in, &plan)
	return machine.Outcome{Status: machine.StatusOK, Plan: &plan, Facts: append([]string{plan.Summary}, plan.Notes...), Gathered: kept}
}

// planner returns what plans a lever.
func (s *Set) planner(name string) (Planner, bool) {
	if p, ok := s.planners[name]; ok {
		return p, true
	}
	l, ok := s.levers[name]
	return l, ok
}

// change carries out an apply or an undo and observes the result.
func (s *Set) change(ctx context.Context, e machine.Effect, in Input) machine.Outcome {
	l, ok := s.leverOf(e)
	otherwise := machine.StatusFailed
	if e.Observe {
		otherwise = machine.StatusUnknown // that nobody can look says nothing about the change
	}
	switch {
	case !ok:
		return outcomeOf(Invalid("no lever is called %q", e.Step), otherwise)
	case e.Plan == nil:
		return outcomeOf(Invalid("%s: %s without a plan", e.Step, e.Action), otherwise)
	case e.Action == machine.ActionSettle, e.Action == machine.ActionUnwind:
		return s.settle(ctx, e, in, l)
	case e.Observe:
		return s.observe(ctx, e, in, l)
	case e.Action == machine.ActionUndo:
		receipt, err := l.Undo(ctx, in, *e.Plan, e.Receipt)
		if HasReason(err, fault.NothingToDo) {
			return outcomeOf(err, machine.StatusRefused)
		}
		if HasReason(err, fault.ForeignChange) {
			return foreign(ctx, e, in, l, Observation{Progress: err.Error()})
		}
		if err != nil {
			return outcomeOf(err, machine.StatusFailed)
		}
		out := machine.Outcome{Status: machine.StatusOK, Data: receipt, Waits: waitsFor(receipt)}
		if e.OperatorConfirmed {
			out.Message = "the operator confirmed that it is not in place; its marks on the target were removed"
		}
		return out
	}
	before, note, err := s.traffic(ctx, e, in.Now)
	if err != nil {
		// Without it the proof could never be made, and the change would be
		// undone for nothing. Nothing has been changed yet.
		return outcomeOf(err, machine.StatusFailed)
	}
	receipt, err := l.Apply(ctx, in, *e.Plan)
	if err != nil {
		out := outcomeOf(err, machine.StatusFailed)
		out.Before = before
		return out
	}
	return machine.Outcome{Status: machine.StatusOK, Data: receipt, Before: before, Message: note, Waits: waitsFor(receipt)}
}

// observe returns the outcome of an earlier apply or undo.
func (s *Set) observe(ctx context.Context, e machine.Effect, in Input, l Lever) machine.Outcome {
	undo := e.Action == machine.ActionUndo
	o, err := l.Observe(ctx, in, *e.Plan, e.Receipt, undo)
	switch {
	case err != nil:
		return outcomeOf(err, machine.StatusUnknown)
	case o.Foreign:
		return foreign(ctx, e, in, l, o)
	case o.Declined:
		return machine.Outcome{Status: machine.StatusRefused, Reason: fault.Denied, Message: o.Progress}
	case o.Unsure:
		return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Interrupted, Message: "looked: " + o.Progress}
	case !o.Applied && !o.Pending, o.Next:
		return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Interrupted, Message: "looked: it did not happen; " + o.Progress}
	}
	out := machine.Outcome{Status: machine.StatusOK, Data: o.Receipt, Message: "looked: it happened; " + o.Progress, Waits: o.Waits}
	if !undo {
		// The change is in the world already: ask how it was when it was decided.
		if before, note, err := s.traffic(ctx, e, e.At); err == nil {
			out.Before = before
			if note != "" {
				out.Message += "; " + note
			}
		}
	}
	return out
}

// foreign returns the outcome of a change whose target somebody else changed.
func foreign(ctx context.Context, e machine.Effect, in Input, l Lever, o Observation) machine.Outcome {
	out := machine.Outcome{Status: machine.StatusForeign, Reason: fault.ForeignChange, Message: o.Progress}
	if y, ok := l.(yielder); ok {
		if left := y.Yield(ctx, in, *e.Plan); left != "" {
			out.Message += "; " + left
		}
	}
	return out
}

// waitsFor returns the pull request that a receipt names; empty: none.
func waitsFor(receipt json.RawMessage) string {
	var r GitReceipt
	if len(receipt) == 0 || json.Unmarshal(receipt, &r) != nil {
		return ""
	}
	return r.Waits
}

// settle observes whether a change has taken effect.
func (s *Set) settle(ctx context.Context, e machine.Effect, in Input, l Lever) machine.Outcome {
	undo := e.Action == machine.ActionUnwind
	o, err := s.current(ctx, e, in, l, undo)
	if n, ok := l.(nudger); ok && err == nil && (o.Applied || o.Pending && in.MergeBy == machine.MergeResponder) && !o.Settled && !o.over() {
		switch nudged := n.Nudge(ctx, in, *e.Plan, undo); {
		case nudged == nil:
		case o.Pending:
			o.Progress += "; " + AsError(nudged).Error()
		case o.Unread == nil:
			o.Unread = nudged
		}
	}
	if f, ok := l.(follower); ok && err == nil && o.Applied && !o.Settled && !o.over() && o.Unread == nil {
		told, news := f.Follow(ctx, *e.Plan, o.Receipt)
		o.seen(told)
		if seen := o.Seen; news {
			o, err = l.Observe(ctx, in, *e.Plan, e.Receipt, undo)
			o.Seen = seen
		}
	}
	switch {
	case err != nil:
		return outcomeOf(err, machine.StatusFailed)
	case !o.Foreign && o.Declined:
		return machine.Outcome{Status: machine.StatusRefused, Reason: fault.Denied, Message: o.Progress}
	case !o.Foreign && o.Pending:
		return machine.Outcome{Status: machine.StatusPending, Message: o.Progress, Waits: o.Waits}
	case !o.Foreign && o.Applied && o.Unread != nil:
		return outcomeOf(o.Unread, machine.StatusFailed)
	case o.Foreign, !o.Applied:
		return foreign(ctx, e, in, l, o)
	case o.Overridden:
		return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Overridden, Message: o.Progress}
	case o.Degraded:
		return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Degraded, Message: o.Progress, Slow: o.Slow, Facts: o.Seen, Progress: o.Rollout}
	case !o.Settled:
		return machine.Outcome{Status: machine.StatusPending, Message: o.Progress, Facts: o.Seen, Again: o.Again, Progress: o.Rollout}
	}
	out := machine.Outcome{Status: machine.StatusOK, Message: o.Progress, Facts: o.Seen, Next: o.Next, Stays: o.Stays}
	if _, ok := l.(nudger); ok || o.Renews {
		out.Data = o.Receipt // by now it names the commit, also of what had to be merged first
	}
	return out
}

// current observes a change. A change that is made step by step takes its next
// step, unless everything is paused.
func (s *Set) current(ctx context.Context, e machine.Effect, in Input, l Lever, undo bool) (Observation, error) {
	x, ok := l.(stepwise)
	if !ok || undo || e.Paused != "" {
		o, err := l.Observe(ctx, in, *e.Plan, e.Receipt, undo)
		if ok && err == nil && o.Applied && !o.Settled && e.Paused != "" && !undo {
			o.Progress += "; paused: " + e.Paused
		}
		return o, err
	}
	return x.Advance(ctx, in, *e.Plan)
}

// prove takes one sample of the proof. It observes the target first, and once more before
// it reports success: figures prove nothing about a change that somebody else has replaced,
// also while they were read.
func (s *Set) prove(ctx context.Context, e machine.Effect, in Input) machine.Outcome {
	l, ok := s.leverOf(e)
	if !ok || e.Plan == nil {
		return outcomeOf(Invalid("%s: nothing to verify", e.Step), machine.StatusFailed)
	}
	o, err := l.Observe(ctx, in, *e.Plan, e.Receipt, false)
	if out, gone := replaced(in, o, err); gone {
		return out
	}
	if e.Proof != nil && e.Proof.Spec.Itself {
		return s.itself(ctx, e, in, l, o)
	}
	out := s.verify(ctx, e, in.Now)
	if out.Sample == nil || out.Sample.Verdict != machine.VerdictVerified {
		return out
	}
	o, err = l.Observe(ctx, in, *e.Plan, e.Receipt, false)
	if out, gone := replaced(in, o, err); gone {
		return out
	}
	if k, ok := l.(keeper); ok {
		if why := k.Kept(ctx, in, *e.Plan); why != nil {
			out.Sample.Verdict, out.Sample.Reason = machine.VerdictInconclusive, AsError(why).Reason
			out.Sample.Message = "the figures are met, and do not count yet: " + why.Error()
		}
	}
	return out
}

// replaced returns the outcome of a sample whose change is not in place, or is not known
// to be.
func replaced(in Input, o Observation, err error) (machine.Outcome, bool) {
	switch {
	case err != nil:
		return outcomeOf(err, machine.StatusFailed), true
	case o.Foreign, !o.Applied:
		return machine.Outcome{Status: machine.StatusForeign, Reason: fault.ForeignChange, Message: o.Progress}, true
	case o.Overridden:
		sample := machine.Sample{At: in.Now, Verdict: machine.VerdictFailed, Reason: fault.Overridden, Message: o.Progress}
		return machine.Outcome{Status: machine.StatusOK, Sample: &sample}, true
	}
	return machine.Outcome{}, false
}

// itself takes a sample of a change that is its own proof.
func (s *Set) itself(ctx context.Context, e machine.Effect, in Input, l Lever, o Observation) machine.Outcome {
	p, ok := l.(prover)
	switch {
	case !ok:
		return outcomeOf(Invalid("%s: it cannot tell whether its change stands", e.Step), machine.StatusFailed)
	case !o.Settled:
		return machine.Outcome{Status: machine.StatusOK, Sample: &machine.Sample{At: in.Now, Verdict: machine.VerdictWatching, Message: o.Progress}}
	}
	sample, err := p.Prove(ctx, in, *e.Plan, e.Receipt)
	if err != nil {
		return outcomeOf(err, machine.StatusFailed)
	}
	sample.At = in.Now
	return machine.Outcome{Status: machine.StatusOK, Sample: &sample}
}

func (s *Set) notify(ctx context.Context, e machine.Effect) machine.Outcome {
	err := s.deps.Notifier.Notify(ctx, Notice{
		Key: e.Key, Run: e.Run, Playbook: e.Playbook, State: e.State,
		Service: e.Service, Alert: e.Alert, Text: e.Text, To: e.To, Urgent: e.Urgent, Asks: e.Asks, At: e.At,
	})
	if err != nil {
		return outcomeOf(err, machine.StatusFailed)
	}
	out := machine.Outcome{Status: machine.StatusOK}
	if _, only := s.deps.Notifier.(logNotifier); only {
		out.Message = machine.LoggedOnly
	}
	return out
}

// logNotifier writes notices to the log if no channel is configured.
type logNotifier struct{ log *slog.Logger }

// Notify implements [Notifier]. It warns of what a person has to act on.
func (l logNotifier) Notify(ctx context.Context, n Notice) error {
	level := slog.LevelInfo
	if n.Urgent {
		level = slog.LevelWarn
	}
	l.log.Log(ctx, level, "notification", "run", n.Run, "playbook", n.Playbook, "step", n.State, "text", n.Text)
	return nil
}

// Prober asks an endpoint; *http.Client is one.
var _ Prober = (*http.Client)(nil)

// Locks returns the names of the locks of a lever on the service's workload.
func Locks(svc playbook.Service) []string { return []string{"service:" + svc.Name} }
