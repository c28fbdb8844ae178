package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/playbook"
)

// argocdRollbackKind declares argocd.rollback.
func argocdRollbackKind() playbook.Kind {
	return playbook.Kind{
		Name: "argocd.rollback",
		Role: playbook.RoleLever,
		Doc: `Puts the service's Argo CD application back to what it deployed before. Undo puts it back to what it deployed when the lever was planned.

Argo CD refuses a rollback of an application that syncs by itself, and would heal it away: there the lever is a gitops.revert of the commits
that were deployed since, and ` + "`together`" + ` means what it means there; one that would take back a repair of Responder's own is refused. Any other application is rolled back by Argo CD and then differs from its branch
until somebody syncs it: its branch still holds what was rolled back.`,
		Idempotent: true,
		With: []playbook.Field{
			{Name: "to", Type: scalar(playbook.String), Enum: []string{"previous", lastGood}, Default: "previous", Doc: "previous: what was deployed before the current revision. last_good: the revision that was last verified."},
			{Name: "together", Type: scalar(playbook.String), Doc: "Why several variables go back as one; an application that syncs by itself only."},
		},
	}
}

type argocdRollback struct {
	argo
	git gitChange
}

func newArgocdRollback(d Deps) Lever {
	return argocdRollback{newArgo(d), newGitChange(d)}
}

type rollbackWith struct {
	To       string `json:"to"`
	Together string `json:"together"`
}

// Plan implements [Lever].
func (l argocdRollback) Plan(ctx context.Context, in Input) (machine.Plan, error) {
	const kind = "argocd.rollback"
	with, err := decode[rollbackWith](argocdRollbackKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	at, err := l.find(ctx, in)
	if err != nil {
		return machine.Plan{}, err
	}
	entry, err := l.entry(in, at, with.To)
	if err != nil {
		return machine.Plan{}, err
	}
	if at.app.Automated {
		return l.inGit(ctx, in, at, entry, with.Together)
	}
	from := running(at.app)
	plan := l.planned(in, at, kind, argoPayload{Application: at.app.Name, From: from, To: slices.Clone(entry.Revisions)})
	plan.Summary = fmt.Sprintf("roll Argo CD application %s back from %s to %s, deployed %s ago",
		at.app.Name, strings.Join(shorts(from), ", "), strings.Join(shorts(entry.Revisions), ", "), span(in.Now.Sub(entry.At)))
	plan.Undo = "sync it back to " + strings.Join(shorts(from), ", ")
	plan.Notes = append(plan.Notes, "the branch keeps what is rolled back: the next sync by anybody brings it back")
	rolloutPlan(&plan, at.w)
	return plan, nil
}

// entry finds what to go back to in the application's history.
func (l argocdRollback) entry(in Input, at site, to string) (gitops.Deployment, error) {
	h := at.app.History
	if len(h) < 2 {
		return gitops.Deployment{}, &Error{Reason: machine.ReasonNothingToDo, Message: fmt.Sprintf("argocd.rollback: %s has no earlier deployment in its history", at.app.Name)}
	}
	now := h[len(h)-1]
	sha := ""
	if to == lastGood {
		if l.git.good != nil {
			_, sha, _ = l.git.good.LastGood(in.Service.Name, "")
		}
		if sha == "" {
			return gitops.Deployment{}, &Error{Reason: machine.ReasonNoData, Message: fmt.Sprintf("argocd.rollback: no commit was ever verified on service %s", in.Service.Name)}
		}
	}
	for i := len(h) - 2; i >= 0; i-- {
		switch {
		case sha != "" && slices.Contains(h[i].Revisions, sha), sha == "" && !slices.Equal(h[i].Revisions, now.Revisions):
			return h[i], nil
		}
	}
	what := "no deployment of another revision"
	if sha != "" {
		what = "no deployment of " + short(sha) + ", the commit that was last verified,"
	}
	return gitops.Deployment{}, &Error{Reason: machine.ReasonNothingToDo, Message: fmt.Sprintf("argocd.rollback: %s has %s in its history", at.app.Name, what)}
}

// inGit plans the rollback of an application that syncs by itself: the commits
// deployed since are reverted.
func (l argocdRollback) inGit(ctx context.Context, in Input, at site, entry gitops.Deployment, together string) (machine.Plan, error) {
	if err := l.git.configured(); err != nil {
		return machine.Plan{}, err
	}
	var err error
	if at.src, at.index, err = source(in.Service, at.app); err != nil {
		return machine.Plan{}, err
	}
	at.object.ValueFiles = valueFiles(at.app, at.index)
	if at.index >= len(entry.Revisions) {
		return machine.Plan{}, invalid("argocd.rollback: the history of %s names no revision of %s", at.app.Name, at.src.Repository)
	}
	changes, err := l.git.h.Since(ctx, at.src, at.object, entry.Revisions[at.index])
	if err != nil {
		return machine.Plan{}, err
	}
	if len(changes) == 0 {
		return machine.Plan{}, &Error{Reason: machine.ReasonNothingToDo, Message: fmt.Sprintf(
			"argocd.rollback: no commit since %s touched the manifests of %s", short(entry.Revisions[at.index]), in.Service.Name)}
	}
	if changes, err = withoutRepairs(changes, entry.Revisions[at.index]); err != nil {
		return machine.Plan{}, err
	}
	plan, err := l.git.planRevert(ctx, in, at, "gitops.revert", changes, together)
	if err != nil {
		return machine.Plan{}, err
	}
	plan.Notes = append([]string{fmt.Sprintf("Argo CD application %s syncs by itself, so it is rolled back in Git", at.app.Name)}, plan.Notes...)
	return plan, nil
}

// withoutRepairs gives what a rollback takes back, of commits newest first. A
// repair of Responder's own whose cause goes back along with it is left out, and
// the cause too: both together change nothing. Any other repair that is still
// in effect would be lost, so the rollback is refused.
func withoutRepairs(changes []gitops.Touched, to string) ([]gitops.Touched, error) {
	var out []gitops.Touched
	gone := map[string]bool{} // reverted by a repair that is left out
	for _, c := range changes {
		among := func(sha string) bool {
			return !gone[sha] && slices.ContainsFunc(changes, func(o gitops.Touched) bool { return o.Commit.SHA == sha })
		}
		reverts := c.Commit.Reverts
		switch {
		case gone[c.Commit.SHA]:
		case !repairs(c.Commit) || repaired(c.Commit, out):
			out = append(out, c)
		case len(reverts) > 0 && !slices.ContainsFunc(reverts, func(sha string) bool { return !among(sha) }):
			for _, sha := range reverts {
				gone[sha] = true
			}
		default:
			return nil, &Error{Reason: machine.ReasonNothingToDo, Message: fmt.Sprintf(
				"argocd.rollback: going back to %s would take back a repair of Responder's own, %s: gitops.revert takes back what others changed and leaves it; a repair that is wrong is reverted by hand",
				short(to), commitText(c.Commit))}
		}
	}
	if len(out) == 0 {
		return nil, &Error{Reason: machine.ReasonNothingToDo, Message: fmt.Sprintf(
			"argocd.rollback: what came after %s was taken back already by repairs of Responder's own", short(to))}
	}
	return out, nil
}
