package sandbox

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// leverDrive carries one lever through its life on a world.
type leverDrive struct {
	t       *testing.T
	world   *World
	clock   *Clock
	steps   *step.Set
	effect  machine.Effect
	receipt json.RawMessage
}

func (l *leverDrive) do(action machine.Action) machine.Outcome {
	l.t.Helper()
	e := l.effect
	e.Action, e.Receipt, e.At, e.Key = action, l.receipt, l.clock.Now(), fmt.Sprintf("r-1/x#1/%s#1", action)
	return l.steps.Do(l.t.Context(), e)
}

func (l *leverDrive) must(action machine.Action, want machine.Status) machine.Outcome {
	l.t.Helper()
	out := l.do(action)
	if out.Status != want {
		l.t.Fatalf("%s = %s (%s: %s), want %s", action, out.Status, out.Reason, out.Message, want)
	}
	return out
}

// settle advances until the change is in effect.
func (l *leverDrive) settle(action machine.Action) {
	l.t.Helper()
	l.must(action, machine.StatusPending) // never at once: pods load their model
	for range 40 {
		l.clock.Advance(15 * time.Second)
		if l.do(action).Status == machine.StatusOK {
			return
		}
	}
	l.t.Fatalf("%s: not in effect after ten minutes", action)
}

// The real levers do on the world what they do on a cluster: plan without a
// change, apply once, settle, and put exactly that back.
func TestTheRealLeversRunOnTheWorld(t *testing.T) {
	for _, c := range []struct {
		scenario, step string
		with           map[string]any
	}{
		{"bad-rollout", "kube.rollout_undo", nil},
		{"traffic-burst", "kube.scale", map[string]any{"by": int64(2)}},
	} {
		t.Run(c.step, func(t *testing.T) {
			w, clock := open(t, c.scenario)
			svc, ref := chat(w)
			steps := step.New(step.Deps{Querier: w, Workloads: w, Changer: w, Prober: w, Now: clock.Now})
			l := leverDrive{t: t, world: w, clock: clock, steps: steps, effect: machine.Effect{
				Run: "r-1", Playbook: "p", State: "x", Step: c.step, Service: svc, With: c.with, Attempt: 1,
			}}
			before := workload(t, w, ref)
			plan := l.must(machine.ActionPlan, machine.StatusOK).Plan
			if len(plan.Diff) == 0 || plan.Capacity.Unknown || plan.Target.Generation != before.Generation {
				t.Fatalf("the plan %+v", plan)
			}
			if now := workload(t, w, ref); now.Generation != before.Generation {
				t.Fatal("planning changed the workload")
			}
			l.effect.Plan = plan
			l.receipt = l.must(machine.ActionApply, machine.StatusOK).Data
			if out := l.do(machine.ActionApply); out.Status == machine.StatusOK && workload(t, w, ref).Generation > before.Generation+1 {
				t.Fatalf("applied twice: %+v", out)
			}
			l.settle(machine.ActionSettle)
			l.receipt = l.must(machine.ActionUndo, machine.StatusOK).Data
			l.settle(machine.ActionUnwind)
			after := workload(t, w, ref)
			if after.Replicas != before.Replicas || !asReleased(t, w, ref) {
				t.Errorf("after the undo: %d replicas, revision %d, before %d and %d", after.Replicas, after.Revision, before.Replicas, before.Revision)
			}
		})
	}
}

// asReleased reports whether the current pod template is the scenario's last.
func asReleased(t *testing.T, w *World, ref kube.Ref) bool {
	t.Helper()
	revisions, err := w.Revisions(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	specs := w.scenario.services[0].revisions
	want := specs[len(specs)-1].fields
	return len(kube.Diff(want, revisions[len(revisions)-1].Fields)) == 0
}
