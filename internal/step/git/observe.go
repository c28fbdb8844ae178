package git

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
)

// Observe implements [step.Lever]. Whether a commit was made Git alone knows, by the
// key in its trailer; whether it is in effect Argo CD knows.
func (g Change) Observe(ctx context.Context, in step.Input, plan machine.Plan, receipt json.RawMessage, undo bool) (step.Observation, error) {
	p, err := step.Payload[gitPayload](plan.Step, plan.Payload)
	if err != nil {
		return step.Observation{}, err
	}
	if err := g.configured(); err != nil {
		return step.Observation{}, err
	}
	made, err := g.c.Find(ctx, p.src(), effectKey(in.Key, machine.ActionApply))
	if err != nil {
		return step.Observation{}, err
	}
	if late := lateCommit(plan, made); late != nil {
		return step.Observation{Foreign: true, Progress: late.Error()}, nil
	}
	made.SHA = g.original(ctx, p, made.SHA, receipt, undo)
	told := step.GitReceipt{Action: machine.ActionApply} // what the next receipt says
	plan.Drift, told.Drift = g.driftAfter(ctx, plan, p, receipt, made)
	if undo {
		told.Action, told.Left = machine.ActionUndo, leftBehind(receipt)
		return g.observeUndo(ctx, in, plan, p, made, told)
	}
	switch {
	case made.Changed != "":
		return step.Observation{Foreign: true, Progress: "somebody changed the pull request: " + made.Changed}, nil
	case made.SHA == "" && made.Waits != "":
		return awaitsMerge(in, "", made, told), nil
	case made.SHA == "" && made.Closed != "":
		return step.Observation{Declined: true, Progress: made.Closed + " was closed without being merged: that is a no"}, nil
	case made.SHA == "":
		return g.notMade(ctx, in, p)
	}
	if why, err := g.gone(ctx, in, p, made.SHA); err != nil || why != "" {
		return step.Observation{Foreign: why != "", Progress: why}, err
	}
	told.Revision = made.SHA
	return g.standing(ctx, in, plan, p, told), nil
}

// original returns the commit of an apply's receipt in place of a later one on top
// of it with the same key: anybody can copy a trailer.
func (g Change) original(ctx context.Context, p gitPayload, found string, receipt json.RawMessage, undo bool) string {
	var r step.GitReceipt
	if undo || found == "" || len(receipt) == 0 || json.Unmarshal(receipt, &r) != nil {
		return found
	}
	if r.Revision != "" && r.Revision != found && g.contains(ctx, p)(r.Revision, found) {
		return r.Revision
	}
	return found
}

// notMade returns the observation of a commit that does not exist. A value
// other than before and other than ours is someone else's.
func (g Change) notMade(ctx context.Context, in step.Input, p gitPayload) (step.Observation, error) {
	before := step.Observation{Progress: "no commit of this run is on " + branchOf(p)}
	if len(p.Set) == 0 {
		_, err := g.propose(ctx, p, in.Service.Namespace)
		if r := reasonOf(err); r == fault.Conflict || r == fault.NothingToDo {
			return step.Observation{Foreign: true, Progress: "someone else changed the same fields: " + err.Error()}, nil
		}
		return before, err
	}
	places, err := g.places(ctx, in, p)
	if err != nil {
		return step.Observation{}, err
	}
	for i, a := range p.Set {
		if now := places[i].Value; now != a.From {
			return step.Observation{Foreign: true, Progress: fmt.Sprintf("someone else set %s to %s (%s:%d)", a.variable(), step.OrNone(now), places[i].File, places[i].Line)}, nil
		}
	}
	return before, nil
}

func reasonOf(err error) fault.Reason {
	if err == nil {
		return ""
	}
	return step.AsError(err).Reason
}

func (g Change) places(ctx context.Context, in step.Input, p gitPayload) ([]gitops.Place, error) {
	var vs []gitops.Variable
	for _, a := range p.Set {
		vs = append(vs, a.variable())
	}
	places, err := g.m.Places(ctx, p.src(), p.target(in.Service.Namespace), vs)
	if err == nil && len(places) != len(vs) {
		err = step.Invalid("%d variables were looked up, %d places were returned", len(vs), len(places))
	}
	return places, err
}

// gone describes why a commit on the branch no longer counts: someone changed
// the same place afterwards. Empty: it counts.
func (g Change) gone(ctx context.Context, in step.Input, p gitPayload, sha string) (string, error) {
	undone, err := g.c.Find(ctx, p.src(), effectKey(in.Key, machine.ActionUndo))
	switch {
	case err != nil:
		return "", err
	case undone.SHA != "":
		return "commit " + short(undone.SHA) + " has reverted it", nil
	}
	if len(p.Set) == 0 {
		_, err := g.m.Propose(ctx, gitops.Want{Source: p.src(), Target: p.target(in.Service.Namespace), TakeBack: []string{sha}})
		if r := reasonOf(err); r == fault.Conflict || r == fault.NothingToDo {
			return "someone else changed the same fields after commit " + short(sha) + ": " + err.Error(), nil
		}
		return "", err
	}
	places, err := g.places(ctx, in, p)
	if r := reasonOf(err); r == fault.NotFound || r == fault.Ambiguous {
		return "someone else changed the manifests after commit " + short(sha) + ": " + err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	for i, a := range p.Set {
		if now := places[i].Value; !a.made(now) {
			return fmt.Sprintf("someone else set %s to %s after commit %s (%s:%d)", a.variable(), step.OrNone(now), short(sha), places[i].File, places[i].Line), nil
		}
	}
	return "", nil
}

// observeUndo observes the undo, and what it left behind.
func (g Change) observeUndo(ctx context.Context, in step.Input, plan machine.Plan, p gitPayload, made gitops.Landing, told step.GitReceipt) (step.Observation, error) {
	back, err := g.c.Find(ctx, p.src(), effectKey(in.Key, machine.ActionUndo))
	if err != nil {
		return step.Observation{}, err
	}
	left := told.Left
	told.Left = ""
	switch {
	case back.Changed != "":
		return step.Observation{Foreign: true, Progress: "somebody changed the pull request that takes the change back: " + back.Changed}, nil
	case back.SHA != "":
		if why, err := g.againChanged(ctx, in, p, back.SHA); err != nil || why != "" {
			return step.Observation{Foreign: why != "", Progress: why}, err
		}
		told.Revision = back.SHA
		return g.standing(ctx, in, plan, p, told), nil
	case back.Waits != "":
		return awaitsMerge(in, plan.Undo+": ", back, told), nil
	case back.Closed != "":
		return step.Observation{Declined: true, Progress: back.Closed + ", which takes the change back, was closed without being merged"}, nil
	case made.SHA == "" && made.Waits == "":
		// Withdrawn before it was merged, or never asked for: the branch is as it was.
		o := step.Observation{Applied: true, Settled: true, Progress: "nothing of it is on " + branchOf(p), Receipt: step.EncodeJSON(step.GitReceipt{Action: machine.ActionUndo, Left: left})}
		if left != "" {
			o.Progress, o.Seen = o.Progress+"; "+left, []string{left}
		}
		return o, nil
	case made.SHA == "":
		return step.Observation{Progress: made.Waits + " is still open"}, nil
	}
	if why, err := g.gone(ctx, in, p, made.SHA); err != nil || why != "" {
		return step.Observation{Foreign: why != "", Progress: why}, err
	}
	return step.Observation{Progress: "commit " + short(made.SHA) + " is in place, nothing has reverted it"}, nil
}

// againChanged describes who changed the place after it was restored.
func (g Change) againChanged(ctx context.Context, in step.Input, p gitPayload, back string) (string, error) {
	if len(p.Set) == 0 {
		return "", nil
	}
	places, err := g.places(ctx, in, p)
	if err != nil {
		return "", err
	}
	for i, a := range p.Set {
		if now := places[i].Value; now != a.From {
			return fmt.Sprintf("someone else set %s to %s after commit %s put it back", a.variable(), step.OrNone(now), short(back)), nil
		}
	}
	return "", nil
}

// standing is the observation of a commit that is on the branch and counts.
func (g Change) standing(ctx context.Context, in step.Input, plan machine.Plan, p gitPayload, made step.GitReceipt) step.Observation {
	o, sha := step.Observation{Applied: true, Receipt: step.EncodeJSON(made)}, made.Revision
	app, err := g.a.Application(ctx, p.Application)
	if err != nil {
		o.Unread, o.Progress = err, "commit "+short(sha)+" is on the branch; "+gitops.ApplicationTitle(p.Application)+" cannot be read: "+err.Error()
		return o
	}
	state, why := g.judge(ctx, plan, p, sha)(app)
	g.recovery.rollout(&o, state, why, app, in.Now)
	if o.Settled {
		g.inEffect(ctx, in, p, &o, app, made.Action == machine.ActionUndo)
	}
	rolling(ctx, g.w, in, plan, &o)
	return o
}

// judge returns a function that tells how far an application has come with a commit.
// Pre-existing drift does not count, neither for nor against it.
func (g Change) judge(ctx context.Context, plan machine.Plan, p gitPayload, sha string) func(gitops.Application) (gitops.Rollout, string) {
	return func(app gitops.Application) (gitops.Rollout, string) {
		return gitops.Settled(app.Without(driftedResources(plan.Drift)), sha, func(descendant string) bool { return g.contains(ctx, p)(sha, descendant) })
	}
}

// recovery is how long an application may be unhealthy after a sync before it
// counts as degraded: health is known some time after the sync, and pods take
// time to start. 0 stands for the default.
type recovery time.Duration

const defaultRecovery = recovery(3 * time.Minute)

// rollout fills in the progress of Argo CD or Flux.
func (r recovery) rollout(o *step.Observation, state gitops.Rollout, why string, app gitops.Application, now time.Time) {
	r = cmp.Or(r, defaultRecovery)
	o.Progress = app.Label() + ": " + why
	o.Settled = state == gitops.RolloutSettled
	o.Slow = state == gitops.RolloutDegraded && now.Sub(app.Operation.Finished) > time.Duration(r)
	o.Degraded = state == gitops.RolloutFailed || o.Slow
}

// rolling reads how far the rollout of a change that is not in effect has come. A
// workload that cannot be read shows no progress.
func rolling(ctx context.Context, ws step.Workloads, in step.Input, plan machine.Plan, o *step.Observation) {
	if o.Settled || o.Rollout != nil || o.Unread != nil || plan.Rounds < 2 {
		return
	}
	if w, err := ws.Workload(ctx, step.RefOf(in.Service)); err == nil {
		o.Rollout = step.RolloutOf(w)
	}
}

// watcher is an implementation of [step.Applications] that can watch an
// application until a judge says that it has settled or failed.
type watcher interface {
	Watch(ctx context.Context, name string, judge func(gitops.Application) (gitops.Rollout, string), progress func(string)) (gitops.Application, error)
}

// Following ends early enough for a look after it, and is short, because what
// people change in Git meanwhile is seen by looking only.
const (
	followFor = 15 * time.Second
	lookNeeds = 5 * time.Second
)

// Follow implements follower of package step.
func (g Change) Follow(ctx context.Context, plan machine.Plan, receipt json.RawMessage) (told []step.Progress, news bool) {
	w, ok := g.a.(watcher)
	if !ok {
		return nil, false
	}
	p, err := step.Payload[gitPayload](plan.Step, plan.Payload)
	var made step.GitReceipt
	if err != nil || json.Unmarshal(receipt, &made) != nil || made.Revision == "" {
		return nil, false
	}
	plan.Drift = driftAt(plan, receipt)
	within := followFor
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(deadline)-lookNeeds)
	}
	if within <= 0 {
		return nil, false
	}
	watched, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err = w.Watch(watched, p.Application, g.judge(ctx, plan, p, made.Revision), func(text string) {
		told = append(told, step.Progress{At: time.Now(), Text: gitops.ApplicationLabel(p.Application) + ": " + text})
	})
	// An error that is not the end of the time is news too: a sync that failed.
	return told, ctx.Err() == nil && (err == nil || watched.Err() == nil)
}
