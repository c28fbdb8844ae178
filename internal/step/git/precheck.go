package git

import (
	"context"
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
)

// syncable refuses a moment at which the application would not be synced, or at which
// somebody else's sync is under way. A sync and a sync window pass by themselves.
func syncable(app gitops.Application) error {
	refuse := func(format string, args ...any) error {
		return &fault.Error{Reason: fault.Throttled, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case app.Deleting:
		return &fault.Error{Reason: fault.Owned, Message: app.Title() + " is being deleted"}
	case app.Hydrated:
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"%s is synced from what its source hydrator writes: it never syncs a commit of its source", app.Title())}
	case app.Suspended != "":
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"%s is suspended (spec.suspend): Flux would not deploy a commit: resume it, or change the cluster by hand", app.Suspended)}
	case app.Window != "":
		return refuse("%s may not be synced now: sync window %s", app.Title(), app.Window)
	case app.Operation.Running:
		return refuse("%s: wait for the end of it", syncing(app))
	}
	return nil
}

// syncing describes the sync that is under way.
func syncing(app gitops.Application) string {
	by := app.Operation.By
	if by == "" {
		by = "automated"
	}
	return fmt.Sprintf("%s is being synced (%s, by %s)", app.Title(), strings.Join(shorts(app.Operation.Revisions), ", "), by)
}

// recheck checks the application again right before anything is written: a retry,
// or the merge of a pull request, may come long after the plan. A closed window is
// throttled, so that the playbook's retries wait for it. Anything that Argo CD has
// done since the plan, or does now, is a conflict, which needs a fresh plan. If
// Argo CD does not answer, nothing is written. recheck returns what remains of the
// plan's drift.
//
// An undo is not rechecked: it is committed at once, and Argo CD syncs it when the
// window opens.
func (g Change) recheck(ctx context.Context, in step.Input, plan machine.Plan, p gitPayload, base string) ([]machine.Drift, error) {
	app, err := g.a.Application(ctx, p.Application)
	if err != nil {
		return nil, err
	}
	moved := func(format string, args ...any) error {
		return &fault.Error{Reason: fault.Conflict, Message: plan.Step + ": nothing was written: " + fmt.Sprintf(format, args...)}
	}
	if app.Operation.Running {
		return nil, moved("since it was planned, %s", syncing(app))
	}
	if err := syncable(app); err != nil {
		e := *step.AsError(err)
		e.Message = plan.Step + ": nothing was written: " + e.Message
		return nil, &e
	}
	if err := Manages(app, p.target(in.Service.Namespace)); err != nil {
		return nil, err
	}
	if src, index, err := source(in.Service, app); err != nil {
		return nil, err
	} else if index != p.Index || !sameRepository(src.Repository, p.Repository) || !samePath(src.Path, p.Path) {
		return nil, moved("%s deploys from %s since it was planned", app.Title(), sourcesText(app.Sources))
	} else if !p.follows(app, src.Branch) {
		return nil, moved("%s deploys %s of it since it was planned", app.Title(), branchText(followed(app, index)))
	}
	// A revert of what waits to be deployed finds the application out of sync: for that very reason.
	deployed := site{app: app, index: p.Index}.deployed()
	if (len(p.Set) > 0 || deployed == "" || deployed == base) && !inSync(app, plan.Drift) {
		return nil, moved("%s is %s since it was planned%s", app.Title(), step.OrNone(app.Sync), differing(app))
	}
	return driftOf(app.Remaining(driftedResources(plan.Drift))), nil
}

// follows reports whether an application deploys the branch of a plan. A plan
// of an older journal does not record what the application named.
func (p gitPayload) follows(app gitops.Application, branch string) bool {
	if p.Follows == nil {
		return branch == p.Branch || branch == ""
	}
	return followed(app, p.Index) == *p.Follows
}

func branchText(name string) string {
	if name == "" {
		return "HEAD"
	}
	return "branch " + name
}

// recheckMerge makes the checks of a push before a pull request is merged, because
// commits of others would be rolled out with it.
func (g Change) recheckMerge(ctx context.Context, in step.Input, plan machine.Plan, p gitPayload) error {
	prop, err := g.propose(ctx, p, in.Service.Namespace)
	if err != nil {
		return movedOn(plan, err)
	}
	if prop.Read != p.Read {
		return g.moved(ctx, in, plan, p, prop)
	}
	_, err = g.recheck(ctx, in, plan, p, prop.Base)
	return err
}

// dryRun has the API server judge the manifests of a change before they are
// committed, and returns notes on what it could not be asked. A change is refused
// if the API server rejects it (schema, admission) or if admission sets another
// value.
func (g Change) dryRun(ctx context.Context, in step.Input, stepName string, prop gitops.Proposal, e effect) (notes []string, err error) {
	if !prop.Plain {
		notes = append(notes, "the API server was not asked about all of the change: a chart, a kustomization or a generator renders what is committed")
	}
	for _, m := range prop.Manifests {
		stored, err := g.o.Try(ctx, in.Service.Namespace, m.Data)
		switch {
		case err == nil:
			if err := g.admitted(in, stepName, m, stored, e); err != nil {
				return nil, err
			}
		case step.HasReason(err, fault.Forbidden), step.HasReason(err, fault.NotFound):
			notes = append(notes, fmt.Sprintf("the API server could not be asked whether it accepts %s (%s:%d): %s", m.Object, m.File, m.Line, step.AsError(err).Error()))
		case !step.HasReason(err, fault.Invalid):
			return nil, err
		default:
			if m.Before != nil {
				if _, before := g.o.Try(ctx, in.Service.Namespace, m.Before); step.HasReason(before, fault.Invalid) {
					// It is deployed all the same: by other ways than ours to ask.
					notes = append(notes, fmt.Sprintf("it is unknown whether the API server accepts %s (%s:%d): it refuses the present manifest, too: %s",
						m.Object, m.File, m.Line, step.AsError(before).Error()))
					continue
				}
			}
			return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: the API server would refuse %s (%s:%d) after the change: %s", stepName, m.Object, m.File, m.Line, step.AsError(err).Error())}
		}
	}
	return notes, nil
}

// admitted refuses a change of the workload's own manifest if the API server
// accepts it with another value.
func (g Change) admitted(in step.Input, stepName string, m gitops.Manifest, stored []byte, e effect) error {
	ref := step.RefOf(in.Service)
	for _, l := range e.live {
		if !strings.HasPrefix(m.Object, ref.Kind+" ") || l.Indirect || l.Kind != "" || l.Image != "" {
			continue
		}
		t := gitops.Target{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Container: l.Container}
		now, err := gitops.Live([][]byte{stored}, t, l.variable())
		if err != nil || l.matches(now, l.To) {
			continue // after the sync it is read again
		}
		return &fault.Error{Reason: fault.Overridden, Message: fmt.Sprintf(
			"%s: a commit would not change what runs: the API server changes %s to %s, not %s: an admission webhook or policy sets it", stepName, l.Variable, now, notSet(l.To))}
	}
	return nil
}
