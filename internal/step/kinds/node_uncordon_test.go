package kinds_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step"
	gpusteps "github.com/inference-responder/responder/internal/step/gpu"
)

// agentOf answers for the GPUs of node-0, as far back as it is asked.
type agentOf func(g *gpu.GPU)

func (f agentOf) Snapshots(_ context.Context, nodes []string, back time.Duration) []gpu.Answer {
	return f.at(atNoon(), nodes, back)
}

func (f agentOf) at(now time.Time, nodes []string, back time.Duration) []gpu.Answer {
	g := well(nodes[0], 1)
	g.TakenAt, g.EventsSince, g.Minutes = now, now.Add(-24*time.Hour), nil
	for at := now.Add(-max(back, 10*time.Minute) - time.Minute); at.Before(now); at = at.Add(time.Minute) {
		g.Minutes = append(g.Minutes, gpu.Minute{Start: at, Samples: 60, GPUMaxC: gpu.Known[int64](60)})
	}
	f(&g)
	return []gpu.Answer{{Node: nodes[0], Snapshot: gpu.Snapshot{
		Format: gpu.Format, Node: nodes[0], Source: "nvml", TakenAt: now, Since: now.Add(-24 * time.Hour), PeriodMS: 1000, GPUs: []gpu.GPU{g},
	}}}
}

// later is that agent, asked an hour after noon: it was started half an hour ago,
// unless it has watched all day.
type later struct {
	agentOf
	allDay bool
}

func (l later) Snapshots(_ context.Context, nodes []string, back time.Duration) []gpu.Answer {
	now := atNoon().Add(time.Hour)
	out := l.at(now, nodes, back)
	if !l.allDay {
		out[0].Snapshot.Since = now.Add(-30 * time.Minute)
		out[0].Snapshot.GPUs[0].EventsSince = now.Add(-30 * time.Minute)
	}
	return out
}

// watchedFor is an agent that has watched events for that long; -1: nobody knows.
type watchedFor time.Duration

func (w watchedFor) Snapshots(_ context.Context, nodes []string, back time.Duration) []gpu.Answer {
	out := agentOf(func(*gpu.GPU) {}).at(atNoon(), nodes, back)
	out[0].Snapshot.GPUs[0].EventsSince = time.Time{}
	if w >= 0 {
		out[0].Snapshot.GPUs[0].EventsSince = atNoon().Add(-time.Duration(w))
	}
	return out
}

// silent is an agent that does not answer.
type silent struct{}

func (silent) Snapshots(_ context.Context, nodes []string, _ time.Duration) []gpu.Answer {
	return []gpu.Answer{{Node: nodes[0], Err: errors.New("the agent does not answer")}}
}

// TestUncordonWantsProof: by the history of the agent, or by dcgm-exporter's
// series alone; what is not known of any part of the time is no proof.
func TestUncordonWantsProof(t *testing.T) {
	dcgm := func(p exported) step.GPUs {
		p.t, p.node, p.asked = t, "node-0", new([]string)
		return gpusteps.DCGM{Querier: p, NodeLabel: "Hostname", Now: atNoon}
	}
	minute := func(back int, change func(*gpu.Minute)) agentOf {
		return func(g *gpu.GPU) { change(&g.Minutes[len(g.Minutes)-1-back]) }
	}
	for name, c := range map[string]struct {
		gpus  step.GPUs
		world func(*nodeTrial)
		says  string // of the refusal, or of the proof
		ok    bool
	}{
		"by the agent":                  {gpus: agentOf(func(*gpu.GPU) {}), ok: true, says: "its GPUs are healthy for 11m by nvml"},
		"by dcgm-exporter":              {gpus: dcgm(exported{}), ok: true, says: "its GPUs are healthy for 15m by dcgm"},
		"nothing tells":                 {says: "its GPUs: neither node agents nor dcgm-exporter are configured"},
		"no answer":                     {gpus: silent{}, says: "its GPUs: unknown: no readings of the node's GPUs: the agent does not answer"},
		"the agent has just started":    {gpus: agentOf(func(g *gpu.GPU) { g.Minutes = g.Minutes[len(g.Minutes)-4:] }), says: "its GPUs are healthy for 4m, wanted are 10m: GPU 1: nothing is remembered before 11:56:00 UTC"},
		"its events are younger":        {gpus: watchedFor(3 * time.Minute), says: "its GPUs are healthy for 3m, wanted are 10m: GPU 1: its events (XIDs) are not known before 11:57:00 UTC"},
		"since when is not known":       {gpus: watchedFor(-1), says: "its GPUs are healthy for 0s, wanted are 10m: GPU 1: it is unknown since when its events (XIDs) are recorded"},
		"it did not answer in between":  {gpus: agentOf(func(g *gpu.GPU) { g.Minutes = append(g.Minutes[:4:4], g.Minutes[8:]...) }), says: "healthy for 3m, wanted are 10m: GPU 1: nothing is known from 11:53:00 to 11:57:00 UTC"},
		"it could not read":             {gpus: minute(6, func(m *gpu.Minute) { m.Samples, m.Missed = 20, 40 }), says: "healthy for 6m, wanted are 10m: GPU 1: 20 samples of 60 in the minute from 11:53:00 UTC"},
		"it was slow":                   {gpus: minute(8, func(m *gpu.Minute) { m.Reasons = map[gpu.Reasons]int{gpu.SWThermalSlowdown: 1} }), says: "healthy for 8m, wanted are 10m: GPU 1: software thermal slowdown in the minute from 11:51:00 UTC"},
		"its temperature was not read":  {gpus: minute(8, func(m *gpu.Minute) { m.GPUMaxC = gpu.Unknown[int64](gpu.Timeout) }), says: "healthy for 8m, wanted are 10m: GPU 1: a temperature that was not answered in time in the minute from 11:51:00 UTC"},
		"nothing tells the limit":       {gpus: dcgm(exported{without: "DCGM_FI_DEV_SLOWDOWN_TEMP"}), says: "healthy for 0s, wanted are 10m: GPU 0: a temperature of which the limit is not exported"},
		"it changed its P-state":        {gpus: minute(8, func(m *gpu.Minute) { m.Reasons = map[gpu.Reasons]int{gpu.HWSlowdown: 1} }), ok: true, says: "healthy for 11m"},
		"the exporter was not scraped":  {gpus: dcgm(exported{gap: 5 * time.Minute}), says: "healthy for 4m30s, wanted are 10m: GPU 0: its events (XIDs) are not known before 11:55:30 UTC"},
		"nor is it now":                 {gpus: dcgm(exported{scraped: 2 * time.Minute}), says: "its GPUs: unknown: GPU 0: "},
		"none is offered":               {gpus: silent{}, world: offered("nvidia.com/gpu", "0"), says: "its GPUs: unknown: no readings of the node's GPUs: the agent does not answer"},
		"none offered, none asked":      {world: offered("amd.com/gpu", "0"), says: "its GPUs: neither node agents nor dcgm-exporter are configured"},
		"it has none":                   {world: offered("cpu", "8"), ok: true, says: "it has no GPUs"},
		"one is lost, says the node":    {gpus: agentOf(func(*gpu.GPU) {}), world: counted("node-0", "2", nil), says: "1 of its GPUs are seen; by the label nvidia.com/gpu.count node node-0 has 2"},
		"one is lost, says the pool":    {gpus: agentOf(func(*gpu.GPU) {}), world: counted("node-2", "8", nil), says: "1 of its GPUs are seen; by the label nvidia.com/gpu.count node node-2 has 8"},
		"none is lost":                  {gpus: agentOf(func(*gpu.GPU) {}), world: counted("node-2", "1", nil), ok: true, says: "healthy for 11m"},
		"the other is another machine":  {gpus: agentOf(func(*gpu.GPU) {}), world: counted("node-2", "8", map[string]any{"node.kubernetes.io/instance-type": "p5.48xlarge"}), ok: true, says: "healthy for 11m"},
		"instances are counted":         {gpus: agentOf(func(*gpu.GPU) {}), world: counted("node-0", "7", map[string]any{"nvidia.com/gpu.product": "NVIDIA-H200-MIG-1g.18gb"}), ok: true, says: "healthy for 11m"},
		"a condition was bad till then": {gpus: agentOf(func(*gpu.GPU) {}), world: conditionUntil(2 * time.Minute), says: "ready, with good conditions, for 2m, wanted are 10m"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newNodeTrial(t, "node.uncordon", map[string]any{"healthy_for": "10m"})
			ourCordon(x.Server)
			if c.world != nil {
				c.world(x)
			}
			x.deps.GPUs = c.gpus
			o := x.do(t, machine.ActionPlan, nil, "")
			if c.ok {
				if o.Status != machine.StatusOK || !strings.Contains(o.Plan.Notes[0], c.says) {
					t.Errorf("plan: %s %s %+v, want the proof %q", o.Status, o.Message, o.Plan, c.says)
				}
				return
			}
			if o.Reason != fault.NotMet || !strings.Contains(o.Message, c.says) {
				t.Errorf("plan: %s %s %s, want %q", o.Status, o.Reason, o.Message, c.says)
			}
		})
	}
}

// conditionUntil gives node-0 a condition that was bad until that long ago.
func conditionUntil(ago time.Duration) func(*nodeTrial) {
	return func(x *nodeTrial) {
		x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
			status := n["status"].(map[string]any)
			status["conditions"] = append(status["conditions"].([]any), map[string]any{
				"type": "GpuXidError", "status": "False", "lastTransitionTime": atNoon().Add(-ago).Format(time.RFC3339),
			})
		})
	}
}

// offered makes that resource the only one of node-0.
func offered(name, count string) func(*nodeTrial) {
	return func(x *nodeTrial) {
		x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
			n["status"].(map[string]any)["capacity"] = map[string]any{name: count}
		})
	}
}

// counted gives a node GPU feature discovery's count, and more labels.
func counted(node, count string, more map[string]any) func(*nodeTrial) {
	return func(x *nodeTrial) {
		x.Change(kubetest.NodePath(node), func(n map[string]any) {
			labels := n["metadata"].(map[string]any)["labels"].(map[string]any)
			labels["nvidia.com/gpu.count"] = count
			maps.Copy(labels, more)
		})
	}
}
