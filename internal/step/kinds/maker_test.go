package kinds_test

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/step/steptest"
)

// generated is a workload of three replicas that an object of another project's API makes, and
// whose replicas stand there.
type generated struct {
	*kubetest.Server
	ref   kube.Ref
	path  string   // of what makes it, or of Dynamo's adapter
	field []string // of the replicas, or of their lower bound
	now   time.Time
}

const (
	isvcPath    = "/apis/serving.kserve.io/v1beta1/namespaces/serving/inferenceservices/chat"
	lwsPath     = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/serving/leaderworkersets/chat"
	adapterPath = "/apis/nvidia.com/v1alpha1/namespaces/serving/dynamographdeploymentscalingadapters/llm-decode"
	graphPath   = "/apis/nvidia.com/v1alpha1/namespaces/serving/dynamographdeployments/llm"
)

// madeOf puts up a workload whose controlling owner is of a kind and group.
func madeOf(t testing.TB, name, kind, by, api, owner string, labels map[string]string) *generated {
	x := &generated{Server: kubetest.New(t), ref: kube.Ref{Kind: kind, Namespace: "serving", Name: name}, now: atNoon()}
	template := kubetest.Template(name, "vllm:v1")
	for k, v := range labels {
		template.Labels[k] = v
	}
	x.Workload(t, x.ref, 3, template)
	x.Change(kubetest.Path(x.ref), func(o map[string]any) {
		o["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": api, "kind": by, "name": owner, "uid": "uid-maker", "controller": true}}
	})
	return x
}

func (x *generated) object(path string, spec map[string]any) {
	name := path[strings.LastIndexByte(path, '/')+1:]
	x.Put(path, map[string]any{"metadata": map[string]any{"name": name, "namespace": "serving", "uid": "uid-maker", "generation": 1}, "spec": spec})
}

// byKServe has the HorizontalPodAutoscaler, too, that KServe makes of the bounds.
func byKServe(t testing.TB, predictor map[string]any) *generated {
	x := madeOf(t, "chat-predictor", "Deployment", "InferenceService", "serving.kserve.io/v1beta1", "chat", nil)
	x.path, x.field = isvcPath, []string{"predictor", "minReplicas"}
	x.object(isvcPath, map[string]any{"predictor": predictor})
	x.Put("/apis/autoscaling/v2/namespaces/serving/horizontalpodautoscalers/chat-predictor", map[string]any{
		"metadata": map[string]any{
			"name": "chat-predictor", "namespace": "serving", "uid": "uid-hpa",
			"ownerReferences": []any{map[string]any{"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "name": "chat", "uid": "uid-maker", "controller": true}},
		},
		"spec": map[string]any{"scaleTargetRef": map[string]any{"kind": "Deployment", "name": "chat-predictor"}, "minReplicas": 3, "maxReplicas": 3},
	})
	return x
}

func byLWS(t testing.TB) *generated {
	x := madeOf(t, "chat", "StatefulSet", "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "chat", nil)
	x.path, x.field = lwsPath, []string{"replicas"}
	x.object(lwsPath, map[string]any{"replicas": 3, "leaderWorkerTemplate": map[string]any{"size": 1}})
	x.group(t)
	return x
}

func byDynamo(t testing.TB) *generated {
	x := madeOf(t, "llm-decode-1a2b3c", "Deployment", "DynamoComponentDeployment", "nvidia.com/v1alpha1", "llm-decode-1a2b3c",
		map[string]string{"nvidia.com/dynamo-graph-deployment-name": "llm", "nvidia.com/dynamo-component": "Decode"})
	x.path, x.field = adapterPath, []string{"replicas"}
	x.object(graphPath, map[string]any{"services": map[string]any{"Frontend": map[string]any{"componentType": "frontend"}, "Decode": map[string]any{"componentType": "worker", "replicas": 3}}})
	x.object(adapterPath, map[string]any{"replicas": 3, "dgdRef": map[string]any{"name": "llm", "serviceName": "Decode"}})
	x.Change(adapterPath, func(o map[string]any) {
		o["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "name": "llm", "uid": "uid-graph", "controller": true}}
	})
	return x
}

// byPlanner is that component without an adapter, in a graph with a planner and other components.
func byPlanner(t testing.TB, args []any, others map[string]any) *generated {
	x := byDynamo(t)
	x.Delete(adapterPath)
	x.path, x.field = graphPath, nil
	x.Edit(graphPath, func(spec map[string]any) {
		services := spec["services"].(map[string]any)
		services["Planner"] = plannerOf(args...)
		services["Decode"] = component("worker", "decode", 3, "2")
		maps.Copy(services, others)
	})
	return x
}

// component is one of a graph, with the GPUs of each replica.
func component(kind, sub string, replicas int, gpus string) map[string]any {
	return map[string]any{"componentType": kind, "subComponentType": sub, "replicas": replicas, "resources": map[string]any{"limits": map[string]any{"gpu": gpus}}}
}

// arguments are those of the planner.
func (x *generated) arguments(set func([]any)) (out []any) {
	x.Edit(graphPath, func(spec map[string]any) {
		at := spec["services"].(map[string]any)["Planner"].(map[string]any)["extraPodSpec"].(map[string]any)["mainContainer"].(map[string]any)
		out = at["args"].([]any)
		if set != nil {
			set(out)
		}
	})
	return out
}

// group marks each leader as a group of its own, as LeaderWorkerSet does.
func (x *generated) group(t testing.TB) {
	t.Helper()
	w, err := x.Client(t).Workload(t.Context(), x.ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range w.Pods {
		x.Change("/api/v1/namespaces/serving/pods/"+p.Name, func(o map[string]any) {
			labels := o["metadata"].(map[string]any)["labels"].(map[string]any)
			labels["leaderworkerset.sigs.k8s.io/name"], labels["leaderworkerset.sigs.k8s.io/group-key"] = "chat", p.Name
		})
	}
}

// settle does what the maker and the controllers would do.
func (x *generated) settle(t testing.TB) {
	t.Helper()
	x.now = x.now.Add(time.Minute)
	a, err := x.Client(t).AutoscalerOf(t.Context(), x.ref)
	if err != nil {
		t.Fatal(err)
	}
	x.Edit(kubetest.Path(x.ref), func(spec map[string]any) {
		spec["replicas"] = min(max(spec["replicas"].(float64), float64(a.Min())), float64(a.Max()))
	})
	x.Settle(x.ref, x.now)
	if x.path == lwsPath {
		x.group(t)
	}
}

func (x *generated) world(t testing.TB) steptest.World {
	c := x.Client(t)
	svc := service(x.ref.Kind)
	svc.Workload = playbook.Workload{Kind: x.ref.Kind, Name: x.ref.Name}
	return steptest.World{
		Service: svc, Deps: step.Deps{Workloads: c, Changer: c, Scalers: c, Now: func() time.Time { return x.now }}, Settle: x.settle,
		Spec: func(testing.TB) string { return x.Spec(x.path) },
		Meddle: func(testing.TB) {
			if x.field == nil { // somebody sets the planner's own bound
				x.arguments(func(args []any) {
					args[len(args)-1] = regexp.MustCompile(`(min.endpoint["=: ]+)\d+`).ReplaceAllString(args[len(args)-1].(string), "${1}4")
				})
				return
			}
			x.Edit(x.path, func(spec map[string]any) {
				for _, part := range x.field[:len(x.field)-1] {
					spec = spec[part].(map[string]any)
				}
				spec[x.field[len(x.field)-1]] = 4.0
			})
		},
	}
}

func makers() map[string]func(testing.TB) *generated {
	return map[string]func(testing.TB) *generated{
		"KServe": func(t testing.TB) *generated {
			return byKServe(t, map[string]any{"minReplicas": 2, "maxReplicas": 3, "model": map[string]any{"storageUri": "hf://x"}})
		},
		"KServe without bounds": func(t testing.TB) *generated {
			x := byKServe(t, map[string]any{"model": map[string]any{"storageUri": "hf://x"}})
			x.Edit(kubetest.Path(x.ref), func(spec map[string]any) { spec["replicas"] = 1.0 })
			x.Settle(x.ref, x.now)
			return x
		},
		"LeaderWorkerSet": byLWS,
		"Dynamo":          byDynamo,
		"planner": func(t testing.TB) *generated {
			return byPlanner(t, []any{"--config", `{"mode": "agg", "min_endpoint": 1, "max_gpu_budget": 10}`}, nil)
		},
		"planner of roles": func(t testing.TB) *generated {
			return byPlanner(t, []any{`--config={"max_gpu_budget": -1, "min_endpoint": 1, "decode_min_endpoint": 2}`}, map[string]any{"Prefill": component("worker", "prefill", 1, "1")})
		},
		"planner of flags": func(t testing.TB) *generated {
			return byPlanner(t, []any{"--environment=kubernetes", "--max-gpu-budget=16", "--min-endpoint=3"}, nil)
		},
	}
}

// TestMakers runs the conformance test of levers on kube.autoscaler where the replicas
// stand on what makes the workload.
func TestMakers(t *testing.T) {
	for name, fresh := range makers() {
		t.Run(name, func(t *testing.T) {
			steptest.TestLever(t, "kube.autoscaler", map[string]any{"by": int64(2)}, func(t *testing.T) steptest.World { return fresh(t).world(t) })
		})
	}
}

func (x *generated) run(t testing.TB, run string, a machine.Action, with map[string]any, plan *machine.Plan) machine.Outcome {
	t.Helper()
	w := x.world(t)
	return kinds.New(w.Deps).Do(t.Context(), machine.Effect{
		Key: run + "/fix#1/" + string(a) + "#1", Run: run, Action: a, Step: "kube.scale", With: with, Service: w.Service, Plan: plan,
	})
}

// TestScaleWhatIsMade: kube.scale becomes kube.autoscaler, and the loan puts exactly
// what was there back.
func TestScaleWhatIsMade(t *testing.T) {
	summaries := map[string]string{
		"KServe":                "InferenceService chat: predictor.minReplicas from 2 to 5, predictor.maxReplicas from 3 to 5",
		"KServe without bounds": "InferenceService chat: predictor.minReplicas from (not set) to 3",
		"LeaderWorkerSet":       "LeaderWorkerSet chat: replicas from 3 to 5",
		"Dynamo":                "DynamoGraphDeploymentScalingAdapter llm-decode: replicas from 3 to 5",
		"planner":               "DynamoGraphDeployment llm/Decode: services.Planner.extraPodSpec.mainContainer.args.min_endpoint from 1 to 5",
		"planner of roles":      "DynamoGraphDeployment llm/Decode: services.Planner.extraPodSpec.mainContainer.args.decode_min_endpoint from 2 to 5",
		"planner of flags":      "DynamoGraphDeployment llm/Decode: services.Planner.extraPodSpec.mainContainer.args.--min-endpoint from 3 to 5",
	}
	for name, fresh := range makers() {
		t.Run(name, func(t *testing.T) {
			x := fresh(t)
			before := x.Spec(x.path)
			with := map[string]any{"by": int64(2)}
			o := x.run(t, "r-1", machine.ActionPlan, with, nil)
			if o.Status != machine.StatusOK || o.Plan.Step != "kube.autoscaler" || !strings.Contains(o.Plan.Summary, summaries[name]) {
				t.Fatalf("plan: %s %s %+v, want %s", o.Status, o.Message, o.Plan, summaries[name])
			}
			lent := o.Plan
			if o := x.run(t, "r-1", machine.ActionApply, with, lent); o.Status != machine.StatusOK {
				t.Fatalf("apply: %s %s", o.Status, o.Message)
			}
			x.settle(t)
			back := x.run(t, "r-2", machine.ActionPlan, lent.Back, nil)
			if back.Status != machine.StatusOK || back.Plan.Class != playbook.ClassReturn {
				t.Fatalf("plan of the return: %s %s", back.Status, back.Message)
			}
			if o := x.run(t, "r-2", machine.ActionApply, lent.Back, back.Plan); o.Status != machine.StatusOK {
				t.Fatalf("return: %s %s", o.Status, o.Message)
			}
			if after := x.Spec(x.path); after != before {
				t.Errorf("after the loan\n%s\nwant\n%s", after, before)
			}
		})
	}
}

// TestMakersRefuse: what somebody else sets, and what has no effect, is named.
func TestMakersRefuse(t *testing.T) {
	annotate := func(x *generated, key, value string) {
		x.Change(x.path, func(o map[string]any) { o["metadata"].(map[string]any)["annotations"] = map[string]any{key: value} })
	}
	kserve := makers()["KServe"]
	type refusal struct {
		fresh  func(testing.TB) *generated
		change func(*generated)
		reason fault.Reason
		text   string
	}
	planned := func(args []any, others map[string]any, text string) refusal {
		return refusal{func(t testing.TB) *generated { return byPlanner(t, args, others) }, func(*generated) {}, fault.OutOfBounds, text}
	}
	for name, tt := range map[string]refusal{
		"Argo CD": {kserve, func(x *generated) {
			annotate(x, "argocd.argoproj.io/tracking-id", "models:serving.kserve.io/InferenceService:serving/chat")
		}, fault.Owned, "spec.predictor.minReplicas of InferenceService serving/chat belongs to Argo CD application models"},
		"several nodes": {kserve, func(x *generated) {
			x.Edit(x.path, func(spec map[string]any) {
				spec["predictor"].(map[string]any)["workerSpec"] = map[string]any{"size": 2}
			})
		}, fault.OutOfBounds, "it spans several nodes"},
		"external": {kserve, func(x *generated) { annotate(x, "serving.kserve.io/autoscalerClass", "external") }, fault.OutOfBounds, "an autoscaler that is not there"},
		"LLMInferenceService": {byLWS, func(x *generated) {
			x.Change(x.path, func(o map[string]any) {
				o["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "serving.kserve.io/v1alpha1", "kind": "LLMInferenceService", "name": "chat", "uid": "u", "controller": true}}
			})
		}, fault.Owned, "LLMInferenceService chat"},
		"an adapter and a planner": {byDynamo, func(x *generated) {
			x.Edit(graphPath, func(spec map[string]any) {
				spec["services"].(map[string]any)["Planner"] = map[string]any{"componentType": "planner"}
			})
		}, fault.OutOfBounds, "the planner Planner of DynamoGraphDeployment llm sets the replicas of its components: its lower bound is not in its arguments"},
		"a planner that has all its GPUs": planned([]any{"--config", `{"mode": "agg", "max_gpu_budget": 7}`}, nil,
			"is not changed to 4: its 7 GPUs (max_gpu_budget) have room for 3 replicas of Decode, which take 2 each"),
		"a planner with the default of its GPUs": planned([]any{"--config", `{"decode_min_endpoint": 1}`}, map[string]any{"Prefill": component("worker", "prefill", 1, "1")},
			"of its 8 GPUs (max_gpu_budget) Prefill takes 1; 7 have room for 3 replicas of Decode"),
		"a planner that knows no GPUs": planned([]any{"--config", `{}`}, map[string]any{"Decode": map[string]any{"componentType": "worker", "replicas": 3}},
			"is not changed to 4: whether its 8 GPUs (max_gpu_budget) have room is not known: Decode: resources.limits.gpu is not written"),
		"a planner of nodes": planned([]any{"--config", `{}`}, map[string]any{"Decode": map[string]any{
			"componentType": "worker", "replicas": 3, "resources": map[string]any{"limits": map[string]any{"gpu": "1"}}, "multinode": map[string]any{"nodeCount": 4},
		}}, "have room for 2 replicas of Decode, which take 4 each"),
		"one bound for two components": planned([]any{"--config", `{"min_endpoint": 1}`}, map[string]any{"Prefill": component("prefill", "", 1, "1")},
			"its min_endpoint is of Decode and Prefill alike: set decode_min_endpoint in its --config"),
		"a planner of an older Dynamo":         planned([]any{"--environment=kubernetes", "--max-gpu-budget=16"}, nil, "its lower bound is not in its arguments"),
		"a planner that reads a file":          planned([]any{"--config=/etc/planner/config.yaml"}, nil, "its --config is no JSON object in its arguments (a file, or a variable)"),
		"a planner that reads its environment": planned([]any{"--config", `{"min_endpoint": $(FLOOR)}`}, nil, "its --config is no JSON object in its arguments (a file, or a variable)"),
		"a planner of no JSON":                 planned([]any{"--config", `{"min_endpoint": "two"}`}, nil, "min_endpoint of its --config is no whole number of replicas"),
		"a planner of two configurations":      planned([]any{"--config", `{}`, `--config={}`}, nil, "it has --config more than once"),
		"a planner that only advises":          planned([]any{"--config", `{"no_operation": true}`}, nil, "it only advises (no_operation)"),
		"a planner that advises only":          planned([]any{"--config", `{"advisory": true}`}, nil, "it only advises (advisory)"),
		"a planner of another mode":            planned([]any{"--config", `{"scaling_mode": "advisory_first"}`}, nil, `its scaling_mode is "advisory_first", and whether it scales then is not known`),
		"a planner of watts":                   planned([]any{"--config", `{"enable_power_awareness": true}`}, nil, "whether its power budget has room is not known"),
		"another spelling":                     planned([]any{"--config", `{"MAX_GPU_BUDGET": 90, "decode_min_endpoint": 1}`}, map[string]any{"Prefill": component("worker", "prefill", 1, "1")}, "of its 8 GPUs (max_gpu_budget) Prefill takes 1; 7 have room for 3 replicas"),
		"two of one role":                      planned([]any{"--config", `{"decode_min_endpoint": 1}`}, map[string]any{"Long": component("decode", "", 1, "1")}, "its decode_min_endpoint is of 2 components alike"),
		"bounds beyond what runs":              planned([]any{"--config", `{"max_gpu_budget": 9, "prefill_min_endpoint": 3, "decode_min_endpoint": 1}`}, map[string]any{"Prefill": component("worker", "prefill", 0, "1")}, "have room for 3 replicas of Decode"),
		"a bound by default":                   planned([]any{"--config", `{"max_gpu_budget": 8, "decode_min_endpoint": 1}`}, map[string]any{"Prefill": component("worker", "prefill", 0, "1")}, "have room for 3 replicas of Decode"),
		"flags of the environment": {func(t testing.TB) *generated { return byPlanner(t, []any{"--min-endpoint=1"}, nil) }, func(x *generated) {
			x.Edit(graphPath, func(spec map[string]any) {
				spec["services"].(map[string]any)["Planner"].(map[string]any)["envs"] = []any{map[string]any{"name": "PLANNER_MAX_GPU_BUDGET", "value": "4"}}
			})
		}, fault.OutOfBounds, "its flags may come from its variable PLANNER_MAX_GPU_BUDGET"},
		"a negative bound":      planned([]any{"--config", `{"min_endpoint": -1}`}, nil, "min_endpoint of its --config is no whole number of replicas"),
		"a budget of no number": planned([]any{"--config", `{"max_gpu_budget": 16.5}`}, nil, "max_gpu_budget of its --config is no whole number"),
		"a sidecar with GPUs": planned([]any{"--config", `{}`}, map[string]any{"Decode": map[string]any{
			"componentType": "worker", "replicas": 3, "resources": map[string]any{"limits": map[string]any{"gpu": "1"}},
			"extraPodSpec": map[string]any{"containers": []any{map[string]any{"name": "b", "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": "1"}}}}},
		}}, "other containers of its pods may take GPUs, too"),
		"flags of the graph": {func(t testing.TB) *generated { return byPlanner(t, []any{"--min-endpoint=1"}, nil) }, func(x *generated) {
			x.Edit(graphPath, func(spec map[string]any) {
				spec["envs"] = []any{map[string]any{"name": "PLANNER_MAX_GPU_BUDGET", "value": "4"}}
			})
		}, fault.OutOfBounds, "its flags may come from its variable PLANNER_MAX_GPU_BUDGET"},
		"flags of its command": {func(t testing.TB) *generated { return byPlanner(t, []any{"--min-endpoint=1"}, nil) }, func(x *generated) {
			x.Edit(graphPath, func(spec map[string]any) {
				spec["services"].(map[string]any)["Planner"].(map[string]any)["extraPodSpec"].(map[string]any)["mainContainer"].(map[string]any)["command"] = []any{"python3", "-m", "planner", "--no-operation"}
			})
		}, fault.OutOfBounds, "its flags may come from its command"},
		"a global planner":                   planned([]any{"--config", `{"environment": "global-planner"}`}, nil, `its environment is "global-planner"`),
		"two planners":                       planned([]any{"--config", `{}`}, map[string]any{"Other": plannerOf()}, "it has several planners, Other and Planner"),
		"a component that it does not scale": planned([]any{"--config", `{}`}, map[string]any{"Decode": component("frontend", "", 3, "1")}, "Decode is not known as a component that it scales"),
		"a graph that Argo CD owns": {func(t testing.TB) *generated { return byPlanner(t, []any{"--config", `{}`}, nil) }, func(x *generated) {
			annotate(x, "argocd.argoproj.io/tracking-id", "models:nvidia.com/DynamoGraphDeployment:serving/llm")
		}, fault.Owned, "belongs to Argo CD application models"},
		"components that cannot be read": {byDynamo, func(x *generated) {
			x.Edit(graphPath, func(spec map[string]any) { delete(spec, "services") })
		}, fault.OutOfBounds, "whether a planner sets the replicas is not known"},
		"a component that cannot be read": {byDynamo, func(x *generated) {
			x.Edit(graphPath, func(spec map[string]any) { spec["services"].(map[string]any)["Planner"] = "planner" })
		}, fault.OutOfBounds, "whether a planner sets the replicas is not known: spec.services.Planner"},
		"no adapter": {byDynamo, func(x *generated) { x.Delete(adapterPath) }, fault.NotFound, "llm-decode"},
		"labels of another graph": {byDynamo, func(x *generated) {
			x.Edit(kubetest.Path(x.ref), func(spec map[string]any) {
				spec["template"].(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]any)["nvidia.com/dynamo-component"] = "Prefill"
			})
			x.object(strings.Replace(adapterPath, "decode", "prefill", 1), map[string]any{"replicas": 3, "dgdRef": map[string]any{"name": "llm", "serviceName": "Prefill"}})
		}, fault.NotFound, "no autoscaler"},
		"another Deployment says it is of the component": {func(t testing.TB) *generated {
			other := madeOf(t, "chat", "Deployment", "DynamoComponentDeployment", "nvidia.com/v1alpha1", "llm-decode-1a2b3c",
				map[string]string{"nvidia.com/dynamo-graph-deployment-name": "llm", "nvidia.com/dynamo-component": "Decode"})
			other.path, other.field = adapterPath, []string{"replicas"}
			other.object(graphPath, map[string]any{"services": map[string]any{"Decode": map[string]any{"componentType": "worker", "replicas": 3}}})
			other.object(adapterPath, map[string]any{"replicas": 3, "dgdRef": map[string]any{"name": "llm", "serviceName": "Decode"}})
			return other
		}, func(*generated) {}, fault.NotFound, "no autoscaler"},
	} {
		t.Run(name, func(t *testing.T) {
			x := tt.fresh(t)
			tt.change(x)
			o := x.run(t, "r-1", machine.ActionPlan, map[string]any{"by": int64(1)}, nil)
			if o.Status != machine.StatusRefused || o.Reason != tt.reason || !strings.Contains(o.Message, tt.text) {
				t.Errorf("%s %s %q, want refused %s ...%s...", o.Status, o.Reason, o.Message, tt.reason, tt.text)
			}
		})
	}
}

// plannedPair is a graph of two components of which each has a lower bound of its own.
type plannedPair struct {
	*generated
	decode, prefill kube.Ref
}

func pair(t *testing.T, gpus int) plannedPair {
	x := byPlanner(t, []any{"--config", fmt.Sprintf(`{"max_gpu_budget": %d, "prefill_min_endpoint": 1, "decode_min_endpoint": 2}`, gpus)}, map[string]any{"Prefill": component("worker", "prefill", 2, "1")})
	prefill := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "llm-prefill-1a2b3c"}
	template := kubetest.Template(prefill.Name, "vllm:v1")
	template.Labels["nvidia.com/dynamo-graph-deployment-name"], template.Labels["nvidia.com/dynamo-component"] = "llm", "Prefill"
	x.Workload(t, prefill, 2, template)
	x.Change(kubetest.Path(prefill), func(o map[string]any) {
		o["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponentDeployment", "name": prefill.Name, "uid": "uid-maker", "controller": true}}
	})
	return plannedPair{x, x.ref, prefill}
}

// one is a replica more.
var one = map[string]any{"by": int64(1)}

func (x plannedPair) try(t *testing.T, of kube.Ref, run string, a machine.Action, plan *machine.Plan) machine.Outcome {
	t.Helper()
	x.ref = of
	return x.run(t, run, a, one, plan)
}

func (x plannedPair) act(t *testing.T, of kube.Ref, run string, a machine.Action, plan *machine.Plan) *machine.Plan {
	t.Helper()
	o := x.try(t, of, run, a, plan)
	if o.Status != machine.StatusOK {
		t.Fatalf("%s of %s: %s %s", a, of.Name, o.Status, o.Message)
	}
	return o.Plan
}

// TestPlannerOfTwo: each component of a graph has a loan of its own on the planner's arguments, and
// neither takes the other for a stranger.
func TestPlannerOfTwo(t *testing.T) {
	x := pair(t, 16)
	before := x.Spec(graphPath)
	first, second := x.act(t, x.decode, "r-1", machine.ActionPlan, nil), x.act(t, x.prefill, "r-2", machine.ActionPlan, nil)
	x.act(t, x.decode, "r-1", machine.ActionApply, first)
	x.act(t, x.prefill, "r-2", machine.ActionApply, second)
	if got, want := fmt.Sprint(x.arguments(nil)[1]), `{"max_gpu_budget": 16, "prefill_min_endpoint": 3, "decode_min_endpoint": 4}`; got != want {
		t.Errorf("the planner has %s, want %s", got, want)
	}
	for _, of := range []kube.Ref{x.decode, x.prefill} {
		x.ref = of
		x.settle(t)
	}
	x.act(t, x.decode, "r-1", machine.ActionSettle, first)
	x.act(t, x.prefill, "r-2", machine.ActionSettle, second)
	x.act(t, x.decode, "r-1", machine.ActionUndo, first)
	x.act(t, x.prefill, "r-2", machine.ActionUndo, second)
	if after := x.Spec(graphPath); after != before {
		t.Errorf("after both\n%s\nwant\n%s", after, before)
	}
}

// TestPlannerOutOfGPUs: two plans that each fit do not fit together. The second one is not applied, as the
// planner would not start.
func TestPlannerOutOfGPUs(t *testing.T) {
	x := pair(t, 10)
	first, second := x.act(t, x.decode, "r-1", machine.ActionPlan, nil), x.act(t, x.prefill, "r-2", machine.ActionPlan, nil)
	x.act(t, x.decode, "r-1", machine.ActionApply, first)
	o := x.try(t, x.prefill, "r-2", machine.ActionApply, second)
	if o.Status == machine.StatusOK || o.Reason != fault.OutOfBounds || !strings.Contains(o.Message, "of its 10 GPUs (max_gpu_budget) Decode takes 8; 2 have room for 2 replicas of Prefill") {
		t.Errorf("%s %s %s", o.Status, o.Reason, o.Message)
	}
	if got, want := fmt.Sprint(x.arguments(nil)[1]), `{"max_gpu_budget": 10, "prefill_min_endpoint": 1, "decode_min_endpoint": 4}`; got != want {
		t.Errorf("the planner has %s, want %s", got, want)
	}
	if o := x.try(t, x.prefill, "r-3", machine.ActionPlan, nil); o.Reason != fault.OutOfBounds {
		t.Errorf("planned once more: %s %s", o.Reason, o.Message)
	}
}

// TestPlannerLowered: a bound that may not be raised any more is still known as ours, and taken back.
func TestPlannerLowered(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"a second component": func(services map[string]any) { services["Long"] = component("worker", "", 1, "1") },
		"no GPUs written":    func(services map[string]any) { delete(services["Decode"].(map[string]any), "resources") },
		"GPUs gone elsewhere": func(services map[string]any) {
			services["Long"] = component("prefill", "", 9, "8")
		},
	} {
		t.Run(name, func(t *testing.T) {
			x := byPlanner(t, []any{"--config", `{"min_endpoint": 1}`}, nil)
			plan := x.run(t, "r-1", machine.ActionPlan, one, nil).Plan
			if o := x.run(t, "r-1", machine.ActionApply, one, plan); o.Status != machine.StatusOK {
				t.Fatalf("apply: %s %s", o.Reason, o.Message)
			}
			x.settle(t)
			x.Edit(graphPath, func(spec map[string]any) { change(spec["services"].(map[string]any)) })
			if o := x.run(t, "r-1", machine.ActionSettle, one, plan); o.Status != machine.StatusOK {
				t.Errorf("settle: %s %s", o.Reason, o.Message)
			}
			back := x.run(t, "r-2", machine.ActionPlan, plan.Back, nil)
			if back.Status != machine.StatusOK {
				t.Errorf("plan of the return: %s %s", back.Reason, back.Message)
			}
			if o := x.run(t, "r-1", machine.ActionUndo, one, plan); o.Status != machine.StatusOK {
				t.Errorf("undo: %s %s", o.Reason, o.Message)
			}
			if got := fmt.Sprint(x.arguments(nil)[1]); got != `{"min_endpoint": 1}` {
				t.Errorf("the planner has %s", got)
			}
		})
	}
}

// TestSharedBoundIsNotLowered: a lever of one service lowers no bound of others, nor one of a component that
// the planner does not scale.
func TestSharedBoundIsNotLowered(t *testing.T) {
	for name, tt := range map[string]struct {
		others map[string]any
		text   string
	}{
		"shared":   {map[string]any{"Prefill": component("worker", "prefill", 1, "1")}, "its min_endpoint is of Decode and Prefill alike"},
		"frontend": {map[string]any{"Decode": component("frontend", "", 5, "1"), "Work": component("worker", "", 1, "1")}, "Decode is not known as a component that it scales"},
	} {
		t.Run(name, func(t *testing.T) {
			x := byPlanner(t, []any{"--config", `{"min_endpoint": 4}`}, tt.others)
			o := x.run(t, "r-1", machine.ActionPlan, map[string]any{"by": int64(-1)}, nil)
			if o.Status != machine.StatusRefused || o.Reason != fault.OutOfBounds || !strings.Contains(o.Message, tt.text) {
				t.Errorf("%s %s %s", o.Status, o.Reason, o.Message)
			}
		})
	}
}

// TestReturnUndone: what a return took is there again at its undo, though another component has more
// replicas by then: only the lower bounds have to fit.
func TestReturnUndone(t *testing.T) {
	x := pair(t, 12)
	lent := x.act(t, x.decode, "r-1", machine.ActionPlan, nil)
	x.act(t, x.decode, "r-1", machine.ActionApply, lent)
	x.settle(t)
	back := func(a machine.Action, plan *machine.Plan) *machine.Plan {
		t.Helper()
		o := x.run(t, "r-2", a, lent.Back, plan)
		if o.Status != machine.StatusOK {
			t.Fatalf("%s of the return: %s %s", a, o.Reason, o.Message)
		}
		return o.Plan
	}
	plan := back(machine.ActionPlan, nil)
	back(machine.ActionApply, plan)
	x.Edit(graphPath, func(spec map[string]any) {
		spec["services"].(map[string]any)["Prefill"].(map[string]any)["replicas"] = 9.0
	})
	back(machine.ActionUndo, plan)
	if got, want := fmt.Sprint(x.arguments(nil)[1]), `{"max_gpu_budget": 12, "prefill_min_endpoint": 1, "decode_min_endpoint": 4}`; got != want {
		t.Errorf("the planner has %s, want %s", got, want)
	}
}

// TestAutoscalerOfMaker: an autoscaler that names what makes the workload comes before it,
// by its bounds.
func TestAutoscalerOfMaker(t *testing.T) {
	x := byLWS(t)
	x.Put(hpaPath, map[string]any{
		"metadata": map[string]any{"name": "auto", "namespace": "serving", "uid": "uid-auto"},
		"spec":     map[string]any{"scaleTargetRef": map[string]any{"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "chat"}, "minReplicas": 3, "maxReplicas": 4},
	})
	o := x.run(t, "r-1", machine.ActionPlan, map[string]any{"by": int64(2)}, nil)
	if o.Status != machine.StatusOK || o.Plan.Target.Kind != kube.HPA {
		t.Errorf("%s %s %s", o.Status, o.Message, fmt.Sprint(o.Plan))
	}
}

// plannerOf is the planner of a graph of Dynamo with arguments.
func plannerOf(args ...any) map[string]any {
	return map[string]any{"componentType": "planner", "extraPodSpec": map[string]any{"mainContainer": map[string]any{"args": args}}}
}
