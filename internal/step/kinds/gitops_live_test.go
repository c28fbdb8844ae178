package kinds_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// TestPlanLooksAtWhatRuns: a value in Git that is not what runs is not changed in
// Git, and who decides it is named as far as Argo CD tells.
func TestPlanLooksAtWhatRuns(t *testing.T) {
	hpa := func(w *gitWorld) {
		w.deps.Workloads = scaledFleet{}
	}
	for name, tt := range map[string]struct {
		kind   string
		with   map[string]any
		change func(*gitWorld)
		reason fault.Reason
		text   string
	}{
		"another value": {"gitops.set_flag", seqs, func(w *gitWorld) {
			w.Live = map[string]string{"--max-num-seqs": "128"}
			w.App.Overrides = []gitops.Override{{Field: "spec.source.helm.parameters[maxNumSeqs]"}}
		}, fault.Overridden, "--max-num-seqs is 256 in Git (apps/chat/values.yaml:7), but Deployment serving/chat has 128: Argo CD application argocd/chat sets outside Git: spec.source.helm.parameters[maxNumSeqs]; a run changes files of the source and not the application: move it to a value file that its source names"},
		"nobody tells":     {"gitops.set_flag", seqs, func(w *gitWorld) { w.Live = map[string]string{"--max-num-seqs": "128"} }, fault.Overridden, "an admission webhook, another controller or a person"},
		"taken away":       {"gitops.set_flag", seqs, func(w *gitWorld) { w.Live = map[string]string{"--max-num-seqs": ""} }, fault.Overridden, "Deployment serving/chat has (not set)"},
		"added beside Git": {"gitops.set_flag", map[string]any{"flag": "watermark", "value": "0.05"}, func(w *gitWorld) { w.Live = map[string]string{"--watermark": "0.1"} }, fault.Overridden, "--watermark is (not set) in Git"},
		"replicas":         {"gitops.set_replicas", map[string]any{"by": int64(1)}, func(w *gitWorld) { w.Live = map[string]string{"replicas": "5"} }, fault.Overridden, "replicas is 3 in Git"},
		"an autoscaler":    {"gitops.set_replicas", map[string]any{"by": int64(1)}, hpa, fault.Overridden, "belongs to HorizontalPodAutoscaler chat"},
		"a revert of it":   {"gitops.revert", map[string]any{"to": "previous"}, func(w *gitWorld) { w.Live = map[string]string{"--max-num-batched-tokens": "8192"} }, fault.Overridden, "has 8192"},
		"cluster away": {"gitops.set_flag", seqs, func(w *gitWorld) {
			w.ClusterDown = &fault.Error{Reason: fault.Unreachable, Message: "no route to the cluster"}
		}, fault.Unreachable, "no route"},
		"may not be looked": {"gitops.set_flag", seqs, func(w *gitWorld) {
			w.ClusterDown = &fault.Error{Reason: fault.Forbidden, Message: "get deployments"}
		}, fault.Forbidden, "get deployments"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			tt.change(w)
			o := w.do(t, tt.kind, machine.ActionPlan, tt.with, nil, nil, false)
			if o.Status == machine.StatusOK || o.Reason != tt.reason || !strings.Contains(o.Message, tt.text) {
				t.Errorf("%s %s %q, want %s ...%s...", o.Status, o.Reason, o.Message, tt.reason, tt.text)
			}
		})
	}
}

type scaledFleet struct{ argoFleet }

func (f scaledFleet) Workload(ctx context.Context, r kube.Ref) (kube.Workload, error) {
	w, err := f.argoFleet.Workload(ctx, r)
	w.Owners = append(w.Owners, kube.Owner{Field: "spec.replicas", Kind: "HorizontalPodAutoscaler", Name: "chat", Why: "its scaleTargetRef names the workload"})
	return w, err
}

// made applies a change and has it synced.
func made(t *testing.T, w *gitWorld) (*machine.Plan, json.RawMessage) {
	t.Helper()
	plan := w.plan(t, "gitops.set_flag", seqs)
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	want(t, "apply", o, machine.StatusOK, "")
	w.Settle()
	return plan, o.Data
}

// TestSyncedWithoutEffect: Synced and Healthy on our commit is not enough. What
// runs has to have the value, or the change is taken back.
func TestSyncedWithoutEffect(t *testing.T) {
	w := inGit(true)
	plan := w.plan(t, "gitops.set_flag", seqs)
	o := w.do(t, "gitops.set_flag", machine.ActionApply, seqs, plan, nil, false)
	want(t, "apply", o, machine.StatusOK, "")
	w.Live = map[string]string{"--max-num-seqs": "256"}
	w.App.Overrides = []gitops.Override{{Field: "spec.source.kustomize.patches"}}
	w.Settle()
	settled := w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, o.Data, false)
	want(t, "settle", settled, machine.StatusFailed,
		"healthy, but Deployment serving/chat has --max-num-seqs 256, not 192: Argo CD application argocd/chat sets outside Git: spec.source.kustomize.patches")
	if settled.Reason != fault.Overridden || settled.Reason.Retryable() {
		t.Errorf("reason %s, want it to end the wait", settled.Reason)
	}
	proof := w.do(t, "gitops.set_flag", machine.ActionVerify, seqs, plan, o.Data, false)
	if proof.Sample == nil || proof.Sample.Verdict != machine.VerdictFailed || proof.Sample.Reason != fault.Overridden {
		t.Errorf("the proof says %+v, whatever the figures", proof)
	}
	back := w.do(t, "gitops.set_flag", machine.ActionUndo, seqs, plan, o.Data, false)
	want(t, "undo", back, machine.StatusOK, "")
	w.Settle()
	want(t, "unwind", w.do(t, "gitops.set_flag", machine.ActionUnwind, seqs, plan, back.Data, false), machine.StatusOK, "healthy")
	if v := w.Head().Values["--max-num-seqs"]; v != "256" {
		t.Errorf("Git has %s after the undo", v)
	}
	w.Live["--max-num-seqs"] = "64"
	want(t, "unwind with a third value", w.do(t, "gitops.set_flag", machine.ActionUnwind, seqs, plan, back.Data, false), machine.StatusFailed,
		"has --max-num-seqs 64, not 256 as before")
}

// TestNotRolledOut: pods of the old value are no effect yet, and a cluster that
// does not answer is no answer.
func TestNotRolledOut(t *testing.T) {
	w := inGit(true)
	plan, receipt := made(t, w)
	w.deps.Workloads = &slowFleet{updated: 1}
	settle := func() machine.Outcome {
		return w.do(t, "gitops.set_flag", machine.ActionSettle, seqs, plan, receipt, false)
	}
	want(t, "one pod", settle(), machine.StatusPending, "1 of 3 replicas updated")
	w.ClusterDown = &fault.Error{Reason: fault.Unreachable, Message: "no route to the cluster"}
	if o := settle(); o.Status != machine.StatusFailed || !o.Reason.Retryable() {
		t.Errorf("cluster away: %s %s %q", o.Status, o.Reason, o.Message)
	}
	w.ClusterDown, w.deps.Workloads = nil, &slowFleet{updated: 3}
	want(t, "all pods", settle(), machine.StatusOK, "healthy")
}

type slowFleet struct {
	argoFleet

	updated int
}

func (f *slowFleet) Workload(ctx context.Context, r kube.Ref) (kube.Workload, error) {
	w, err := f.argoFleet.Workload(ctx, r)
	w.Updated = f.updated
	return w, err
}

// TestUnseen: what cannot be read from what runs is said, asked about, and is
// never what was last good.
func TestUnseen(t *testing.T) {
	w := inGit(true)
	w.Form = "config"
	plan := w.plan(t, "gitops.set_flag", seqs)
	if !strings.Contains(plan.Unseen, "--max-num-seqs: it stands in a configuration file") || len(plan.Good) != 0 || plan.Risk != machine.RiskHigh {
		t.Errorf("unseen %q, good %v, risk %s", plan.Unseen, plan.Good, plan.Risk)
	}
	if !slices.ContainsFunc(plan.Notes, func(n string) bool { return strings.Contains(n, "people are asked") }) {
		t.Errorf("notes %q do not say it", plan.Notes)
	}
	w = inGit(true)
	w.Push("ada", "a limit", map[string]string{"memory": "64Gi"})
	w.Settle()
	plan = w.plan(t, "gitops.revert", map[string]any{"to": "previous"})
	if !strings.Contains(plan.Unseen, "memory") || len(plan.Good) != 0 {
		t.Errorf("unseen %q, good %v", plan.Unseen, plan.Good)
	}
}

// TestContainerThatIsNotThere: a container that the catalog names, or that Git
// has as it is deployed, is not replaced by another one that runs an engine; one
// that an operator makes may be named otherwise.
func TestContainerThatIsNotThere(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*playbook.Service, *gitWorld)
		unseen string
	}{
		"as named": {func(svc *playbook.Service, _ *gitWorld) { svc.Container = "vllm" }, ""},
		"the catalog's": {
			func(svc *playbook.Service, _ *gitWorld) { svc.Container = "engine" },
			`--max-num-seqs: Deployment serving/chat has no container "engine" (it has: vllm)`,
		},
		"the catalog's, beside an operator": {func(svc *playbook.Service, w *gitWorld) {
			svc.Container, w.Container = "engine", "engine"
			operated(svc, w)
		}, `has no container "engine"`},
		"Git's": {func(_ *playbook.Service, w *gitWorld) { w.Container = "main" }, `has no container "main"`},
		"an operator's": {func(svc *playbook.Service, w *gitWorld) {
			w.Container = "main"
			operated(svc, w)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, svc := inGit(true), service("Deployment")
			tt.change(&svc, w)
			o := kinds.New(w.deps).Do(t.Context(), machine.Effect{
				Key: "r-1/cap#1/plan#1", Run: "r-1", State: "cap", Action: machine.ActionPlan, Step: "gitops.set_flag", With: seqs, Service: svc,
			})
			want(t, "plan", o, machine.StatusOK, "")
			if tt.unseen == "" && o.Plan.Unseen != "" || !strings.Contains(o.Plan.Unseen, tt.unseen) || (tt.unseen != "") != (len(o.Plan.Good) == 0) {
				t.Errorf("unseen %q, good %v; want %q", o.Plan.Unseen, o.Plan.Good, tt.unseen)
			}
			if made := w.App.Resources[0].Kind != "Deployment"; strings.Contains(string(o.Plan.Payload), `"workload":"chat"`) != made {
				t.Errorf("%s: the workload that is made of the object is not kept", o.Plan.Payload)
			}
		})
	}
}

// operated lets an operator make the workload of an object in Git.
func operated(svc *playbook.Service, w *gitWorld) {
	svc.GitOps.Object = playbook.Workload{Kind: "InferenceService", Name: "chat"}
	w.App.Resources[0] = gitops.Resource{Group: "serving.kserve.io", Kind: "InferenceService", Namespace: "serving", Name: "chat", Sync: "Synced", Health: "Healthy"}
}

// TestRevertHalfDecided: what a revert does change is done; what it does not is
// said and is not kept.
func TestRevertHalfDecided(t *testing.T) {
	w := inGit(true)
	w.now = noon.Add(-5 * time.Minute)
	w.Push("eve", "two at once", map[string]string{"image": "vllm:v0.12", "--max-num-seqs": "512"})
	w.Settle()
	w.now, w.Live = noon, map[string]string{"--max-num-seqs": "64"}
	plan := w.plan(t, "gitops.revert", map[string]any{"to": "previous"})
	if !strings.Contains(plan.Unseen, "Deployment serving/chat has 64") || len(plan.Good) != 1 || plan.Good[0] != (machine.Setting{Name: "image", Value: "vllm:v0.11"}) {
		t.Errorf("unseen %q, good %v", plan.Unseen, plan.Good)
	}
	receipt := w.do(t, "gitops.revert", machine.ActionApply, nil, plan, nil, false).Data
	w.Settle()
	want(t, "settle", w.do(t, "gitops.revert", machine.ActionSettle, nil, plan, receipt, false), machine.StatusOK, "healthy")
}

// TestRevertOfWhatWasNeverSynced: the commit that could not be deployed is not
// what runs, and taking it back is no less worth.
func TestRevertOfWhatWasNeverSynced(t *testing.T) {
	w := inGit(true)
	w.Fails = "image is not allowed"
	w.Push("eve", "broken", map[string]string{"image": "nothing"})
	w.Settle()
	plan := w.plan(t, "gitops.revert", map[string]any{"to": "previous"})
	if plan.Unseen != "" || len(plan.Good) != 1 {
		t.Errorf("unseen %q, good %v", plan.Unseen, plan.Good)
	}
	w.Live = map[string]string{"image": "vllm:patched"}
	o := w.do(t, "gitops.revert", machine.ActionPlan, map[string]any{"to": "previous"}, nil, nil, false)
	if o.Reason != fault.Overridden || !strings.Contains(o.Message, "vllm:patched") {
		t.Errorf("with a third image: %s %s %q", o.Status, o.Reason, o.Message)
	}
}
