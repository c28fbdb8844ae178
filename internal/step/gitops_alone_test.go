package step_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
)

// TestGitPlanAlone: a change goes out alone. What the cluster has of its own, and
// commits that wait, would go along with it.
func TestGitPlanAlone(t *testing.T) {
	drifted := func(w *gitWorld) {
		w.App.Sync, w.App.Resources[0].Sync = "OutOfSync", "OutOfSync"
	}
	for name, tt := range map[string]struct {
		kind   string
		with   map[string]any
		change func(*gitWorld)
		text   string
	}{
		"replicas scaled by hand": {"gitops.set_replicas", map[string]any{"by": int64(1)}, drifted, "OutOfSync (apps/Deployment serving/chat), and no commit says why"},
		"a flag beside it":        {"gitops.set_flag", seqs, drifted, "would be taken back along with this change"},
		"never compared":          {"gitops.set_flag", seqs, func(w *gitWorld) { w.App.Sync = "Unknown" }, "is Unknown, and no commit says why"},
		"a commit waits": {"gitops.revert", map[string]any{"window": "1h", "together": "x"}, func(w *gitWorld) {
			w.now = w.now.Add(-90 * 60e9)
			w.Push("eve", "not yet out", map[string]string{"image": "vllm:v0.12"})
			w.now = noon
		}, `"not yet out" by eve`},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(false)
			tt.change(w)
			o := w.do(t, tt.kind, machine.ActionPlan, tt.with, nil, nil, false)
			if o.Status == machine.StatusOK || o.Reason != machine.ReasonThrottled || !strings.Contains(o.Message, tt.text) {
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
	if o, _ := read(w); o.Status == machine.StatusOK || o.Reason != machine.ReasonNoData || !strings.Contains(o.Message, "revisionHistoryLimit") {
		t.Errorf("no history: %s %s %q", o.Status, o.Reason, o.Message)
	}
}
