package sandbox

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/kube"
)

// ailingWorld is the scenario without an incident but for an ailing GPU, the
// fourth of the first node.
func ailingWorld(t *testing.T, kind ailing) (*World, *Clock) {
	t.Helper()
	s := trafficBurst()
	s.services[0].traffic = nil
	s.nodes[0].ailments = []ailment{{gpu: 3, from: -12 * time.Minute, kind: kind, drag: 7}}
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	clock := NewManualClock(start)
	return build(s, clock, start, nil), clock
}

func judged(t *testing.T, w *World, clock *Clock) map[string]judge.NodeJudgement {
	t.Helper()
	nodes, err := w.GPUNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]judge.NodeJudgement{}
	for _, a := range w.Snapshots(t.Context(), nodes, 0) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		if _, err := gpu.Encode(a.Snapshot); err != nil {
			t.Fatalf("what the sandbox says of %s is not what an agent may say: %v", a.Node, err)
		}
	}
	for _, j := range judge.Answers(clock.Now(), w.Snapshots(t.Context(), nodes, 0)) {
		out[j.Node] = j
	}
	return out
}

func TestGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		kind ailing
		want judge.Verdict
	}{
		"hot":     {hot, judge.Throttled},
		"failing": {failing, judge.Failing},
	} {
		t.Run(name, func(t *testing.T) {
			w, clock := ailingWorld(t, c.kind)
			got := judged(t, w, clock)
			if len(got) != 8 {
				t.Fatalf("%d nodes, want 8", len(got))
			}
			for node, j := range got {
				want := judge.Healthy
				if node == "gpu-h100-01" {
					want = c.want
				}
				if j.Verdict != want || len(j.GPUs) != 8 {
					t.Errorf("%s is %s with %d GPUs, want %s with 8: %+v", node, j.Verdict, len(j.GPUs), want, j)
				}
			}
			if v := got["gpu-h100-01"].GPUs[3].Verdict; v != c.want {
				t.Errorf("the fourth GPU is %s, want %s", v, c.want)
			}
		})
	}
}

// TestHeatGoesWithTheLoad: a GPU that is too hot under load cools down when its
// pods are gone, and what it slowed down is fast again.
func TestHeatGoesWithTheLoad(t *testing.T) {
	w, clock := ailingWorld(t, hot)
	_, ref := chat(w)
	now := workload(t, w, ref)
	if now.Pods[0].Node != "gpu-h100-01" {
		t.Fatalf("the first pod is on %s, want it on the hot node", now.Pods[0].Node)
	}
	if w.fleets[0].pods[0].drag != 7 || w.fleets[0].pods[1].drag != 0 {
		t.Errorf("drags are %v and %v, want 7 for the pod on the hot node and 0 for another", w.fleets[0].pods[0].drag, w.fleets[0].pods[1].drag)
	}
	for _, f := range w.fleets {
		n := workload(t, w, f.ref)
		if _, err := w.Scale(t.Context(), kube.ScaleChange{Ref: f.ref, Replicas: 0, Pre: pre(n)}); err != nil {
			t.Fatal(err)
		}
	}
	clock.Set(clock.Now().Add(18 * time.Minute))
	if got := judged(t, w, clock)["gpu-h100-01"]; got.Verdict != judge.Healthy {
		t.Errorf("without load the node is %s, want healthy: %+v", got.Verdict, got.GPUs[3])
	}
}
