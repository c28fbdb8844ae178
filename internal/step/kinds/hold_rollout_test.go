package kinds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/steptest"
)

// canary is a cluster with a Rollout of Argo Rollouts whose third revision one of three
// replicas runs.
func canary(t testing.TB) *kubetest.Server {
	s := cluster(t, kube.Rollout)
	s.HalfWay(ref(kube.Rollout), kubetest.Template("chat", "vllm:v3"), 1, kubetest.Epoch().Add(30*time.Minute))
	return s
}

// asRollout carries an effect of rollout.hold out on the Rollout.
func asRollout(t *testing.T, c *kube.Client, e machine.Effect) machine.Outcome {
	t.Helper()
	e.Step, e.Service = "rollout.hold", service(kube.Rollout)
	return as(t, c, e)
}

// TestHoldOfRollout holds rollout.hold to the contract of levers, on a canary of Argo
// Rollouts: it is aborted by its status, where no annotation and no generation tells who did.
func TestHoldOfRollout(t *testing.T) {
	of := ref(kube.Rollout)
	steptest.TestLever(t, "rollout.hold", nil, func(t *testing.T) steptest.World {
		s := canary(t)
		c, now := s.Client(t), kubetest.Epoch().Add(time.Hour)
		return steptest.World{
			Service: service(kube.Rollout), Deps: step.Deps{Workloads: c, Changer: c, Now: func() time.Time { return now }},
			Spec:   func(testing.TB) string { return fmt.Sprint(s.Aborted(of), s.Spec(kubetest.Path(of))) },
			Settle: func(testing.TB) { now = now.Add(time.Minute); s.Settle(of, now) },
			Meddle: func(testing.TB) { s.Abort(of, "kubectl-argo-rollouts", !s.Aborted(of)) },
		}
	})
}

// TestScaleOfRollout does the same for kube.scale, by the subresource scale of a Rollout.
func TestScaleOfRollout(t *testing.T) {
	of := ref(kube.Rollout)
	steptest.TestLever(t, "kube.scale", map[string]any{"by": int64(2)}, func(t *testing.T) steptest.World {
		s := cluster(t, kube.Rollout)
		c, now := s.Client(t), kubetest.Epoch().Add(time.Hour)
		return steptest.World{
			Service: service(kube.Rollout), Deps: step.Deps{Workloads: c, Changer: c, Now: func() time.Time { return now }},
			Spec:   func(testing.TB) string { return s.Spec(kubetest.Path(of)) },
			Settle: func(testing.TB) { now = now.Add(time.Minute); s.Settle(of, now) },
			Meddle: func(testing.TB) {
				s.Edit(kubetest.Path(of), func(spec map[string]any) { spec["replicas"] = 4.0 })
			},
		}
	})
}

// TestHoldOfRolloutSpeaks: the plan says where requests go, what stays ready, and that the
// logs of the release are kept; the proof is improved at best.
func TestHoldOfRolloutSpeaks(t *testing.T) {
	s := canary(t)
	c := s.Client(t)
	e := machine.Effect{Action: machine.ActionPlan, Key: "r-0/hold#1/plan#1"}
	o := asRollout(t, c, e)
	if o.Status != machine.StatusOK {
		t.Fatalf("%s %s", o.Status, o.Message)
	}
	w, err := c.Workload(t.Context(), ref(kube.Rollout))
	if err != nil {
		t.Fatal(err)
	}
	if p := o.Plan; !strings.Contains(p.Summary, "go back to "+w.Stable) || p.Capacity.LowestReady != 2 || p.Capacity.ReadyAfter != 3 || p.Target.APIVersion != "argoproj.io/v1alpha1" || p.Diff[0].Path != "status.abort" {
		t.Errorf("%+v", p)
	}
	e.Action, e.Key, e.Plan = machine.ActionApply, "r-0/hold#1/apply#1", o.Plan
	made := asRollout(t, c, e)
	e.Action, e.Receipt, e.Proof = machine.ActionVerify, made.Data, &machine.Proof{Spec: machine.VerifySpec{Itself: true}}
	if o := asRollout(t, c, e); o.Sample == nil || o.Sample.Verdict != machine.VerdictWatching {
		t.Errorf("before its controller has seen it: %s %s %+v", o.Status, o.Message, o.Sample)
	}
	s.Settle(ref(kube.Rollout), kubetest.Epoch().Add(time.Hour))
	if o := asRollout(t, c, e); o.Sample == nil || o.Sample.Verdict != machine.VerdictImproved || !strings.Contains(o.Sample.Message, "aborted: 0 of 3 replicas are of revision 3") {
		t.Errorf("%s %s %+v", o.Status, o.Message, o.Sample)
	}
	// Argo Rollouts ends the abort with the release; until then nobody is asked to.
	back := machine.Effect{Action: machine.ActionPlan, Key: "r-1/resume#1/plan#1", With: e.Plan.Back}
	if o := asRollout(t, c, back); o.Reason != fault.OutOfBounds || !strings.Contains(o.Message, "kubectl argo rollouts retry") {
		t.Errorf("its end: %s %s", o.Reason, o.Message)
	}
	s.Edit(kubetest.Path(ref(kube.Rollout)), func(spec map[string]any) { spec["template"] = toMap(t, kubetest.Template("chat", "vllm:v4")) })
	s.Settle(ref(kube.Rollout), kubetest.Epoch().Add(2*time.Hour))
	if o := asRollout(t, c, back); o.Reason != fault.NothingToDo || !strings.Contains(o.Message, "not held any more") {
		t.Errorf("afterwards: %s %s", o.Reason, o.Message)
	}
}

// TestHoldOfRolloutRefused: what cannot be aborted, or gains nothing by it, is refused with
// the reason. Argo CD's ownership is none: the abort is no field of Git.
func TestHoldOfRolloutRefused(t *testing.T) {
	of, path := ref(kube.Rollout), kubetest.Path(ref(kube.Rollout))
	status := func(field string, value any) func(*kubetest.Server) {
		return func(s *kubetest.Server) {
			s.Change(path, func(m map[string]any) { m["status"].(map[string]any)[field] = value })
		}
	}
	meta := func(field string, value any) func(*kubetest.Server) {
		return func(s *kubetest.Server) {
			s.Change(path, func(m map[string]any) { m["metadata"].(map[string]any)[field] = value })
		}
	}
	for name, tt := range map[string]struct {
		before func(*kubetest.Server)
		reason fault.Reason
		text   string
	}{
		"nothing rolls out":  {func(s *kubetest.Server) { s.Settle(of, kubetest.Epoch().Add(time.Hour)) }, fault.NothingToDo, "revision 3 is its stable release"},
		"no stable one yet":  {status("stableRS", ""), fault.NothingToDo, "no stable release yet"},
		"aborted by Argo":    {func(s *kubetest.Server) { s.Abort(of, "rollouts-controller", true) }, fault.NothingToDo, "aborted or paused already, by rollouts-controller"},
		"paused by hand":     {func(s *kubetest.Server) { s.Edit(path, func(spec map[string]any) { spec["paused"] = true }) }, fault.NothingToDo, "paused already, by somebody"},
		"not seen yet":       {status("observedGeneration", "1"), fault.Conflict, "just changed"},
		"Argo CD deploys it": {meta("labels", map[string]any{"argocd.argoproj.io/instance": "chat"}), "", ""},
		"made by another": {
			meta("ownerReferences", []any{map[string]any{"apiVersion": "x/v1", "kind": "Platform", "name": "chat", "uid": "u", "controller": true}}),
			fault.Owned, "status.abort of Rollout serving/chat belongs to Platform chat",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := canary(t)
			tt.before(s)
			o := asRollout(t, s.Client(t), machine.Effect{Action: machine.ActionPlan, Key: "r-0/hold#1/plan#1"})
			if o.Reason != tt.reason || !strings.Contains(o.Message, tt.text) {
				t.Errorf("%s %s: %s", o.Status, o.Reason, o.Message)
			}
		})
	}
}

// TestRolloutsByHand: the other levers on a workload name the command to take by hand.
func TestRolloutsByHand(t *testing.T) {
	s := cluster(t, kube.Rollout)
	c := s.Client(t)
	for kind, hand := range map[string]string{
		"kube.rollout_undo": "kubectl argo rollouts undo", "kube.restart": "kubectl argo rollouts restart",
	} {
		o := as(t, c, machine.Effect{Action: machine.ActionPlan, Step: kind, Key: "r-0/x#1/plan#1", Service: service(kube.Rollout)})
		if o.Reason != fault.OutOfBounds || !strings.Contains(o.Message, hand) {
			t.Errorf("%s: %s %s", kind, o.Reason, o.Message)
		}
	}
	if w := s.Writes(); len(w) > 0 {
		t.Errorf("wrote %q", w)
	}
}
