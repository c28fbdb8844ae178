package kinds_test

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// TestScaleAndRelease: somebody releases while replicas start that kube.scale added. They
// are in place all the same, are undone, and the release stays.
func TestScaleAndRelease(t *testing.T) {
	s := cluster(t, "Deployment")
	c := s.Client(t)
	now := kubetest.Epoch().Add(time.Hour)
	with := map[string]any{"by": int64(2)}
	var plan *machine.Plan
	act := func(a machine.Action, receipt []byte) machine.Outcome {
		return kinds.New(step.Deps{Workloads: c, Changer: c, Now: func() time.Time { return now }}).Do(t.Context(), machine.Effect{
			Key: "r-1/add#1/" + string(a) + "#1", Run: "r-1", Action: a, Step: "kube.scale", With: with, Service: service("Deployment"), Plan: plan, Receipt: receipt,
		})
	}
	want := func(what string, o machine.Outcome, status machine.Status) machine.Outcome {
		t.Helper()
		if o.Status != status {
			t.Fatalf("%s: %s %s %s, want %s", what, o.Status, o.Reason, o.Message, status)
		}
		return o
	}
	plan = want("plan", act(machine.ActionPlan, nil), machine.StatusOK).Plan
	receipt := want("apply", act(machine.ActionApply, nil), machine.StatusOK).Data

	s.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["template"] = toMap(t, kubetest.Template("chat", "vllm:v3")) })
	want("before the release has rolled out", act(machine.ActionSettle, receipt), machine.StatusPending)
	now = now.Add(time.Minute)
	s.Settle(ref("Deployment"), now)
	want("after it", act(machine.ActionSettle, receipt), machine.StatusOK)

	undo := want("undo", act(machine.ActionUndo, receipt), machine.StatusOK)
	now = now.Add(time.Minute)
	s.Settle(ref("Deployment"), now)
	want("the undo", act(machine.ActionUnwind, undo.Data), machine.StatusOK)
	w, err := c.Workload(t.Context(), ref("Deployment"))
	if err != nil {
		t.Fatal(err)
	}
	if w.Replicas != 3 || w.Revision != 3 {
		t.Errorf("%d replicas of revision %d, want 3 of the release", w.Replicas, w.Revision)
	}
}

// TestScaledAgain: whoever sets the replicas has taken them over.
func TestScaledAgain(t *testing.T) {
	s := cluster(t, "Deployment")
	c := s.Client(t)
	d := step.Deps{Workloads: c, Changer: c}
	e := machine.Effect{Action: machine.ActionPlan, Step: "kube.scale", With: map[string]any{"by": int64(2)}}
	e.Plan = do(t, d, e).Plan
	e.Action = machine.ActionApply
	e.Receipt = do(t, d, e).Data
	s.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["replicas"] = 4.0 })
	s.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["replicas"] = 5.0 })
	e.Action = machine.ActionSettle
	if o := do(t, d, e); o.Status != machine.StatusForeign {
		t.Errorf("scaled by somebody else, then to the same number: %s %s", o.Status, o.Message)
	}
	e.Action = machine.ActionUndo
	if o := do(t, d, e); o.Reason != fault.ForeignChange {
		t.Errorf("undone: %s %s %s, want %s", o.Status, o.Reason, o.Message, fault.ForeignChange)
	}
}
