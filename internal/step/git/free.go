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

// free refuses a moment at which Argo CD would not sync, or somebody else's
// sync is under way. Both pass by themselves.
func free(app gitops.Application) error {
	refuse := func(format string, args ...any) error {
		return &fault.Error{Reason: fault.Throttled, Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case app.Deleting:
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("Argo CD application %s is being deleted", app.Name)}
	case app.Hydrated:
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"Argo CD application %s is synced from what its source hydrator writes: a commit of its source is never the synced one", app.Name)}
	case app.Window != "":
		return refuse("Argo CD application %s may not be synced now: sync window %s", app.Name, app.Window)
	case app.Operation.Running:
		return refuse("%s: wait for the end of it", syncing(app))
	}
	return nil
}

// syncing reports whose sync is under way.
func syncing(app gitops.Application) string {
	by := app.Operation.By
	if by == "" {
		by = "automated"
	}
	return fmt.Sprintf("Argo CD application %s is being synced (%s, by %s)", app.Name, strings.Join(shorts(app.Operation.Revisions), ", "), by)
}

// stillFree looks at the application again right before anything is written:
// another attempt, or the merge of a pull request, is long after the plan. What
// passes by itself is throttled, so that the playbook's retries wait for it. What Argo CD has done since, or does now,
// is a conflict: what it leaves is planned afresh. Argo CD that does not answer
// lets nothing be written. It gives what of the plan's list is still amiss.
//
// An undo does not ask: the branch is put right at once, and Argo CD takes it up
// when its window opens.
func (g Change) stillFree(ctx context.Context, in step.Input, plan machine.Plan, p gitPayload, base string) ([]machine.Drift, error) {
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
	if err := free(app); err != nil {
		e := *step.AsError(err)
		e.Message = plan.Step + ": nothing was written: " + e.Message
		return nil, &e
	}
	if err := managed(app, p.target(in.Service.Namespace)); err != nil {
		return nil, err
	}
	if src, index, err := source(in.Service, app); err != nil {
		return nil, err
	} else if index != p.Index || !sameRepository(src.Repository, p.Repository) || !samePath(src.Path, p.Path) {
		return nil, moved("Argo CD application %s deploys from %s since it was planned", app.Name, sourcesText(app.Sources))
	} else if !p.follows(app, src.Branch) {
		return nil, moved("Argo CD application %s deploys %s of it since it was planned", app.Name, branchText(followed(app, index)))
	}
	// A revert of what waits to be deployed finds the application out of sync: for that very reason.
	deployed := site{app: app, index: p.Index}.deployed()
	if (len(p.Set) > 0 || deployed == "" || deployed == base) && !inSync(app, plan.Drift) {
		return nil, moved("Argo CD application %s is %s since it was planned%s", app.Name, step.OrNone(app.Sync), differing(app))
	}
	return listed(app.Remaining(amissOf(plan.Drift))), nil
}

// follows reports whether an application deploys the branch that a plan is for.
// A plan of an older journal does not say what the application named then.
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

// stillMergeable looks before a pull request is merged at what is looked at
// before a push: what others have committed since would be rolled out with it.
func (g Change) stillMergeable(ctx context.Context, in step.Input, plan machine.Plan, p gitPayload) error {
	prop, err := g.propose(ctx, p, in.Service.Namespace)
	if err != nil {
		return movedOn(plan, err)
	}
	if prop.Read != p.Read {
		return g.moved(ctx, in, plan, p, prop)
	}
	_, err = g.stillFree(ctx, in, plan, p, prop.Base)
	return err
}
