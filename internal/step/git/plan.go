package git

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// site is the current state of the place where a change of a service would be
// made.
type site struct {
	w      kube.Workload
	app    gitops.Application
	src    gitops.Source
	index  int // of src among the application's sources
	object gitops.Target
}

// deployed returns the commit that runs; empty: not known. The revision of an
// application that is out of sync is the one it was compared with, not the one
// that runs.
func (s site) deployed() string {
	at := s.app.Revisions
	if s.app.Sync != "Synced" {
		at = running(s.app)
	}
	if s.index < len(at) {
		return at[s.index]
	}
	return ""
}

// ready reads the place of a change that may be made now.
func (g Change) ready(ctx context.Context, in step.Input) (site, error) {
	if err := g.configured(); err != nil {
		return site{}, err
	}
	at, err := g.find(ctx, in)
	if err != nil {
		return site{}, err
	}
	return at, syncable(at.app)
}

// find reads the workload, the application that owns it and the location of its
// manifests.
func (g Change) find(ctx context.Context, in step.Input) (site, error) {
	s, err := managing(ctx, g.w, g.a, in.Service)
	if err != nil {
		return s, err
	}
	if err = s.locate(in.Service); err == nil && s.object.HelmRelease != "" && !s.object.Listed {
		err = g.m.Made(ctx, s.src, s.object)
	}
	return s, err
}

// locate fills in where the manifests are, and what the application says of the object.
func (s *site) locate(svc playbook.Service) error {
	var err error
	if s.src, s.index, err = source(svc, s.app); err != nil {
		return err
	}
	s.object.ValueFiles, s.object.Release = valueFiles(s.app, s.index), releaseOf(s.app, s.index)
	s.src.Values, s.object.HelmRelease = s.object.ValueFiles, gitops.HelmReleaseOf(s.app.Name)
	if s.object.HelmRelease != "" {
		_, s.object.Listed = listed(s.app, s.object)
	}
	return nil
}

// managing reads the workload of a service and the application that manages it.
func managing(ctx context.Context, w step.Workloads, a step.Applications, svc playbook.Service) (site, error) {
	var s site
	var err error
	if s.w, err = w.Workload(ctx, step.RefOf(svc)); err != nil {
		return s, err
	}
	name, err := ApplicationOf(svc, s.w)
	if err != nil {
		return s, err
	}
	if s.app, err = a.Application(ctx, name); err != nil {
		return s, err
	}
	s.object = manifestOf(svc, s.w)
	return s, Manages(s.app, s.object)
}

// planSet plans one commit that sets variables.
func (g Change) planSet(ctx context.Context, in step.Input, at site, stepName string, set []gitops.Assignment, because string) (machine.Plan, effect, error) {
	var e effect
	prop, err := g.m.Propose(ctx, gitops.Want{Source: at.src, Target: at.object, Set: set, Deployed: at.deployed()})
	if err == nil {
		err = alone(at, prop)
	}
	if err == nil {
		e, err = g.reach(ctx, in, at, prop)
	}
	if err == nil && len(e.decided) > 0 {
		err = overridden(stepName, at, e.decided)
	}
	var notes []string
	if err == nil {
		notes, err = g.dryRun(ctx, in, stepName, prop, e)
	}
	if err != nil {
		return machine.Plan{}, e, err
	}
	p := payloadAt(at, prop)
	p.Because, p.Live = because, e.live
	var does, undoes []string
	var good []machine.Setting
	for _, a := range set {
		i := slices.IndexFunc(prop.Touches, func(t gitops.Touch) bool { return t.Variable == a.Variable.String() })
		if i < 0 {
			notes = append(notes, fmt.Sprintf("%s is %s already", a.Variable, a.Value))
			continue
		}
		t := prop.Touches[i]
		if t.Unknown != "" {
			notes = append(notes, fmt.Sprintf("the value of %s before is unknown: %s; KServe puts the service's own arguments after those of the runtime, and the engine takes the last one", a.Variable, t.Unknown))
		}
		p.Set = append(p.Set, assignment{Flag: a.Variable.Flag, Switch: a.Variable.Switch, Replicas: a.Variable.Replicas, From: t.From, To: t.To})
		does = append(does, fmt.Sprintf("set %s from %s to %s", a.Variable, step.OrNone(t.From), t.To))
		undoes = append(undoes, fmt.Sprintf("%s goes back to %s", a.Variable, step.OrNone(t.From)))
		good = append(good, machine.Setting{Name: a.Variable.String(), Value: t.To})
	}
	plan, err := g.planOf(ctx, in, at, stepName, p, prop)
	if err != nil {
		return machine.Plan{}, effect{}, err
	}
	plan.Summary = strings.Join(does, ", ") + " in " + filesText(prop) + plan.Summary
	plan.Undo = "revert that commit: " + strings.Join(undoes, ", ")
	plan.Good, plan.Back = good, backOf(p.Set, because)
	plan.Notes = append(plan.Notes, notes...)
	if because != "" {
		plan.Notes = append(plan.Notes, "one variable, because: "+because)
	}
	return plan, e, nil
}

// backOf returns the parameters of the same lever that set the former values
// again; nil if one of them was not set before, which no value expresses.
func backOf(set []assignment, because string) map[string]any {
	flags := map[string]any{}
	for _, a := range set {
		switch {
		case a.Replicas:
			from, errFrom := strconv.Atoi(a.From)
			to, errTo := strconv.Atoi(a.To)
			if errFrom != nil || errTo != nil {
				return nil
			}
			return step.ScaleBack(from, to)
		case a.From == "" || a.Flag == "":
			return nil
		default:
			flags[a.Flag] = a.From
		}
	}
	switch len(flags) {
	case 0:
		return nil
	case 1:
		for flag, value := range flags {
			return map[string]any{"flag": flag, "value": value}
		}
	}
	return map[string]any{"flags": flags, "one_variable": because}
}

// payloadAt returns the part of a payload that identifies the place.
func payloadAt(at site, prop gitops.Proposal) gitPayload {
	follows := followed(at.app, at.index)
	return gitPayload{
		Application: at.app.Name, Index: at.index, Follows: &follows,
		Repository: prop.Source.Repository, Branch: prop.Source.Branch, Path: prop.Source.Path,
		Object: objectName{at.object.Kind, at.object.Name, at.object.Workload, at.object.Component}, Container: at.object.Container,
		ValueFiles: at.object.ValueFiles, Release: named(at.app, at.index), Listed: at.object.Listed, Read: prop.Read,
	}
}

// planOf returns the part of a plan that all commits share. The caller sets the
// undo and the beginning of the summary, which ends with the delivery.
func (g Change) planOf(ctx context.Context, in step.Input, at site, stepName string, p gitPayload, prop gitops.Proposal) (machine.Plan, error) {
	way, err := g.p.Delivery(ctx, p.src())
	if err != nil {
		return machine.Plan{}, err
	}
	p.PullRequest = way.PullRequest
	plan := machine.Plan{Step: stepName, Target: step.Target(at.w), Locks: step.Locks(in.Service), Payload: step.EncodeJSON(p)}
	// The application's syncs move the generation; the manifests that were read
	// are the precondition.
	plan.Target.Generation = 0
	for _, t := range prop.Touches {
		plan.Diff = append(plan.Diff, machine.FieldChange{Path: fileLine(t) + " " + t.Path, From: t.From, To: t.To})
	}
	for _, f := range prop.Files {
		plan.Locks = append(plan.Locks, "file:"+gitops.RepositoryName(p.Repository)+"#"+f.Path)
	}
	for _, path := range prop.Deleted {
		plan.Locks = append(plan.Locks, "file:"+gitops.RepositoryName(p.Repository)+"#"+path)
	}
	if way.PullRequest {
		plan.Summary, plan.MergeWithin = byPullRequest, way.Within
		plan.Notes = append(plan.Notes, fmt.Sprintf("a pull request to %s, over %s, on %s, because %s; closed unless it is merged within %s",
			branchOf(p), short(prop.Base), way.Forge, way.Why, step.DurationText(way.Within)))
	} else {
		plan.Notes = append(plan.Notes, fmt.Sprintf("a commit on %s, over %s", branchOf(p), short(prop.Base)))
	}
	if at.app.Automated {
		note := at.app.Title() + " syncs it by itself"
		if at.app.Polls != "" {
			note += ", " + at.app.Polls + " after the push at the latest"
		}
		plan.Notes = append(plan.Notes, note)
	} else {
		plan.Notes = append(plan.Notes, at.app.Title()+" is synced to that commit")
		if plan.Lacks, err = g.a.Lacks(ctx, at.app.Name); err != nil {
			return machine.Plan{}, err
		}
	}
	if len(at.app.Overrides) > 0 {
		plan.Notes = append(plan.Notes, fmt.Sprintf("the application sets values outside Git, so the live values are read after the sync: %s", fields(at.app.Overrides)))
	}
	for _, r := range prop.Rendered {
		plan.Notes = append(plan.Notes, "rendered: "+r)
	}
	if prop.Unbuilt != "" {
		plan.Notes = append(plan.Notes, "not rendered: "+prop.Unbuilt)
	}
	noteDrift(&plan, at, prop.Touches)
	if at.app.Generator != "" {
		plan.Notes = append(plan.Notes, fmt.Sprintf("ApplicationSet %s manages the application", at.app.Generator))
	}
	return plan, nil
}

// filesText lists the files that change.
func filesText(prop gitops.Proposal) string {
	var out []string
	for _, f := range prop.Files {
		out = append(out, f.Path)
	}
	return strings.Join(out, ", ")
}

// alone refuses a change that would deploy other differences along with it.
func alone(at site, prop gitops.Proposal) error {
	switch {
	case at.deployed() == "":
		return &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf(
			"%s has no sync in its history: it is unknown what else this change would deploy", at.app.Title())}
	case len(prop.Ahead) > 0:
		return waiting(at, prop.Ahead)
	case !inSync(at.app, preExistingDrift(at, prop.Touches)):
		return &fault.Error{Reason: fault.Throttled, Message: fmt.Sprintf(
			"%s is %s, and no commit says why%s; this change would also revert what differs in the cluster: sync the application, or let it ignore what others own (spec.ignoreDifferences)",
			at.app.Title(), step.OrNone(at.app.Sync), differing(at.app))}
	}
	return nil
}

// differing describes the resources that differ from Git in the cluster, and
// what keeps Argo CD from comparing them.
func differing(app gitops.Application) string {
	var names []string
	for _, r := range app.Resources {
		switch {
		case r.Sync == "Synced" || r.Hook:
		case r.Prune:
			names = append(names, r.String()+" is no longer in Git")
		case r.Health == "Missing":
			names = append(names, r.String()+" is not in the cluster")
		default:
			names = append(names, r.String()+" differs")
		}
	}
	names = append(names, app.Problems...)
	if len(names) == 0 {
		return ""
	}
	return ": " + few(names)
}

// waiting refuses a change while other commits wait for deployment.
func waiting(at site, ahead []gitops.Commit) error {
	var list []string
	for i, c := range ahead {
		if i == 5 {
			list = append(list, fmt.Sprintf("and %d more", len(ahead)-i))
			break
		}
		list = append(list, commitText(c))
	}
	return &fault.Error{Reason: fault.Throttled, Message: fmt.Sprintf(
		"%s would be deployed along with this change, because %s is still at %s: %s",
		count(len(ahead), "commit"), at.app.Title(), short(at.deployed()), strings.Join(list, "; "))}
}

// commitText formats a commit on one line.
func commitText(c gitops.Commit) string {
	return fmt.Sprintf("%s %q by %s", short(c.SHA), c.Subject, step.OrNone(c.Author.Name))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
