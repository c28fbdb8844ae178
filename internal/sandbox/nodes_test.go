package sandbox

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/step"
)

// TestNodeIsEmptiedAndGivenBack: what is drained runs elsewhere, what is
// cordoned gets nothing, and a node whose GPUs are well is given back.
func TestNodeIsEmptiedAndGivenBack(t *testing.T) {
	w, clock := open(t, "bad-rollout")
	svc, ref := chat(w)
	w.file = filepath.Join(t.TempDir(), "sandbox.json")
	w.kept = kept{Version: keptVersion, Scenario: "bad-rollout", Start: w.start, Virtual: w.start, Real: w.start, Pace: 1}
	set := step.New(step.Deps{Workloads: w, Nodes: w, NodeChanger: w, GPUs: w, Now: clock.Now})
	do := func(kind string, a machine.Action, plan *machine.Plan) machine.Outcome {
		return set.Do(t.Context(), machine.Effect{
			Key: "r-1/" + kind + "#1/" + string(a) + "#1", Run: "r-1", State: kind, Action: a, Step: kind, Service: svc, Plan: plan,
			With: map[string]any{"node": gpuNodes()[0].name}, Attempt: 1,
		})
	}
	change := func(kind string) *machine.Plan {
		t.Helper()
		o := do(kind, machine.ActionPlan, nil)
		if o.Status != machine.StatusOK {
			t.Fatalf("plan %s: %s %s", kind, o.Reason, o.Message)
		}
		if a := do(kind, machine.ActionApply, o.Plan); a.Status != machine.StatusOK {
			t.Fatalf("apply %s: %s %s", kind, a.Reason, a.Message)
		}
		return o.Plan
	}
	there := func() (here, ready int) {
		for _, p := range workload(t, w, ref).Pods {
			if p.Node == gpuNodes()[0].name {
				here++
			}
			if p.Ready {
				ready++
			}
		}
		return here, ready
	}
	_, before := there()
	plan := change("node.drain")
	for range 20 {
		if o := do("node.drain", machine.ActionSettle, plan); o.Status == machine.StatusOK {
			break
		} else if o.Status != machine.StatusPending {
			t.Fatalf("settle: %s %s", o.Status, o.Message)
		}
		clock.Advance(2 * time.Minute)
	}
	clock.Advance(10 * time.Minute)
	if here, ready := there(); here != 0 || ready != before {
		t.Errorf("%d pods are on the drained node and %d are ready, want 0 and %d", here, ready, before)
	}
	given := change("node.uncordon")
	if notes := strings.Join(given.Notes, "; "); !strings.Contains(notes, "its GPUs are healthy for") {
		t.Errorf("the plan says %q, not how its GPUs are", notes)
	}
	if n, err := w.Node(t.Context(), gpuNodes()[0].name); err != nil || n.Unschedulable {
		t.Errorf("the node is %+v, %v; want it to take pods", n, err)
	}

	// All of it is kept with the world, and comes back when it is resumed.
	clock.Advance(time.Minute)
	k, err := readKept(w.file)
	if err != nil {
		t.Fatal(err)
	}
	again := build(w.scenario, clock, w.start, k.Changes)
	for _, n := range []*World{w, again} {
		state, err := n.Node(t.Context(), gpuNodes()[0].name)
		if err != nil || state.Unschedulable || !strings.HasPrefix(state.Annotations["responder.dev/drain"], "r-1/node.drain#1/apply#1 ") {
			t.Errorf("the node is %+v, %v", state, err)
		}
	}
	if a, b := workload(t, w, ref), workload(t, again, ref); len(a.Pods) != len(b.Pods) || a.Pods[0].Name != b.Pods[0].Name {
		t.Errorf("the resumed world has other pods: %+v and %+v", a.Pods, b.Pods)
	}
}
