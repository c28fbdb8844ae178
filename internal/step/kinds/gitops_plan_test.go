package kinds_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// TestGitPlanRefusesOtherChanges: a change goes out alone. What the cluster has of its own, and
// commits that wait, would go along with it.
func TestGitPlanRefusesOtherChanges(t *testing.T) {
	drifted := func(w *gitWorld) {
		w.App.Sync, w.App.Resources[0].Sync = "OutOfSync", "OutOfSync"
	}
	for name, tt := range map[string]struct {
		kind   string
		with   map[string]any
		change func(*gitWorld)
		text   string
	}{
		"replicas scaled by hand": {"gitops.set_replicas", map[string]any{"by": int64(1)}, drifted, "is OutOfSync, and no commit says why: apps/Deployment serving/chat differs; this change"},
		"a revert":                {"gitops.revert", map[string]any{"window": "1h"}, drifted, "this change would also revert"},
		"a flag beside it":        {"gitops.set_flag", seqs, drifted, "this change would also revert"},
		"several": {"gitops.set_flag", seqs, func(w *gitWorld) {
			drifted(w)
			w.App.Resources = append(w.App.Resources,
				gitops.Resource{Kind: "ConfigMap", Namespace: "serving", Name: "old", Sync: "OutOfSync", Prune: true},
				gitops.Resource{Kind: "Service", Namespace: "serving", Name: "chat", Sync: "OutOfSync", Health: "Missing"},
				gitops.Resource{Kind: "Secret", Namespace: "serving", Name: "fine", Sync: "Synced"})
		}, "chat differs; ConfigMap serving/old is no longer in Git; Service serving/chat is not in the cluster; this change would also revert"},
		"cannot be compared": {"gitops.set_flag", seqs, func(w *gitWorld) {
			w.App.Sync, w.App.Problems = "Unknown", []string{"ComparisonError: repository not found"}
		}, "is Unknown, and no commit says why: ComparisonError: repository not found; this change"},
		"never compared": {"gitops.set_flag", seqs, func(w *gitWorld) { w.App.Sync = "Unknown" }, "is Unknown, and no commit says why"},
		"a commit waits": {"gitops.revert", map[string]any{"window": "1h"}, func(w *gitWorld) {
			w.now = w.now.Add(-90 * 60e9)
			w.Push("eve", "not yet out", map[string]string{"image": "vllm:v0.12"})
			w.now = noon
		}, `"not yet out" by eve`},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(false)
			tt.change(w)
			o := w.do(t, tt.kind, machine.ActionPlan, tt.with, nil, nil, false)
			if o.Status == machine.StatusOK || o.Reason != fault.Throttled || !strings.Contains(o.Message, tt.text) {
				t.Errorf("%s %s %q, want ...%s...", o.Status, o.Reason, o.Message, tt.text)
			}
		})
	}
	// Taking the very commit back that could not be deployed is no such thing.
	w := inGit(false)
	w.Push("eve", "broken", map[string]string{"image": "nothing"})
	if p := w.plan(t, "gitops.revert", map[string]any{"to": "previous"}); !strings.Contains(p.Summary, "broken") {
		t.Errorf("planned %s", p.Summary)
	}
}

// TestGitChangesHistory: what Argo CD deployed counts where Git has nothing, and a
// history that is not kept is not one without deployments.
func TestGitChangesHistory(t *testing.T) {
	read := func(w *gitWorld) (machine.Outcome, bool) {
		o := w.do(t, "gitops.changes", machine.ActionCheck, map[string]any{"window": "10m"}, nil, nil, false)
		var out struct{ Changed, Deployed bool }
		if o.Status == machine.StatusOK {
			if err := json.Unmarshal(o.Data, &out); err != nil || out.Changed {
				t.Errorf("changed %v, %v", out.Changed, err)
			}
		}
		return o, out.Deployed
	}
	w := inGit(true)
	last := w.App.History[len(w.App.History)-1]
	last.At = noon
	w.App.History = []gitops.Deployment{last}
	if o, deployed := read(w); !deployed || !strings.Contains(strings.Join(o.Facts, "; "), "deployed "+last.Revisions[0][:9]) {
		t.Errorf("a history of one entry: deployed %v, %q", deployed, o.Facts)
	}
	w.App.History = nil
	if o, _ := read(w); o.Status == machine.StatusOK || o.Reason != fault.NoData || !strings.Contains(o.Message, "revisionHistoryLimit") {
		t.Errorf("no history: %s %s %q", o.Status, o.Reason, o.Message)
	}
}

// TestGitChangesDeployed: a commit of last week that was deployed just now is a
// change of now, for the check and for the lever that takes it back. One that
// waits to be deployed, and one that was deployed before, are not.
func TestGitChangesDeployed(t *testing.T) {
	w := inGit(true)
	w.now = noon.Add(-5 * time.Hour)
	w.deploy() // what runs when the window begins
	w.now = noon.Add(-7 * 24 * time.Hour)
	old := w.Push("eve", "made last week", map[string]string{"--block-size": "32"})
	w.now = noon.Add(-10 * time.Minute)
	w.deploy()
	w.now = noon.Add(-6 * 24 * time.Hour)
	waiting := w.Push("eve", "not yet out", map[string]string{"--swap-space": "8"})
	w.now = noon
	read := func(window string) (out struct {
		Changed    bool
		AgeSeconds float64 `json:"age_seconds"`
		Commits    []struct {
			SHA        string
			AgeSeconds float64 `json:"age_seconds"`
		}
	},
	) {
		t.Helper()
		o := w.do(t, "gitops.changes", machine.ActionCheck, map[string]any{"window": window}, nil, nil, false)
		if err := json.Unmarshal(o.Data, &out); o.Status != machine.StatusOK || err != nil {
			t.Fatalf("%s %q %v", o.Status, o.Message, err)
		}
		return out
	}
	out := read("15m")
	if !out.Changed || len(out.Commits) != 1 || out.Commits[0].SHA != old || out.AgeSeconds != 600 || out.Commits[0].AgeSeconds != 600 {
		t.Errorf("deployed 10 minutes ago: %+v, want %s alone, 600 seconds old", out, old)
	}
	if out := read("5m"); out.Changed || len(out.Commits) != 0 {
		t.Errorf("deployed before the window: %+v", out)
	}
	out = read("200h")
	if n := len(out.Commits); n != 3 || out.Commits[0].SHA != waiting || out.Commits[1].SHA != old {
		t.Errorf("the window of all: %+v", out)
	}

	w.now = noon.Add(time.Minute)
	w.deploy()
	w.now = noon.Add(2 * time.Minute)
	o := w.do(t, "gitops.revert", machine.ActionPlan, map[string]any{"window": "90s"}, nil, nil, false)
	if o.Status != machine.StatusOK || !strings.Contains(o.Plan.Summary, "not yet out") {
		t.Errorf("plan: %s %q, want the commit that was deployed last taken back", o.Status, o.Message)
	}
}
