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
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// changesEvidence is what conditions read of service.changes.
type changesEvidence struct {
	Changed, Ours, Matters, Suspect bool
	Why, Missing, Cluster, Git      string
	AgeSeconds                      float64    `json:"age_seconds"`
	WorkedAt                        *time.Time `json:"worked_at"`
	What                            []string
	Traffic, Waiting                *float64
	Target, Base                    int64
	Releases                        []struct{ Revision int64 }
	Commits                         []struct {
		SHA            string
		Ours, Deployed bool
	}
	Sides []struct {
		Revision int64
		Ratio    float64
	}
}

func changesOf(t *testing.T, set *step.Set, svc playbook.Service) changesEvidence {
	t.Helper()
	o := set.Do(t.Context(), machine.Effect{
		Key: "r-1/look#1/check#1", Run: "r-1", Action: machine.ActionCheck, Step: "service.changes", Service: svc, Timeout: time.Minute,
		Alert: playbook.Alert{StartsAt: noon.Add(-5 * time.Minute)},
	})
	if o.Status != machine.StatusOK {
		t.Fatalf("%s %s %s", o.Status, o.Reason, o.Message)
	}
	var out changesEvidence
	if err := json.Unmarshal(o.Data, &out); err != nil {
		t.Fatal(err)
	}
	if out.Why == "" || !slices.Contains(o.Facts, out.Why) {
		t.Errorf("facts %q do not tell why: %q", o.Facts, out.Why)
	}
	return out
}

// alike is a world whose workload has another history than it has.
type alike struct {
	step.Workloads
	revisions []kube.Revision
	pods      func([]kube.Pod) []kube.Pod
}

func (a alike) Revisions(context.Context, kube.Ref) ([]kube.Revision, error) { return a.revisions, nil }

func (a alike) Workload(ctx context.Context, ref kube.Ref) (kube.Workload, error) {
	w, err := a.Workloads.Workload(ctx, ref)
	if a.pods != nil {
		w.Pods = a.pods(w.Pods)
	}
	return w, err
}

// history is a release, of so long ago, that moved one field.
func history(ago time.Duration, path, from, to string) []kube.Revision {
	return []kube.Revision{
		{Number: 6, Created: noon.Add(-48 * time.Hour), Fields: map[string]string{path: from}},
		{Number: 7, Created: noon.Add(-ago), Active: noon.Add(-ago), Current: true, Fields: map[string]string{path: to}},
	}
}

// TestChangesAreWeighed: in simulated incidents, measured by the real PromQL
// engine, a release is a suspect only if nothing explains the breach better.
func TestChangesAreWeighed(t *testing.T) {
	const image, logs = "containers[vllm].image", "containers[vllm].args[--log-level]"
	tests := []struct {
		name, scenario string
		revisions      []kube.Revision
		pods           func([]kube.Pod) []kube.Pod
		changed        bool
		suspect        bool
		why            string
	}{
		{"a bad release", "bad-rollout", nil, nil, true, true, "after revision 3 took effect, which changed --max-num-batched-tokens, image; traffic, in requests or prompt tokens, is 1.0 times"},
		{
			"a log level while traffic triples", "traffic-burst", history(20*time.Minute, logs, "info", "debug"), nil, true, false,
			"requests wait: the load explains it better than revision 7, which changed --log-level only",
		},
		{"an image while traffic triples", "traffic-burst", history(20*time.Minute, image, "v1", "v2"), nil, true, false, "the load explains it better than revision 7"},
		{"a release of last week", "traffic-burst", history(7*24*time.Hour, image, "v1", "v2"), nil, false, false, "no release within 1h"},
		{"a log level, and no more traffic", "bad-rollout", history(13*time.Minute, logs, "info", "debug"), nil, true, false, "changed --log-level only, which cannot"},
		{"after the breach began", "bad-rollout", history(3*time.Minute, image, "v1", "v2"), nil, true, false, "before revision 7 took effect"},
		{"both revisions suffer", "bad-rollout", history(13*time.Minute, image, "v1", "v2"), func(pods []kube.Pod) []kube.Pod {
			for i := range pods {
				pods[i].Revision = 6 + int64(i%2)
			}
			return pods
		}, true, false, "both revisions suffer alike"},
		{"its pods answer and die in turns, and all of before serve", "bad-rollout", history(13*time.Minute, image, "v1", "v2"), func(pods []kube.Pod) []kube.Pod {
			for i := range pods {
				pods[i].Revision, pods[i].Ready = 7, false
				pods = append(pods, kube.Pod{Name: "old-" + pods[i].Name, Revision: 6, Ready: true})
			}
			return pods
		}, true, true, "after revision 7 took effect, which changed image"},
		{"one replica is slow, and all have the release", "gpu-fault", history(50*time.Minute, image, "v1", "v2"), func(pods []kube.Pod) []kube.Pod {
			for i := range pods {
				pods[i].Revision = 7
			}
			return pods
		}, true, false, "on the 3 other pods of revision 7: it is that pod"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			clock := sandbox.NewManualClock(noon)
			w, err := sandbox.New(tt.scenario, clock)
			if err != nil {
				t.Fatal(err)
			}
			var workloads step.Workloads = w
			if tt.revisions != nil {
				workloads = alike{w, tt.revisions, tt.pods}
			}
			got := changesOf(t, kinds.New(step.Deps{Querier: w, Workloads: workloads, Now: clock.Now}), w.Services()[0])
			if got.Changed != tt.changed || got.Suspect != tt.suspect || !strings.Contains(got.Why, tt.why) || got.Missing != "" || got.Git != "none" {
				t.Errorf("%+v", got)
			}
			if both := strings.Contains(tt.why, "both revisions"); both != (len(got.Sides) == 2) {
				t.Errorf("sides: %+v", got.Sides)
			}
		})
	}
}

// TestWorkedAt: a change that nobody means does not look like somebody's work.
func TestWorkedAt(t *testing.T) {
	for path, works := range map[string]bool{
		"containers[vllm].image": true, "annotations[kubectl.kubernetes.io/restartedAt]": true, "annotations[reloader/last-configmap]": true,
		"annotations[example.com/build]": false, "labels[team]": false, "containers[vllm].args[--log-level]": true,
	} {
		clock := sandbox.NewManualClock(noon)
		w, err := sandbox.New("bad-rollout", clock)
		if err != nil {
			t.Fatal(err)
		}
		got := changesOf(t, kinds.New(step.Deps{Querier: w, Workloads: alike{w, history(3*time.Minute, path, "a", "b"), nil}, Now: clock.Now}), w.Services()[0])
		if !got.Changed || works != (got.WorkedAt != nil) || works && !got.WorkedAt.Equal(noon.Add(-3*time.Minute)) {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// TestChangesByOwner: the commits count where Git owns the service, and what
// cannot be read is missing, never "no change".
func TestChangesByOwner(t *testing.T) {
	svc := service("Deployment")
	svc.GitOps.Application = "argocd/chat"
	look := func(t *testing.T, w *gitWorld) changesEvidence { return changesOf(t, kinds.New(w.deps), svc) }
	t.Run("a commit", func(t *testing.T) {
		w := inGit(true)
		got := look(t, w)
		if !got.Changed || got.Ours || !got.Matters || !got.Suspect || got.Git != "read" || len(got.Commits) != 1 || !got.Commits[0].Deployed || got.WorkedAt == nil {
			t.Errorf("%+v", got)
		}
		if !strings.Contains(strings.Join(got.What, "\n"), "--max-num-batched-tokens: (none) -> 512") {
			t.Errorf("what: %q", got.What)
		}
	})
	t.Run("our own repair", func(t *testing.T) {
		w := inGit(true)
		with := map[string]any{"window": "1h"}
		want(t, "revert", w.do(t, "gitops.revert", machine.ActionApply, with, w.plan(t, "gitops.revert", with), nil, false), machine.StatusOK, "")
		w.Settle()
		if got := look(t, w); !got.Ours || got.Suspect || got.WorkedAt != nil {
			t.Errorf("%+v", got)
		}
		w.Push("eve", "more of them", map[string]string{"replicas": "9"})
		w.Settle()
		if got := look(t, w); got.WorkedAt == nil {
			t.Errorf("somebody scaled it since: %+v", got)
		}
	})
	t.Run("our own scaling", func(t *testing.T) {
		w := inGit(true)
		with := map[string]any{"by": int64(1)}
		want(t, "scale", w.do(t, "gitops.set_replicas", machine.ActionApply, with, w.plan(t, "gitops.set_replicas", with), nil, false), machine.StatusOK, "")
		w.Settle()
		if got := look(t, w); got.WorkedAt == nil || !got.WorkedAt.Before(noon) {
			t.Errorf("our own commit is taken for somebody's work: %+v", got)
		}
	})
	t.Run("not deployed yet", func(t *testing.T) {
		w := inGit(false)
		w.deps.Workloads = alike{argoFleet{}, history(72*time.Hour, "containers[vllm].image", "v1", "v2"), nil}
		w.Push("eve", "not yet out", map[string]string{"image": "vllm:v0.12"})
		w.refresh()
		if got := look(t, w); len(got.Commits) != 2 || got.Commits[0].Deployed || len(got.What) != 1 || !strings.HasPrefix(got.What[0], "--max-num-batched-tokens") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("Git is away", func(t *testing.T) {
		w := inGit(true)
		w.Down = &fault.Error{Reason: fault.Unreachable, Message: "no route to git"}
		if got := look(t, w); !got.Changed || got.Git != "unknown" || got.Cluster != "read" || !strings.Contains(got.Missing, "no route to git") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("no repository is configured", func(t *testing.T) {
		w := inGit(true)
		w.deps.History = nil
		if got := look(t, w); !got.Changed || got.Git != "unknown" || !strings.Contains(got.Missing, "gitops.repositories") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("neither can be read", func(t *testing.T) {
		w := inGit(true)
		w.Down = &fault.Error{Reason: fault.Unreachable, Message: "no route to git"}
		w.deps.Workloads = alike{Workloads: argoFleet{}}
		o := kinds.New(w.deps).Do(t.Context(), machine.Effect{Key: "k", Run: "r-1", Action: machine.ActionCheck, Step: "service.changes", Service: svc})
		if o.Status != machine.StatusFailed || o.Reason != fault.NoData {
			t.Errorf("%s %s %s", o.Status, o.Reason, o.Message)
		}
	})
}

// TestRollbackByOwner: the plan names the lever of whoever owns the pod template.
func TestRollbackByOwner(t *testing.T) {
	svc := service("Deployment")
	inCatalog := svc
	inCatalog.GitOps.Application = "argocd/chat"
	noRepository := func(w *gitWorld) { w.deps.Manifests, w.deps.Commits, w.deps.Pulls, w.deps.History = nil, nil, nil, nil }
	for name, tt := range map[string]struct {
		service   playbook.Service
		automated bool
		change    func(*gitWorld)
		step      string // empty: refused
		text      string
	}{
		"the cluster":                        {svc, true, func(w *gitWorld) { w.deps.Workloads = fleet{} }, "kube.rollout_undo", ""},
		"Git":                                {inCatalog, true, func(*gitWorld) {}, "gitops.revert", "it goes back in Git: "},
		"Argo CD, no repository":             {inCatalog, false, noRepository, "argocd.rollback", "Argo CD goes back, because Git cannot be changed: no Git repository"},
		"Argo CD syncs by itself, read only": {inCatalog, true, noRepository, "", "gitops.repositories"},
		"the catalog says no place":          {svc, true, func(*gitWorld) {}, "", "set gitops in"},
		"Flux":                               {inCatalog, true, func(w *gitWorld) { w.deps.Workloads, w.App.Name = fluxFleet{}, "flux:flux-system/apps" }, "gitops.revert", "Flux Kustomization flux-system/apps"},
		"a HelmRelease":                      {inCatalog, true, func(w *gitWorld) { w.deps.Workloads, w.App.Name = helmFleet{}, "flux-helm:serving/apps" }, "gitops.revert", "Flux HelmRelease serving/apps"},
		"a HelmRelease without a catalog":    {svc, true, func(w *gitWorld) { w.deps.Workloads = helmFleet{} }, "", "set gitops in"},
		"a release that was changed again": {inCatalog, false, func(w *gitWorld) {
			w.Down = &fault.Error{Reason: fault.Conflict, Message: "changed again since"}
		}, "", "changed again since"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(tt.automated)
			w.deps.Changer = fleet{}
			tt.change(w)
			o := kinds.New(w.deps).Do(t.Context(), machine.Effect{
				Key: "r-2/back#1/plan#1", Run: "r-2", State: "back", Action: machine.ActionPlan, Step: "service.rollback", With: map[string]any{"window": "1h"}, Service: tt.service,
			})
			if tt.step == "" {
				if o.Plan != nil || !strings.Contains(o.Message, tt.text) {
					t.Fatalf("%s %s %q, want it refused: ...%s...", o.Status, o.Reason, o.Message, tt.text)
				}
				return
			}
			if o.Status != machine.StatusOK || o.Plan.Step != tt.step || !strings.Contains(strings.Join(o.Plan.Notes, "\n"), tt.text) {
				t.Fatalf("%s %s %+v", o.Status, o.Message, o.Plan)
			}
		})
	}
}
