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

// rollback is the name of the lever.
const rollback = "argocd.rollback"

// ArgocdRollbackKind declares argocd.rollback.
func ArgocdRollbackKind() playbook.Kind {
	return playbook.Kind{
		Name: rollback,
		Role: playbook.RoleLever, Class: playbook.ClassRollback,
		Doc: `Puts the service's Argo CD application back to what it deployed before. Undo puts it back to what it deployed when the lever was planned.

Argo CD refuses a rollback of an application that syncs by itself, and would heal it away: there the lever is a gitops.revert of the commits
that were deployed since. Any other application is rolled back by Argo CD and then differs from its branch
until somebody syncs it: its branch still holds what was rolled back. Argo CD puts all of the application back, so what it deploys for other services goes
back too: the lever is judged for each of them, and for each namespace with objects of no service. It is refused where undo could not put back what runs (the last sync failed, was of some resources only or is hidden by a dry run after it, or the cluster has something of its own),
and where the application itself had other parameters then, which go back with no revision. Either way, a rollback that would take back a repair of Responder's
own, of any service, is refused.`,
		Idempotent: true,
		With:       step.Fields[rollbackWith](),
	}
}

type argocdRollback struct {
	argo
	git Change
}

// NewArgocdRollback returns the lever argocd.rollback.
func NewArgocdRollback(d step.Deps) step.Lever {
	return argocdRollback{newArgo(d), NewChange(d)}
}

type rollbackWith struct {
	To string `json:"to" default:"previous" enum:"previous,last_good" doc:"previous: what was deployed before the current revision. last_good: what was deployed before anything came to the variable that moved last since its last verified commit, as gitops.revert counts it."`
}

// Plan implements [step.Lever].
func (l argocdRollback) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	with, err := step.Decode[rollbackWith](ArgocdRollbackKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	at, err := l.find(ctx, in)
	if err != nil {
		return machine.Plan{}, err
	}
	if at.app.Automated {
		return l.inGit(ctx, in, at, with)
	}
	if err := knownToRun(rollback, at.app); err != nil {
		return machine.Plan{}, err
	}
	entry, notes, err := l.entry(ctx, in, at, with.To)
	if err != nil {
		return machine.Plan{}, err
	}
	from := running(at.app)
	if err := goesBack(at, entry); err != nil {
		return machine.Plan{}, err
	}
	plan, err := l.planned(ctx, in, at, rollback, argoPayload{Application: at.app.Name, From: from, To: slices.Clone(entry.Revisions)})
	if err != nil {
		return machine.Plan{}, err
	}
	plan.Summary = fmt.Sprintf("roll Argo CD application %s back from %s to %s, deployed %s ago",
		at.app.Name, strings.Join(shorts(from), ", "), strings.Join(shorts(entry.Revisions), ", "), step.DurationText(in.Now.Sub(entry.At)))
	plan.Undo = "sync it back to " + strings.Join(shorts(from), ", ")
	plan.Notes = append(plan.Notes, "the branch keeps what is rolled back: the next sync by anybody brings it back")
	plan.Notes = append(plan.Notes, notes...)
	step.RolloutPlan(&plan, at.w)
	return plan, nil
}

// goesBack refuses a rollback that could not be carried out exactly or be
// undone: the parameters of the application changed, or Argo CD would change
// more than can be restored.
func goesBack(at site, entry gitops.Deployment) error {
	from := running(at.app)
	switch {
	case entry.Differs != "":
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"%s: when %s was at %s, the application itself was different (%s), which a sync to that revision does not restore: roll it back by hand (argocd app rollback %s %d)",
			rollback, at.app.Name, strings.Join(shorts(entry.Revisions), ", "), entry.Differs, at.app.Name, entry.ID)}
	case slices.Equal(at.app.Revisions, from) && !inSync(at.app, preExistingDrift(at, nil)):
		return &fault.Error{Reason: fault.Throttled, Message: fmt.Sprintf(
			"%s: %s is %s, and no commit says why%s; the rollback would revert what differs in the cluster, and undo could not restore it: sync the application, or let it ignore what others own (spec.ignoreDifferences)",
			rollback, at.app.Name, step.OrNone(at.app.Sync), differing(at.app))}
	}
	return nil
}

// inGit plans the rollback of an application that syncs automatically: it
// reverts the commits deployed since.
func (l argocdRollback) inGit(ctx context.Context, in step.Input, at site, with rollbackWith) (machine.Plan, error) {
	if err := l.git.configured(); err != nil {
		return machine.Plan{}, err
	}
	at, err := sourced(in, at)
	if err != nil {
		return machine.Plan{}, err
	}
	var changes []gitops.Touched
	if with.To == lastGood {
		changes, err = l.git.sinceLastGood(ctx, in, at, rollback, "")
	} else {
		changes, err = l.sincePrevious(ctx, in, at)
	}
	if err != nil {
		return machine.Plan{}, err
	}
	plan, err := l.git.planRevert(ctx, in, at, "gitops.revert", changes)
	if err != nil {
		return machine.Plan{}, err
	}
	plan.Notes = append([]string{fmt.Sprintf("Argo CD application %s syncs by itself, so it is rolled back in Git", at.app.Name)}, plan.Notes...)
	return plan, nil
}

// sourced adds the location of the manifests to a site.
func sourced(in step.Input, at site) (site, error) {
	var err error
	if at.src, at.index, err = source(in.Service, at.app); err == nil {
		at.object.ValueFiles, at.object.Release = valueFiles(at.app, at.index), releaseOf(at.app, at.index)
		at.src.Values = at.object.ValueFiles
	}
	return at, err
}

// previous returns the deployment before the current revision was deployed for
// the first time. What was deployed in between and is gone was rolled back.
func previous(app gitops.Application) (gitops.Deployment, error) {
	h := app.History
	what := "no earlier deployment"
	if len(h) > 1 {
		now := h[len(h)-1].Revisions
		first := slices.IndexFunc(h, func(d gitops.Deployment) bool { return slices.Equal(d.Revisions, now) })
		if first > 0 {
			return h[first-1], nil
		}
		what = "no revision that it had before the current one"
	}
	return gitops.Deployment{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %s has %s in its history", rollback, app.Name, what)}
}

// sincePrevious returns the commits to revert so that the service is as it was
// deployed before, newest first.
func (l argocdRollback) sincePrevious(ctx context.Context, in step.Input, at site) ([]gitops.Touched, error) {
	entry, err := previous(at.app)
	if err != nil {
		return nil, err
	}
	sha, err := at.revision(entry)
	if err != nil {
		return nil, err
	}
	changes, err := l.git.h.Since(ctx, at.src, at.object, sha)
	if err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf(
			"%s: no commit since %s touched the manifests of %s", rollback, short(sha), in.Service.Name)}
	}
	changes = released(changes) // replicas that were scaled meanwhile stay
	return withoutRepairs(changes, rollback, "to "+short(sha))
}

// revision returns the commit of the service's source in an entry of the
// history.
func (s site) revision(d gitops.Deployment) (string, error) {
	if s.index >= len(d.Revisions) {
		return "", step.Invalid("%s: the history of %s names no revision of %s", rollback, s.app.Name, s.src.Repository)
	}
	return d.Revisions[s.index], nil
}

// entry returns the deployment to roll back to. A rollback reverts everything
// deployed since, so an entry from before a repair by Responder is refused.
func (l argocdRollback) entry(ctx context.Context, in step.Input, at site, to string) (entry gitops.Deployment, notes []string, err error) {
	if to == lastGood {
		return l.entryOfGood(ctx, in, at)
	}
	if entry, err = previous(at.app); err != nil {
		return entry, nil, err
	}
	const none = "none of what goes back is a change that Responder made in Git: "
	if l.git.h == nil {
		return entry, []string{none + "no repository is configured"}, nil
	}
	placed, err := sourced(in, at)
	if err != nil {
		return entry, []string{none + step.AsError(err).Error()}, nil
	}
	return entry, nil, l.keepsRepairs(ctx, placed, entry)
}

// entryOfGood returns the deployment from before the changes that came since
// the service was verified.
func (l argocdRollback) entryOfGood(ctx context.Context, in step.Input, at site) (entry gitops.Deployment, notes []string, err error) {
	if err := l.git.configured(); err != nil {
		return entry, nil, err
	}
	if at, err = sourced(in, at); err != nil {
		return entry, nil, err
	}
	if entry, err = l.beforeSuspects(ctx, in, at); err != nil {
		return entry, nil, err
	}
	return entry, nil, l.keepsRepairs(ctx, at, entry)
}

// beforeSuspects returns the newest deployment without any commit to the last
// moved variables since they were verified.
func (l argocdRollback) beforeSuspects(ctx context.Context, in step.Input, at site) (gitops.Deployment, error) {
	now := at.deployed()
	if now == "" {
		return gitops.Deployment{}, &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf("%s: %s has no sync in its history", rollback, at.app.Name)}
	}
	suspects, err := l.git.sinceLastGood(ctx, in, at, rollback, now)
	if err != nil {
		return gitops.Deployment{}, err
	}
	oldest := suspects[len(suspects)-1].Commit
	h := at.app.History
	for i := len(h) - 2; i >= 0; i-- {
		sha, err := at.revision(h[i])
		if err != nil {
			return gitops.Deployment{}, err
		}
		has, err := l.git.h.Contains(ctx, at.src, oldest.SHA, sha)
		if err != nil {
			return gitops.Deployment{}, err
		}
		if !has {
			return h[i], nil
		}
	}
	return gitops.Deployment{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf(
		"%s: the history of %s does not reach back before %s: use gitops.revert", rollback, at.app.Name, commitText(oldest))}
}

// keepsRepairs refuses a rollback that would revert a repair by Responder, of
// this service or of another one that the application deploys.
func (l argocdRollback) keepsRepairs(ctx context.Context, at site, entry gitops.Deployment) error {
	now := at.deployed()
	sha, err := at.revision(entry)
	if err != nil || now == "" || !isSHA(sha) {
		return err
	}
	all, err := l.git.h.Since(ctx, at.src, gitops.Target{}, sha)
	if err != nil {
		return err
	}
	if all, err = l.git.deployedWith(ctx, at, all, now); err != nil || len(all) == 0 {
		return err
	}
	_, err = withoutRepairs(all, rollback, "to "+short(sha))
	return err
}

// deployedWith returns the commits that a revision contains.
func (g Change) deployedWith(ctx context.Context, at site, changes []gitops.Touched, revision string) ([]gitops.Touched, error) {
	var out []gitops.Touched
	for _, c := range changes {
		has, err := g.h.Contains(ctx, at.src, c.Commit.SHA, revision)
		if err != nil {
			return nil, err
		}
		if has {
			out = append(out, c)
		}
	}
	return out, nil
}
