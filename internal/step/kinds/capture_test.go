package kinds_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// What pods know that a change ends is kept with its plan, which tells it; the digest
// that an approval is bound to does not move with it.
func TestCapture(t *testing.T) {
	plan := func(logs step.Logs) machine.Outcome {
		return do(t, step.Deps{Workloads: fleet{}, Changer: fleet{}, Logs: logs, Events: fleet{}}, machine.Effect{Action: machine.ActionPlan, Step: "kube.rollout_undo"})
	}
	o := plan(fleet{})
	kept := map[string]machine.Gathered{}
	for _, g := range o.Gathered {
		kept[g.Name] = g
	}
	if log := string(kept["logs"].Data); !strings.Contains(log, `"sha256":"29dfeac9`) || !strings.Contains(log, "EngineDeadError") || strings.Contains(log, "hunter2") || strings.Contains(log, "hf_0123") {
		t.Errorf("kept of the logs: %s", log)
	}
	if events := string(kept["events"].Data); !strings.Contains(events, "ScalingReplicaSet") {
		t.Errorf("kept of the events: %s", events)
	}
	notes := strings.Join(o.Plan.Notes, "\n")
	if !strings.Contains(notes, "kept (logs): chat-3, the container before: engine_dead (1x)") || !strings.Contains(notes, "kept (events): 12x BackOff on Pod/chat-3") {
		t.Errorf("who approves reads\n%s", notes)
	}
	// Without the right to read logs it goes on, and says what is gone.
	without := plan(noLogs{})
	if notes := strings.Join(without.Plan.Notes, "\n"); without.Status != machine.StatusOK || !strings.Contains(notes, "not kept, and gone with the change: logs: ") || !strings.Contains(notes, `resources: ["pods/log"]`) {
		t.Errorf("%s: who approves reads\n%s", without.Status, notes)
	}
	if o.Plan.Digest() != without.Plan.Digest() {
		t.Error("the digest of the plan moves with the evidence")
	}
	if scale := do(t, step.Deps{Workloads: fleet{}, Changer: fleet{}, Logs: fleet{}, Events: fleet{}}, machine.Effect{Action: machine.ActionPlan, Step: "kube.scale", With: map[string]any{"by": int64(1)}}); len(scale.Gathered) > 0 {
		t.Errorf("a change that ends no pod keeps %v", scale.Gathered)
	}
}

// A commit or a sync restarts what runs as a live change does, so the same is kept; one
// that adds replicas ends none.
func TestCaptureBeforeCommit(t *testing.T) {
	for name, tt := range map[string]struct {
		kind      string
		with      map[string]any
		automated bool
		keeps     bool
	}{
		"a flag":              {"gitops.set_flag", seqs, true, true},
		"a revert":            {"gitops.revert", map[string]any{"window": "1h"}, true, true},
		"a rollback":          {"service.rollback", map[string]any{"window": "1h"}, true, true},
		"an earlier revision": {"argocd.rollback", nil, false, true},
		"replicas":            {"gitops.set_replicas", map[string]any{"by": int64(2)}, true, false},
	} {
		w := inGit(tt.automated)
		w.deps.Logs, w.deps.Events = fleet{}, fleet{}
		svc := service("Deployment")
		svc.GitOps.Application = "argocd/chat"
		o := do(t, w.deps, machine.Effect{Action: machine.ActionPlan, Step: tt.kind, With: tt.with, Service: svc})
		if o.Status != machine.StatusOK {
			t.Fatalf("%s: %s %s", name, o.Reason, o.Message)
		}
		kept := slices.ContainsFunc(o.Gathered, func(g machine.Gathered) bool { return g.Name == "events" && len(g.Data) > 0 })
		if kept != tt.keeps {
			t.Errorf("%s: what pods know is kept: %t, want %t: %v", name, kept, tt.keeps, o.Plan.Notes)
		}
	}
}

type noLogs struct{}

func (noLogs) Log(context.Context, kube.LogQuery) (string, error) {
	return "", &fault.Error{Reason: fault.Forbidden, Message: `get pods/log serving/chat-3: allow it with the rule {apiGroups: [""], resources: ["pods/log"], verbs: ["get"]}`}
}
