package git

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// RevertKind declares gitops.revert.
func RevertKind() playbook.Kind {
	return playbook.Kind{
		Name: "gitops.revert",
		Role: playbook.RoleLever, Class: playbook.ClassRollback,
		Doc: `Takes a release back: what commits changed of the service's manifests, as one commit, and waits until Argo CD or Flux has synced it and the application
is Healthy. Undo reverts that commit.

Which commits: those of a window, such as the burn window of the alert, or of those only what came after a revision of the workload; the last one; or those since what moved last was last verified. A release is
one variable: image, flags, routes and model artifact that moved together go back together, in one plan. Of each commit only the fields of this service
go back. What else it changed is listed and stays: other services, files elsewhere, Secrets, Jobs and volumes. What later commits changed stays, too. A field
of the release that was changed again since is refused, with both values; replicas that were scaled since are kept.
Commits that only moved replicas are no release: they go back only where nothing else moved. Commits of Responder's own are repairs and are never
taken for a cause.
What runs is read as by gitops.set_flag: a commit that nothing of is in effect is not reverted, and what cannot be read, or stays as it is because
something else decides it, is named, is asked about, and does not become last good.
Refused when other commits would go out along with it, when the cluster has something of its own that the sync would take back, in a
closed sync window, and while somebody else's sync is under way.
service.rollback becomes this lever where Argo CD or Flux owns the workload and its service says where in Git it is.`,
		OneOf:      [][]string{{"window", "to"}},
		Idempotent: true,
		With:       step.Fields[revertWith](),
	}
}

type gitopsRevert struct{ Change }

// NewRevert returns the lever gitops.revert.
func NewRevert(d step.Deps) step.Lever { return gitopsRevert{NewChange(d)} }

type revertWith struct {
	Window step.Duration `json:"window" doc:"Revert the commits that are this young, or were deployed this short ago: the burn window of the alert, e.g. 1h."`
	To     string        `json:"to" enum:"previous,last_good" doc:"previous: revert the last commit that changed more of the service than replicas. last_good: revert what came after the last verified commit of the variable that moved last."`

	ToRevision   int64 `json:"to_revision" min:"0" doc:"With a window: revision of the workload to go back to, e.g. the target of service.changes. Only what was deployed after it goes back, or what was made after it where the time of deployment is not known. Where neither tells what it ran, all of the window goes back, and the plan says so. Unset or 0: all of the window."`
	FromRevision int64 `json:"from_revision" min:"0" doc:"Revision of the workload that was current when the commits were chosen, e.g. the revision of service.changes. Refused when another one is, and while a commit waits to be deployed. Unset or 0: any."`
}

// Plan implements [step.Lever].
func (l gitopsRevert) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	with, err := step.Decode[revertWith](RevertKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	at, err := l.ready(ctx, in)
	if err != nil {
		return machine.Plan{}, err
	}
	changes, notes, err := l.suspects(ctx, in, at, with)
	if err != nil {
		return machine.Plan{}, err
	}
	plan, err := l.planRevert(ctx, in, at, "gitops.revert", changes)
	plan.Notes = append(notes, plan.Notes...)
	return plan, err
}

// historyReach is how far back the last commit is searched.
const historyReach = 30 * 24 * time.Hour

// suspects returns the commits to revert, newest first, and notes for people about them.
func (l gitopsRevert) suspects(ctx context.Context, in step.Input, at site, with revertWith) ([]gitops.Touched, []string, error) {
	revisions, err := l.revisions(ctx, in, with)
	if err != nil {
		return nil, nil, err
	}
	if with.To == lastGood {
		changes, err := l.sinceLastGood(ctx, in, at, "gitops.revert", "")
		return changes, nil, err
	}
	none := fmt.Sprintf("no commit of the last %s touched the manifests of %s", step.DurationText(cmp.Or(time.Duration(with.Window), historyReach)), in.Service.Name)
	var all, changes []gitops.Touched
	var notes []string
	if with.To == "previous" {
		all, err = l.h.Changes(ctx, at.src, at.object, in.Now.Add(-historyReach))
		all = released(all)
		changes = withoutUndone(all)
	} else {
		all, changes, notes, err = l.inWindow(ctx, in, at, with, revisions)
	}
	if err == nil && with.FromRevision != 0 {
		changes, err = l.running(ctx, at, changes)
	}
	if err != nil {
		return nil, nil, err
	}
	if with.To == "previous" && len(changes) > 0 && repairs(changes[0].Commit) {
		return nil, nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf(
			"gitops.revert: the last commit that touched %s is a repair by Responder, %s", in.Service.Name, commitText(changes[0].Commit))}
	}
	repaired := takenBack(all, repairs)
	changes = slices.DeleteFunc(slices.Clone(changes), func(c gitops.Touched) bool {
		first := len(c.Commit.Parents) == 0 // there is nothing before it to go back to
		return first || repairs(c.Commit) || repaired[c.Commit.SHA]
	})
	if with.To == "previous" && len(changes) > 1 {
		changes = changes[:1]
	}
	if len(changes) == 0 {
		return nil, nil, &fault.Error{Reason: fault.NothingToDo, Message: "gitops.revert: " + none}
	}
	return changes, notes, nil
}

// inWindow returns all commits of the window, and those of them to revert: where a
// revision to go back to is named, what came after it.
func (l gitopsRevert) inWindow(ctx context.Context, in step.Input, at site, with revertWith, revisions []kube.Revision) (all, changes []gitops.Touched, notes []string, err error) {
	since := in.Now.Add(-time.Duration(with.Window))
	var back target
	if with.ToRevision != 0 {
		if back = targetOf(at, revisions, with.ToRevision); !back.until.IsZero() && back.until.Add(-deployLag).Before(since) {
			since = back.until.Add(-deployLag)
		}
	}
	came, err := l.arrivals(ctx, at, since)
	if err != nil {
		return nil, nil, nil, err
	}
	all = touched(came)
	if with.ToRevision == 0 {
		return all, all, nil, nil
	}
	changes, note, err := l.after(ctx, at, back, all)
	return all, changes, []string{note}, err
}

// repairs reports whether a commit is by Responder.
func repairs(c gitops.Commit) bool { return c.Ours }

// released returns the commits of a release, without those that only moved
// replicas: an autoscaler's, or a scaling by people or Responder. If all did, they
// are the change.
func released(changes []gitops.Touched) []gitops.Touched {
	if !slices.ContainsFunc(changes, rollsOut) {
		return changes
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c gitops.Touched) bool { return !rollsOut(c) })
}

// planRevert plans one commit that takes these back.
func (g Change) planRevert(ctx context.Context, in step.Input, at site, stepName string, changes []gitops.Touched) (machine.Plan, error) {
	changes = released(changes)
	var shas []string
	for _, c := range changes {
		shas = append(shas, c.Commit.SHA)
	}
	prop, err := g.m.Propose(ctx, gitops.Want{Source: at.src, Target: at.object, TakeBack: shas})
	if err != nil {
		return machine.Plan{}, err
	}
	if err := outsideChart(at, prop); err != nil {
		return machine.Plan{}, err
	}
	if err := g.onlyThese(ctx, at, prop, shas); err != nil {
		return machine.Plan{}, err
	}
	effect, err := g.reach(ctx, in, at, prop)
	if err != nil {
		return machine.Plan{}, err
	}
	if len(effect.live) == 0 && len(effect.decided) > 0 {
		return machine.Plan{}, overridden(stepName, at, effect.decided)
	}
	effect.unseen = append(effect.unseen, effect.decided...)
	notes, err := g.dryRun(ctx, in, stepName, prop, effect)
	if err != nil {
		return machine.Plan{}, err
	}
	p := payloadAt(at, prop)
	p.Revert, p.Live = shas, effect.live
	plan, err := g.planOf(ctx, in, at, stepName, p, prop)
	if err != nil {
		return machine.Plan{}, err
	}
	plan.Summary = fmt.Sprintf("revert %s of %s", commitsText(changes), in.Service.Name) + plan.Summary
	plan.Undo = "revert that revert"
	for _, c := range changes {
		plan.Notes = append(plan.Notes, "reverts "+commitText(c.Commit)+": "+touchesText(c.Touches))
	}
	plan.Notes = append(append(plan.Notes, notBack(changes, prop)...), notes...)
	step.RolloutPlan(&plan, at.w)
	step.NotPutBack(&plan, at.w)
	plan.Good = movedBy(prop)
	plan.Why = takesBackText(plan.Good, len(changes)) + "; " + plan.Why
	cautious(&plan, effect)
	return plan, nil
}

// outsideChart refuses a revert of files of a HelmRelease's chart: Flux releases a chart of
// Git when its version changes, and says nothing of a commit that leaves it as it is.
func outsideChart(at site, prop gitops.Proposal) error {
	if at.object.HelmRelease == "" || len(at.object.ValueFiles) == 0 {
		return nil
	}
	changed := slices.Clone(prop.Deleted)
	for _, f := range prop.Files {
		changed = append(changed, f.Path)
	}
	for _, f := range changed {
		if dir := at.object.ValueFiles[0]; strings.HasPrefix(f, dir+"/") {
			return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
				"%s is a file of the chart %s: Flux releases that when its version changes, and not with the commit: revert it by hand", f, dir)}
		}
	}
	return nil
}

// movedBy returns the variables that a proposal moves, each once, with their new
// values.
func movedBy(prop gitops.Proposal) []machine.Setting {
	var out []machine.Setting
	for _, t := range prop.Touches {
		if !slices.ContainsFunc(out, func(s machine.Setting) bool { return s.Name == t.Variable }) {
			out = append(out, machine.Setting{Name: t.Variable, Value: t.To})
		}
	}
	return out
}

// takesBackText describes what goes back together.
func takesBackText(moved []machine.Setting, commits int) string {
	var names []string
	for _, s := range moved {
		names = append(names, s.Name)
	}
	return fmt.Sprintf("takes back %s of %s: %s", count(len(names), "field"), count(commits, "commit"), step.FirstOf(names, 8, ", "))
}

// notBack lists what the commits of a release changed besides, for people: it
// stays as it is.
func notBack(changes []gitops.Touched, prop gitops.Proposal) []string {
	var stays []string
	for _, t := range prop.Stays {
		stays = append(stays, fmt.Sprintf("%s %s %s -> %s", fileLine(t), t.Path, step.OrNone(t.From), step.OrNone(t.To)))
	}
	for _, c := range changes {
		for _, path := range c.Others {
			stays = appendOnce(stays, path)
		}
	}
	if len(stays) == 0 {
		return nil
	}
	return []string{"also changed, not taken back: " + few(stays)}
}

// few joins the first items of a list.
func few(list []string) string { return step.FirstOf(list, 8, "; ") }

// onlyThese refuses a revert that would deploy other waiting commits along with
// it, or would revert differences of the cluster. If the head is not deployed,
// the cluster differs because of the commits to revert.
func (g Change) onlyThese(ctx context.Context, at site, prop gitops.Proposal, shas []string) error {
	deployed := at.deployed()
	switch deployed {
	case prop.Base, "":
		return alone(at, prop)
	}
	since, err := g.h.Since(ctx, at.src, gitops.Target{}, deployed)
	if err != nil {
		return err
	}
	var others []gitops.Commit
	for _, c := range since {
		if !slices.Contains(shas, c.Commit.SHA) {
			others = append(others, c.Commit)
		}
	}
	if len(others) > 0 {
		return waiting(at, others)
	}
	return nil
}

// commitsText formats commits on one line.
func commitsText(changes []gitops.Touched) string {
	if len(changes) == 1 {
		return "commit " + commitText(changes[0].Commit)
	}
	var out []string
	for _, c := range changes {
		out = append(out, short(c.Commit.SHA))
	}
	return fmt.Sprintf("%d commits (%s)", len(out), strings.Join(out, ", "))
}

// touchesText formats the changes of a commit.
func touchesText(ts []gitops.Touch) string {
	if len(ts) == 0 {
		return "fields that cannot be told"
	}
	var out []string
	for i, t := range ts {
		if i == 5 {
			out = append(out, fmt.Sprintf("and %d more", len(ts)-i))
			break
		}
		out = append(out, fmt.Sprintf("%s %s -> %s", t.Variable, step.OrNone(t.From), step.OrNone(t.To)))
	}
	return strings.Join(out, ", ")
}
