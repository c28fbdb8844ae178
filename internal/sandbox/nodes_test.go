package sandbox

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// TestRepairedNodeIsProbed: the diagnosis that the shipped playbook node-return has
// as an example is known of the repaired node, and of no other.
func TestRepairedNodeIsProbed(t *testing.T) {
	w, clock := open(t, "node-return")
	svc, _ := chat(w)
	set := kinds.New(step.Deps{Workloads: w, Nodes: w, NodeChanger: w, GPUs: w, Querier: w, Now: clock.Now})
	const node = "gpu-h100-01"
	for name, c := range map[string]struct {
		job    string
		within string // seconds
		value  float64
		says   string // of the refusal; empty: the proof
	}{
		"it succeeded":          {"gpu-diagnosis-" + node, "86400", 1, ""},
		"it was to fail":        {"gpu-diagnosis-" + node, "86400", 0, "the probe (diagnosis succeeded) is 1, wanted == 0"},
		"it was long ago":       {"gpu-diagnosis-" + node, "60", 1, "the probe (diagnosis succeeded): no series answers"},
		"another node's":        {"gpu-diagnosis-gpu-h100-02", "86400", 1, "the probe (diagnosis succeeded): no series answers"},
		"of no node whatsoever": {"", "86400", 1, "no series answers"},
	} {
		t.Run(name, func(t *testing.T) {
			o := set.Do(t.Context(), machine.Effect{
				Key: "r-1/fix#1/plan#1", Run: "r-1", State: "fix", Action: machine.ActionPlan, Step: "node.uncordon", Service: svc, Attempt: 1,
				With: map[string]any{
					"node": node, "healthy_for": "10m", "probe_asks": "diagnosis succeeded", "probe_value": c.value,
					"probe": `kube_job_status_succeeded{job_name="` + c.job + `"} and on (namespace, job_name) (time() - kube_job_status_completion_time < ` + c.within + `)`,
				},
			})
			switch {
			case c.says == "" && (o.Status != machine.StatusOK || !strings.Contains(strings.Join(o.Plan.Notes, "; "), "the probe (diagnosis succeeded) is 1, wanted == 1")):
				t.Errorf("plan: %s %s %+v, want the proof", o.Status, o.Message, o.Plan)
			case c.says != "" && (o.Reason != fault.NotMet || !strings.Contains(o.Message, c.says)):
				t.Errorf("plan: %s %s, want %q", o.Status, o.Message, c.says)
			}
		})
	}
}

// TestNodeIsEmptiedAndGivenBack: what is drained runs elsewhere, what is
// cordoned gets nothing, and a node whose GPUs are well is given back.
func TestNodeIsEmptiedAndGivenBack(t *testing.T) {
	w, clock := open(t, "bad-rollout")
	svc, ref := chat(w)
	w.file = filepath.Join(t.TempDir(), "sandbox.json")
	w.kept = kept{Version: keptVersion, Scenario: "bad-rollout", Start: w.start, Virtual: w.start, Real: w.start, Pace: 1}
	set := kinds.New(step.Deps{Workloads: w, Nodes: w, NodeChanger: w, GPUs: w, Now: clock.Now})
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
