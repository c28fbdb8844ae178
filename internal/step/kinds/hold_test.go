package kinds_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/step/steptest"
)

// halfWay is a cluster with a third revision that one of three replicas runs.
func halfWay(t testing.TB) *kubetest.Server {
	s := cluster(t, "Deployment")
	s.HalfWay(ref("Deployment"), kubetest.Template("chat", "vllm:v3"), 1, kubetest.Epoch().Add(30*time.Minute))
	return s
}

// halfWayWorld is that cluster for the conformance test.
func halfWayWorld(s *kubetest.Server, c *kube.Client, meddle func(spec map[string]any)) steptest.World {
	path, now := kubetest.Path(ref("Deployment")), kubetest.Epoch().Add(time.Hour)
	return steptest.World{
		Service: service("Deployment"), Deps: step.Deps{Workloads: c, Changer: c, Now: func() time.Time { return now }},
		Spec:   func(testing.TB) string { return s.Spec(path) },
		Settle: func(testing.TB) { now = now.Add(time.Minute); s.Settle(ref("Deployment"), now) },
		Meddle: func(testing.TB) { s.Edit(path, meddle) },
	}
}

// as carries an effect out as the run and the visit that its key names.
func as(t *testing.T, c *kube.Client, e machine.Effect) machine.Outcome {
	t.Helper()
	e.Run, _, _ = strings.Cut(e.Key, "/")
	if e.Service.Name == "" {
		e.Service = service("Deployment")
	}
	return kinds.New(step.Deps{Workloads: c, Changer: c, Querier: prom{}, Now: func() time.Time { return noon }}).Do(t.Context(), e)
}

// TestHold holds rollout.hold to the contract of levers, on a rollout that has come
// half way.
func TestHold(t *testing.T) {
	steptest.TestLever(t, "rollout.hold", nil, func(t *testing.T) steptest.World {
		s := halfWay(t)
		return halfWayWorld(s, s.Client(t), func(spec map[string]any) { spec["paused"] = spec["paused"] != true })
	})
}

// TestRollbackOfWhatIsHeld does the same for kube.rollout_undo where the bad release is
// held: one write ends the hold and takes the release back, and its undo holds it again.
func TestRollbackOfWhatIsHeld(t *testing.T) {
	steptest.TestLever(t, "kube.rollout_undo", nil, func(t *testing.T) steptest.World {
		s := halfWay(t)
		c := s.Client(t)
		holds(t, c)
		s.Settle(ref("Deployment"), kubetest.Epoch().Add(40*time.Minute))
		return halfWayWorld(s, c, func(spec map[string]any) { spec["template"] = toMap(t, kubetest.Template("chat", "vllm:v4")) })
	})
}

// holds applies rollout.hold as another run.
func holds(t *testing.T, c *kube.Client) *machine.Plan {
	t.Helper()
	e := machine.Effect{Action: machine.ActionPlan, Step: "rollout.hold", Key: "r-0/hold#1/plan#1"}
	o := as(t, c, e)
	if o.Status != machine.StatusOK {
		t.Fatalf("plan: %s %s", o.Status, o.Message)
	}
	e.Action, e.Key, e.Plan = machine.ActionApply, "r-0/hold#1/apply#1", o.Plan
	if o := as(t, c, e); o.Status != machine.StatusOK {
		t.Fatalf("apply: %s %s", o.Status, o.Message)
	}
	return o.Plan
}

// TestHoldRefused: what cannot be held, or gains nothing by it, is refused with the reason.
func TestHoldRefused(t *testing.T) {
	edit := func(change func(spec map[string]any)) func(*testing.T, *kubetest.Server, *kube.Client) {
		return func(_ *testing.T, s *kubetest.Server, _ *kube.Client) {
			s.Edit(kubetest.Path(ref("Deployment")), change)
			s.Change(kubetest.Path(ref("Deployment")), func(m map[string]any) {
				m["status"].(map[string]any)["observedGeneration"] = m["metadata"].(map[string]any)["generation"]
			})
		}
	}
	owned := func(manager, fields string) func(*testing.T, *kubetest.Server, *kube.Client) {
		return func(_ *testing.T, s *kubetest.Server, _ *kube.Client) {
			s.Change(kubetest.Path(ref("Deployment")), func(m map[string]any) {
				m["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{
					"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{fields: map[string]any{}}},
				}}
			})
		}
	}
	for name, tt := range map[string]struct {
		before func(*testing.T, *kubetest.Server, *kube.Client)
		reason fault.Reason
		text   string
	}{
		"nothing rolls out": {func(_ *testing.T, s *kubetest.Server, _ *kube.Client) {
			s.Settle(ref("Deployment"), kubetest.Epoch().Add(time.Hour))
		}, fault.NothingToDo, "rolls nothing out: all its pods are of revision 3"},
		"held already":   {func(t *testing.T, _ *kubetest.Server, c *kube.Client) { holds(t, c) }, fault.NothingToDo, "held already, by run r-0"},
		"paused by hand": {edit(func(spec map[string]any) { spec["paused"] = true }), fault.NothingToDo, "paused already, by somebody"},
		"set in Git":     {owned("argocd-controller", "f:paused"), fault.Owned, "spec.paused of Deployment serving/chat belongs to Argo CD"},
		"another field":  {owned("kubectl-set", "f:replicas"), "", ""},
		"Recreate":       {edit(func(spec map[string]any) { spec["strategy"] = map[string]any{"type": "Recreate"} }), fault.OutOfBounds, "update strategy Recreate"},
		"just changed": {func(_ *testing.T, s *kubetest.Server, _ *kube.Client) {
			s.Edit(kubetest.Path(ref("Deployment")), func(map[string]any) {})
		}, fault.Conflict, "just changed"},
		"all are updated": {func(_ *testing.T, s *kubetest.Server, _ *kube.Client) {
			s.Change(kubetest.Path(ref("Deployment")), func(m map[string]any) { m["status"].(map[string]any)["updatedReplicas"] = 3.0 })
		}, fault.NothingToDo, "nearly rolled out"},
		"a controller owns it": {func(_ *testing.T, s *kubetest.Server, _ *kube.Client) {
			s.Change(kubetest.Path(ref("Deployment")), func(m map[string]any) {
				m["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": "chat", "uid": "u", "controller": true}}
			})
		}, fault.Owned, "InferenceService"},
	} {
		t.Run(name, func(t *testing.T) {
			s := halfWay(t)
			c := s.Client(t)
			tt.before(t, s, c)
			o := do(t, step.Deps{Workloads: c, Changer: c}, machine.Effect{Action: machine.ActionPlan, Step: "rollout.hold"})
			if o.Reason != tt.reason || !strings.Contains(o.Message, tt.text) {
				t.Errorf("%s %s: %s", o.Status, o.Reason, o.Message)
			}
		})
	}
	s := cluster(t, "StatefulSet")
	c := s.Client(t)
	o := do(t, step.Deps{Workloads: c, Changer: c}, machine.Effect{Action: machine.ActionPlan, Step: "rollout.hold", Service: service("StatefulSet")})
	if o.Reason != fault.OutOfBounds || !strings.Contains(o.Message, "partition") {
		t.Errorf("a StatefulSet: %s %s", o.Reason, o.Message)
	}
}

// TestHoldGivenBack: a hold ends once the pod template is another one, without a question,
// and never before. Who resumes by hand, or pauses anew, is left alone.
func TestHoldGivenBack(t *testing.T) {
	path := kubetest.Path(ref("Deployment"))
	fix := func(s *kubetest.Server) {
		s.Edit(path, func(spec map[string]any) { spec["template"] = toMap(t, kubetest.Template("chat", "vllm:v4")) })
		s.Settle(ref("Deployment"), kubetest.Epoch().Add(time.Hour)) // no ReplicaSet is made while it is paused
	}
	back := func(t *testing.T, c *kube.Client, with map[string]any) machine.Outcome {
		t.Helper()
		return as(t, c, machine.Effect{Action: machine.ActionPlan, Step: "rollout.hold", Key: "r-1/resume#1/plan#1", With: with})
	}
	for name, tt := range map[string]struct {
		meanwhile func(*kubetest.Server)
		reason    fault.Reason
		text      string
	}{
		"the template is another one": {fix, "", ""},
		"the template is the same":    {func(*kubetest.Server) {}, fault.OutOfBounds, "the release that was held would go on"},
		"only scaled": {func(s *kubetest.Server) {
			s.Edit(path, func(spec map[string]any) { spec["replicas"] = 5.0 })
		}, fault.OutOfBounds, "the release that was held would go on"},
		"restarted by kubectl": {func(s *kubetest.Server) {
			s.Edit(path, func(spec map[string]any) {
				template := spec["template"].(map[string]any)
				meta, _ := template["metadata"].(map[string]any)
				if meta == nil {
					meta = map[string]any{}
					template["metadata"] = meta
				}
				meta["annotations"] = map[string]any{"kubectl.kubernetes.io/restartedAt": "2026-05-04T03:00:00Z"}
			})
		}, fault.OutOfBounds, "the release that was held would go on"},
		"resumed by hand": {func(s *kubetest.Server) { s.Edit(path, func(spec map[string]any) { delete(spec, "paused") }) }, fault.NothingToDo, "not held any more"},
		"paused anew by hand": {func(s *kubetest.Server) {
			fix(s)
			s.Change(path, func(m map[string]any) {
				m["metadata"].(map[string]any)["managedFields"] = []any{map[string]any{
					"manager": "kubectl-rollout", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:spec": map[string]any{"f:paused": map[string]any{}}},
				}}
			})
		}, fault.NothingToDo, "paused by kubectl-rollout"},
	} {
		t.Run(name, func(t *testing.T) {
			s := halfWay(t)
			c := s.Client(t)
			with := holds(t, c).Back
			tt.meanwhile(s)
			o := back(t, c, with)
			if o.Reason != tt.reason || !strings.Contains(o.Message, tt.text) {
				t.Fatalf("%s %s: %s", o.Status, o.Reason, o.Message)
			}
			if tt.reason != "" {
				return
			}
			if o.Plan.Ends == "" || o.Plan.Class != playbook.ClassReturn || len(o.Plan.Locks) > 0 {
				t.Errorf("its end asks people: %+v", o.Plan)
			}
			e := machine.Effect{Action: machine.ActionApply, Step: "rollout.hold", Key: "r-1/resume#1/apply#1", Plan: o.Plan, With: with}
			if o := as(t, c, e); o.Status != machine.StatusOK {
				t.Fatalf("apply: %s %s", o.Status, o.Message)
			}
			s.Settle(ref("Deployment"), kubetest.Epoch().Add(2*time.Hour))
			e.Action, e.Proof = machine.ActionVerify, &machine.Proof{Spec: machine.VerifySpec{Itself: true}}
			if o := as(t, c, e); o.Sample == nil || o.Sample.Verdict != machine.VerdictVerified {
				t.Errorf("verify: %s %s %+v", o.Status, o.Message, o.Sample)
			}
			w, err := c.Workload(t.Context(), ref("Deployment"))
			if err != nil || w.Paused || w.Updated != 3 || w.Annotations[kube.AnnotationHeld] != "" {
				t.Errorf("afterwards: %+v, %v", w, err)
			}
		})
	}
}

// TestHoldProven: a rollout that stands still has improved, and never more; one that goes
// on all the same had no effect.
func TestHoldProven(t *testing.T) {
	s := halfWay(t)
	c := s.Client(t)
	e := machine.Effect{Action: machine.ActionPlan, Step: "rollout.hold", Key: "r-0/hold#1/plan#1"}
	e.Plan = as(t, c, e).Plan
	e.Action, e.Key = machine.ActionApply, "r-0/hold#1/apply#1"
	made := as(t, c, e)
	e.Action, e.Receipt, e.Proof = machine.ActionVerify, made.Data, &machine.Proof{Spec: machine.VerifySpec{Itself: true}}
	for _, tt := range []struct {
		before  func()
		verdict machine.Verdict
	}{
		{func() {}, machine.VerdictWatching}, // the controller has not seen it
		{func() { s.Settle(ref("Deployment"), kubetest.Epoch().Add(time.Hour)) }, machine.VerdictImproved},
		{func() {
			s.Change(kubetest.Path(ref("Deployment")), func(m map[string]any) { m["status"].(map[string]any)["updatedReplicas"] = 3.0 })
		}, machine.VerdictFailed},
	} {
		tt.before()
		o := as(t, c, e)
		if o.Sample == nil || o.Sample.Verdict != tt.verdict {
			t.Errorf("want %s: %s %s %+v", tt.verdict, o.Status, o.Message, o.Sample)
		}
	}
}

// TestHoldSaysWhatServes: the plan says what stays, and what the controller still adds.
func TestHoldSaysWhatServes(t *testing.T) {
	for surge, want := range map[int]string{0: "2 replicas of the release before and 1 of revision 3 stay", 2: "brings up to 2 replicas of the release before back"} {
		s := halfWay(t)
		s.Change(kubetest.Path(ref("Deployment")), func(m map[string]any) {
			m["spec"].(map[string]any)["strategy"] = map[string]any{"type": string(appsv1.RollingUpdateDeploymentStrategyType), "rollingUpdate": map[string]any{"maxSurge": surge, "maxUnavailable": 1}}
		})
		c := s.Client(t)
		o := do(t, step.Deps{Workloads: c, Changer: c}, machine.Effect{Action: machine.ActionPlan, Step: "rollout.hold"})
		if o.Status != machine.StatusOK || !strings.Contains(strings.Join(o.Plan.Notes, "\n"), want) {
			t.Errorf("maxSurge %d: %s %s %+v", surge, o.Status, o.Message, o.Plan)
		}
	}
}

// TestHeldAgain: the plan of a rollback that ends a hold says which hold its undo begins
// again, and that one ends as the first would have.
func TestHeldAgain(t *testing.T) {
	s := halfWay(t)
	c := s.Client(t)
	first := holds(t, c)
	s.Settle(ref("Deployment"), kubetest.Epoch().Add(40*time.Minute))
	e := machine.Effect{Action: machine.ActionPlan, Step: "kube.rollout_undo", Key: "r-1/back#1/plan#1"}
	e.Plan = as(t, c, e).Plan
	if h := e.Plan.Rehold; h == nil || h.Step != "rollout.hold" || h.Back["held"] != first.Back["held"] || !strings.Contains(h.Summary, "of revision 3 of Deployment serving/chat again") {
		t.Fatalf("%+v", h)
	}
	e.Action, e.Key = machine.ActionApply, "r-1/back#1/apply#1"
	e.Receipt = as(t, c, e).Data
	s.Settle(ref("Deployment"), kubetest.Epoch().Add(50*time.Minute))
	e.Action, e.Key = machine.ActionUndo, "r-1/back#1/undo#1"
	if o := as(t, c, e); o.Status != machine.StatusOK {
		t.Fatalf("undo: %s %s", o.Status, o.Message)
	}
	end := machine.Effect{Action: machine.ActionPlan, Step: "rollout.hold", Key: "r-2/resume#1/plan#1", With: e.Plan.Rehold.Back}
	if o := as(t, c, end); o.Reason != fault.OutOfBounds {
		t.Errorf("its release would go on: %s %s", o.Status, o.Message)
	}
	s.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["template"] = toMap(t, kubetest.Template("chat", "vllm:v4")) })
	s.Settle(ref("Deployment"), kubetest.Epoch().Add(time.Hour))
	if o := as(t, c, end); o.Status != machine.StatusOK || o.Plan.Ends == "" {
		t.Errorf("its end: %s %s", o.Status, o.Message)
	}
}
