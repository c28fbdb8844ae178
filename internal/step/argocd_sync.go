package step

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/playbook"
)

// argocdSyncKind declares argocd.sync.
func argocdSyncKind() playbook.Kind {
	return playbook.Kind{
		Name: "argocd.sync",
		Role: playbook.RoleLever,
		Doc: `Syncs the service's Argo CD application to what its branch says now. Undo syncs it back to the revision it was at.

For applications that are synced by hand. One that syncs by itself is refused: it goes there without being asked, and would not stay at a
former revision. Refused too when there is nothing to sync, in a closed sync window, and while somebody else's sync is under way.`,
		Idempotent: true,
	}
}

type argocdSync struct{ argo }

func newArgocdSync(d Deps) Lever {
	return argocdSync{newArgo(d)}
}

// Plan implements [Lever].
func (l argocdSync) Plan(ctx context.Context, in Input) (machine.Plan, error) {
	const kind = "argocd.sync"
	if _, err := decode[struct{}](argocdSyncKind(), in.With); err != nil {
		return machine.Plan{}, err
	}
	at, err := l.find(ctx, in)
	if err != nil {
		return machine.Plan{}, err
	}
	if at.app.Automated {
		return machine.Plan{}, &Error{Reason: machine.ReasonOwned, Message: fmt.Sprintf(
			"%s: Argo CD application %s syncs by itself: change Git, or revert in Git, instead", kind, at.app.Name)}
	}
	if at.app.Sync == "Synced" {
		return machine.Plan{}, &Error{Reason: machine.ReasonNothingToDo, Message: fmt.Sprintf("%s: %s is synced at %s already", kind, at.app.Name, strings.Join(shorts(at.app.Revisions), ", "))}
	}
	from := running(at.app)
	if len(from) == 0 {
		return machine.Plan{}, &Error{Reason: machine.ReasonNoData, Message: fmt.Sprintf("%s: %s was never synced: there is no revision to go back to", kind, at.app.Name)}
	}
	to := slices.Clone(at.app.Revisions)
	plan := l.planned(in, at, kind, argoPayload{Application: at.app.Name, From: from, To: to})
	plan.Summary = fmt.Sprintf("sync Argo CD application %s from %s to %s", at.app.Name, strings.Join(shorts(from), ", "), strings.Join(shorts(to), ", "))
	plan.Undo = "sync it back to " + strings.Join(shorts(from), ", ")
	at.app.Resources = untouched(at.app)
	apart(&plan, at, nil)
	rolloutPlan(&plan, at.w)
	return plan, nil
}

// untouched are the resources that a sync to what an application was compared with
// leaves as they are: what becomes of the others counts, however they were. What
// a rollback touches is not known before it, so that there all counts.
func untouched(app gitops.Application) []gitops.Resource {
	return slices.DeleteFunc(slices.Clone(app.Resources), func(r gitops.Resource) bool { return r.Sync != "Synced" })
}

// running are the revisions that were last synced: what runs, as far as Argo
// CD put it there.
func running(app gitops.Application) []string {
	if n := len(app.History); n > 0 {
		return slices.Clone(app.History[n-1].Revisions)
	}
	return nil
}

// argo is what levers on an application have in common.
type argo struct {
	a Applications
	m Manifests
	h History
	w Workloads

	recovery recovery
}

func newArgo(d Deps) argo {
	return argo{d.Applications, d.Manifests, d.History, d.Workloads, recovery(d.Recovery)}
}

// argoPayload is what a plan on an application needs.
type argoPayload struct {
	Application string   `json:"application"`
	From        []string `json:"from"` // revisions that ran when it was planned
	To          []string `json:"to"`
	Last        int64    `json:"last"` // newest entry of the history when it was planned: the precondition
}

func (l argo) find(ctx context.Context, in Input) (site, error) {
	switch {
	case l.a == nil:
		return site{}, missing("Argo CD", "gitops.argocd")
	case l.w == nil:
		return site{}, missing("cluster", "kubernetes")
	}
	var at site
	var err error
	if at.w, err = l.w.Workload(ctx, refOf(in.Service)); err != nil {
		return at, err
	}
	name, err := applicationOf(in.Service, at.w)
	if err != nil {
		return at, err
	}
	if at.app, err = l.a.Application(ctx, name); err != nil {
		return at, err
	}
	at.object = manifestOf(in.Service, at.w)
	if err := managed(at.app, at.object); err != nil {
		return at, err
	}
	return at, free(at.app)
}

// planned is the part of a plan that both levers have.
func (l argo) planned(in Input, at site, step string, p argoPayload) machine.Plan {
	p.Last = newestEntry(at.app)
	plan := machine.Plan{Step: step, Target: target(at.w), Locks: append(locks(in.Service), "application:"+at.app.Name), Payload: encode(p)}
	plan.Target.Generation = 0
	plan.Diff = []machine.FieldChange{{
		Path: "application " + at.app.Name + " revision", From: strings.Join(p.From, ", "), To: strings.Join(p.To, ", "),
	}}
	return plan
}

func newestEntry(app gitops.Application) int64 {
	if n := len(app.History); n > 0 {
		return app.History[n-1].ID
	}
	return 0
}

// Apply implements [Lever].
func (l argo) Apply(ctx context.Context, in Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := payload[argoPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	app, err := l.look(ctx, p)
	if err != nil {
		return nil, err
	}
	if newestEntry(app) != p.Last || app.Operation.Running {
		if l.moved(app, p, in) == machine.ActionApply {
			return nil, &Error{Reason: machine.ReasonConflict, Unknown: true, Message: plan.Step + ": " + app.Name + " seems to be there already"}
		}
		return nil, &Error{Reason: machine.ReasonConflict, Message: fmt.Sprintf("%s: %s was synced by someone else since it was planned", plan.Step, app.Name)}
	}
	s := gitops.Sync{Application: p.Application, Revisions: p.To, Key: effectKey(in.Key, machine.ActionApply)}
	if err := l.a.Sync(ctx, s); err != nil {
		return nil, err
	}
	app.Resources = untouched(app)
	return encode(gitReceipt{
		Action: machine.ActionApply, Revision: strings.Join(p.To, ","), Beside: listed(app.Remaining(amissOf(plan.Beside))),
	}), nil
}

func (l argo) look(ctx context.Context, p argoPayload) (gitops.Application, error) {
	if l.a == nil {
		return gitops.Application{}, missing("Argo CD", "gitops.argocd")
	}
	return l.a.Application(ctx, p.Application)
}

// foreignSync is where an application stands that somebody else synced.
const foreignSync machine.Action = "foreign"

// moved tells where an application stands: empty when neither of the two
// changes was made or begun. The operation carries the key it was asked for with.
func (l argo) moved(app gitops.Application, p argoPayload, in Input) machine.Action {
	entries := 0
	for _, d := range app.History {
		if d.ID > p.Last {
			entries++
		}
	}
	now := running(app)
	if op := app.Operation; op.Running || (op.Phase != "" && op.Phase != "Succeeded" && !slices.Equal(op.Revisions, now)) {
		now, entries = op.Revisions, entries+1
	}
	by := func(a machine.Action) bool { return app.Operation.Key == effectKey(in.Key, a) }
	switch {
	case entries == 1 && slices.Equal(now, p.To) && by(machine.ActionApply):
		return machine.ActionApply
	case entries == 2 && slices.Equal(now, p.From) && by(machine.ActionUndo):
		return machine.ActionUndo
	case entries == 0:
		return ""
	default:
		return foreignSync
	}
}

// Observe implements [Lever].
func (l argo) Observe(ctx context.Context, in Input, plan machine.Plan, receipt json.RawMessage, undo bool) (Observation, error) {
	p, err := payload[argoPayload](plan.Step, plan.Payload)
	if err != nil {
		return Observation{}, err
	}
	app, err := l.look(ctx, p)
	if err != nil {
		return Observation{}, err
	}
	want, at := machine.ActionApply, p.To
	if undo {
		want, at = machine.ActionUndo, p.From
	}
	switch got := l.moved(app, p, in); {
	case got == want:
	case got == "" && !undo, got == machine.ActionApply && undo:
		return Observation{Progress: fmt.Sprintf("%s runs %s, as before", app.Name, strings.Join(shorts(running(app)), ", "))}, nil
	default:
		return Observation{Foreign: true, Progress: fmt.Sprintf("someone else synced %s to %s", app.Name, strings.Join(shorts(running(app)), ", "))}, nil
	}
	beside := amissAt(plan, receipt)
	o := Observation{Applied: true, Receipt: encode(gitReceipt{Action: want, Revision: strings.Join(at, ","), Beside: beside})}
	state, why := gitops.Operated(app.Without(amissOf(beside)), at)
	l.recovery.rollout(&o, state, why, app, in.Now)
	return o, nil
}

// nudge implements [nudger]: Argo CD is asked to look at what runs now.
func (l argo) nudge(ctx context.Context, _ Input, plan machine.Plan, _ bool) error {
	p, err := payload[argoPayload](plan.Step, plan.Payload)
	if err != nil {
		return err
	}
	app, err := l.look(ctx, p)
	if err != nil || app.Operation.Running || app.Compared.After(app.Operation.Finished) {
		return err
	}
	return l.a.Refresh(ctx, p.Application)
}

// Undo implements [Lever].
func (l argo) Undo(ctx context.Context, in Input, plan machine.Plan, receipt json.RawMessage) (json.RawMessage, error) {
	p, err := payload[argoPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	app, err := l.look(ctx, p)
	if err != nil {
		return nil, err
	}
	switch l.moved(app, p, in) {
	case machine.ActionApply:
	case "":
		return nil, &Error{Reason: machine.ReasonNothingToDo, Message: plan.Step + ": " + app.Name + " was not synced, there is nothing to undo"}
	case machine.ActionUndo:
		return nil, &Error{Reason: machine.ReasonConflict, Unknown: true, Message: plan.Step + ": it seems to be undone already"}
	default:
		return nil, &Error{Reason: machine.ReasonForeignChange, Message: fmt.Sprintf("someone else synced %s to %s; nothing was put back", app.Name, strings.Join(shorts(running(app)), ", "))}
	}
	if app.Operation.Running {
		return nil, &Error{Reason: machine.ReasonThrottled, Message: fmt.Sprintf("%s: %s is still being synced", plan.Step, app.Name)}
	}
	if err := l.a.Sync(ctx, gitops.Sync{Application: p.Application, Revisions: p.From, Key: effectKey(in.Key, machine.ActionUndo)}); err != nil {
		return nil, err
	}
	return encode(gitReceipt{Action: machine.ActionUndo, Revision: strings.Join(p.From, ","), Beside: amissAt(plan, receipt)}), nil
}
