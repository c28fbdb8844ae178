package kinds_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
	"github.com/inference-responder/responder/internal/step/steptest"
)

const (
	hpaPath    = "/apis/autoscaling/v2/namespaces/serving/horizontalpodautoscalers/auto"
	scaledPath = "/apis/keda.sh/v1alpha1/namespaces/serving/scaledobjects/auto"
)

// scaled is the workload of three replicas under an HPA from 2 to 4, or under a
// ScaledObject from which KEDA made that HPA.
type scaled struct {
	*kubetest.Server
	keda bool
	now  time.Time
}

func underHPA(t testing.TB) *scaled {
	x := &scaled{Server: cluster(t, "Deployment"), now: atNoon()}
	x.Put(hpaPath, map[string]any{
		"metadata": map[string]any{"name": "auto", "namespace": "serving", "uid": "uid-auto"},
		"spec": map[string]any{
			"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
			"minReplicas":    2, "maxReplicas": 4,
		},
		"status": map[string]any{"currentReplicas": 3, "desiredReplicas": 3},
	})
	return x
}

func underKEDA(t testing.TB, spec map[string]any) *scaled {
	x := underHPA(t)
	x.keda = true
	x.Serve("keda.sh/v1alpha1", "scaledobjects")
	all := map[string]any{"scaleTargetRef": map[string]any{"name": "chat"}}
	maps.Copy(all, spec)
	x.Put(scaledPath, map[string]any{
		"metadata": map[string]any{"name": "auto", "namespace": "serving", "uid": "uid-scaled"},
		"spec":     all, "status": map[string]any{"hpaName": "auto"},
	})
	x.Change(hpaPath, func(h map[string]any) {
		h["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": "ScaledObject", "name": "auto", "uid": "uid-scaled", "controller": true}}
	})
	return x
}

func (x *scaled) path() string {
	if x.keda {
		return scaledPath
	}
	return hpaPath
}

func (x *scaled) deps(t testing.TB) step.Deps {
	c := x.Client(t)
	return step.Deps{Workloads: c, Changer: c, Scalers: c, Now: func() time.Time { return x.now }}
}

// settle does what the autoscaler and the controllers would do.
func (x *scaled) settle(t testing.TB) {
	t.Helper()
	x.now = x.now.Add(time.Minute)
	a, err := x.Client(t).AutoscalerOf(t.Context(), ref("Deployment"))
	if err != nil {
		t.Fatal(err)
	}
	x.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) {
		spec["replicas"] = min(max(spec["replicas"].(float64), float64(a.Min())), float64(a.Max()))
	})
	x.Settle(ref("Deployment"), x.now)
}

// run does an action of kube.scale, as the loop of a run does.
func (x *scaled) run(t testing.TB, run string, a machine.Action, with map[string]any, plan *machine.Plan, receipt []byte) machine.Outcome {
	t.Helper()
	return kinds.New(x.deps(t)).Do(t.Context(), machine.Effect{
		Key: run + "/fix#1/" + string(a) + "#1", Run: run, Action: a, Step: "kube.scale", With: with, Service: service("Deployment"), Plan: plan, Receipt: receipt,
	})
}

// lend plans and applies a change by kube.scale, and settles it.
func (x *scaled) lend(t testing.TB, run string, with map[string]any) *machine.Plan {
	t.Helper()
	return x.lendBy(t, "kube.scale", run, with)
}

func (x *scaled) lendBy(t testing.TB, lever, run string, with map[string]any) *machine.Plan {
	t.Helper()
	act := func(a machine.Action, plan *machine.Plan, receipt []byte) machine.Outcome {
		return kinds.New(x.deps(t)).Do(t.Context(), machine.Effect{
			Key: run + "/fix#1/" + string(a) + "#1", Run: run, Action: a, Step: lever, With: with, Service: service("Deployment"), Plan: plan, Receipt: receipt,
		})
	}
	planned := act(machine.ActionPlan, nil, nil)
	if planned.Status != machine.StatusOK {
		t.Fatalf("plan: %s %s %s", planned.Status, planned.Reason, planned.Message)
	}
	applied := act(machine.ActionApply, planned.Plan, nil)
	if applied.Status != machine.StatusOK {
		t.Fatalf("apply: %s %s %s", applied.Status, applied.Reason, applied.Message)
	}
	x.settle(t)
	if o := act(machine.ActionSettle, planned.Plan, applied.Data); o.Status != machine.StatusOK {
		t.Fatalf("settle: %s %s %s", o.Status, o.Reason, o.Message)
	}
	return planned.Plan
}

// bounds returns the bounds and the replicas.
func (x *scaled) bounds(t testing.TB) string {
	t.Helper()
	a, err := x.Client(t).AutoscalerOf(t.Context(), ref("Deployment"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := x.Client(t).Workload(t.Context(), ref("Deployment"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %d", a.Bounds, w.Replicas)
}

// TestAutoscaler runs the conformance test of levers on kube.autoscaler: an HPA, and a
// ScaledObject that writes none of its bounds.
func TestAutoscaler(t *testing.T) {
	keda := func(t testing.TB) *scaled { return underKEDA(t, map[string]any{"pollingInterval": 15}) }
	for name, tt := range map[string]struct {
		fresh func(testing.TB) *scaled
		with  map[string]any
	}{
		"HPA":       {underHPA, map[string]any{"by": int64(3)}},
		"KEDA":      {keda, map[string]any{"by": int64(3)}},
		"keep":      {underHPA, map[string]any{"keep": true}},
		"keep KEDA": {keda, map[string]any{"keep": true}},
	} {
		t.Run(name, func(t *testing.T) {
			steptest.TestLever(t, "kube.autoscaler", tt.with, func(t *testing.T) steptest.World {
				x := tt.fresh(t)
				return steptest.World{
					Service: service("Deployment"), Deps: x.deps(t), Settle: x.settle,
					Spec: func(t testing.TB) string {
						said := x.bounds(t) // with the pause; the replicas stay for the metrics
						return said[:strings.LastIndexByte(said, ' ')] + x.Spec(x.path())
					},
					Meddle: func(testing.TB) {
						low := map[bool]string{false: "minReplicas", true: "minReplicaCount"}[x.keda]
						x.Edit(x.path(), func(spec map[string]any) { spec[low] = 5.0 })
					},
				}
			})
		})
	}
}

// TestScaleUnderAutoscaler: kube.scale is done by the bounds of the autoscaler, and what
// it lends is given back exactly.
func TestScaleUnderAutoscaler(t *testing.T) {
	for name, tt := range map[string]struct {
		x              func(testing.TB) *scaled
		lent, returned string
	}{
		"HPA": {underHPA, "5..5 5", "2..4 4"}, // the metrics still ask for all that they may
		"KEDA": {func(t testing.TB) *scaled {
			return underKEDA(t, map[string]any{"minReplicaCount": 1, "maxReplicaCount": 8})
		}, "5..8 5", "1..8 5"},
		"KEDA without bounds":  {func(t testing.TB) *scaled { return underKEDA(t, nil) }, "5.. 5", ".. 5"},
		"KEDA from nothing up": {func(t testing.TB) *scaled { return underKEDA(t, map[string]any{"minReplicaCount": 0}) }, "5.. 5", "0.. 5"},
	} {
		t.Run(name, func(t *testing.T) {
			x := tt.x(t)
			plan := x.lend(t, "r-1", map[string]any{"by": int64(2)})
			if plan.Step != "kube.autoscaler" || len(plan.Notes) == 0 || !strings.Contains(plan.Notes[0], "kube.scale is done as kube.autoscaler") {
				t.Errorf("the plan of %s says %q", plan.Step, plan.Notes)
			}
			if got := x.bounds(t); got != tt.lent {
				t.Errorf("lent %s, want %s", got, tt.lent)
			}
			back := x.lend(t, "r-2", plan.Back)
			if got := x.bounds(t); got != tt.returned || back.Class != "return" {
				t.Errorf("given back %s by a change of class %q, want %s", got, back.Class, tt.returned)
			}
			o := x.run(t, "r-3", machine.ActionPlan, plan.Back, nil, nil)
			if o.Status != machine.StatusRefused || o.Reason != fault.NothingToDo {
				t.Errorf("given back twice: %s %s %s", o.Status, o.Reason, o.Message)
			}
		})
	}
}

// TestLoansBetweenMetrics: the metrics ask for more replicas between two loans. Both
// returned, the bounds are those from before the first.
func TestLoansBetweenMetrics(t *testing.T) {
	x := underHPA(t)
	first := x.lend(t, "r-1", map[string]any{"by": int64(1)}).Back
	x.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["replicas"] = 5.0 })
	second := x.lend(t, "r-2", map[string]any{"by": int64(1)}).Back
	second["above"], second["bounds"] = first["above"], first["bounds"]
	x.lend(t, "r-3", second)
	x.lend(t, "r-4", first)
	if got := x.bounds(t); !strings.HasPrefix(got, "2..4") {
		t.Errorf("bounds and replicas are %s, want the bounds 2..4", got)
	}
}

// TestLoansOfBounds: two loans are given back in any order, and the last of them puts
// the former bounds back. What loan is below the other, the executor knows.
func TestLoansOfBounds(t *testing.T) {
	for name, order := range map[string][]int{"first first": {0, 1}, "last first": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			x := underHPA(t)
			first := x.lend(t, "r-1", map[string]any{"by": int64(1)}).Back
			second := x.lend(t, "r-2", map[string]any{"by": int64(2)}).Back
			second["above"], second["bounds"] = first["above"], first["bounds"]
			var seen []string
			for i, n := range order {
				x.lend(t, fmt.Sprintf("r-%d", 3+i), []map[string]any{first, second}[n])
				seen = append(seen, x.bounds(t))
			}
			if want := []string{"4..4 4", "2..4 4"}; fmt.Sprint(seen) != fmt.Sprint(want) {
				t.Errorf("%q, want %q", seen, want)
			}
		})
	}
}

// TestKeepReplicas: what is there stays, more may still come, and the former bounds come
// back.
func TestKeepReplicas(t *testing.T) {
	keep := map[string]any{"keep": true}
	for name, tt := range map[string]struct {
		x                       func(testing.TB) *scaled
		replicas                float64
		kept, returned, refused string
	}{
		"HPA": {underHPA, 3, "3..4 3", "2..4 3", ""},
		"KEDA": {func(t testing.TB) *scaled {
			return underKEDA(t, map[string]any{"minReplicaCount": 1, "maxReplicaCount": 8})
		}, 5, "5..8 paused 5", "1..8 5", ""},
		"KEDA without bounds": {func(t testing.TB) *scaled { return underKEDA(t, nil) }, 3, "3.. paused 3", ".. 3", ""},
		"KEDA that a person paused": {func(t testing.TB) *scaled {
			x := underKEDA(t, nil)
			x.Change(scaledPath, func(o map[string]any) {
				o["metadata"].(map[string]any)["annotations"] = map[string]any{kube.PauseScaleIn: "true"}
			})
			return x
		}, 3, "3.. 3", ".. 3", ""},
		"as few as there may be":  {underHPA, 2, "", "", "the lower bound of HorizontalPodAutoscaler serving/auto is 2, and keeps the 2 replicas there"},
		"more than there may be":  {underHPA, 5, "", "", "5 replicas are more than the upper bound of HorizontalPodAutoscaler serving/auto, 4"},
		"nothing is kept of none": {func(t testing.TB) *scaled { return underKEDA(t, nil) }, 0, "", "", "is 0, and keeps the 0 replicas there"},
	} {
		t.Run(name, func(t *testing.T) {
			x := tt.x(t)
			x.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["replicas"] = tt.replicas })
			act := func(run string, a machine.Action, plan *machine.Plan) machine.Outcome {
				return kinds.New(x.deps(t)).Do(t.Context(), machine.Effect{
					Key: run + "/fix#1/" + string(a) + "#1", Run: run, Action: a, Step: "kube.autoscaler", With: keep, Service: service("Deployment"), Plan: plan,
				})
			}
			planned := act("r-1", machine.ActionPlan, nil)
			if tt.refused != "" {
				if planned.Reason != fault.NothingToDo || !strings.Contains(planned.Message, tt.refused) {
					t.Errorf("%s %s, want %s", planned.Reason, planned.Message, tt.refused)
				}
				return
			}
			if planned.Plan == nil || !strings.HasPrefix(planned.Plan.Summary, fmt.Sprintf("keep the %g replicas of Deployment serving/chat by", tt.replicas)) {
				t.Fatalf("%s %s: %+v", planned.Reason, planned.Message, planned.Plan)
			}
			x.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["replicas"] = tt.replicas + 1 }) // none of them is ready
			for _, a := range []machine.Action{machine.ActionApply, machine.ActionSettle} {
				if o := act("r-1", a, planned.Plan); o.Status != machine.StatusOK {
					t.Fatalf("%s: %s %s", a, o.Reason, o.Message)
				}
			}
			x.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["replicas"] = tt.replicas })
			x.settle(t)
			if got := x.bounds(t); got != tt.kept {
				t.Errorf("kept by %s, want %s", got, tt.kept)
			}
			x.lend(t, "r-2", planned.Plan.Back)
			if got := x.bounds(t); got != tt.returned {
				t.Errorf("given back as %s, want %s", got, tt.returned)
			}
		})
	}
}

// TestKeepAndScale: a loan of more replicas and one that keeps them are given back in any order. The pause ends
// with the one that set it, and the bounds before both come back with the last.
func TestKeepAndScale(t *testing.T) {
	for name, tt := range map[string]struct {
		keepFirst bool // it was lent first
		back      []string
		want      []string
	}{
		"keep and scale, keep back first":  {true, []string{"keep", "scale"}, []string{"2..8 6", "1..8 6"}},
		"keep and scale, scale back first": {true, []string{"scale", "keep"}, []string{"5..8 paused 6", "1..8 6"}},
		"scale and keep, keep back first":  {false, []string{"keep", "scale"}, []string{"4..8 6", "1..8 6"}},
		"scale and keep, scale back first": {false, []string{"scale", "keep"}, []string{"3..8 paused 6", "1..8 6"}},
	} {
		t.Run(name, func(t *testing.T) {
			x := underKEDA(t, map[string]any{"minReplicaCount": 1, "maxReplicaCount": 8})
			back := map[string]map[string]any{}
			replicas := func(n float64) {
				x.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["replicas"] = n })
				x.Settle(ref("Deployment"), x.now)
			}
			keep := func() { back["keep"] = x.lendBy(t, "kube.autoscaler", "r-k", map[string]any{"keep": true}).Back }
			if tt.keepFirst {
				replicas(5)
				keep()
				back["scale"] = x.lend(t, "r-s", map[string]any{"by": int64(2)}).Back
				back["scale"]["above"], back["scale"]["bounds"] = back["keep"]["above"], back["keep"]["bounds"] // as the executor does
			} else {
				back["scale"] = x.lend(t, "r-s", map[string]any{"by": int64(1)}).Back
				replicas(6)
				keep()
				back["keep"]["above"], back["keep"]["bounds"] = back["scale"]["above"], back["scale"]["bounds"]
			}
			var seen []string
			for i, of := range tt.back {
				x.lend(t, fmt.Sprintf("r-%d", i), back[of])
				seen = append(seen, x.bounds(t))
			}
			if fmt.Sprint(seen) != fmt.Sprint(tt.want) {
				t.Errorf("%q, want %q", seen, tt.want)
			}
		})
	}
}

// TestPauseGoesBack: our pause of scale-in ends with its loan, whatever a person has made of the number since;
// a pause of a person stays.
func TestPauseGoesBack(t *testing.T) {
	paused := func(x *scaled) string {
		said := ""
		x.Change(scaledPath, func(o map[string]any) {
			said = fmt.Sprint(o["metadata"].(map[string]any)["annotations"].(map[string]any)[kube.PauseScaleIn])
		})
		return said
	}
	number := func(n float64) func(*scaled) {
		return func(x *scaled) { x.Edit(scaledPath, func(spec map[string]any) { spec["minReplicaCount"] = n }) }
	}
	annotate := func(x *scaled) {
		x.Change(scaledPath, func(o map[string]any) {
			o["metadata"].(map[string]any)["annotations"] = map[string]any{kube.PauseScaleIn: "true"}
		})
	}
	for name, tt := range map[string]struct {
		before, meanwhile func(*scaled)
		bounds, pause     string
	}{
		"as it was":             {nil, nil, "1..8 3", "<nil>"},
		"a person took it back": {nil, number(1), "1..8 3", "<nil>"},
		"a person raised it":    {nil, number(7), "5..8 7", "<nil>"},
		"a person paused it":    {annotate, nil, "1..8 3", "true"},
		"a person ended the pause": {nil, func(x *scaled) {
			x.Change(scaledPath, func(o map[string]any) {
				delete(o["metadata"].(map[string]any)["annotations"].(map[string]any), kube.PauseScaleIn)
			})
		}, "1..8 3", "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			x := underKEDA(t, map[string]any{"minReplicaCount": 1, "maxReplicaCount": 8})
			if tt.before != nil {
				tt.before(x)
			}
			keep := map[string]any{"keep": true}
			act := func(a machine.Action, plan *machine.Plan) *machine.Plan {
				t.Helper()
				o := kinds.New(x.deps(t)).Do(t.Context(), machine.Effect{
					Key: "r-1/fix#1/" + string(a) + "#1", Run: "r-1", Action: a, Step: "kube.autoscaler", With: keep, Service: service("Deployment"), Plan: plan,
				})
				if o.Status != machine.StatusOK {
					t.Fatalf("%s: %s %s", a, o.Reason, o.Message)
				}
				return o.Plan
			}
			kept := act(machine.ActionPlan, nil)
			act(machine.ActionApply, kept)
			if got := paused(x); got != "true" {
				t.Fatalf("the pause is %s", got)
			}
			if tt.meanwhile != nil {
				tt.meanwhile(x)
				x.settle(t)
			}
			x.lend(t, "r-2", kept.Back)
			if got := x.bounds(t); got != tt.bounds || paused(x) != tt.pause {
				t.Errorf("given back as %s, and the pause is %s, want %s and %s", got, paused(x), tt.bounds, tt.pause)
			}
		})
	}
}

// TestPauseOfAPerson: a pause that a person sets while a plan waits for its approval is no pause of ours, nor is one
// beside a mark that was left behind.
func TestPauseOfAPerson(t *testing.T) {
	annotate := func(x *scaled, key string, value any) {
		x.Change(scaledPath, func(o map[string]any) {
			meta := o["metadata"].(map[string]any)
			if meta["annotations"] == nil {
				meta["annotations"] = map[string]any{}
			}
			if all := meta["annotations"].(map[string]any); value == nil {
				delete(all, key)
			} else {
				all[key] = value
			}
		})
	}
	x := underKEDA(t, map[string]any{"minReplicaCount": 1})
	act := func(run string, a machine.Action, plan *machine.Plan) machine.Outcome {
		return kinds.New(x.deps(t)).Do(t.Context(), machine.Effect{
			Key: run + "/fix#1/" + string(a) + "#1", Run: run, Action: a, Step: "kube.autoscaler", With: map[string]any{"keep": true}, Service: service("Deployment"), Plan: plan,
		})
	}
	plan := act("r-1", machine.ActionPlan, nil).Plan
	annotate(x, kube.PauseScaleIn, "false")
	if o := act("r-1", machine.ActionApply, plan); o.Status == machine.StatusOK || !strings.Contains(o.Message, "somebody set its annotation "+kube.PauseScaleIn) {
		t.Errorf("apply: %s %s %s", o.Status, o.Reason, o.Message)
	}
	annotate(x, kube.PauseScaleIn, nil)
	if o := act("r-1", machine.ActionApply, plan); o.Status != machine.StatusOK {
		t.Fatalf("apply: %s %s", o.Reason, o.Message)
	}
	annotate(x, kube.PauseScaleIn, nil) // a person ends it
	x.lend(t, "r-2", plan.Back)
	lent := x.lend(t, "r-3", map[string]any{"by": int64(1)})
	annotate(x, kube.PauseScaleIn, "true") // and sets one
	x.lend(t, "r-4", lent.Back)
	x.Change(scaledPath, func(o map[string]any) {
		all := o["metadata"].(map[string]any)["annotations"].(map[string]any)
		if _, marked := all["responder.dev/paused"]; marked || all[kube.PauseScaleIn] != "true" {
			t.Errorf("after it all: %v", all)
		}
	})
}

// TestAutoscalerRefuses: what does not work, or what somebody else would change back, is
// named.
func TestAutoscalerRefuses(t *testing.T) {
	mark := func(kind, key, value string) func(*scaled) {
		return func(x *scaled) {
			x.Change(x.path(), func(o map[string]any) { o["metadata"].(map[string]any)[kind] = map[string]any{key: value} })
		}
	}
	keda := func(t testing.TB) *scaled { return underKEDA(t, map[string]any{"minReplicaCount": 2}) }
	up := map[string]any{"by": int64(2)}
	tests := map[string]struct {
		x      func(testing.TB) *scaled
		change func(*scaled)
		with   map[string]any
		reason fault.Reason
		text   string
	}{
		"Argo CD": {underHPA, mark("annotations", "argocd.argoproj.io/tracking-id", "models:autoscaling/HorizontalPodAutoscaler:serving/auto"), up, fault.Owned, "spec.minReplicas of HorizontalPodAutoscaler serving/auto belongs to Argo CD application models"},
		"Flux":    {keda, mark("labels", "helm.toolkit.fluxcd.io/name", "models"), up, fault.Owned, "suspend the HelmRelease"},
		"a generator": {underHPA, func(x *scaled) {
			x.Change(hpaPath, func(o map[string]any) {
				o["metadata"].(map[string]any)["ownerReferences"] = []any{map[string]any{"kind": "InferenceService", "name": "chat", "uid": "u", "controller": true}}
			})
		}, up, fault.Owned, "InferenceService chat"},
		"paused":             {keda, mark("annotations", "autoscaling.keda.sh/paused", "true"), up, fault.OutOfBounds, "autoscaling.keda.sh/paused: true"},
		"paused at a number": {keda, mark("annotations", "autoscaling.keda.sh/paused-replicas", "3"), up, fault.OutOfBounds, "remove the annotation first"},
		"beyond max_scale":   {underHPA, func(*scaled) {}, map[string]any{"replicas": int64(7)}, fault.OutOfBounds, "7 replicas are more than the 6 allowed; kube.scale: spec.replicas of Deployment serving/chat belongs to HorizontalPodAutoscaler auto"},
		"switched off": {underHPA, func(x *scaled) {
			x.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["replicas"] = 0.0 })
		}, up, fault.OutOfBounds, "0 replicas"},
		"held by the metrics": {underHPA, func(*scaled) {}, map[string]any{"by": int64(-1)}, fault.NothingToDo, "the metrics of HorizontalPodAutoscaler serving/auto ask for the 3 replicas"},
		"two of them": {keda, func(x *scaled) {
			x.Change(hpaPath, func(o map[string]any) { delete(o["metadata"].(map[string]any), "ownerReferences") })
		}, up, fault.Ambiguous, "ScaledObject auto and HorizontalPodAutoscaler auto at once"},
		"bounds that are none": {underHPA, func(*scaled) {}, map[string]any{"by": int64(-1), "bounds": "2-4"}, fault.Invalid, "want MIN..MAX"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			x := tt.x(t)
			tt.change(x)
			o := x.run(t, "r-1", machine.ActionPlan, tt.with, nil, nil)
			if o.Status != machine.StatusRefused || o.Reason != tt.reason || !strings.Contains(o.Message, tt.text) {
				t.Errorf("%s %s %q, want refused %s ...%s...", o.Status, o.Reason, o.Message, tt.reason, tt.text)
			}
			if w := x.Writes(); len(w) > 0 {
				t.Errorf("wrote %v", w)
			}
		})
	}
}

// TestAutoscalerStaysOwned: without a way to change autoscalers, kube.scale says who
// owns the replicas, as Argo CD's workload does without a repository.
func TestAutoscalerStaysOwned(t *testing.T) {
	x := underHPA(t)
	d := x.deps(t)
	d.Scalers = nil
	e := machine.Effect{Action: machine.ActionPlan, Step: "kube.scale", With: map[string]any{"by": int64(1)}}
	if o := do(t, d, e); o.Reason != fault.Owned {
		t.Errorf("without autoscalers: %s %s", o.Reason, o.Message)
	}
	x.Change(kubetest.Path(ref("Deployment")), func(o map[string]any) {
		o["metadata"].(map[string]any)["labels"] = map[string]any{"argocd.argoproj.io/instance": "models"}
	})
	if o := do(t, x.deps(t), e); o.Reason != fault.Owned || !strings.Contains(o.Message, "Argo CD application models") {
		t.Errorf("with Argo CD's workload: %s %s", o.Reason, o.Message)
	}
}

// TestAutoscalerFollows: more replicas than the lower bound are the autoscaler's choice,
// and fewer are waited for.
func TestAutoscalerFollows(t *testing.T) {
	x := underHPA(t)
	with := map[string]any{"by": int64(2)}
	plan := x.run(t, "r-1", machine.ActionPlan, with, nil, nil).Plan
	receipt := x.run(t, "r-1", machine.ActionApply, with, plan, nil).Data
	settle := func() machine.Outcome { return x.run(t, "r-1", machine.ActionSettle, with, plan, receipt) }
	if o := settle(); o.Status != machine.StatusPending || !strings.Contains(o.Message, "has not set them yet") {
		t.Errorf("before the autoscaler acts: %s %s", o.Status, o.Message)
	}
	x.settle(t)
	x.Edit(kubetest.Path(ref("Deployment")), func(spec map[string]any) { spec["replicas"] = 6.0 })
	x.Edit(hpaPath, func(spec map[string]any) { spec["targetCPU"] = 1.0 }) // another field than its bounds
	if o := settle(); o.Status != machine.StatusPending && o.Status != machine.StatusOK {
		t.Errorf("while it adds more: %s %s", o.Status, o.Message)
	}
	undone := x.run(t, "r-1", machine.ActionUndo, with, plan, receipt)
	if undone.Status != machine.StatusOK {
		t.Fatalf("undo: %s %s", undone.Status, undone.Message)
	}
	if o := x.run(t, "r-1", machine.ActionUnwind, with, plan, receipt); o.Status != machine.StatusPending || !strings.Contains(o.Message, "above 4 away yet") {
		t.Errorf("before the autoscaler takes them away: %s %s", o.Status, o.Message)
	}
	if _, err := kube.ParseBounds("4"); err == nil {
		t.Error("bounds without an end are read")
	}
}

// underArgo is a workload that only an autoscaler owns, which Argo CD deploys.
type underArgo struct{ fleet }

func (underArgo) Workload(ctx context.Context, r kube.Ref) (kube.Workload, error) {
	w, err := argoFleet{}.Workload(ctx, r)
	w.Owners = []kube.Owner{{Field: "spec.replicas", Kind: kube.HPA, Name: "chat", Why: "its scaleTargetRef names the workload"}}
	return w, err
}

func (f underArgo) AutoscalerOf(ctx context.Context, r kube.Ref) (kube.Autoscaler, error) {
	a, err := f.fleet.AutoscalerOf(ctx, r)
	a.Owners = []kube.Owner{{Field: "*", Kind: "ArgoCD", Name: "argocd/chat", Why: "annotation argocd.argoproj.io/tracking-id"}}
	return a, err
}

// TestAutoscalerInGit: an autoscaler that Argo CD deploys is changed in Git where the
// service says where that is, and left alone where it does not.
func TestAutoscalerInGit(t *testing.T) {
	svc := service("Deployment")
	svc.GitOps.Application = "argocd/chat"
	for _, kind := range []string{"kube.scale", "kube.autoscaler"} {
		w := inGit(true)
		w.deps.Workloads, w.deps.Changer, w.deps.Scalers = underArgo{}, fleet{}, underArgo{}
		e := machine.Effect{Key: "r-1/fix#1/plan#1", Run: "r-1", Action: machine.ActionPlan, Step: kind, With: map[string]any{"by": int64(1)}, Service: svc}
		// The tree of this test has no autoscaler, so that a commit would change nothing.
		want(t, kind, kinds.New(w.deps).Do(t.Context(), e), machine.StatusRefused, "gitops.set_replicas: a commit would not change what runs")
		e.Service = service("Deployment")
		want(t, kind+" without a place in Git", kinds.New(w.deps).Do(t.Context(), e), machine.StatusRefused, "HorizontalPodAutoscaler serving/chat belongs to Argo CD application argocd/chat")
	}
}
