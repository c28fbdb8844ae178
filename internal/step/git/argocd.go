package git

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// This file holds what argocd.sync and argocd.rollback share: the application of
// a service, and how a sync of ours is told from one of somebody else.

// running returns the revisions that were last synced: what runs, as far as
// Argo CD deployed it.
func running(app gitops.Application) []string {
	if n := len(app.History); n > 0 {
		return slices.Clone(app.History[n-1].Revisions)
	}
	return nil
}

// knownToRun refuses an application if its history does not tell what runs, or
// if a sync to the former revision would not restore it: the change could not
// be undone.
func knownToRun(stepName string, app gitops.Application) error {
	from, op := running(app), app.Operation
	refuse := func(format string, args ...any) error {
		return &fault.Error{Reason: fault.NoData, Message: stepName + ": " + app.Name + fmt.Sprintf(format, args...)}
	}
	switch {
	case len(from) == 0:
		return refuse(" has no sync in its history: there is no revision to go back to")
	case op.DryRun:
		return refuse("'s last operation was a dry run by %s: the revision that runs is unknown: sync the application by hand first", step.OrNone(op.By))
	case op.Phase != "" && (op.Phase != "Succeeded" || !slices.Equal(op.Revisions, from)):
		return refuse("'s last sync, to %s by %s, ended %s and is not in its history, which ends with %s: what runs is unknown and could not be restored: sync the application by hand first",
			strings.Join(shorts(op.Revisions), ", "), step.OrNone(op.By), op.Phase, strings.Join(shorts(from), ", "))
	case app.History[len(app.History)-1].Differs != "":
		return refuse(" itself was changed since it was last synced (%s): a sync would apply that change, and a rollback to %s would not revert it: sync the application by hand first",
			app.History[len(app.History)-1].Differs, strings.Join(shorts(from), ", "))
	}
	switch app.Sync {
	case "Synced", "OutOfSync":
		return nil
	}
	return uncompared(stepName, app)
}

// uncompared returns the error for an application that Argo CD cannot compare
// with its branch.
func uncompared(stepName string, app gitops.Application) error {
	return &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf(
		"%s: %s is %s: Argo CD cannot compare it with its branch%s", stepName, app.Name, step.OrNone(app.Sync), differing(app))}
}

// argo holds what the levers on an application share.
type argo struct {
	a step.Applications
	w step.Workloads

	services func() []playbook.Service
	recovery recovery
}

func newArgo(d step.Deps) argo {
	l := argo{d.Applications, d.Workloads, d.Services, recovery(d.Recovery)}
	if l.services == nil {
		l.services = func() []playbook.Service { return nil }
	}
	return l
}

// argoPayload is the payload of a plan on an application.
type argoPayload struct {
	Application string   `json:"application"`
	From        []string `json:"from"` // revisions that ran when it was planned
	To          []string `json:"to"`
	Last        int64    `json:"last"` // newest entry of the history when it was planned: the precondition
}

func (l argo) find(ctx context.Context, in step.Input) (site, error) {
	switch {
	case l.a == nil:
		return site{}, step.NotConfigured("Argo CD", "gitops.argocd")
	case l.w == nil:
		return site{}, step.NotConfigured("cluster", "kubernetes")
	}
	at, err := managing(ctx, l.w, l.a, in.Service)
	if err != nil {
		return at, err
	}
	return at, syncable(at.app)
}

// planned returns the part of a plan that both levers share.
func (l argo) planned(ctx context.Context, in step.Input, at site, stepName string, p argoPayload) (machine.Plan, error) {
	lacks, err := l.a.Lacks(ctx, at.app.Name)
	if err != nil {
		return machine.Plan{}, err
	}
	p.Last = newestEntry(at.app)
	plan := machine.Plan{Step: stepName, Target: step.Target(at.w), Locks: append(step.Locks(in.Service), "application:"+at.app.Name), Lacks: lacks, Payload: step.EncodeJSON(p)}
	plan.Target.Generation = 0
	plan.Touches = l.touched(ctx, in.Service, at.app)
	if len(plan.Touches) > 0 {
		plan.Locks = append(plan.Locks, step.TouchedLocks(plan.Touches)...)
		plan.Notes = append(plan.Notes, "judged for all that "+at.app.Name+" deploys: also for "+step.TouchedNames(plan.Touches))
	}
	plan.Diff = []machine.FieldChange{{
		Path: "application " + at.app.Name + " revision", From: strings.Join(p.From, ", "), To: strings.Join(p.To, ", "),
	}}
	return plan, nil
}

func newestEntry(app gitops.Application) int64 {
	if n := len(app.History); n > 0 {
		return app.History[n-1].ID
	}
	return 0
}

// Apply implements [step.Lever].
func (l argo) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[argoPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	app, err := l.look(ctx, p)
	if err != nil {
		return nil, err
	}
	switch l.moved(app, p, in, nil) {
	case "":
	case machine.ActionApply:
		return nil, &fault.Error{Reason: fault.Conflict, Unknown: true, Message: plan.Step + ": " + app.Name + " seems to be synced already"}
	default:
		return nil, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: %s since it was planned", plan.Step, byOthers(app, p))}
	}
	if now := app.History[len(app.History)-1].Differs; now != "" {
		return nil, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: %s itself was changed since it was planned (%s)", plan.Step, app.Name, now)}
	}
	if err := l.touchesStill(ctx, in, plan, app); err != nil {
		return nil, err
	}
	s := gitops.Sync{Application: p.Application, Revisions: p.To, Key: effectKey(in.Key, machine.ActionApply)}
	if err := l.a.Sync(ctx, s); err != nil {
		return nil, err
	}
	app.Resources = untouched(app)
	return step.EncodeJSON(step.GitReceipt{
		Action: machine.ActionApply, Revision: strings.Join(p.To, ","), Drift: driftOf(app.Remaining(driftedResources(plan.Drift))),
	}), nil
}

func (l argo) look(ctx context.Context, p argoPayload) (gitops.Application, error) {
	if l.a == nil {
		return gitops.Application{}, step.NotConfigured("Argo CD", "gitops.argocd")
	}
	return l.a.Application(ctx, p.Application)
}

// foreignSync is the result of argo.moved if somebody else synced the
// application.
const foreignSync machine.Action = "foreign"

// moved tells where an application stands: empty when neither of the two
// changes was made or begun. The operation carries the key that it was asked for
// with, and one that failed leaves no entry in the history. A dry run by anybody
// takes the place of the operation before it: what the history then says is ours
// by the receipt, and what it does not say is not known.
func (l argo) moved(app gitops.Application, p argoPayload, in step.Input, receipt json.RawMessage) machine.Action {
	if anew(app, p) {
		return foreignSync
	}
	var since [][]string
	for _, d := range app.History {
		if d.ID > p.Last {
			since = append(since, d.Revisions)
		}
	}
	is := func(want ...[]string) bool { return slices.EqualFunc(since, want, slices.Equal[[]string]) }
	op := app.Operation
	open := op.Running || op.Phase != "Succeeded" // it has left no entry, or is about to
	by := func(a machine.Action, to []string) bool {
		return op.Key == effectKey(in.Key, a) && slices.Equal(op.Revisions, to) && !op.DryRun
	}
	hidden := func(a machine.Action) bool { return op.DryRun && actionOf(receipt) == a }
	switch {
	case by(machine.ActionApply, p.To) && (is(p.To) || open && is()), hidden(machine.ActionApply) && is(p.To):
		return machine.ActionApply
	case by(machine.ActionUndo, p.From) && (is(p.From) || is(p.To, p.From) || open && (is() || is(p.To))),
		hidden(machine.ActionUndo) && (is(p.From) || is(p.To, p.From)):
		return machine.ActionUndo
	case is() && !op.DryRun && !op.Running && (op.Phase == "" || op.Phase == "Succeeded" && slices.Equal(op.Revisions, p.From)):
		return ""
	default:
		return foreignSync
	}
}

// anew reports whether the application was deleted and recreated after the
// plan: its history does not reach back to it.
func anew(app gitops.Application, p argoPayload) bool {
	return len(app.History) == 0 || newestEntry(app) < p.Last
}

// actionOf returns the action that a receipt is of; empty: there is no receipt.
func actionOf(receipt json.RawMessage) machine.Action {
	var made step.GitReceipt
	if len(receipt) == 0 || json.Unmarshal(receipt, &made) != nil {
		return ""
	}
	return made.Action
}

// byOthers describes what somebody else did to an application.
func byOthers(app gitops.Application, p argoPayload) string {
	op := app.Operation
	switch {
	case anew(app, p):
		return fmt.Sprintf("the history of %s was replaced: the application was deleted and created again", app.Name)
	case op.DryRun && newestEntry(app) == p.Last:
		return fmt.Sprintf("%s had %s synced as a dry run, which hides the operation before it", step.OrNone(op.By), app.Name)
	case !op.DryRun && len(op.Revisions) > 0:
		return fmt.Sprintf("%s synced %s to %s (%s)", step.OrNone(op.By), app.Name, strings.Join(shorts(op.Revisions), ", "), step.OrNone(op.Phase))
	}
	return fmt.Sprintf("someone else synced %s to %s", app.Name, strings.Join(shorts(running(app)), ", "))
}

// Observe implements [step.Lever].
func (l argo) Observe(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, undo bool) (step.Observation, error) {
	p, err := step.Payload[argoPayload](plan.Step, plan.Payload)
	if err != nil {
		return step.Observation{}, err
	}
	app, err := l.look(ctx, p)
	if err != nil {
		return step.Observation{}, err
	}
	want, at := machine.ActionApply, p.To
	if undo {
		want, at = machine.ActionUndo, p.From
	}
	switch got := l.moved(app, p, in, receipt); {
	case got == want:
	case got == "" && !undo, got == machine.ActionApply && undo:
		return step.Observation{Progress: fmt.Sprintf("%s runs %s, as before", app.Name, strings.Join(shorts(running(app)), ", "))}, nil
	default:
		return step.Observation{Foreign: true, Progress: byOthers(app, p)}, nil
	}
	drift := remainingDrift(plan, receipt, app)
	o := step.Observation{Applied: true, Receipt: step.EncodeJSON(step.GitReceipt{Action: want, Revision: strings.Join(at, ","), Drift: drift})}
	state, why := gitops.Operated(app.Without(driftedResources(drift)), at)
	l.recovery.rollout(&o, state, why, app, in.Now)
	rolling(ctx, l.w, in, plan, &o)
	return o, nil
}

// Nudge implements nudger of package step: Argo CD is asked to look at what runs now.
func (l argo) Nudge(ctx context.Context, _ step.Input, plan machine.Plan, _ bool) error {
	p, err := step.Payload[argoPayload](plan.Step, plan.Payload)
	if err != nil {
		return err
	}
	app, err := l.look(ctx, p)
	if err != nil || app.Operation.Running || app.Compared.After(app.Operation.Finished) {
		return err
	}
	return l.a.Refresh(ctx, p.Application)
}

// Undo implements [step.Lever].
func (l argo) Undo(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := step.Payload[argoPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	app, err := l.look(ctx, p)
	if err != nil {
		return nil, err
	}
	switch l.moved(app, p, in, receipt) {
	case machine.ActionApply:
	case "":
		return nil, &fault.Error{Reason: fault.NothingToDo, Message: plan.Step + ": " + app.Name + " was not synced, there is nothing to undo"}
	case machine.ActionUndo:
		return nil, &fault.Error{Reason: fault.Conflict, Unknown: true, Message: plan.Step + ": it seems to be undone already"}
	default:
		return nil, &fault.Error{Reason: fault.ForeignChange, Message: byOthers(app, p) + "; nothing was undone"}
	}
	if app.Operation.Running {
		// It may hang for ever, in a hook that does not end. Undo is tried again.
		if err := l.a.Stop(ctx, p.Application, effectKey(in.Key, machine.ActionApply)); err != nil {
			return nil, err
		}
		return nil, &fault.Error{Reason: fault.Throttled, Message: fmt.Sprintf("%s: %s is still being synced; Argo CD was asked to stop that", plan.Step, app.Name)}
	}
	if err := l.a.Sync(ctx, gitops.Sync{Application: p.Application, Revisions: p.From, Key: effectKey(in.Key, machine.ActionUndo)}); err != nil {
		return nil, err
	}
	return step.EncodeJSON(step.GitReceipt{Action: machine.ActionUndo, Revision: strings.Join(p.From, ","), Drift: driftAt(plan, receipt)}), nil
}
