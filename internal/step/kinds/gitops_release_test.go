package kinds_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// released is a service of which image and flags were released within the last
// hour, by two commits; the first is 20 minutes old and set a flag. Responder
// scaled it in between.
func released(t *testing.T) *gitWorld {
	t.Helper()
	w := inGit(true)
	w.now = noon.Add(-10 * time.Minute)
	w.scaled(t, "r-7", 2)
	w.now = noon.Add(-5 * time.Minute)
	w.Push("eve", "new engine", map[string]string{"image": "vllm:v0.12", "--kv-cache-dtype": "fp8"})
	w.Settle()
	w.now = noon
	return w
}

// scaled adds replicas by another run.
func (w *gitWorld) scaled(t *testing.T, run string, by int64) {
	t.Helper()
	with := map[string]any{"by": by}
	o := kinds.New(w.deps).Do(t.Context(), machine.Effect{
		Key: run + "/more#1/apply#1", Run: run, State: "more", Action: machine.ActionApply, Step: "gitops.set_replicas",
		With: with, Service: service("Deployment"), Plan: w.plan(t, "gitops.set_replicas", with), Attempt: 1,
	})
	want(t, "scale", o, machine.StatusOK, "")
	w.Settle()
}

// TestReleaseGoesBackTogether: image and flags of all commits in the window are
// one plan and one commit, the replicas that Responder added stay, and undo puts
// the release back as one commit.
func TestReleaseGoesBackTogether(t *testing.T) {
	for name, with := range map[string]map[string]any{"gitops.revert": {"window": "1h"}, "argocd.rollback": nil} {
		t.Run(name, func(t *testing.T) {
			w := released(t)
			if name == "argocd.rollback" { // both commits were deployed by one sync
				w.App.History = slices.Concat(w.App.History[:1], w.App.History[len(w.App.History)-1:])
			}
			w.Stays = []gitops.Touch{{File: "apps/hub.yaml", Line: 5, Path: "Job migrate: spec.parallelism", From: "1", To: "2"}}
			release := maps.Clone(w.Head().Values)
			plan := w.plan(t, name, with)
			if !strings.HasPrefix(plan.Why, "takes back 3 fields of 2 commits: --kv-cache-dtype, --max-num-batched-tokens, image; ") {
				t.Errorf("why %q", plan.Why)
			}
			if !slices.Contains(plan.Notes, "also changed, not taken back: apps/hub.yaml:5 Job migrate: spec.parallelism 1 -> 2") {
				t.Errorf("the plan does not list what stays: %q", plan.Notes)
			}
			if len(plan.Diff) != 3 || len(plan.Good) != 3 || slices.ContainsFunc(plan.Diff, func(d machine.FieldChange) bool { return strings.HasSuffix(d.Path, "replicas") }) {
				t.Errorf("diff %+v, good %+v", plan.Diff, plan.Good)
			}
			o := w.do(t, plan.Step, machine.ActionApply, with, plan, nil, false)
			want(t, "apply", o, machine.StatusOK, "")
			now := w.Head().Values
			if now["image"] != "vllm:v0.11" || now["--kv-cache-dtype"] != "" || now["--max-num-batched-tokens"] != "" || now["replicas"] != "5" {
				t.Errorf("after it: %v", now)
			}
			if n := len(w.Head().Reverts); n != 2 {
				t.Errorf("the commit reverts %d, want 2", n)
			}
			w.Settle()
			w.Tangled = true // lines beside it are changed meanwhile
			want(t, "settle", w.do(t, plan.Step, machine.ActionSettle, with, plan, o.Data, false), machine.StatusOK, "")
			want(t, "undo", w.do(t, plan.Step, machine.ActionUndo, with, plan, o.Data, false), machine.StatusOK, "")
			if !maps.Equal(w.Head().Values, release) {
				t.Errorf("after the undo: %v, want %v", w.Head().Values, release)
			}
		})
	}
}

// TestReleaseAfterACrash: the commit was pushed and its answer lost.
func TestReleaseAfterACrash(t *testing.T) {
	w := released(t)
	plan := w.plan(t, "gitops.revert", map[string]any{"window": "1h"})
	want(t, "look before", w.do(t, "gitops.revert", machine.ActionApply, nil, plan, nil, true), machine.StatusFailed, "")
	w.do(t, "gitops.revert", machine.ActionApply, nil, plan, nil, false)
	commits := len(w.Commits)
	want(t, "look after", w.do(t, "gitops.revert", machine.ActionApply, nil, plan, nil, true), machine.StatusOK, "")
	want(t, "apply again", w.do(t, "gitops.revert", machine.ActionApply, nil, plan, nil, false), machine.StatusOK, "")
	if len(w.Commits) != commits {
		t.Errorf("%d commits, want %d", len(w.Commits), commits)
	}
}

// TestRollbackOfARelease: where Git owns the workload, the rollback of a
// playbook takes the window's commits back, also when scaling came last.
func TestRollbackOfARelease(t *testing.T) {
	for name, tt := range map[string]struct {
		with   map[string]any
		fields int
	}{"window": {map[string]any{"window": "1h"}, 3}, "the last one": {nil, 2}} {
		w := released(t)
		w.scaled(t, "r-8", 1)
		w.deps.Changer = fleet{}
		svc := service("Deployment")
		svc.GitOps.Application = "argocd/chat"
		o := kinds.New(w.deps).Do(t.Context(), machine.Effect{
			Key: "r-2/back#1/plan#1", Run: "r-2", State: "back", Action: machine.ActionPlan, Step: "service.rollback", With: tt.with, Service: svc,
		})
		if o.Status != machine.StatusOK || o.Plan.Step != "gitops.revert" || len(o.Plan.Diff) != tt.fields {
			t.Errorf("%s: %s %s %+v, want %d fields", name, o.Status, o.Message, o.Plan, tt.fields)
		}
		if o := w.do(t, "gitops.changes", machine.ActionCheck, map[string]any{"window": "8m"}, nil, nil, false); !strings.Contains(string(o.Data), `"ours":false`) {
			t.Errorf("the release counts as our own: %s", o.Data)
		}
	}
}
