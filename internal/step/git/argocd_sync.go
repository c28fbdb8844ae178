package git

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// ArgocdSyncKind declares argocd.sync.
func ArgocdSyncKind() playbook.Kind {
	return playbook.Kind{
		Name: "argocd.sync",
		Role: playbook.RoleLever, Class: playbook.ClassRollback,
		Doc: `Syncs the service's Argo CD application to what its branch says now. Undo syncs it back to the revision it was at.

For applications that are synced by hand. One that syncs by itself is refused: it goes there without being asked, and would not stay at a
former revision. Argo CD is asked to look at the branch first, and exactly the commit that it finds is synced: the plan names it, and the commits that
come with it where their repository is configured. Argo CD syncs all of the application: the lever is judged for each other service that it deploys, and for
each namespace with objects of no service. Refused when there is nothing new to sync, when Argo CD cannot compare, in a closed sync window, and
while somebody else's sync is under way. Refused too where undo could not put back what runs: what differs was changed in the cluster alone, the
last sync failed, was of some resources only or is hidden by a dry run after it, or the application itself was changed since. Undo stops the sync where it has not ended; in a sync
window that closed meanwhile it is refused by Argo CD, and the run ends undo-failed and says so.`,
		Idempotent: true,
	}
}

type argocdSync struct {
	argo
	git Change
}

// NewArgocdSync returns the lever argocd.sync.
func NewArgocdSync(d step.Deps) step.Lever {
	return argocdSync{newArgo(d), NewChange(d)}
}

// Plan implements [step.Lever].
func (l argocdSync) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	const kind = "argocd.sync"
	if _, err := step.Decode[struct{}](ArgocdSyncKind(), in.With); err != nil {
		return machine.Plan{}, err
	}
	at, err := l.find(ctx, in)
	if err != nil {
		return machine.Plan{}, err
	}
	if at.app.Automated {
		return machine.Plan{}, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"%s: Argo CD application %s syncs by itself: change Git, or revert in Git, instead", kind, at.app.Name)}
	}
	// By itself Argo CD looks every few minutes, and says Synced of what was there then.
	if err := l.a.Refresh(ctx, at.app.Name); err != nil {
		return machine.Plan{}, err
	}
	if at, err = l.find(ctx, in); err != nil {
		return machine.Plan{}, err
	}
	if err := knownToRun(kind, at.app); err != nil {
		return machine.Plan{}, err
	}
	from, to := running(at.app), slices.Clone(at.app.Revisions)
	switch {
	case at.app.Sync == "Synced":
		return machine.Plan{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %s is synced at %s already", kind, at.app.Name, strings.Join(shorts(to), ", "))}
	case len(to) != len(from):
		return machine.Plan{}, uncompared(kind, at.app)
	case slices.Equal(from, to):
		return machine.Plan{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf(
			"%s: %s has nothing new on its branch: %s is synced. It is OutOfSync because the cluster differs from Git; a sync would revert that, and undo could not restore it%s",
			kind, at.app.Name, strings.Join(shorts(to), ", "), differing(at.app))}
	}
	plan, err := l.planned(ctx, in, at, kind, argoPayload{Application: at.app.Name, From: from, To: to})
	if err != nil {
		return machine.Plan{}, err
	}
	plan.Summary = fmt.Sprintf("sync Argo CD application %s from %s to %s", at.app.Name, strings.Join(shorts(from), ", "), strings.Join(shorts(to), ", "))
	plan.Undo = "sync it back to " + strings.Join(shorts(from), ", ")
	plan.Notes = append(plan.Notes, l.brings(ctx, in, at))
	at.app.Resources = untouched(at.app)
	noteDrift(&plan, at, nil)
	step.RolloutPlan(&plan, at.w)
	return plan, nil
}

// brings describes the commits that a sync would deploy, as far as a repository
// tells.
func (l argocdSync) brings(ctx context.Context, in step.Input, at site) string {
	const unknown = "which commits come with it is not known: "
	if l.git.h == nil {
		return unknown + "no repository is configured"
	}
	at, err := sourced(in, at)
	if err != nil {
		return unknown + step.AsError(err).Error()
	}
	from, to := running(at.app)[at.index], at.app.Revisions[at.index]
	changes, err := l.git.h.Since(ctx, at.src, gitops.Target{}, from)
	if err == nil {
		changes, err = l.git.deployedWith(ctx, at, changes, to)
	}
	if err != nil {
		return unknown + step.AsError(err).Error()
	}
	if len(changes) == 0 {
		return fmt.Sprintf("none of the commits after %s touched %s", short(from), sourcesText([]gitops.Source{at.src}))
	}
	var list []string
	for _, c := range changes {
		list = append(list, commitText(c.Commit))
	}
	return "comes with it: " + few(list)
}

// untouched returns the resources that a sync to the compared revision leaves
// as they are. The state of all others counts afterwards. A rollback's
// resources are not known in advance, so there all of them count.
func untouched(app gitops.Application) []gitops.Resource {
	return slices.DeleteFunc(slices.Clone(app.Resources), func(r gitops.Resource) bool { return r.Sync != "Synced" })
}
