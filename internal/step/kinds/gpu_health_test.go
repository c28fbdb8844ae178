package kinds_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// gpus answers for nodes of two healthy GPUs each, changed by what is there
// for the node. The pods of the test's fleet are on node-a and node-b.
type gpus map[string]func(*gpu.Answer)

func (g gpus) Snapshots(_ context.Context, nodes []string, _ time.Duration) []gpu.Answer {
	var out []gpu.Answer
	for _, n := range nodes {
		a := gpu.Answer{Node: n, Snapshot: gpu.Snapshot{
			Format: gpu.Format, Node: n, Source: "nvml", TakenAt: noon.Add(-2 * time.Second), PeriodMS: 1000,
			GPUs: []gpu.GPU{well(n, 0), well(n, 1)},
		}}
		if change := g[n]; change != nil {
			change(&a)
		}
		out = append(out, a)
	}
	return out
}

func well(node string, index int) gpu.GPU {
	no, none := gpu.Known(false), gpu.Known[uint64](0)
	g := gpu.GPU{
		UUID: fmt.Sprintf("GPU-%s-%d", node, index), Index: index, Name: "NVIDIA H100 80GB HBM3", TakenAt: noon.Add(-2 * time.Second),
		Clocks:        gpu.Clocks{Reasons: gpu.Known(gpu.Reasons(0))},
		Temperature:   gpu.Temperature{GPUC: gpu.Known[int64](60), SlowdownC: gpu.Known[int64](92)},
		ECC:           gpu.ECC{Enabled: gpu.Known(true), VolatileUncorrectable: none},
		Rows:          gpu.Rows{Pending: no, Failed: no},
		EventsWatched: gpu.Known(true), Pods: gpu.Known([]gpu.Pod{}),
	}
	for i := range 5 {
		g.Minutes = append(g.Minutes, gpu.Minute{Start: noon.Add(time.Duration(i-5) * time.Minute), Samples: 60, GPUMaxC: gpu.Known[int64](60)})
	}
	return g
}

// overheated makes the second GPU of a node slow down for heat.
func overheated(a *gpu.Answer) {
	g := &a.Snapshot.GPUs[1]
	g.Clocks.Reasons = gpu.Known(gpu.HWThermalSlowdown)
	for i := range g.Minutes {
		g.Minutes[i].Reasons = map[gpu.Reasons]int{gpu.HWThermalSlowdown: 60}
	}
}

func heldBy(index int, pod string) func(*gpu.Answer) {
	return func(a *gpu.Answer) {
		a.Snapshot.GPUs[index].Pods = gpu.Known([]gpu.Pod{{Namespace: "serving", Name: pod}})
	}
}

func both(changes ...func(*gpu.Answer)) func(*gpu.Answer) {
	return func(a *gpu.Answer) {
		for _, c := range changes {
			c(a)
		}
	}
}

type health struct {
	Verdict      string   `json:"verdict"`
	Throttle     string   `json:"throttle"`
	Reset        bool     `json:"reset"`
	Why          string   `json:"why"`
	Node         string   `json:"node"`
	GPU          string   `json:"gpu"`
	HealthyNodes int      `json:"healthy_nodes"`
	UnknownNodes int      `json:"unknown_nodes"`
	UnreadNodes  int      `json:"unread_nodes"`
	BadNodes     int      `json:"bad_nodes"`
	HotNodes     int      `json:"hot_nodes"`
	BadPods      []string `json:"bad_pods"`
	Nodes        []struct {
		Name        string  `json:"name"`
		Verdict     string  `json:"verdict"`
		NodeVerdict string  `json:"node_verdict"`
		AgeSeconds  float64 `json:"age_seconds"`
	} `json:"nodes"`
}

func askHealth(t *testing.T, d step.Deps, with map[string]any) (health, machine.Outcome) {
	t.Helper()
	o := do(t, d, machine.Effect{Action: machine.ActionCheck, Step: "gpu.health", With: with})
	var h health
	if o.Status == machine.StatusOK {
		if err := json.Unmarshal(o.Data, &h); err != nil {
			t.Fatal(err)
		}
	}
	return h, o
}

func TestGPUHealth(t *testing.T) {
	for name, c := range map[string]struct {
		gpus step.GPUs
		with map[string]any
		want health
		why  string
	}{
		"all well": {gpus: gpus{}, want: health{Verdict: "healthy", HealthyNodes: 2}},
		"one node overheated": {
			gpus: gpus{"node-b": overheated}, want: health{Verdict: "throttled", Throttle: "thermal", HotNodes: 1, Node: "node-b", HealthyNodes: 1, BadNodes: 1, BadPods: []string{"chat-2", "chat-3"}},
			why: "GPU 1 on node node-b: hardware thermal slowdown since 11:55 UTC",
		},
		"the overheated GPU is another service's": {
			gpus: gpus{"node-b": both(overheated, heldBy(0, "chat-2"), heldBy(1, "other-1"))}, want: health{Verdict: "healthy", HealthyNodes: 2},
		},
		"the overheated GPU is ours": {
			gpus: gpus{"node-b": both(overheated, heldBy(0, "other-1"), heldBy(1, "chat-3"))}, want: health{Verdict: "throttled", Throttle: "thermal", HotNodes: 1, Node: "node-b", HealthyNodes: 1, BadNodes: 1, BadPods: []string{"chat-2", "chat-3"}},
		},
		"who holds it cannot be read": {
			gpus: gpus{"node-b": both(overheated, heldBy(0, "chat-2"), func(a *gpu.Answer) { a.Snapshot.GPUs[1].Pods = gpu.Unknown[[]gpu.Pod](gpu.NotRead) })},
			want: health{Verdict: "throttled", Throttle: "thermal", HotNodes: 1, Node: "node-b", HealthyNodes: 1, BadNodes: 1, BadPods: []string{"chat-2", "chat-3"}},
		},
		"a node does not answer": {
			gpus: gpus{"node-a": func(a *gpu.Answer) { a.Err = errors.New("no answer within 2s") }}, want: health{Verdict: "unknown", HealthyNodes: 1, UnknownNodes: 1},
			why: "node node-a: no readings of the node's GPUs: no answer within 2s",
		},
		"a node answers for another": {
			gpus: gpus{"node-a": func(a *gpu.Answer) { a.Snapshot.Node = "node-b" }}, want: health{Verdict: "unknown", HealthyNodes: 1, UnknownNodes: 1},
			why: `about node "node-b"`,
		},
		"an old answer": {
			gpus: gpus{"node-a": func(a *gpu.Answer) {
				for i := range a.Snapshot.GPUs {
					a.Snapshot.GPUs[i].TakenAt = noon.Add(-time.Minute)
				}
			}}, want: health{Verdict: "unknown", HealthyNodes: 1, UnknownNodes: 1},
			why: "1m0s old",
		},
		"worse wins over unknown": {
			gpus: gpus{"node-a": func(a *gpu.Answer) { a.Err = errors.New("down") }, "node-b": overheated},
			want: health{Verdict: "throttled", Throttle: "thermal", HotNodes: 1, Node: "node-b", UnknownNodes: 1, BadNodes: 1, BadPods: []string{"chat-2", "chat-3"}},
		},
		"a GPU has left": {
			gpus: gpus{"node-b": func(a *gpu.Answer) { a.Snapshot.Expected = gpu.Known[int64](8) }},
			want: health{Verdict: "failing", Node: "node-b", HealthyNodes: 1, BadNodes: 1, BadPods: []string{"chat-2", "chat-3"}},
			why:  "node node-b: 2 of 8 GPUs are there",
		},
		"two hot nodes, one of which fails for something else": {
			gpus: gpus{"node-a": both(overheated, func(a *gpu.Answer) { a.Snapshot.GPUs[0].Rows.Failed = gpu.Known(true) }), "node-b": overheated},
			want: health{Verdict: "failing", HotNodes: 2, Node: "node-a", BadNodes: 2, BadPods: []string{"chat-1", "chat-2", "chat-3"}},
		},
		"one node by its name": {
			gpus: gpus{"node-z": both(overheated, heldBy(0, "other-1"))}, with: map[string]any{"node": "node-z"},
			want: health{Verdict: "throttled", Throttle: "thermal", HotNodes: 1, Node: "node-z", BadNodes: 1},
		},
		"the node of the alert, whose bad GPU another service has": {
			gpus: gpus{"node-b": both(overheated, heldBy(0, "chat-2"), heldBy(1, "other-1"))}, with: map[string]any{"also": "node-b"},
			want: health{Verdict: "throttled", Throttle: "thermal", HotNodes: 1, Node: "node-b", GPU: "GPU-node-b-1", HealthyNodes: 1, BadNodes: 1, BadPods: []string{"chat-2", "chat-3"}},
		},
		"the node of the alert, where the service is not": {
			gpus: gpus{"node-z": overheated}, with: map[string]any{"also": "node-z"},
			want: health{Verdict: "throttled", Throttle: "thermal", HotNodes: 1, Node: "node-z", GPU: "GPU-node-z-1", HealthyNodes: 2, BadNodes: 1},
		},
		"no node of the alert": {gpus: gpus{}, with: map[string]any{"also": ""}, want: health{Verdict: "healthy", HealthyNodes: 2}},
		"the nodes of the service are bad, that of the alert is well": {
			gpus: gpus{"node-a": overheated}, with: map[string]any{"also": "node-z"},
			want: health{Verdict: "throttled", Throttle: "thermal", HotNodes: 1, Node: "node-a", GPU: "GPU-node-a-1", HealthyNodes: 2, BadNodes: 1, BadPods: []string{"chat-1"}},
		},
		"nothing configured": {want: health{Verdict: "unknown", UnknownNodes: 2}, why: "set gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			d := step.Deps{Workloads: fleet{}}
			if c.gpus != nil {
				d.GPUs = c.gpus
			}
			got, o := askHealth(t, d, c.with)
			if o.Status != machine.StatusOK {
				t.Fatalf("%s %s", o.Status, o.Message)
			}
			if got.Verdict != c.want.Verdict || got.Throttle != c.want.Throttle || got.Node != c.want.Node || got.HealthyNodes != c.want.HealthyNodes ||
				got.UnknownNodes != c.want.UnknownNodes || got.BadNodes != c.want.BadNodes || got.HotNodes != c.want.HotNodes || !slices.Equal(got.BadPods, c.want.BadPods) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if unread := got.UnknownNodes; c.gpus != nil && got.UnreadNodes != unread || c.gpus == nil && got.UnreadNodes != 0 {
				t.Errorf("%d of %d unknown nodes were not read", got.UnreadNodes, unread)
			}
			if c.want.GPU != "" && got.GPU != c.want.GPU {
				t.Errorf("the worst GPU is %q, want %q", got.GPU, c.want.GPU)
			}
			if !strings.Contains(got.Why, c.why) || (got.Why == "") != (got.Verdict == "healthy") {
				t.Errorf("why is %q, want %q", got.Why, c.why)
			}
		})
	}
}

// nobody is a workload without a pod that runs.
type nobody struct{ fleet }

func (nobody) Workload(context.Context, kube.Ref) (kube.Workload, error) {
	return kube.Workload{Pods: []kube.Pod{{Name: "chat-1", Phase: "Pending"}}}, nil
}

func TestGPUHealthThatCannotBeAsked(t *testing.T) {
	if h, _ := askHealth(t, step.Deps{Workloads: nobody{}, GPUs: gpus{}}, nil); h.Verdict != "unknown" || !strings.Contains(h.Why, "no pod") {
		t.Errorf("without a pod: got %+v, want unknown", h)
	}
	two := map[string]any{"node": "node-a", "also": "node-b"}
	if _, o := askHealth(t, step.Deps{Workloads: fleet{}, GPUs: gpus{}}, two); o.Status != machine.StatusFailed || o.Reason != fault.Invalid {
		t.Errorf("one node alone, and another too: got %s %q", o.Status, o.Message)
	}
	if _, o := askHealth(t, step.Deps{GPUs: gpus{}}, nil); o.Status != machine.StatusFailed || !strings.Contains(o.Message, "kubernetes") {
		t.Errorf("without a cluster: got %s %q", o.Status, o.Message)
	}
}

// A repair is asked for of the node that is taken out, and of the GPU there that
// needs it, which need not be the worst.
func TestGPUHealthRepair(t *testing.T) {
	type repair struct {
		Node       string   `json:"node"`
		GPU        string   `json:"gpu"`
		Reset      bool     `json:"reset"`
		RMA        bool     `json:"rma"`
		RepairGPUs []string `json:"repair_gpus"`
		RepairWhy  string   `json:"repair_why"`
	}
	pending := func(index int) func(*gpu.Answer) { // a reset, of a GPU that is degraded
		return func(a *gpu.Answer) { a.Snapshot.GPUs[index].Rows.Pending = gpu.Known(true) }
	}
	spent := func(index int) func(*gpu.Answer) { // a replacement, of one that fails
		return func(a *gpu.Answer) { a.Snapshot.GPUs[index].Rows.Failed = gpu.Known(true) }
	}
	const aReset = "a memory row waits for a reset to be remapped"
	for name, c := range map[string]struct {
		gpus gpus
		want repair
	}{
		"nothing is wrong":             {gpus{}, repair{RepairGPUs: []string{}}},
		"the worst node needs none":    {gpus{"node-a": pending(0), "node-b": overheated}, repair{Node: "node-b", GPU: "GPU-node-b-1", RepairGPUs: []string{}}},
		"the worst node needs less":    {gpus{"node-a": pending(0), "node-b": spent(1)}, repair{"node-b", "GPU-node-b-1", false, true, []string{"GPU-node-b-1"}, "GPU 1 on node node-b: a memory row could not be remapped: no spare row is left"}},
		"the worst GPU needs none":     {gpus{"node-b": both(pending(0), overheated)}, repair{"node-b", "GPU-node-b-1", true, false, []string{"GPU-node-b-0"}, "GPU 0 on node node-b: " + aReset}},
		"one too hot needs it as well": {gpus{"node-b": both(overheated, pending(1))}, repair{"node-b", "GPU-node-b-1", true, false, []string{"GPU-node-b-1"}, "GPU 1 on node node-b: " + aReset}},
		"one to be replaced comes first": {
			gpus{"node-b": both(pending(0), spent(1))},
			repair{
				"node-b", "GPU-node-b-1", true, true,
				[]string{"GPU-node-b-1", "GPU-node-b-0"},
				"GPU 1 on node node-b: a memory row could not be remapped: no spare row is left; GPU 0: " + aReset,
			},
		},
		"two need the same": {
			gpus{"node-b": both(pending(0), pending(1))},
			repair{"node-b", "GPU-node-b-0", true, false, []string{"GPU-node-b-0", "GPU-node-b-1"}, "GPUs 0, 1 on node node-b: " + aReset},
		},
		"another service's needs it": {gpus{"node-b": both(heldBy(0, "chat-2"), heldBy(1, "other-1"), pending(1))}, repair{RepairGPUs: []string{}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := do(t, step.Deps{Workloads: fleet{}, GPUs: c.gpus}, machine.Effect{Action: machine.ActionCheck, Step: "gpu.health"})
			var got repair
			if err := json.Unmarshal(o.Data, &got); o.Status != machine.StatusOK || err != nil {
				t.Fatalf("%s %s: %v", o.Status, o.Message, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A GPU that has left the bus needs a repair, though nobody can say which it is.
func TestGPUHealthOfAGPUThatLeft(t *testing.T) {
	left := func(a *gpu.Answer) { a.Snapshot.Expected = gpu.Known[int64](8) }
	pending := func(a *gpu.Answer) { a.Snapshot.GPUs[0].Rows.Pending = gpu.Known(true) }
	const gone = "node node-b: 2 of 8 GPUs are there; the others have left the bus"
	for name, c := range map[string]struct {
		gpus  gpus
		reset bool
		why   string
	}{
		"alone":                {gpus{"node-b": left}, true, gone},
		"beside another":       {gpus{"node-b": both(left, pending)}, true, "GPU 0 on node node-b: a memory row waits for a reset to be remapped; " + gone},
		"on a node that stays": {gpus{"node-b": overheated}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := do(t, step.Deps{Workloads: fleet{}, GPUs: c.gpus}, machine.Effect{Action: machine.ActionCheck, Step: "gpu.health"})
			var got struct {
				Node       string   `json:"node"`
				Reset      bool     `json:"reset"`
				RepairGPUs []string `json:"repair_gpus"`
				RepairWhy  string   `json:"repair_why"`
			}
			if err := json.Unmarshal(o.Data, &got); err != nil {
				t.Fatalf("%v: %+v", err, o)
			}
			if got.Node != "node-b" || got.Reset != c.reset || got.RepairWhy != c.why || got.RepairGPUs == nil || len(got.RepairGPUs) > 0 {
				t.Errorf("got %+v, want reset %v of no GPU that has a name: %q", got, c.reset, c.why)
			}
		})
	}
}
