package kinds_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/step/steptest"
)

const (
	routePath  = "/apis/gateway.networking.k8s.io/v1/namespaces/serving/httproutes/chat"
	kservePath = "/apis/serving.kserve.io/v1beta1/namespaces/serving/inferenceservices/chat"
)

// warmCluster is a service on its second revision and the first beside it, behind a
// route of the kind, which sends everything to the second.
func warmCluster(t testing.TB, kind string) *kubetest.Server {
	s := cluster(t, "Deployment")
	warm := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat-stable"}
	if kind == kube.InferenceService {
		warm.Name = "chat-predictor-00001-deployment"
	}
	s.Workload(t, warm, 2, kubetest.Template(warm.Name, "vllm:v1", "--max-num-seqs", "256"))
	s.Serve("gateway.networking.k8s.io/v1", "httproutes")
	s.Serve("serving.kserve.io/v1beta1", "inferenceservices")
	backends := func() []any {
		return []any{map[string]any{"name": "chat", "port": 8000, "weight": 100}, map[string]any{"name": "chat-stable", "port": 8000, "weight": 0}}
	}
	s.Put(routePath, map[string]any{
		"metadata": map[string]any{"name": "chat", "namespace": "serving", "generation": 4},
		"spec": map[string]any{"rules": []any{
			map[string]any{"backendRefs": backends()}, map[string]any{"backendRefs": []any{map[string]any{"name": "docs"}}}, map[string]any{"backendRefs": backends()},
		}},
	})
	s.Put(kservePath, map[string]any{
		"metadata": map[string]any{"name": "chat", "namespace": "serving", "generation": 4},
		"spec":     map[string]any{"predictor": map[string]any{"minReplicas": 3}},
		"status": map[string]any{"components": map[string]any{"predictor": map[string]any{
			"latestReadyRevision": "chat-predictor-00002", "latestRolledoutRevision": "chat-predictor-00002", "previousRolledoutRevision": "chat-predictor-00001",
		}}},
	})
	carryOut(s, "True")
	return s
}

// carryOut lets the gateway and Knative carry out what the routes say.
func carryOut(s *kubetest.Server, accepted string) {
	s.Change(routePath, func(o map[string]any) {
		at := o["metadata"].(map[string]any)["generation"]
		o["status"] = map[string]any{"parents": []any{map[string]any{"parentRef": map[string]any{"name": "edge"}, "conditions": []any{
			map[string]any{"type": "Accepted", "status": accepted, "observedGeneration": at, "message": "no such listener"},
			map[string]any{"type": "ResolvedRefs", "status": "True", "observedGeneration": at},
		}}}}
	})
	s.Change(kservePath, func(o map[string]any) {
		canary, set := o["spec"].(map[string]any)["predictor"].(map[string]any)["canaryTrafficPercent"].(float64)
		if !set {
			canary = 100
		}
		o["status"].(map[string]any)["components"].(map[string]any)["predictor"].(map[string]any)["traffic"] = []any{
			map[string]any{"revisionName": "chat-predictor-00002", "percent": canary}, map[string]any{"revisionName": "chat-predictor-00001", "percent": 100 - canary},
		}
	})
}

// warmWorld is that cluster as traffic.shift sees it.
func warmWorld(t testing.TB, s *kubetest.Server, kind string) steptest.World {
	c := s.Client(t)
	svc := service("Deployment")
	svc.Warm = playbook.Warm{Route: playbook.Workload{Kind: kind, Name: "chat"}, Backend: "chat-stable", Workload: playbook.Workload{Kind: "Deployment", Name: "chat-stable"}}
	path := routePath
	if kind == kube.InferenceService {
		path, svc.Warm.Backend, svc.Warm.Workload = kservePath, "", playbook.Workload{}
	}
	return steptest.World{
		Service: svc, Deps: step.Deps{Workloads: c, Routes: c, Now: atNoon},
		Spec:   func(testing.TB) string { return s.Spec(path) },
		Settle: func(testing.TB) { carryOut(s, "True") },
		Meddle: func(testing.TB) {
			s.Edit(path, func(spec map[string]any) {
				if kind == kube.InferenceService {
					spec["predictor"].(map[string]any)["canaryTrafficPercent"] = 7.0
					return
				}
				spec["rules"].([]any)[0].(map[string]any)["backendRefs"].([]any)[1].(map[string]any)["weight"] = 7.0
			})
		},
	}
}

// TestTrafficShift runs the conformance test of levers on both kinds of routes.
func TestTrafficShift(t *testing.T) {
	for _, kind := range []string{kube.HTTPRoute, kube.InferenceService} {
		t.Run(kind, func(t *testing.T) {
			steptest.TestLever(t, "traffic.shift", map[string]any{"by": int64(50)}, func(t *testing.T) steptest.World {
				return warmWorld(t, warmCluster(t, kind), kind)
			})
		})
	}
}

// seriesOf has series of these pods.
type seriesOf []string

func (s seriesOf) Instant(_ context.Context, expr string, _ time.Time) (slo.Vector, error) {
	var out slo.Vector
	for _, pod := range s {
		if strings.Contains(expr, pod) {
			out.Samples = append(out.Samples, slo.Sample{Labels: map[string]string{"pod": pod}, Value: 9})
		}
	}
	return out, nil
}

func (seriesOf) Range(context.Context, string, time.Time, time.Time, time.Duration) (slo.Matrix, error) {
	return slo.Matrix{}, nil
}

// leavesAlone is Argo CD with an application that ignores these fields.
type leavesAlone struct {
	step.Applications
	fields []gitops.Ignored
}

func (l leavesAlone) Application(context.Context, string) (gitops.Application, error) {
	return gitops.Application{Ignored: l.fields}, nil
}

// TestTrafficShiftRefuses: what would not help, or would be changed back, is refused
// with the reason, and nothing is written.
func TestTrafficShiftRefuses(t *testing.T) {
	warm := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat-stable"}
	weights := func(first, second []any) func(*kubetest.Server, *steptest.World) {
		return func(s *kubetest.Server, _ *steptest.World) {
			s.Edit(routePath, func(spec map[string]any) {
				for i, w := range [][]any{first, nil, second} {
					for j := range w {
						spec["rules"].([]any)[i].(map[string]any)["backendRefs"].([]any)[j].(map[string]any)["weight"] = w[j]
					}
				}
			})
			carryOut(s, "True")
		}
	}
	annotate := func(key, value string) func(*kubetest.Server, *steptest.World) {
		return func(s *kubetest.Server, _ *steptest.World) {
			s.Change(routePath, func(o map[string]any) {
				o["metadata"].(map[string]any)["annotations"] = map[string]any{key: value}
			})
		}
	}
	tracked := annotate("argocd.argoproj.io/tracking-id", "chat:gateway.networking.k8s.io/HTTPRoute:serving/chat")
	ignoring := func(field string) func(*kubetest.Server, *steptest.World) {
		return func(s *kubetest.Server, w *steptest.World) {
			tracked(s, w)
			w.Deps.Applications = leavesAlone{fields: []gitops.Ignored{{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Fields: []string{field}}}}
		}
	}
	by := map[string]any{"by": 50}
	for name, c := range map[string]struct {
		with   map[string]any
		world  func(*kubetest.Server, *steptest.World)
		reason fault.Reason // empty: it is planned
		says   string
	}{
		"as much as it takes": {map[string]any{"by": 100}, nil, "", "66 % instead of 0 %"},
		"more than it takes":  {map[string]any{"percent": 80}, nil, fault.OutOfBounds, "80 % of the requests are more than the 66 %"},
		"more is declared":    {map[string]any{"percent": 80}, func(_ *kubetest.Server, w *steptest.World) { w.Service.Warm.Each = 45 }, "", "80 % instead of 0 %"},
		"it takes no more":    {by, weights([]any{1.0, 2.0}, []any{1.0, 2.0}), fault.OutOfBounds, "add replicas to it first"},
		"that many already":   {map[string]any{"percent": 50}, weights([]any{5.0, 5.0}, []any{1.0, 1.0}), fault.NothingToDo, "50 % of the requests already"},
		"only back":           {map[string]any{"percent": 50, "back": true}, nil, fault.NothingToDo, "0 % of the requests already"},
		"rules differ":        {by, weights([]any{9.0, 1.0}, []any{1.0, 1.0}), fault.OutOfBounds, "10 % by spec.rules[0].backendRefs and 50 % by spec.rules[2].backendRefs"},
		"weights of 0":        {by, weights([]any{0.0, 0.0}, nil), fault.OutOfBounds, "all weights are 0"},
		"no warm revision":    {by, func(_ *kubetest.Server, w *steptest.World) { w.Service.Warm = playbook.Warm{} }, fault.Invalid, "set warm in its entry"},
		"no such backend":     {by, func(_ *kubetest.Server, w *steptest.World) { w.Service.Warm.Backend = "chat-old" }, fault.OutOfBounds, "no rule has a backend chat-old"},
		"no such workload":    {by, func(_ *kubetest.Server, w *steptest.World) { w.Service.Warm.Workload.Name = "chat-old" }, fault.NotFound, "chat-old"},
		"not warm":            {by, func(s *kubetest.Server, _ *steptest.World) { unready(s, warm) }, fault.OutOfBounds, "no ready replica"},
		"the same release": {by, func(s *kubetest.Server, _ *steptest.World) {
			s.Workload(t, warm, 2, kubetest.Template("chat-stable", "vllm:v2", "--max-num-seqs=64"))
		}, fault.NothingToDo, "runs the same release"},
		"not accepted":         {by, func(s *kubetest.Server, _ *steptest.World) { carryOut(s, "False") }, fault.OutOfBounds, "no such listener"},
		"Argo CD's":            {by, tracked, fault.Owned, "RespectIgnoreDifferences=true"},
		"Argo CD ignores it":   {by, ignoring(".spec.rules[].backendRefs[].weight"), "", "50 % instead of 0 %"},
		"it ignores one":       {by, ignoring("/spec/rules/0/backendRefs/1/weight"), fault.Owned, "leave weight of gateway.networking.k8s.io HTTPRoute alone"},
		"it ignores other":     {by, ignoring("/spec/hostnames"), fault.Owned, "leave weight of gateway.networking.k8s.io HTTPRoute alone"},
		"series of both":       {by, func(_ *kubetest.Server, w *steptest.World) { w.Deps.Querier = seriesOf{"chat-0", "chat-stable-1"} }, "", "50 % instead of 0 %"},
		"no series of it":      {by, func(_ *kubetest.Server, w *steptest.World) { w.Deps.Querier = seriesOf{"chat-0"} }, fault.OutOfBounds, "the proof would not see"},
		"series name no pods":  {by, func(_ *kubetest.Server, w *steptest.World) { w.Deps.Querier = seriesOf{} }, "", "whether the proof sees the requests that are moved is not known"},
		"back to what it left": {map[string]any{"percent": 0, "left": release(t)}, weights([]any{1.0, 1.0}, []any{1.0, 1.0}), fault.OutOfBounds, "still runs the release that the requests left"},
		"back to another":      {map[string]any{"percent": 0, "left": "another"}, weights([]any{1.0, 1.0}, []any{1.0, 1.0}), "", "0 % instead of 50 %"},
		"back to fewer":        {map[string]any{"percent": 0, "replicas": 12}, weights([]any{0.0, 1.0}, []any{0.0, 1.0}), "", "75 % instead of 100 %"},
		"back to too few":      {map[string]any{"percent": 0, "replicas": 12}, weights([]any{1.0, 1.0}, []any{1.0, 1.0}), fault.OutOfBounds, "3 ready replicas, which take 25 % of the requests, and it gets 50 % already"},
		"back to none":         {map[string]any{"percent": 0}, also(weights([]any{0.0, 1.0}, []any{0.0, 1.0}), func(s *kubetest.Server, _ *steptest.World) { unready(s, ref("Deployment")) }), fault.OutOfBounds, "no ready replica"},
		"back from nobody":     {map[string]any{"percent": 0, "left": release(t)}, also(weights([]any{0.0, 1.0}, []any{0.0, 1.0}), func(s *kubetest.Server, _ *steptest.World) { unready(s, warm) }), "", "0 % instead of 100 %"},
		"no gateway yet": {by, func(s *kubetest.Server, _ *steptest.World) {
			s.Change(routePath, func(o map[string]any) { delete(o, "status") })
		}, fault.OutOfBounds, "no gateway has taken the route"},
		"switched off": {by, func(s *kubetest.Server, _ *steptest.World) {
			s.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["replicas"] = 0.0 })
		}, fault.OutOfBounds, "scaled to 0 replicas"},
		"none serves, and no series of it": {by, func(s *kubetest.Server, w *steptest.World) {
			unready(s, ref("Deployment"))
			for _, p := range []string{"chat-0", "chat-1", "chat-2"} {
				s.Change(kubetest.PodPath("serving", p), func(o map[string]any) {
					o["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Ready", "status": "False"}}
				})
			}
			w.Deps.Querier = seriesOf{}
		}, fault.OutOfBounds, "the proof would not see"},
	} {
		t.Run(name, func(t *testing.T) {
			s := warmCluster(t, kube.HTTPRoute)
			w := warmWorld(t, s, kube.HTTPRoute)
			if c.world != nil {
				c.world(s, &w)
			}
			o := kinds.New(w.Deps).Do(t.Context(), machine.Effect{Key: "r-1/s#1/plan#1", Run: "r-1", Step: "traffic.shift", Service: w.Service, With: c.with, Action: machine.ActionPlan})
			text := o.Message
			if o.Plan != nil {
				text = o.Plan.Summary + "; " + strings.Join(o.Plan.Notes, "; ")
			}
			if o.Reason != c.reason || !strings.Contains(text, c.says) || len(s.Writes()) > 0 {
				t.Errorf("%s %s %q, writes %v; want %q saying %q", o.Status, o.Reason, text, s.Writes(), c.reason, c.says)
			}
		})
	}
}

// also makes two changes of a world.
func also(a, b func(*kubetest.Server, *steptest.World)) func(*kubetest.Server, *steptest.World) {
	return func(s *kubetest.Server, w *steptest.World) { a(s, w); b(s, w) }
}

// release is the hash of what the service runs, as a loan has it.
func release(t testing.TB) string {
	w := warmWorld(t, warmCluster(t, kube.HTTPRoute), kube.HTTPRoute)
	o := kinds.New(w.Deps).Do(t.Context(), machine.Effect{Key: "r-1/s#1/plan#1", Run: "r-1", Step: "traffic.shift", Service: w.Service, With: map[string]any{"by": 10}, Action: machine.ActionPlan})
	if o.Plan == nil {
		t.Fatalf("%s %s", o.Status, o.Message)
	}
	return fmt.Sprint(o.Plan.Back["left"])
}

// TestShiftIsNotUndoneOntoNothing: while the service has no ready replica, requests stay
// with the warm revision that serves.
func TestShiftIsNotUndoneOntoNothing(t *testing.T) {
	s := warmCluster(t, kube.HTTPRoute)
	w := warmWorld(t, s, kube.HTTPRoute)
	set := kinds.New(w.Deps)
	do := func(a machine.Action, plan *machine.Plan, receipt []byte) machine.Outcome {
		return set.Do(t.Context(), machine.Effect{
			Key: "r-1/s#1/" + string(a) + "#1", Run: "r-1", Step: "traffic.shift", Service: w.Service, With: map[string]any{"by": 50}, Action: a, Plan: plan, Receipt: receipt,
		})
	}
	plan := do(machine.ActionPlan, nil, nil).Plan
	applied := do(machine.ActionApply, plan, nil)
	unready(s, ref("Deployment"))
	if o := do(machine.ActionUndo, plan, applied.Data); o.Reason != fault.OutOfBounds || !strings.Contains(o.Message, "the requests stay there") {
		t.Errorf("undo: %s %s %s", o.Status, o.Reason, o.Message)
	}
	s.Settle(ref("Deployment"), kubetest.Epoch().Add(time.Hour))
	// Another team's rule of the same route is none of its business.
	s.Edit(routePath, func(spec map[string]any) {
		spec["rules"] = append(spec["rules"].([]any), map[string]any{"backendRefs": []any{map[string]any{"name": "embed"}}})
	})
	if o := do(machine.ActionUndo, plan, applied.Data); o.Status != machine.StatusOK {
		t.Errorf("undo: %s %s %s", o.Status, o.Reason, o.Message)
	}
	if spec := s.Spec(routePath); !strings.Contains(spec, "embed") || strings.Contains(spec, `"weight":50`) {
		t.Errorf("after the undo the route is %s", spec)
	}
}

// unready makes a workload lose its readiness.
func unready(s *kubetest.Server, ref kube.Ref) {
	s.Change(kubetest.Path(ref), func(o map[string]any) {
		status := o["status"].(map[string]any)
		status["readyReplicas"], status["availableReplicas"] = 0.0, 0.0
	})
}

// TestKServeWithoutRevisions: canaryTrafficPercent means nothing in other deployment
// modes, nor before there is a second revision.
func TestKServeWithoutRevisions(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(status map[string]any)
		says string
	}{
		"RawDeployment": {func(status map[string]any) { status["deploymentMode"] = "RawDeployment" }, "its deployment mode is RawDeployment"},
		"first revision": {func(status map[string]any) {
			status["components"].(map[string]any)["predictor"] = map[string]any{"latestReadyRevision": "chat-predictor-00001", "latestRolledoutRevision": "chat-predictor-00001"}
		}, "no revision to go back to"},
	} {
		t.Run(name, func(t *testing.T) {
			s := warmCluster(t, kube.InferenceService)
			s.Change(kservePath, func(o map[string]any) { c.edit(o["status"].(map[string]any)) })
			w := warmWorld(t, s, kube.InferenceService)
			o := kinds.New(w.Deps).Do(t.Context(), machine.Effect{Key: "r-1/s#1/plan#1", Run: "r-1", Step: "traffic.shift", Service: w.Service, With: map[string]any{"by": 10}, Action: machine.ActionPlan})
			if o.Reason != fault.Invalid || !strings.Contains(o.Message, c.says) {
				t.Errorf("%s %s %q, want %q", o.Status, o.Reason, o.Message, c.says)
			}
		})
	}
}
