package kinds_test

import (
	"context"
	"encoding/json"
	"flag"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// prom answers each expression with what was put there; freshness questions
// with an age.
type prom struct {
	values   map[string][]float64
	warnings []string
	age      time.Duration
	err      error
}

func (p prom) Instant(_ context.Context, expr string, at time.Time) (slo.Vector, error) {
	if strings.HasPrefix(expr, "label_replace(max(timestamp") {
		return slo.Vector{Samples: []slo.Sample{{Value: float64(at.Add(-p.age).Unix())}}}, nil
	}
	v := slo.Vector{Warnings: p.warnings}
	for _, x := range p.values[expr] {
		v.Samples = append(v.Samples, slo.Sample{Labels: map[string]string{"pod": "a"}, Value: x, At: at})
	}
	return v, p.err
}

func (p prom) Range(_ context.Context, expr string, from, _ time.Time, step time.Duration) (slo.Matrix, error) {
	var s slo.Series
	for i, x := range p.values[expr] {
		s.Points = append(s.Points, slo.Point{At: from.Add(time.Duration(i) * step), Value: x})
	}
	return slo.Matrix{Series: []slo.Series{s}}, p.err
}

// fleet is a workload in trouble after a rollout.
type fleet struct{}

func (fleet) Workload(context.Context, kube.Ref) (kube.Workload, error) {
	return kube.Workload{
		Ref: ref("Deployment"), APIVersion: "apps/v1", UID: "uid-chat", Generation: 7, Observed: 7,
		Replicas: 3, Ready: 2, Updated: 2, Available: 2, Unavailable: 1, Revision: 5, Template: "chat-6d5f",
		Strategy: kube.Strategy{Type: "RollingUpdate", MaxUnavailable: 1, MaxSurge: 1},
		Stuck:    `ProgressDeadlineExceeded: ReplicaSet "chat-6d5f" has timed out progressing.`,
		Pods: []kube.Pod{
			{Name: "chat-1", Node: "node-a", Phase: "Running", Ready: true, ReadySince: noon.Add(-50 * time.Hour), Revision: 4},
			{Name: "chat-2", Node: "node-b", Phase: "Running", Ready: true, ReadySince: noon.Add(-49 * time.Hour), Revision: 4},
			{Name: "chat-3", Node: "node-b", Phase: "Running", Revision: 5, Restarts: 6, OOMKilled: true, Waiting: "CrashLoopBackOff"},
			{Name: "chat-4", Phase: "Pending", Revision: 5, Message: "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."},
		},
		Events: []kube.EventCount{{Reason: "BackOff", Object: "Pod/chat-3", Message: "Back-off restarting failed container", Count: 12}},
	}, nil
}

func (fleet) Nodes(context.Context, kube.Ref) ([]kube.Node, error) {
	return []kube.Node{{Name: "node-a", Ready: true, Pods: 1}, {Name: "node-b", Ready: true, Conditions: []string{"GPUUnhealthy=True"}, Unschedulable: true, Pods: 2}}, nil
}

func (fleet) Revisions(context.Context, kube.Ref) ([]kube.Revision, error) {
	return []kube.Revision{
		{Number: 3, Created: noon.Add(-72 * time.Hour), Fields: map[string]string{"containers[vllm].image": "vllm:v0.10"}},
		{Number: 4, Created: noon.Add(-48 * time.Hour), Fields: map[string]string{"containers[vllm].image": "vllm:v0.10", "containers[vllm].args[--max-num-seqs]": "256"}},
		{Number: 5, Created: noon.Add(-12 * time.Minute), Current: true, Cause: "bump", Fields: map[string]string{"containers[vllm].image": "vllm:v0.11", "containers[vllm].env[X]": "1"}},
	}, nil
}

func (fleet) Scale(_ context.Context, c kube.ScaleChange) (kube.Applied, error) {
	return kube.Applied{Replicas: c.Replicas}, nil
}

func (fleet) Undo(context.Context, kube.UndoChange) (kube.Applied, error) {
	return kube.Applied{}, nil
}

func (fleet) Restart(context.Context, kube.RestartChange) (kube.Applied, error) {
	return kube.Applied{}, nil
}

func (fleet) Hold(context.Context, kube.HoldChange) (kube.Applied, error) {
	return kube.Applied{}, nil
}

// AutoscalerOf is an autoscaler that has no more to give.
func (f fleet) AutoscalerOf(ctx context.Context, _ kube.Ref) (kube.Autoscaler, error) {
	return f.Autoscaler(ctx, kube.Ref{Kind: kube.HPA, Namespace: "serving", Name: "chat"})
}

func (fleet) Autoscaler(_ context.Context, ref kube.Ref) (kube.Autoscaler, error) {
	return kube.Autoscaler{
		Ref: ref, APIVersion: "autoscaling/v2", UID: "uid-hpa", Bounds: kube.Bounds{Min: new(2), Max: new(4)}, Current: 3, Desired: 4,
		Limited: "the desired replica count is more than the maximum replica count",
	}, nil
}

func (f fleet) SetBounds(ctx context.Context, c kube.BoundsChange) (kube.Autoscaler, error) {
	a, err := f.Autoscaler(ctx, c.Ref)
	a.Bounds = c.To
	return a, err
}

// Capacity has room for one more replica, and a training job on the other nodes.
func (fleet) Capacity(context.Context, kube.Ref) (kube.Capacity, error) {
	return kube.Capacity{
		Needs: "1 nvidia.com/gpu, 8 cpu", GPUs: 1, Fits: 1, Free: 1, Room: []kube.Room{{Node: "node-a", Fits: 2}}, Waiting: 1, Below: 4,
		Refusals: []kube.Refusal{{Why: "too few free nvidia.com/gpu", Nodes: 6}, {Why: "cordoned", Nodes: 1}},
		Quotas:   []kube.Exceeded{{Quota: "team", Resource: "requests.nvidia.com/gpu", Left: "3", Fits: 3}},
		Ignored:  []string{"topology spread constraints"},
	}, nil
}

// Log has what the engine of chat-3 said as it ended, and nothing of the others.
func (fleet) Log(_ context.Context, q kube.LogQuery) (string, error) {
	if q.Pod != "chat-3" || !q.Previous {
		return "INFO 05-04 11:59:58 [logger.py:39] Received request cmpl-1: prompt: 'hunter2'\n", nil
	}
	return strings.Join([]string{
		"INFO 05-04 11:51:02 [core.py:58] Initializing a V1 LLM engine, HF_TOKEN=hf_0123456789abcdef0123",
		"WARNING 05-04 11:52:02 [utils.py:1] reading with HF_TOKEN=hf_0123456789abcdef0123",
		"ERROR 05-04 11:53:00 [core.py:718] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.64 GiB.",
		"ERROR 05-04 11:53:01 [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
	}, "\n"), nil
}

// Events has a warning, a scaling, and more nodes than are asked.
func (fleet) Events(context.Context, kube.Ref, time.Time) ([]kube.EventCount, []string, error) {
	return []kube.EventCount{
		{Reason: "ScalingReplicaSet", Object: "Deployment/chat", Message: "Scaled up replica set chat-6d5f from 0 to 1", Normal: true, Count: 1, Last: noon.Add(-2 * time.Minute)},
		{Reason: "BackOff", Object: "Pod/chat-3", Message: "Back-off restarting failed container", Count: 12, Last: noon.Add(-3 * time.Minute)},
	}, []string{"the events of 2 more nodes"}, nil
}

// notSimulated are the fields that a check leaves out where nothing was measured, as
// in the sandbox, which has no more than some hours of history.
var notSimulated = map[string][]string{
	"engine.compare":   {"ratio_before"}, // of replicas that a release replaced
	"engine.snapshot":  {"draft_acceptance_rate", "transfer_failures_per_second"},
	"engine.probe":     {"ttft_p50", "ttft_max", "itl_p50"},
	"engine.readiness": {"usual_loading_seconds", "longest_usual_loading_seconds", "youngest_ready_seconds"},
	"slo.burn":         {"budget_left", "exhausted_in"},
	"traffic.shape":    {"rate_times_day", "rate_times_week", "prompt_times_day", "prompt_times_week"},
}

// TestKinds holds every kind to its declaration: a name, a role and a doc for
// all and everything, and evidence or a plan as the golden file has it, whose
// fields are exactly the declared ones.
func TestKinds(t *testing.T) {
	const query = `sum(rate(vllm:request_success_total[5m]))`
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	with := map[string]map[string]any{
		"prometheus.query":  {"query": query, "range": "10m"},
		"slo.burn":          nil,
		"slo.headroom":      {"by": int64(-1)},
		"engine.compare":    nil,
		"engine.crashes":    nil,
		"engine.kv_fit":     nil,
		"engine.probe":      nil,
		"engine.progress":   nil,
		"engine.readiness":  nil,
		"engine.snapshot":   nil,
		"gpu.health":        nil,
		"fleet.breaches":    nil,
		"http.probe":        {"path": "/health?x=1"},
		"job.run":           runsJob("clear-cache"),
		"kube.autoscaler":   {"by": int64(2)},
		"kube.capacity":     nil,
		"kube.changes":      {"window": "1h"},
		"kube.events":       nil,
		"kube.logs":         nil,
		"kube.pending":      nil,
		"kube.scale":        {"by": int64(2)},
		"kube.workload":     nil,
		"kube.replace_pod":  {"pod": "chat-0"},
		"kube.restart":      nil,
		"kube.rollout_undo": nil,
		"rollout.hold":      nil,
		"service.changes":   nil,
		"service.rollback":  nil,

		"gpu.reset_request":   {"node": "node-0", "gpus": "GPU-8f6d", "reason": "row remapping failed"},
		"node.cordon":         {"node": "node-0"},
		"node.drain":          {"node": "node-0"},
		"node.status":         nil,
		"node.taint":          {"node": "node-0"},
		"node.uncordon":       {"node": "node-0"},
		"node.untaint":        {"node": "node-0"},
		"pod.evict":           {"pod": "chat-0"},
		"pod.evict_from_node": {"node": "node-0"},

		"argocd.rollback":     nil,
		"argocd.sync":         nil,
		"gitops.changes":      {"window": "1h"},
		"gitops.revert":       {"window": "1h"},
		"gitops.set_flag":     seqs,
		"gitops.set_replicas": {"by": int64(2)},
		"traffic.shape":       nil,
		"traffic.shift":       {"by": int64(50)},
		"traffic.split":       nil,
	}
	svc := service("Deployment")
	svc.Endpoint = srv.URL
	querier := prom{values: map[string][]float64{query: {2, 4, 3}}, age: 20 * time.Second}
	live := kinds.New(step.Deps{Querier: querier, Workloads: fleet{}, Changer: fleet{}, Scalers: fleet{}, Capacity: fleet{}, Logs: fleet{}, Events: fleet{}, GPUs: gpus{"node-b": overheated}, Now: func() time.Time { return noon }})
	for _, k := range kinds.Declarations() {
		t.Run(k.Name, func(t *testing.T) {
			if k.Doc == "" || (k.Role != playbook.RoleCheck && k.Role != playbook.RoleLever) {
				t.Errorf("role %q, doc %q", k.Role, k.Doc)
			}
			documented(t, k.Name, append(append([]playbook.Field{}, k.With...), k.Out...))
			args, known := with[k.Name]
			if !known {
				t.Fatal("this test knows no parameters for it: give it some")
			}
			e := machine.Effect{Key: "r-1/s#1/x#1", Run: "r-1", Step: k.Name, Service: svc, With: args, Action: machine.ActionCheck}
			if k.Role == playbook.RoleLever {
				e.Action = machine.ActionPlan
			}
			live := live
			if strings.HasPrefix(k.Name, "slo.") || k.Name == "service.changes" || strings.HasPrefix(k.Name, "engine.") || k.Name == "traffic.shape" {
				live, e.Service = badRelease(t)
			}
			if k.Name == "job.run" {
				live = kinds.New(jobDeps(t, cluster(t, "Deployment").Client(t)))
			}
			if k.Name == "traffic.shift" || k.Name == "traffic.split" {
				w := warmWorld(t, warmCluster(t, kube.HTTPRoute), kube.HTTPRoute)
				live, e.Service = kinds.New(w.Deps), w.Service
			}
			o := stepsFor(t, k.Name, live).Do(t.Context(), e)
			if o.Status != machine.StatusOK {
				t.Fatalf("%s %s %s", o.Status, o.Reason, o.Message)
			}
			if k.Role == playbook.RoleCheck {
				conforms(t, k.Name, o.Data, k.Out, notSimulated[k.Name]...)
			}
			golden(t, k.Name, struct {
				Facts []string        `json:"facts"`
				Out   json.RawMessage `json:"out,omitempty"`
				Plan  *machine.Plan   `json:"plan,omitempty"`
			}{o.Facts, o.Data, o.Plan}, srv.URL)
		})
	}
}

func documented(t *testing.T, path string, fields []playbook.Field) {
	t.Helper()
	for _, f := range fields {
		if f.Doc == "" || f.Type.Name == "" {
			t.Errorf("%s.%s: doc %q, type %q", path, f.Name, f.Doc, f.Type.Name)
		}
		documented(t, path+"."+f.Name, f.Type.Fields)
		if f.Type.Elem != nil {
			documented(t, path+"."+f.Name, f.Type.Elem.Fields)
		}
	}
}

// conforms fails unless an object holds exactly declared fields; those that are not
// always measured may be absent.
func conforms(t *testing.T, path string, data json.RawMessage, fields []playbook.Field, absent ...string) {
	t.Helper()
	var got map[string]json.RawMessage
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, f := range fields {
		raw, ok := got[f.Name]
		delete(got, f.Name)
		if !ok {
			if !slices.Contains(absent, f.Name) {
				t.Errorf("%s.%s is declared and not there", path, f.Name)
			}
			continue
		}
		if f.Type.Name == playbook.List && f.Type.Elem.Name == playbook.Object {
			var items []json.RawMessage
			if err := json.Unmarshal(raw, &items); err != nil || items == nil {
				t.Errorf("%s.%s: %v in %s", path, f.Name, err, raw)
			}
			for _, item := range items {
				conforms(t, path+"."+f.Name, item, f.Type.Elem.Fields, absent...)
			}
		}
		if string(raw) == "null" {
			t.Errorf("%s.%s is null", path, f.Name)
		}
	}
	for name := range got {
		t.Errorf("%s.%s is not declared", path, name)
	}
}

func golden(t *testing.T, name string, v any, url string) {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(string(b), url, "http://chat.serving:8000") + "\n"
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func do(t *testing.T, d step.Deps, e machine.Effect) machine.Outcome {
	t.Helper()
	d.Now = func() time.Time { return noon }
	e.Key, e.Run = "r-1/s#1/x#1", "r-1"
	if e.Service.Name == "" {
		e.Service = service("Deployment")
	}
	return kinds.New(d).Do(t.Context(), e)
}

// TestQueryStatus: every way in which a number can be worthless has its name,
// and then there is no number.
func TestQueryStatus(t *testing.T) {
	tests := []struct {
		name   string
		values []float64
		age    time.Duration
		want   string
		value  bool
	}{
		{"ok", []float64{0.25}, time.Minute, "ok", true},
		{"empty", nil, 0, "empty", false},
		{"nan", []float64{math.NaN()}, 0, "nan", false},
		{"infinite", []float64{math.Inf(1)}, 0, "nan", false},
		{"stale", []float64{0.25}, 3 * time.Minute, "stale", false},
		{"stale wins over nan", []float64{math.NaN()}, 3 * time.Minute, "stale", false},
		{"two series", []float64{1, 2}, 0, "ok", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := do(t, step.Deps{Querier: prom{values: map[string][]float64{"up": tt.values}, age: tt.age}}, machine.Effect{
				Action: machine.ActionCheck, Step: "prometheus.query", With: map[string]any{"query": "up"},
			})
			var out map[string]any
			if err := json.Unmarshal(o.Data, &out); err != nil {
				t.Fatalf("%v: %s", err, o.Message)
			}
			if _, value := out["value"]; out["status"] != tt.want || value != tt.value {
				t.Errorf("got %s, want status %s, value %v", o.Data, tt.want, tt.value)
			}
		})
	}
}

func TestQueryThatCannotBeAsked(t *testing.T) {
	check := func(q step.Querier, with map[string]any) machine.Outcome {
		return do(t, step.Deps{Querier: q}, machine.Effect{Action: machine.ActionCheck, Step: "prometheus.query", With: with})
	}
	down := prom{err: &fault.Error{Reason: fault.Unreachable, Message: "down"}}
	for name, tt := range map[string]struct {
		o    machine.Outcome
		want fault.Reason
	}{
		"unreachable":    {check(down, map[string]any{"query": "up"}), fault.Unreachable},
		"not configured": {check(nil, map[string]any{"query": "up"}), fault.Invalid},
		"no query":       {check(prom{}, nil), fault.Invalid},
		"no duration":    {check(prom{}, map[string]any{"query": "up", "range": "5 minutes"}), fault.Invalid},
		"too fine":       {check(prom{}, map[string]any{"query": "up", "range": "7d", "step": "1s"}), fault.Invalid},
	} {
		if tt.o.Status != machine.StatusFailed || tt.o.Reason != tt.want || tt.o.Message == "" {
			t.Errorf("%s: %s %s %q, want failed %s", name, tt.o.Status, tt.o.Reason, tt.o.Message, tt.want)
		}
	}
}

func proofOf(p machine.Proof) machine.Effect {
	p.Spec.Hold, p.Spec.Interval = time.Minute, 15*time.Second
	p.Spec.Until = []machine.Expectation{{Query: "slow", Op: "<", Value: 0.01}}
	p.Spec.ErrorRatio, p.Spec.Objective, p.Spec.MaxBurn = "bad[${since}]", 0.99, 1
	p.Spec.Traffic, p.Spec.MinRate, p.Spec.MinTraffic = "sum(rate(reqs[2m]))", 0.1, 0.5
	p.FixedAt, p.Before = noon.Add(-5*time.Minute), 10
	return machine.Effect{
		Action: machine.ActionVerify, Step: "kube.scale", Proof: &p,
		// The fleet stands as this left it.
		Plan:    &machine.Plan{Target: machine.Target{UID: "uid-chat", Generation: 6}, Payload: []byte(`{"from":1,"to":3}`)},
		Receipt: []byte(`{"action":"apply","uid":"uid-chat","generation":7}`),
	}
}

// TestVerify: what the world says becomes the verdict that package slo gives.
func TestVerify(t *testing.T) {
	good := func() map[string][]float64 {
		return map[string][]float64{"slow": {0.001, 0.002}, "bad[300s]": {0.005}, "sum(rate(reqs[2m]))": {9}}
	}
	held := machine.Proof{HeldFrom: noon.Add(-2 * time.Minute), LastAt: noon.Add(-15 * time.Second)}
	tests := []struct {
		name   string
		change func(*prom)
		want   machine.Verdict
		reason fault.Reason
	}{
		{"all good", func(*prom) {}, machine.VerdictVerified, ""},
		{"the worst series counts", func(p *prom) { p.values["slow"] = []float64{0.001, 0.5} }, machine.VerdictWatching, fault.NotMet},
		{"one series is not a number", func(p *prom) { p.values["slow"] = []float64{0.001, math.NaN()} }, machine.VerdictInconclusive, fault.NotANumber},
		{"burning", func(p *prom) { p.values["bad[300s]"] = []float64{0.5} }, machine.VerdictWatching, fault.Burning},
		{"missing", func(p *prom) { delete(p.values, "slow") }, machine.VerdictInconclusive, fault.NoData},
		{"traffic left", func(p *prom) { p.values["sum(rate(reqs[2m]))"] = []float64{1} }, machine.VerdictInconclusive, fault.NoTraffic},
		{"stale", func(p *prom) { p.age = 3 * time.Minute }, machine.VerdictInconclusive, fault.Stale},
		{"partial answer", func(p *prom) { p.warnings = []string{"one store did not answer"} }, machine.VerdictInconclusive, fault.NoData},
		{"remark on style", func(p *prom) { p.warnings = []string{"PromQL info: metric might not be a counter"} }, machine.VerdictVerified, ""},
		{"unreachable", func(p *prom) { p.err = &fault.Error{Reason: fault.Unreachable} }, machine.VerdictInconclusive, fault.Unreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := prom{values: good(), age: 20 * time.Second}
			tt.change(&p)
			e := proofOf(held)
			// The freshness of "bad[300s]" cannot be asked: it is no expression.
			e.Proof.Spec.ErrorRatio = "max_over_time(bad[${since}])"
			p.values["max_over_time(bad[300s])"] = p.values["bad[300s]"]
			o := do(t, step.Deps{Querier: p, Workloads: fleet{}}, e)
			if o.Status != machine.StatusOK || o.Sample == nil || o.Sample.Verdict != tt.want || o.Sample.Reason != tt.reason {
				t.Fatalf("%s %s: %+v", o.Status, o.Message, o.Sample)
			}
			if len(o.Sample.Values) != 3 || !o.Sample.At.Equal(noon) {
				t.Errorf("sample %+v", o.Sample)
			}
			if _, err := json.Marshal(o); err != nil {
				t.Errorf("cannot be journaled: %v", err)
			}
		})
	}
}

// Samples from before the change was in effect prove nothing, however short the
// hold is.
func TestVerifyNeedsSamplesAfterTheFix(t *testing.T) {
	e := proofOf(machine.Proof{})
	e.Proof.Spec.Hold, e.Proof.Spec.ErrorRatio = 15*time.Second, ""
	e.Proof.FixedAt, e.Proof.HeldFrom = noon.Add(-30*time.Second), noon.Add(-20*time.Second)
	e.Proof.LastAt = noon.Add(-15 * time.Second)
	for age, want := range map[time.Duration]machine.Verdict{20 * time.Second: machine.VerdictVerified, 40 * time.Second: machine.VerdictInconclusive} {
		p := prom{values: map[string][]float64{"slow": {0.001}, "sum(rate(reqs[2m]))": {9}}, age: age}
		if o := do(t, step.Deps{Querier: p, Workloads: fleet{}}, e); o.Sample == nil || o.Sample.Verdict != want {
			t.Errorf("samples %s old, 30s after the fix: %+v, want %s", age, o.Sample, want)
		}
	}
}

// TestVerifyLooksAtTheTarget: good numbers prove nothing about a change that
// someone else has replaced since.
func TestVerifyLooksAtTheTarget(t *testing.T) {
	e := proofOf(machine.Proof{})
	e.Receipt = []byte(`{"action":"apply","uid":"uid-chat","generation":6}`)
	if o := do(t, step.Deps{Querier: prom{}, Workloads: fleet{}}, e); o.Status != machine.StatusForeign || o.Reason != fault.ForeignChange {
		t.Errorf("%s %s %s", o.Status, o.Reason, o.Message)
	}
}

// changedOnce is a workload that somebody else changes after it was read once.
type changedOnce struct {
	fleet
	reads *int
}

func (c changedOnce) Workload(ctx context.Context, ref kube.Ref) (kube.Workload, error) {
	w, err := c.fleet.Workload(ctx, ref)
	if *c.reads++; *c.reads > 1 {
		w.Replicas = 5
		w.Generation++
	}
	return w, err
}

// TestVerifyLooksAgain: a change by somebody else while the numbers are read is not
// reported as our success.
func TestVerifyLooksAgain(t *testing.T) {
	e := proofOf(machine.Proof{})
	e.Proof.Spec.ErrorRatio = ""
	e.Proof.HeldFrom, e.Proof.LastAt = noon.Add(-2*time.Minute), noon.Add(-15*time.Second)
	p := prom{values: map[string][]float64{"slow": {0.001}, "sum(rate(reqs[2m]))": {9}}, age: 20 * time.Second}
	if o := do(t, step.Deps{Querier: p, Workloads: fleet{}}, e); o.Sample == nil || o.Sample.Verdict != machine.VerdictVerified {
		t.Fatalf("without a change: %s %s %+v", o.Status, o.Message, o.Sample)
	}
	o := do(t, step.Deps{Querier: p, Workloads: changedOnce{reads: new(int)}}, e)
	if o.Status != machine.StatusForeign || o.Reason != fault.ForeignChange {
		t.Errorf("%s %s %s %+v", o.Status, o.Reason, o.Message, o.Sample)
	}
}

// TestTrafficBefore: without it the proof could never be made, so nothing is
// changed.
func TestTrafficBefore(t *testing.T) {
	const traffic = "sum(rate(reqs[2m]))"
	for name, tt := range map[string]struct {
		p      prom
		status machine.Status
		before float64
	}{
		"known":       {prom{values: map[string][]float64{traffic: {7}}}, machine.StatusOK, 7},
		"none at all": {prom{}, machine.StatusOK, 0},
		"unreachable": {prom{err: &fault.Error{Reason: fault.Unreachable}}, machine.StatusFailed, -1},
		"not known":   {prom{values: map[string][]float64{traffic: {math.NaN()}}}, machine.StatusFailed, -1},
	} {
		e := proofOf(machine.Proof{})
		e.Action = machine.ActionApply
		e.Plan = &machine.Plan{Step: "kube.scale", Payload: []byte(`{"from":3,"to":5}`)}
		c := &counting{}
		o := do(t, step.Deps{Querier: tt.p, Workloads: fleet{}, Changer: c}, e)
		if o.Status != tt.status {
			t.Errorf("%s: %s %s", name, o.Status, o.Message)
		}
		if (c.n == 1) != (tt.status == machine.StatusOK) {
			t.Errorf("%s: %d writes", name, c.n)
		}
		if tt.before >= 0 && (o.Before == nil || *o.Before != tt.before) {
			t.Errorf("%s: before %v", name, o.Before)
		}
	}
}

type counting struct {
	fleet
	n int
}

func (c *counting) Scale(ctx context.Context, ch kube.ScaleChange) (kube.Applied, error) {
	c.n++
	return c.fleet.Scale(ctx, ch)
}
