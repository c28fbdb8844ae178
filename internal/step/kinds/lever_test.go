package kinds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/step/steptest"
)

func ref(kind string) kube.Ref { return kube.Ref{Kind: kind, Namespace: "serving", Name: "chat"} }

func service(kind string) playbook.Service {
	return playbook.Service{
		Name: "serving/chat", Namespace: "serving", Workload: playbook.Workload{Kind: kind, Name: "chat"},
		Engine: "vllm", MinReady: 1, MaxScale: 6, Autonomy: playbook.Auto,
	}
}

// cluster is an API server with a workload of two revisions and three replicas.
func cluster(t testing.TB, kind string) *kubetest.Server {
	s := kubetest.New(t)
	s.Workload(t, ref(kind), 3, kubetest.Template("chat", "vllm:v1", "--max-num-seqs", "256"), kubetest.Template("chat", "vllm:v2", "--max-num-seqs=64"))
	s.Put("/api/v1/nodes/node-0", map[string]any{"metadata": map[string]any{"name": "node-0"}})
	s.Put("/api/v1/nodes/node-1", map[string]any{"metadata": map[string]any{"name": "node-1"}})
	return s
}

// TestLevers runs the conformance test of levers on the cluster client against
// an API server, for both kinds of workload.
func TestLevers(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		world := func(meddle func(*kubetest.Server)) func(t *testing.T) steptest.World {
			return func(t *testing.T) steptest.World {
				s := cluster(t, kind)
				c := s.Client(t)
				now := kubetest.Epoch().Add(time.Hour)
				return steptest.World{
					Service: service(kind), Deps: step.Deps{Workloads: c, Changer: c, Now: func() time.Time { return now }},
					Spec:   func(testing.TB) string { return s.Spec(kubetest.Path(ref(kind))) },
					Settle: func(testing.TB) { now = now.Add(time.Minute); s.Settle(ref(kind), now) },
					Meddle: func(testing.TB) { meddle(s) },
				}
			}
		}
		path := kubetest.Path(ref(kind))
		t.Run(kind+"/scale", func(t *testing.T) {
			steptest.TestLever(t, "kube.scale", map[string]any{"by": int64(2)}, world(func(s *kubetest.Server) {
				s.Edit(path, func(spec map[string]any) { spec["replicas"] = 4.0 })
			}))
		})
		t.Run(kind+"/rollout_undo", func(t *testing.T) {
			steptest.TestLever(t, "kube.rollout_undo", nil, world(func(s *kubetest.Server) {
				s.Edit(path, func(spec map[string]any) { spec["template"] = toMap(t, kubetest.Template("chat", "vllm:v3")) })
			}))
		})
		t.Run(kind+"/restart", func(t *testing.T) {
			steptest.TestLever(t, "kube.restart", nil, world(func(s *kubetest.Server) {
				s.Edit(path, func(spec map[string]any) { spec["template"] = toMap(t, kubetest.Template("chat", "vllm:v3")) })
			}))
		})
		t.Run(kind+"/replace_pod", func(t *testing.T) {
			fresh := world(func(s *kubetest.Server) {
				s.Edit(path, func(spec map[string]any) { spec["replicas"] = 5.0 })
			})
			steptest.TestLever(t, "kube.replace_pod", map[string]any{"pod": "chat-0"}, func(t *testing.T) steptest.World {
				w := fresh(t)
				c := w.Deps.Workloads.(*kube.Client)
				w.Deps.Pods, w.Deps.Nodes, w.Deps.NodeChanger = c, c, c
				return w
			})
		})
		t.Run(kind+"/rollback", func(t *testing.T) {
			steptest.TestLever(t, "service.rollback", map[string]any{"window": "1h", "to_revision": int64(1), "from_revision": int64(2)}, world(func(s *kubetest.Server) {
				s.Edit(path, func(spec map[string]any) { spec["template"] = toMap(t, kubetest.Template("chat", "vllm:v3")) })
			}))
		})
	}
}

// TestRollbackToTarget: service.rollback goes back to the revision that the evidence
// names. What came after it goes back together, and the plan says so. Undone because it did
// not help, it acquits what it had taken back.
func TestRollbackToTarget(t *testing.T) {
	for kind, verdict := range map[string]machine.Verdict{"Deployment": machine.VerdictWorse, "StatefulSet": ""} {
		t.Run(kind, func(t *testing.T) {
			s := kubetest.New(t)
			s.Workload(t, ref(kind), 3, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"),
				kubetest.Template("chat", "vllm:v3"), kubetest.Template("chat", "vllm:v3", "--log-level", "warning"))
			c := s.Client(t)
			d := step.Deps{Workloads: c, Changer: c}
			ask := func(with map[string]any) machine.Outcome {
				return do(t, d, machine.Effect{Action: machine.ActionPlan, Step: "service.rollback", With: with, Service: service(kind)})
			}
			o := ask(map[string]any{"window": "1h", "to_revision": int64(2), "from_revision": int64(4)})
			if o.Status != machine.StatusOK || o.Plan.Step != "kube.rollout_undo" || !strings.Contains(o.Plan.Summary, "from revision 4 to 2") {
				t.Fatalf("%s %s: %+v", o.Status, o.Message, o.Plan)
			}
			notes := strings.Join(o.Plan.Notes, "\n")
			if !strings.Contains(notes, "2 releases go back together") || !strings.Contains(notes, "revision 3 goes back") || !strings.Contains(notes, "revision 4 goes back") {
				t.Errorf("notes: %s", notes)
			}
			if stale := ask(map[string]any{"to_revision": int64(2), "from_revision": int64(3)}); stale.Status != machine.StatusRefused || stale.Reason != fault.Conflict ||
				!strings.Contains(stale.Message, "runs revision 4, and revision 3 was current when the evidence was gathered: gather it again") {
				t.Errorf("%s %s %s", stale.Status, stale.Reason, stale.Message)
			}
			if last := ask(map[string]any{"window": "1h", "to_revision": int64(0), "from_revision": int64(0)}); last.Status != machine.StatusOK || !strings.Contains(last.Plan.Summary, "from revision 4 to 3") || strings.Contains(strings.Join(last.Plan.Notes, "\n"), "goes back") {
				t.Errorf("%s %s: %+v", last.Status, last.Message, last.Plan)
			}
			var receipt json.RawMessage
			for _, action := range []machine.Action{machine.ActionApply, machine.ActionUndo} {
				why := map[machine.Action]machine.Verdict{machine.ActionUndo: verdict}[action]
				done := kinds.New(d).Do(t.Context(), machine.Effect{
					Verdict: why, Key: "r-1/fix#1/" + string(action) + "#1", Run: "r-1", Action: action, Step: o.Plan.Step, Plan: o.Plan, Receipt: receipt, Service: service(kind),
				})
				receipt = done.Data
				s.Settle(ref(kind), kubetest.Epoch().Add(time.Hour))
				want(t, string(action), done, machine.StatusOK, "")
				revisions, err := c.Revisions(t.Context(), ref(kind))
				if err != nil {
					t.Fatal(err)
				}
				now, _ := kube.Newest(revisions)
				if undone := action == machine.ActionUndo; now.Ours == undone || now.PutBack != undone || now.Acquitted != (why != "") || (now.Fields["containers[vllm].image"] == "vllm:v3") != undone {
					t.Errorf("%s: %+v", action, now)
				}
			}
		})
	}
}

// TestPlanKnowsTheLoading: a plan says how long the replicas there took to become
// ready, without those that restarted or were not ready for a while in between.
func TestPlanKnowsTheLoading(t *testing.T) {
	s := cluster(t, "Deployment")
	for i, pod := range []struct {
		took     time.Duration
		restarts float64
	}{{18 * time.Minute, 0}, {time.Minute, 3}, {50 * time.Minute, 0}} {
		s.Change(fmt.Sprintf("/api/v1/namespaces/serving/pods/chat-%d", i), func(m map[string]any) {
			m["status"] = map[string]any{
				"phase": "Running", "startTime": kubetest.Epoch().Format(time.RFC3339),
				"conditions":        []any{map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": kubetest.Epoch().Add(pod.took).Format(time.RFC3339)}},
				"containerStatuses": []any{map[string]any{"name": "vllm", "restartCount": pod.restarts}},
			}
		})
	}
	c := s.Client(t)
	o := do(t, step.Deps{Workloads: c, Changer: c}, machine.Effect{Action: machine.ActionPlan, Step: "kube.scale", With: map[string]any{"by": int64(1)}})
	if o.Status != machine.StatusOK || o.Plan.Loading != 18*time.Minute {
		t.Errorf("%s %s: %+v", o.Status, o.Message, o.Plan)
	}
}

// TestRolloutUndoUnderAutoscaler: an autoscaler that moves the replicas in the
// midst of a rollback is none of the rollback's business, and is not undone.
func TestRolloutUndoUnderAutoscaler(t *testing.T) {
	s := cluster(t, "Deployment")
	path := kubetest.Path(ref("Deployment"))
	s.Put("/apis/autoscaling/v2/namespaces/serving/horizontalpodautoscalers/chat", autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "chat", Namespace: "serving"},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "chat"}},
	})
	autoscale := func(n float64) {
		s.Edit(path, func(spec map[string]any) { spec["replicas"] = n })
		s.Settle(ref("Deployment"), kubetest.Epoch().Add(2*time.Hour))
	}
	c := s.Client(t)
	set := kinds.New(step.Deps{Workloads: c, Changer: c})
	do := func(a machine.Action, plan *machine.Plan, receipt json.RawMessage) machine.Outcome {
		t.Helper()
		o := set.Do(t.Context(), machine.Effect{
			Key: "r-1/fix#1/" + string(a) + "#1", Run: "r-1", Action: a, Step: "kube.rollout_undo", Service: service("Deployment"), Plan: plan, Receipt: receipt,
		})
		if o.Status != machine.StatusOK {
			t.Fatalf("%s: %s %s %s", a, o.Status, o.Reason, o.Message)
		}
		return o
	}
	plan := do(machine.ActionPlan, nil, nil).Plan
	autoscale(4)
	if again := do(machine.ActionPlan, nil, nil).Plan; again.Digest() != plan.Digest() {
		t.Errorf("the autoscaler voids the plan:\n%+v\n%+v", plan, again)
	}
	receipt := do(machine.ActionApply, plan, nil).Data
	autoscale(5)
	do(machine.ActionSettle, plan, receipt)
	do(machine.ActionUndo, plan, receipt)
	if spec := s.Spec(path); !strings.Contains(spec, `"replicas":5`) || !strings.Contains(spec, "vllm:v2") {
		t.Errorf("after the undo: %s", spec)
	}
}

// TestPlanRefuses: who owns a field is named, and nothing is planned against
// the service's own bounds.
func TestPlanRefuses(t *testing.T) {
	path := kubetest.Path(ref("Deployment"))
	hpa := func(s *kubetest.Server) {
		s.Put("/apis/autoscaling/v2/namespaces/serving/horizontalpodautoscalers/auto", autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: "auto", Namespace: "serving"},
			Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "chat"}},
		})
	}
	nothing := func(*kubetest.Server) {}
	tests := []struct {
		name, kind string
		with       map[string]any
		change     func(*kubetest.Server)
		reason     fault.Reason
		text       string
	}{
		{"autoscaler", "kube.scale", map[string]any{"by": 1}, hpa, fault.Owned, "HorizontalPodAutoscaler auto"},
		{"beyond the most", "kube.scale", map[string]any{"replicas": 7}, nothing, fault.OutOfBounds, "7 replicas are more than the 6 allowed"},
		{"to nothing", "kube.scale", map[string]any{"replicas": 0}, nothing, fault.Invalid, "less than 1"},
		{"as it is", "kube.scale", map[string]any{"replicas": 3}, nothing, fault.NothingToDo, "3 replicas already"},
		{"both", "kube.scale", map[string]any{"replicas": 3, "by": 1}, nothing, fault.Invalid, "exactly one of replicas, by"},
		{"neither", "kube.scale", nil, nothing, fault.Invalid, "exactly one of replicas, by"},
		{"typo", "kube.scale", map[string]any{"by": 1, "maximum": 4}, nothing, fault.Invalid, `unknown parameter "maximum"`},
		{"own most reached", "kube.scale", map[string]any{"by": 1, "max": 3}, nothing, fault.OutOfBounds, "3 replicas already, 3 are the most"},
		{"paused", "kube.rollout_undo", nil, func(s *kubetest.Server) {
			s.Edit(path, func(spec map[string]any) { spec["paused"] = true })
			s.Settle(ref("Deployment"), kubetest.Epoch())
		}, fault.OutOfBounds, "paused"},
		{"no such revision", "kube.rollout_undo", map[string]any{"to_revision": 9}, nothing, fault.NotFound, "no revision 9"},
		{"the current", "kube.rollout_undo", map[string]any{"to_revision": 2}, nothing, fault.NothingToDo, "revision 2 already"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := cluster(t, "Deployment")
			tt.change(s)
			c := s.Client(t)
			o := kinds.New(step.Deps{Workloads: c, Changer: c}).Do(t.Context(), machine.Effect{
				Key: "r/s#1/plan#1", Action: machine.ActionPlan, Step: tt.kind, With: tt.with, Service: service("Deployment"),
			})
			if o.Status != machine.StatusRefused || o.Reason != tt.reason || !strings.Contains(o.Message, tt.text) {
				t.Errorf("%s %s %q, want refused %s ...%s...", o.Status, o.Reason, o.Message, tt.reason, tt.text)
			}
		})
	}
}

// TestReadingNeverWrites: everything but apply and undo works with an account
// that may not write; the server's dry-run is not a write.
func TestReadingNeverWrites(t *testing.T) {
	s := cluster(t, "Deployment")
	s.Fail(func(r *http.Request) kubetest.Fault {
		if r.Method != http.MethodGet && r.URL.Query().Get("dryRun") != "All" {
			t.Errorf("%s %s", r.Method, r.URL)
			return kubetest.Fault{Status: 403}
		}
		return kubetest.Fault{}
	})
	c := s.Client(t)
	set := kinds.New(step.Deps{Workloads: c, Changer: c})
	for _, e := range []machine.Effect{
		{Action: machine.ActionCheck, Step: "kube.workload"},
		{Action: machine.ActionCheck, Step: "kube.changes", With: map[string]any{"window": "1h"}},
		{Action: machine.ActionPlan, Step: "kube.scale", With: map[string]any{"by": 1}},
		{Action: machine.ActionPlan, Step: "kube.rollout_undo"},
	} {
		e.Service, e.Key, e.Run = service("Deployment"), "r/s#1/x#1", "r"
		if o := set.Do(t.Context(), e); o.Status != machine.StatusOK {
			t.Errorf("%s: %s %s", e.Step, o.Status, o.Message)
		}
	}
	if w := s.Writes(); len(w) > 0 {
		t.Errorf("wrote %v", w)
	}
}

// TestPanicIsUnknown: a step that panics while it writes may have written.
func TestPanicIsUnknown(t *testing.T) {
	set := kinds.New(step.Deps{Workloads: panicking{}, Changer: nil})
	e := machine.Effect{Action: machine.ActionCheck, Step: "kube.workload", Service: service("Deployment")}
	if o := set.Do(t.Context(), e); o.Status != machine.StatusFailed || o.Reason != fault.Panic {
		t.Errorf("check: %s %s", o.Status, o.Reason)
	}
	e = machine.Effect{
		Action: machine.ActionUndo, Step: "kube.scale", Service: service("Deployment"),
		Plan: &machine.Plan{Payload: []byte(`{"from":1,"to":2}`)},
	}
	if o := set.Do(t.Context(), e); o.Status != machine.StatusUnknown || o.Reason != fault.Panic {
		t.Errorf("undo: %s %s", o.Status, o.Reason)
	}
}

type panicking struct{ step.Workloads }

func (panicking) Workload(context.Context, kube.Ref) (kube.Workload, error) { panic("boom") }

func toMap(t testing.TB, v any) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}
