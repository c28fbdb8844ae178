package git

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
)

// Change holds what all levers that commit share. They differ in how a change
// is found, which the payload records.
type Change struct {
	m    step.Manifests
	c    step.Commits
	p    step.Pulls
	h    step.History
	a    step.Applications
	w    step.Workloads
	o    step.Objects
	good step.LastGood

	recovery recovery
}

// NewChange returns what levers that commit share.
func NewChange(d step.Deps) Change {
	if d.History != nil {
		d.History = ownHistory{d.History, d.Journal}
	}
	return Change{d.Manifests, d.Commits, d.Pulls, d.History, d.Applications, d.Workloads, d.Objects, d.LastGood, recovery(d.Recovery)}
}

// gitPayload is the payload of a plan of a commit. Exactly one of Set and
// Revert is set.
type gitPayload struct {
	Application string       `json:"application"`
	Index       int          `json:"source"` // among the application's sources
	Repository  string       `json:"repository"`
	Branch      string       `json:"branch"`
	Follows     *string      `json:"follows,omitempty"` // what the application named: a branch; empty: HEAD. Nil: of an older journal, not kept
	Path        string       `json:"path,omitempty"`
	Object      objectName   `json:"object"`
	Container   string       `json:"container,omitempty"`
	ValueFiles  []string     `json:"valueFiles,omitempty"`
	Release     string       `json:"release,omitempty"`     // of Helm; empty: the application's name
	Listed      bool         `json:"listed,omitempty"`      // by the HelmRelease of Flux that makes it
	PullRequest bool         `json:"pullRequest,omitempty"` // it is made by one; false: pushed to the branch
	Read        string       `json:"read"`                  // digest of the manifests: the precondition
	Set         []assignment `json:"set,omitempty"`
	Revert      []string     `json:"revert,omitempty"`
	Because     string       `json:"because,omitempty"` // several variables in one change: why
	Live        []liveValue  `json:"live,omitempty"`    // what runs, of all that can be read from it
}

type objectName struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Workload string `json:"workload,omitempty"` // that a controller makes of it; empty: it is the object itself

	Component string `json:"component,omitempty"` // of the object; empty: the workload's, or the only one
}

// assignment is one variable with its values before and after.
type assignment struct {
	Flag     string `json:"flag,omitempty"`
	Switch   bool   `json:"switch,omitempty"` // it has no --no- form: false is to take it away
	Replicas bool   `json:"replicas,omitempty"`
	From     string `json:"from"` // empty: it was not set
	To       string `json:"to"`
}

func (a assignment) variable() gitops.Variable {
	return gitops.Variable{Flag: a.Flag, Switch: a.Switch, Replicas: a.Replicas}
}

// made reports whether the place has the new value.
func (a assignment) made(now string) bool {
	return now == a.To || a.Switch && a.To == "false" && now == ""
}

func (p gitPayload) src() gitops.Source {
	return gitops.Source{Repository: p.Repository, Branch: p.Branch, Path: p.Path, Values: p.ValueFiles}
}

func (p gitPayload) target(namespace string) gitops.Target {
	return gitops.Target{
		Kind: p.Object.Kind, Namespace: namespace, Name: p.Object.Name, Workload: p.Object.Workload, Component: p.Object.Component, Container: p.Container, ValueFiles: p.ValueFiles,
		HelmRelease: gitops.HelmReleaseOf(p.Application), Listed: p.Listed,
		Release: cmp.Or(p.Release, p.Application[strings.LastIndexByte(p.Application, '/')+1:]),
	}
}

func (p gitPayload) assignments() []gitops.Assignment {
	var out []gitops.Assignment
	for _, a := range p.Set {
		out = append(out, gitops.Assignment{Variable: a.variable(), Value: a.To})
	}
	return out
}

// propose computes the change again at the head.
func (g Change) propose(ctx context.Context, p gitPayload, namespace string) (gitops.Proposal, error) {
	if len(p.Revert) > 0 {
		return g.m.Propose(ctx, gitops.Want{Source: p.src(), Target: p.target(namespace), TakeBack: p.Revert})
	}
	return g.m.Propose(ctx, gitops.Want{Source: p.src(), Target: p.target(namespace), Set: p.assignments()})
}

// Apply commits, under the precondition that the manifests still say what they
// said when it was planned, and asks Argo CD for it.
func (g Change) Apply(ctx context.Context, in step.Input, plan machine.Plan) (json.RawMessage, error) {
	p, err := step.Payload[gitPayload](plan.Step, plan.Payload)
	if err != nil {
		return nil, err
	}
	if err := g.configured(); err != nil {
		return nil, err
	}
	made, err := g.land(ctx, in, plan, p)
	if err != nil {
		return nil, err
	}
	// What is on the branch stays applied: settling asks Argo CD again.
	_ = g.ask(ctx, in, p, made.Revision, machine.ActionApply)
	return step.EncodeJSON(made), nil
}

// land finds the commit of an earlier attempt, or makes it.
func (g Change) land(ctx context.Context, in step.Input, plan machine.Plan, p gitPayload) (step.GitReceipt, error) {
	var none step.GitReceipt
	key := effectKey(in.Key, machine.ActionApply)
	found, err := g.c.Find(ctx, p.src(), key)
	if err != nil || !found.None() {
		made := madeBy(found)
		_, made.Drift = g.driftAfter(ctx, plan, p, nil, found)
		return made, errors.Join(lateCommit(plan, found), err) // the foreign change first: it decides the outcome
	}
	if err := g.sameDelivery(ctx, plan, p); err != nil {
		return none, err
	}
	for range 3 {
		prop, err := g.propose(ctx, p, in.Service.Namespace)
		if err != nil {
			return none, movedOn(plan, err)
		}
		if prop.Read != p.Read {
			return none, g.moved(ctx, in, plan, p, prop)
		}
		drift, err := g.recheck(ctx, in, plan, p, prop.Base)
		if err != nil {
			return none, err
		}
		r := request(in, plan, prop, key)
		r.What, r.Why, r.PullRequest = in.Service.Name+": "+subject(plan), why(plan, p), p.PullRequest
		r.Drift = driftMark(plan.Drift, drift)
		landed, err := g.c.Commit(ctx, r)
		if errors.Is(err, gitops.ErrProtected) {
			return none, g.protectedNow(ctx, plan, p, err)
		}
		if !step.HasReason(err, fault.Conflict) || step.AsError(err).Unknown {
			made := madeBy(landed)
			made.Drift = drift
			return made, errors.Join(lateCommit(plan, landed), err)
		}
		// Somebody pushed meanwhile. What they pushed decides whether the plan holds.
	}
	return none, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: %s keeps moving: nothing was pushed", plan.Step, branchOf(p))}
}

func madeBy(l gitops.Landing) step.GitReceipt {
	return step.GitReceipt{Action: machine.ActionApply, Revision: l.SHA, Waits: l.Waits}
}

// lateCommit refuses a commit of this visit that another plan made: an
// abandoned attempt landed after all.
func lateCommit(plan machine.Plan, found gitops.Landing) error {
	if found.None() || found.Plan == "" || found.Plan == plan.Digest() {
		return nil
	}
	what := "commit " + short(found.SHA)
	if found.SHA == "" {
		what = cmp.Or(found.Waits, found.Closed)
	}
	return &fault.Error{Reason: fault.ForeignChange, Message: fmt.Sprintf("%s: %s of an earlier plan of this run landed meanwhile", plan.Step, what)}
}

// movedOn returns the error for a change that can no longer be computed: its
// lines are gone, or were changed again.
func movedOn(plan machine.Plan, err error) error {
	switch e := step.AsError(err); e.Reason {
	case fault.Conflict, fault.NotFound, fault.NothingToDo:
		return &fault.Error{Reason: fault.ForeignChange, Message: plan.Step + ": the lines were changed by someone else since it was planned: " + e.Error()}
	default:
		return err
	}
}

// moved tells what changed since the plan: the very lines, which is for a
// person to look at, or only their surroundings, which makes a new plan.
func (g Change) moved(_ context.Context, _ step.Input, plan machine.Plan, p gitPayload, now gitops.Proposal) error {
	for _, a := range p.Set {
		for _, t := range now.Touches {
			if t.Variable == a.variable().String() && t.From != a.From {
				return &fault.Error{Reason: fault.ForeignChange, Message: fmt.Sprintf(
					"%s: someone else changed %s from %s to %s since it was planned (%s)", plan.Step, t.Variable, step.OrNone(a.From), step.OrNone(t.From), fileLine(t))}
			}
		}
	}
	return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: the manifests in %s moved on to %s since it was planned", plan.Step, branchOf(p), short(now.Base))}
}

func (g Change) configured() error {
	switch {
	case g.m == nil || g.c == nil || g.p == nil || g.h == nil:
		return step.NotConfigured("Git repository", "gitops.repositories")
	case g.a == nil:
		return step.NotConfigured("Argo CD or Flux", "gitops.argocd or gitops.flux")
	case g.w == nil || g.o == nil:
		return step.NotConfigured("cluster", "kubernetes")
	}
	return nil
}

// readable reports what is not configured and needed to read who changed what.
func (g Change) readable() error {
	switch {
	case g.h == nil:
		return step.NotConfigured("Git repository", "gitops.repositories")
	case g.a == nil:
		return step.NotConfigured("Argo CD or Flux", "gitops.argocd or gitops.flux")
	case g.w == nil:
		return step.NotConfigured("cluster", "kubernetes")
	}
	return nil
}

// branchOf returns the name of the branch of a plan.
func branchOf(p gitPayload) string {
	if p.Branch == "" {
		return p.Repository
	}
	return p.Repository + " branch " + p.Branch
}

// effectKey returns the idempotency key of a commit: the visit and the action.
// All attempts share it, also those after a fresh plan: one visit changes Git
// once.
func effectKey(key string, action machine.Action) string {
	return step.Visit(key) + "/" + string(action)
}

// request returns the part of a commit that identifies the run.
func request(in step.Input, plan machine.Plan, prop gitops.Proposal, key string) gitops.Request {
	return gitops.Request{
		Proposal: prop, Effect: key, Run: in.Run, State: stateOf(in.Key), Digest: plan.Digest(),
		Alert: strings.TrimSpace(in.Alert.Labels["alertname"] + " of " + in.Service.Name), Plan: planText(in, plan),
	}
}

// stateOf returns the state in an effect's key: run/state#visit/action#attempt.
func stateOf(key string) string {
	_, state, _ := strings.Cut(step.Visit(key), "/")
	state, _, _ = strings.Cut(state, "#")
	return state
}

// why returns the body of a commit message.
func why(plan machine.Plan, p gitPayload) string {
	var parts []string
	for _, d := range plan.Diff {
		parts = append(parts, fmt.Sprintf("%s: %s -> %s.", d.Path, step.OrNone(d.From), step.OrNone(d.To)))
	}
	if p.Because != "" {
		parts = append(parts, "One change, because: "+p.Because+".")
	}
	return strings.Join(append(parts, "It is reverted unless the service's objective is met again."), " ")
}

// planText formats the plan for the description of a pull request.
func planText(in step.Input, plan machine.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| field | from | to |\n|---|---|---|\n", plan.Summary)
	for _, d := range plan.Diff {
		fmt.Fprintf(&b, "| `%s` | `%s` | `%s` |\n", d.Path, step.OrNone(d.From), step.OrNone(d.To))
	}
	fmt.Fprintf(&b, "\n* service: %s\n* alert: %s\n* risk: %s, %s\n* undo: %s\n* run: %s\n",
		in.Service.Name, step.OrNone(in.Alert.Labels["alertname"]), plan.Risk, plan.Why, plan.Undo, in.Run)
	for _, n := range plan.Notes {
		fmt.Fprintf(&b, "* %s\n", n)
	}
	return b.String()
}

func fileLine(t gitops.Touch) string {
	if t.Line == 0 {
		return t.File
	}
	return fmt.Sprintf("%s:%d", t.File, t.Line)
}

// ask has Argo CD refresh and, without automated sync, sync the commit. It runs
// on every observation, and does nothing if nothing is left to ask for.
func (g Change) ask(ctx context.Context, in step.Input, p gitPayload, sha string, action machine.Action) error {
	if sha == "" {
		return nil
	}
	app, err := g.a.Application(ctx, p.Application)
	if err != nil {
		return err
	}
	if g.reached(ctx, app, p, sha) {
		return nil
	}
	if err := g.a.Refresh(ctx, p.Application); err != nil {
		return err
	}
	if app.Automated || app.Operation.Running || g.tried(app, p, sha) {
		return nil
	}
	revisions := running(app) // of other sources nothing newer goes out along with it
	if len(revisions) != len(app.Sources) {
		revisions = append([]string(nil), app.Revisions...)
	}
	if p.Index >= len(revisions) {
		return &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf("%s names no revision of its source %d", app.Title(), p.Index)}
	}
	revisions[p.Index] = sha
	return g.a.Sync(ctx, gitops.Sync{Application: p.Application, Revisions: revisions, Key: effectKey(in.Key, action)})
}

// reached reports whether the application is synced at the commit, or at one
// that contains it.
func (g Change) reached(ctx context.Context, app gitops.Application, p gitPayload, sha string) bool {
	return app.Sync == "Synced" && p.Index < len(app.Revisions) && g.contains(ctx, p)(sha, app.Revisions[p.Index])
}

// tried reports whether the last operation was for this commit: a failed sync
// is not started again.
func (g Change) tried(app gitops.Application, p gitPayload, sha string) bool {
	return app.Operation.Phase != "" && !app.Operation.DryRun && p.Index < len(app.Operation.Revisions) && app.Operation.Revisions[p.Index] == sha
}

// contains asks Git whether a commit is in another's history. What cannot be
// found out is no.
func (g Change) contains(ctx context.Context, p gitPayload) func(ancestor, descendant string) bool {
	return func(ancestor, descendant string) bool {
		if ancestor == descendant {
			return ancestor != ""
		}
		yes, err := g.h.Contains(ctx, p.src(), ancestor, descendant)
		return err == nil && yes
	}
}

// Nudge implements nudger of package step.
func (g Change) Nudge(ctx context.Context, in step.Input, plan machine.Plan, undo bool) error {
	p, err := step.Payload[gitPayload](plan.Step, plan.Payload)
	if err != nil {
		return err
	}
	action := machine.ActionApply
	if undo {
		action = machine.ActionUndo
	}
	landed, err := g.c.Find(ctx, p.src(), effectKey(in.Key, action))
	if err != nil {
		return err
	}
	if landed.SHA == "" && landed.Waits != "" {
		if in.MergeBy != machine.MergeResponder || landed.Changed != "" || len(landed.Needs) > 0 {
			return nil // others do, or what is missing was said already
		}
		if !undo { // the merge is the write; an undo is written whenever it can be
			if err := g.recheckMerge(ctx, in, plan, p); err != nil {
				return err
			}
		}
		return g.p.Merge(ctx, p.src(), effectKey(in.Key, action))
	}
	return g.ask(ctx, in, p, landed.SHA, action)
}
