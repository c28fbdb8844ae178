package kinds_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/step/steptest"
)

// owned is a workload that an Argo CD application manages.
type argoFleet struct{ fleet }

func (argoFleet) Workload(ctx context.Context, r kube.Ref) (kube.Workload, error) {
	w, err := fleet{}.Workload(ctx, r)
	w.Ready, w.Updated, w.Available, w.Unavailable, w.Stuck, w.Pods = 3, 3, 3, 0, "", nil
	w.Owners = []kube.Owner{{Field: "*", Kind: "ArgoCD", Name: "argocd/chat", Why: "annotation argocd.argoproj.io/tracking-id"}}
	return w, err
}

// fluxFleet is one that a Kustomization of Flux deploys, helmFleet one that a HelmRelease
// does.
type (
	fluxFleet struct{ argoFleet }
	helmFleet struct{ argoFleet }
)

func (f fluxFleet) Workload(ctx context.Context, r kube.Ref) (kube.Workload, error) {
	w, err := f.argoFleet.Workload(ctx, r)
	w.Owners = []kube.Owner{{Field: "*", Kind: kube.Flux, Namespace: "flux-system", Name: "apps", Why: "label kustomize.toolkit.fluxcd.io/name"}}
	return w, err
}

func (f helmFleet) Workload(ctx context.Context, r kube.Ref) (kube.Workload, error) {
	w, err := f.argoFleet.Workload(ctx, r)
	w.Owners = []kube.Owner{{Field: "*", Kind: kube.FluxHelm, Namespace: "serving", Name: "apps", Why: "label helm.toolkit.fluxcd.io/name"}}
	return w, err
}

// gitWorld is a service whose manifests are in Git; its release of 20 minutes
// ago changed a flag.
type gitWorld struct {
	*steptest.Git

	now  time.Time
	deps step.Deps
}

func inGit(automated bool) *gitWorld {
	w := &gitWorld{now: noon.Add(-72 * time.Hour)}
	clock := func() time.Time { return w.now }
	w.Git = steptest.NewGit(clock, automated, map[string]string{"--max-num-seqs": "256", "replicas": "3", "image": "vllm:v0.11"})
	w.now = noon.Add(-20 * time.Minute)
	w.Push("ada", "smaller prefill chunks", map[string]string{"--max-num-batched-tokens": "512"})
	w.deploy()
	w.now = noon
	w.deps = step.Deps{Workloads: argoFleet{}, Manifests: w, Commits: w, Pulls: w, History: w, Journal: w, Applications: w, Objects: w, Now: clock}
	return w
}

// deploy brings the head into the cluster, whoever has to ask for it.
func (w *gitWorld) deploy() {
	if w.App.Automated {
		w.Settle()
		return
	}
	if err := w.Sync(context.Background(), gitops.Sync{Revisions: []string{w.Head().SHA}}); err != nil {
		panic(err)
	}
	w.Settle()
	w.Syncs = nil
}

func (w *gitWorld) do(t *testing.T, kind string, a machine.Action, with map[string]any, plan *machine.Plan, receipt json.RawMessage, observe bool) machine.Outcome {
	t.Helper()
	return kinds.New(w.deps).Do(t.Context(), machine.Effect{
		Key: "r-1/cap#1/" + string(a) + "#1", Run: "r-1", State: "cap", Action: a, Step: kind, With: with,
		Service: service("Deployment"), Plan: plan, Receipt: receipt, Observe: observe, Attempt: 1,
	})
}

func (w *gitWorld) plan(t *testing.T, kind string, with map[string]any) *machine.Plan {
	t.Helper()
	o := w.do(t, kind, machine.ActionPlan, with, nil, nil, false)
	if o.Status != machine.StatusOK {
		t.Fatalf("plan: %s %s %s", o.Status, o.Reason, o.Message)
	}
	return o.Plan
}

// want fails unless an outcome has the status and its message holds the words.
func want(t *testing.T, what string, o machine.Outcome, status machine.Status, words string) {
	t.Helper()
	if o.Status != status || !strings.Contains(o.Message, words) {
		t.Fatalf("%s: %s %q %q, want %s ...%s...", what, o.Status, o.Reason, o.Message, status, words)
	}
}

var seqs = map[string]any{"flag": "max-num-seqs", "value": "192"}

// TestGitLevers holds the levers that commit, and those on an application, to
// the contract of every lever.
func TestGitLevers(t *testing.T) {
	for name, tt := range map[string]struct {
		kind      string
		with      map[string]any
		automated bool
		meddle    map[string]string
	}{
		"set_flag automated":     {"gitops.set_flag", seqs, true, map[string]string{"--max-num-seqs": "64"}},
		"set_flag manual":        {"gitops.set_flag", seqs, false, map[string]string{"--max-num-seqs": "64"}},
		"set_flag adds one":      {"gitops.set_flag", map[string]any{"flag": "watermark", "value": "0.05"}, true, map[string]string{"--watermark": "0.2"}},
		"set_replicas automated": {"gitops.set_replicas", map[string]any{"by": int64(2)}, true, map[string]string{"replicas": "4"}},
		"revert window":          {"gitops.revert", map[string]any{"window": "1h"}, true, map[string]string{"--max-num-batched-tokens": "1024"}},
		"revert previous":        {"gitops.revert", map[string]any{"to": "previous"}, false, map[string]string{"--max-num-batched-tokens": "1024"}},
		"rollback through Git":   {"service.rollback", map[string]any{"window": "1h"}, true, map[string]string{"--max-num-batched-tokens": "1024"}},
		"rollback automated":     {"argocd.rollback", nil, true, map[string]string{"--max-num-batched-tokens": "1024"}},
	} {
		t.Run(name, func(t *testing.T) {
			steptest.TestLever(t, tt.kind, tt.with, func(*testing.T) steptest.World {
				w := inGit(tt.automated)
				svc := service("Deployment")
				svc.GitOps.Application = "argocd/chat"
				return steptest.World{
					Service: svc, Deps: w.deps, Finds: true,
					Spec:   func(testing.TB) string { return w.Text() },
					Settle: func(testing.TB) { w.Settle() },
					Meddle: func(testing.TB) { w.Push("eve", "other plans", tt.meddle) },
				}
			})
		})
	}
	for name, tt := range map[string]struct {
		kind    string
		prepare func(*gitWorld)
	}{
		"sync":            {"argocd.sync", func(w *gitWorld) { w.Push("ada", "bigger", map[string]string{"replicas": "4"}); w.refresh() }},
		"rollback manual": {"argocd.rollback", func(*gitWorld) {}},
	} {
		t.Run(name, func(t *testing.T) {
			steptest.TestLever(t, tt.kind, nil, func(*testing.T) steptest.World {
				w := inGit(false)
				tt.prepare(w)
				return steptest.World{
					Service: service("Deployment"), Deps: w.deps,
					Spec: func(testing.TB) string {
						if op := w.App.Operation; op.Running {
							return strings.Join(op.Revisions, ",")
						}
						return strings.Join(w.App.History[len(w.App.History)-1].Revisions, ",")
					},
					Settle: func(testing.TB) { w.Settle() },
					Meddle: func(tb testing.TB) {
						sha := w.Push("eve", "other plans", map[string]string{"replicas": "9"})
						w.Settle()
						if err := w.Sync(context.Background(), gitops.Sync{Revisions: []string{sha}}); err != nil {
							tb.Fatal(err)
						}
					},
				}
			})
		})
	}
}

func (w *gitWorld) refresh() {
	if err := w.Refresh(context.Background(), ""); err != nil {
		panic(err)
	}
}

// TestSetFlagIsOneCommit: what people approve, what is committed and what is
// kept as last good say the same.
func TestSetFlagIsOneCommit(t *testing.T) {
	w := inGit(false)
	plan := w.plan(t, "gitops.set_flag", seqs)
	if plan.Summary != "set --max-num-seqs from 256 to 192 in apps/chat/values.yaml" || len(plan.Diff) != 1 ||
		plan.Diff[0] != (machine.FieldChange{Path: "apps/chat/values.yaml:7 --max-num-seqs", From: "256", To: "192"}) {
		t.Errorf("plan %q %+v", plan.Summary, plan.Diff)
	}
	if want := []string{"service:serving/chat", "file:git.example/ml/serving#apps/chat/values.yaml"}; !slices.Equal(plan.Locks, want) {
		t.Errorf("locks %v, want %v", plan.Locks, want)
	}
	if len(plan.Good) != 1 || plan.Good[0] != (machine.Setting{Name: "--max-num-seqs", Value: "192"}) {
		t.Errorf("good %+v", plan.Good)
	}
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	want(t, "apply", o, machine.StatusOK, "")
	c := w.Head()
	for name, value := range map[string]string{
		gitops.TrailerRun: "r-1", gitops.TrailerState: "cap", gitops.TrailerPlan: plan.Digest(), gitops.TrailerEffect: "r-1/cap#1/apply",
	} {
		if c.Trailers[name] != value {
			t.Errorf("trailer %s: %q, want %q", name, c.Trailers[name], value)
		}
	}
	if !strings.Contains(string(o.Data), c.SHA) || len(w.Syncs) != 1 || !slices.Equal(w.Syncs[0].Revisions, []string{c.SHA}) {
		t.Errorf("receipt %s, syncs %+v, want both of %s", o.Data, w.Syncs, c.SHA)
	}
}

// TestGitPlanRefuses: nothing is planned that would not be deployed, would take
// others along, or is more than one variable.
func TestGitPlanRefuses(t *testing.T) {
	two := map[string]any{"flags": map[string]any{"max-num-seqs": "64", "max-num-batched-tokens": "2048"}}
	for name, tt := range map[string]struct {
		kind   string
		with   map[string]any
		change func(*gitWorld)
		reason fault.Reason
		text   string
	}{
		"another application's": {"gitops.set_flag", seqs, func(w *gitWorld) { w.App.Resources[0].Name = "code" }, fault.Owned, "does not manage Deployment serving/chat"},
		"no application":        {"gitops.set_flag", seqs, func(w *gitWorld) { w.deps.Workloads = fleet{} }, fault.Invalid, "set gitops.application"},
		"a HelmRelease's, live": {"kube.scale", map[string]any{"by": 1}, func(w *gitWorld) { w.deps.Workloads, w.deps.Changer = helmFleet{}, fleet{} }, fault.Owned, "spec.replicas of Deployment serving/chat belongs to Flux HelmRelease serving/apps (label helm.toolkit.fluxcd.io/name): Flux would"},
		"a suspended HelmRelease's": {"gitops.set_flag", seqs, func(w *gitWorld) {
			w.deps.Workloads, w.App.Name, w.App.Suspended = helmFleet{}, "flux-helm:serving/apps", "HelmRelease serving/apps"
		}, fault.Owned, "HelmRelease serving/apps is suspended"},
		"suspended": {"gitops.set_flag", seqs, func(w *gitWorld) { w.App.Suspended = "Kustomization flux-system/apps" }, fault.Owned, "Kustomization flux-system/apps is suspended"},
		"pinned":    {"gitops.set_flag", seqs, func(w *gitWorld) { w.App.Target = []string{"refs/tags/v1"} }, fault.Owned, "which is not a branch"},
		"two sources": {"gitops.set_flag", seqs, func(w *gitWorld) {
			w.App.Sources = append(w.App.Sources, gitops.Source{Repository: "https://git.example/x"})
		}, fault.Owned, "several sources"},
		"two flags":      {"gitops.set_flag", two, func(*gitWorld) {}, fault.Invalid, "one_variable"},
		"dashes":         {"gitops.set_flag", map[string]any{"flag": "--max-num-seqs", "value": "1"}, func(*gitWorld) {}, fault.Invalid, "omit the leading dashes"},
		"no value":       {"gitops.set_flag", map[string]any{"flag": "max-num-seqs"}, func(*gitWorld) {}, fault.Invalid, "no value"},
		"as it is":       {"gitops.set_flag", map[string]any{"flag": "max-num-seqs", "value": "256"}, func(*gitWorld) {}, fault.NothingToDo, "already"},
		"never verified": {"gitops.set_flag", map[string]any{"flag": "max-num-seqs", "value": "last_good"}, func(*gitWorld) {}, fault.NoData, "ever verified"},
		"others wait":    {"gitops.set_flag", seqs, func(w *gitWorld) { w.Push("eve", "not yet out", map[string]string{"image": "vllm:v0.12"}) }, fault.Throttled, `"not yet out" by eve`},
		"window":         {"gitops.set_flag", seqs, func(w *gitWorld) { w.App.Window = "deny * until 18:00" }, fault.Throttled, "sync window deny"},
		"syncing":        {"gitops.set_flag", seqs, func(w *gitWorld) { w.App.Operation = gitops.Operation{Running: true, By: "eve"} }, fault.Throttled, "by eve"},
		"git down": {"gitops.set_flag", seqs, func(w *gitWorld) {
			w.Down = &fault.Error{Reason: fault.Unreachable, Message: "no route to git"}
		}, fault.Unreachable, "no route"},
		"argo down": {"gitops.set_flag", seqs, func(w *gitWorld) {
			w.ArgoDown = &fault.Error{Reason: fault.Forbidden, Message: "token revoked"}
		}, fault.Forbidden, "revoked"},
		"beyond the most": {"gitops.set_replicas", map[string]any{"replicas": 7}, func(*gitWorld) {}, fault.OutOfBounds, "7 replicas are more than the 6 allowed"},
		"nothing changed": {"gitops.revert", map[string]any{"window": "10m"}, func(*gitWorld) {}, fault.NothingToDo, "no commit of the last 10m"},
		"changed again by a repair": {"gitops.revert", map[string]any{"window": "1h"}, func(w *gitWorld) {
			again := map[string]any{"flag": "max-num-batched-tokens", "value": "1024"}
			w.do(t, "gitops.set_flag", machine.ActionApply, again, w.plan(t, "gitops.set_flag", again), nil, false)
			w.Settle()
		}, fault.Conflict, "--max-num-batched-tokens was changed again to 1024"},
		"our own repair": {"gitops.revert", map[string]any{"to": "previous"}, func(w *gitWorld) {
			plan := w.plan(t, "gitops.revert", map[string]any{"to": "previous"})
			w.do(t, "gitops.revert", machine.ActionApply, nil, plan, nil, false)
			w.Settle()
		}, fault.NothingToDo, "a repair by Responder"},
		"no last good":        {"gitops.revert", map[string]any{"to": "last_good"}, func(*gitWorld) {}, fault.NoData, "ever verified"},
		"syncs by itself":     {"argocd.sync", nil, func(*gitWorld) {}, fault.Owned, "syncs by itself"},
		"nothing before that": {"argocd.rollback", nil, func(w *gitWorld) { w.App.History = w.App.History[1:] }, fault.NothingToDo, "no earlier deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			tt.change(w)
			before := w.Text()
			o := w.do(t, tt.kind, machine.ActionPlan, tt.with, nil, nil, false)
			if o.Status == machine.StatusOK || o.Reason != tt.reason || !strings.Contains(o.Message, tt.text) {
				t.Errorf("%s %s %q, want %s ...%s...", o.Status, o.Reason, o.Message, tt.reason, tt.text)
			}
			if w.Text() != before || len(w.Syncs) > 0 {
				t.Error("a plan changed something")
			}
		})
	}
}

// TestMovedBase: what somebody else pushed voids the plan; when it was the very
// line, a person has to look.
func TestMovedBase(t *testing.T) {
	w := inGit(true)
	plan := w.plan(t, "gitops.set_flag", seqs)
	w.Push("eve", "something else", map[string]string{"image": "vllm:v0.12"})
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	want(t, "apply over a moved base", o, machine.StatusFailed, "moved on")
	if o.Reason != fault.Conflict || w.Head().Author.Name != "eve" {
		t.Errorf("%s, head by %s", o.Reason, w.Head().Author.Name)
	}
	w.Push("eve", "the same line", map[string]string{"--max-num-seqs": "128"})
	o = w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	want(t, "apply over a changed line", o, machine.StatusForeign, "changed --max-num-seqs from 256 to 128")
}

// TestArgoDownAfterPush: the commit stays made, and is synced when Argo CD is
// back, once.
func TestArgoDownAfterPush(t *testing.T) {
	w := inGit(false)
	plan := w.plan(t, "gitops.set_flag", seqs)
	w.Pushed = func() {
		w.ArgoDown = &fault.Error{Reason: fault.Unreachable, Message: "connection refused"}
	}
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	want(t, "apply", o, machine.StatusOK, "")
	want(t, "look", w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, true), machine.StatusOK, "")
	down := w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false)
	if want(t, "settle", down, machine.StatusFailed, "refused"); !down.Reason.Retryable() {
		t.Errorf("%s ends the wait", down.Reason)
	}
	w.ArgoDown = nil
	want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusPending, "so far, not ")
	want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusPending, "")
	w.Settle()
	want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusOK, "healthy")
	if len(w.Syncs) != 1 {
		t.Errorf("%d syncs, want 1", len(w.Syncs))
	}
}

// TestSettleFails: a sync that fails, and health that stays bad, are no success,
// and a failed sync is not begun again.
func TestSettleFails(t *testing.T) {
	w := inGit(false)
	plan := w.plan(t, "gitops.set_flag", seqs)
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	w.Fails = "Deployment.apps chat is invalid: spec.replicas"
	w.Settle()
	for range 2 {
		o := w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false)
		want(t, "settle", o, machine.StatusFailed, "spec.replicas")
		if o.Reason != fault.Degraded {
			t.Errorf("%s", o.Reason)
		}
	}
	if len(w.Syncs) != 1 {
		t.Errorf("%d syncs, want 1", len(w.Syncs))
	}
	w.Fails, w.App.Health, w.App.Message = "", "Degraded", "exceeded its progress deadline"
	w.begin()
	want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusPending, "degraded")
	w.now = w.now.Add(time.Minute)
	w.deps.Recovery = 50 * time.Second
	want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusFailed, "progress deadline")
	w.deps.Recovery = 0
	want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusPending, "degraded")
	w.now = w.now.Add(3 * time.Minute)
	want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusFailed, "progress deadline")
	w.App.Health = "Healthy"
	want(t, "settle", w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false), machine.StatusOK, "healthy")
}

func (w *gitWorld) begin() {
	if err := w.Sync(context.Background(), gitops.Sync{Revisions: []string{w.Head().SHA}}); err != nil {
		panic(err)
	}
	w.Settle()
	w.Syncs = w.Syncs[:1]
}

// TestUndoKeepsLaterCommits: exactly that commit is reverted.
func TestUndoKeepsLaterCommits(t *testing.T) {
	w := inGit(true)
	plan := w.plan(t, "gitops.set_flag", seqs)
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	w.Settle()
	w.Push("eve", "something else", map[string]string{"image": "vllm:v0.12"})
	want(t, "undo", w.do(t, "gitops.set_flag", machine.ActionUndo, seqs, plan, o.Data, false), machine.StatusOK, "")
	if now := w.Head().Values; now["--max-num-seqs"] != "256" || now["image"] != "vllm:v0.12" {
		t.Errorf("after the undo: %v", now)
	}
	if !strings.HasPrefix(w.Head().Subject, "Revert ") {
		t.Errorf("subject %q", w.Head().Subject)
	}
}

// TestRoutes: a live lever on what Git owns becomes the one in Git, and that
// one carries it out; without a place in Git it is refused as before.
func TestRoutes(t *testing.T) {
	svc := service("Deployment")
	svc.GitOps.Application = "argocd/chat"
	for kind, to := range map[string]string{"kube.scale": "gitops.set_replicas"} {
		w := inGit(true)
		w.deps.Changer = fleet{}
		with := map[string]any{"by": int64(1)}
		set := kinds.New(w.deps)
		e := machine.Effect{Key: "r-1/fix#1/plan#1", Run: "r-1", Action: machine.ActionPlan, Step: kind, With: with, Service: svc}
		o := set.Do(t.Context(), e)
		want(t, kind, o, machine.StatusOK, "")
		if o.Plan.Step != to || !strings.Contains(o.Plan.Notes[0], kind+" is done as "+to) {
			t.Errorf("%s: step %s, notes %q", kind, o.Plan.Step, o.Plan.Notes)
		}
		e.Key, e.Action, e.Plan = "r-1/fix#1/apply#1", machine.ActionApply, o.Plan
		want(t, kind, set.Do(t.Context(), e), machine.StatusOK, "")
		if w.Head().Trailers[gitops.TrailerRun] != "r-1" {
			t.Errorf("%s: head is %+v", kind, w.Head())
		}
		e.Action, e.Plan, e.Service = machine.ActionPlan, nil, service("Deployment")
		want(t, kind+" without a place in Git", set.Do(t.Context(), e), machine.StatusRefused, "Argo CD application")
	}
}

// forged is a Deployment of somebody whose ownerReference names what an application
// deploys.
type forged struct {
	argoFleet

	mark, owner kube.Owner
}

func (f forged) Workload(ctx context.Context, r kube.Ref) (kube.Workload, error) {
	w, err := f.argoFleet.Workload(ctx, r)
	w.Ref, w.Owners = r, []kube.Owner{f.mark, f.owner}
	return w, err
}

// TestForgedOwner: whoever creates a workload writes its ownerReferences and labels. They
// change nothing of what they name in Git, and show nothing of it.
func TestForgedOwner(t *testing.T) {
	for name, mark := range map[string]kube.Owner{
		"argocd/chat":            {Field: "*", Kind: kube.ArgoCD, Name: "argocd/chat"},
		"flux:serving/apps":      {Field: "*", Kind: kube.Flux, Namespace: "serving", Name: "apps"},
		"flux-helm:serving/apps": {Field: "*", Kind: kube.FluxHelm, Namespace: "serving", Name: "apps"},
	} {
		for _, owner := range []string{"Deployment chat", "InferenceService chat", "LeaderWorkerSet evil-predictor"} {
			for _, lever := range []string{"kube.scale", "gitops.set_flag", "gitops.revert", "gitops.changes"} {
				kind, object, _ := strings.Cut(owner, " ")
				w := inGit(true)
				w.App.Name = name
				w.App.Resources = append(w.App.Resources, gitops.Resource{Kind: "InferenceService", Namespace: "serving", Name: "chat"}, gitops.Resource{Kind: "LeaderWorkerSet", Namespace: "serving", Name: "evil-predictor"})
				w.App.Made = w.App.Resources
				w.deps.Changer, w.deps.Workloads = fleet{}, forged{mark: mark, owner: kube.Owner{Field: "*", Kind: kind, Name: object}}
				svc := service("Deployment")
				svc.Workload.Name, svc.GitOps.Repository = "evil-predictor", w.App.Sources[0].Repository
				e := machine.Effect{Key: "r-1/fix#1/plan#1", Run: "r-1", Action: machine.ActionPlan, Step: lever, With: seqs, Service: svc}
				switch lever {
				case "kube.scale":
					e.With = map[string]any{"by": int64(1)}
				case "gitops.revert", "gitops.changes":
					e.With = map[string]any{"window": 2 * time.Hour}
				}
				if lever == "gitops.changes" {
					e.Action = machine.ActionCheck
				}
				o := kinds.New(w.deps).Do(t.Context(), e)
				if o.Status == machine.StatusOK && (lever != "gitops.changes" || !strings.Contains(string(o.Data), `"known":false`)) || !strings.Contains(o.Message+string(o.Data), "does not manage Deployment serving/evil-predictor") {
					t.Errorf("%s by %s of %s: %s %s %s", lever, owner, name, o.Status, o.Message, o.Data)
				}
			}
		}
	}
}

// TestReleaseUndone: a workload that a HelmRelease is not known to make any more gets no
// further change and no evidence, and what was changed for it is followed and taken back.
func TestReleaseUndone(t *testing.T) {
	w := inGit(true)
	w.deps.Workloads, w.deps.Changer, w.App.Name = helmFleet{}, fleet{}, "flux-helm:serving/apps"
	w.App.Releases, w.App.Values = []string{"chat"}, [][]string{nil}
	back := map[string]any{"window": 2 * time.Hour}
	plan := w.plan(t, "gitops.revert", back)
	o := w.do(t, "gitops.revert", machine.ActionApply, back, plan, nil, false)
	want(t, "apply", o, machine.StatusOK, "")
	w.Settle()
	w.NotMade = &fault.Error{Reason: fault.Owned, Message: "is not known to make it"}
	want(t, "plan", w.do(t, "gitops.set_flag", machine.ActionPlan, seqs, nil, nil, false), machine.StatusRefused, "is not known to make it")
	want(t, "undo", w.do(t, "gitops.revert", machine.ActionUndo, back, plan, o.Data, false), machine.StatusOK, "")
}

// ownedScaler is the autoscaler of a workload, and Argo CD deploys both.
type ownedScaler struct{ paused string }

func (s ownedScaler) AutoscalerOf(context.Context, kube.Ref) (kube.Autoscaler, error) {
	ref := kube.Ref{Kind: kube.HPA, Namespace: "serving", Name: "chat"}
	return kube.Autoscaler{Ref: ref, Paused: s.paused, Bounds: kube.Bounds{Max: new(8)}, Owners: []kube.Owner{{Field: "*", Kind: kube.ArgoCD, Name: "argocd/chat"}}}, nil
}

func (s ownedScaler) Autoscaler(ctx context.Context, ref kube.Ref) (kube.Autoscaler, error) {
	return s.AutoscalerOf(ctx, ref)
}

func (ownedScaler) SetBounds(context.Context, kube.BoundsChange) (kube.Autoscaler, error) {
	return kube.Autoscaler{}, errors.New("the autoscaler was changed in the cluster")
}

// TestKeepInGit: where Git owns the autoscaler, the replicas that run are those that are
// kept, by the number in Git.
func TestKeepInGit(t *testing.T) {
	w := inGit(true)
	w.deps.Changer, w.deps.Scalers = fleet{}, ownedScaler{}
	svc := service("Deployment")
	svc.GitOps.Application = "argocd/chat"
	o := kinds.New(w.deps).Do(t.Context(), machine.Effect{Key: "r-1/fix#1/plan#1", Run: "r-1", Action: machine.ActionPlan, Step: "kube.autoscaler", With: map[string]any{"keep": true}, Service: svc})
	want(t, "as many as Git has", o, machine.StatusRefused, "gitops.set_replicas: 3 replicas already")
	keep := func(v bool) machine.Outcome {
		return kinds.New(w.deps).Do(t.Context(), machine.Effect{Key: "r-1/fix#1/plan#1", Run: "r-1", Action: machine.ActionPlan, Step: "kube.autoscaler", With: map[string]any{"keep": v}, Service: svc})
	}
	want(t, "not wanted", keep(false), machine.StatusRefused, "keep is false")
	w.Push("ada", "more", map[string]string{"replicas": "4"})
	w.deploy()
	want(t, "fewer than Git has", keep(true), machine.StatusRefused, "Git has more than the 3 replicas there")
	w.deps.Scalers = ownedScaler{paused: "autoscaling.keda.sh/paused: true"}
	want(t, "paused", keep(true), machine.StatusRefused, "is paused by its annotation autoscaling.keda.sh/paused: true")
}

// TestHelmReleaseInGit: what a HelmRelease of Flux makes is changed in Git, and the
// change is followed by the name of the HelmRelease.
func TestHelmReleaseInGit(t *testing.T) {
	w := inGit(true)
	w.deps.Workloads, w.deps.Changer, w.App.Name = helmFleet{}, fleet{}, "flux-helm:serving/apps"
	w.App.Releases, w.App.Values = []string{"chat"}, [][]string{{"../../charts/chat"}}
	w.App.Resources[0] = gitops.Resource{Group: "helm.toolkit.fluxcd.io", Kind: "HelmRelease", Namespace: "serving", Name: "apps", Sync: "Synced"}
	svc := service("Deployment")
	svc.GitOps.Repository = w.App.Sources[0].Repository
	o := kinds.New(w.deps).Do(t.Context(), machine.Effect{
		Key: "r-1/up#1/plan#1", Run: "r-1", State: "up", Action: machine.ActionPlan, Step: "kube.scale", With: map[string]any{"by": 1}, Service: svc,
	})
	if o.Status != machine.StatusOK || o.Plan.Step != "gitops.set_replicas" {
		t.Fatalf("%s %s %+v", o.Status, o.Message, o.Plan)
	}
	var p struct {
		Application, Release string
		ValueFiles           []string
	}
	if err := json.Unmarshal(o.Plan.Payload, &p); err != nil || p.Application != "flux-helm:serving/apps" || p.Release != "chat" || !slices.Equal(p.ValueFiles, []string{"charts/chat"}) {
		t.Errorf("%+v: %v", p, err)
	}
}
