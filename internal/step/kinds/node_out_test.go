package kinds_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube/kubetest"
	"github.com/inference-responder/responder/internal/step"
)

const (
	whenOut = "responder.dev/gpus-when-out"
	bootA   = "0a8a2f7e-6a1c-4d27-9f0e-5c0b7f3d1e11"
	bootB   = "b1d5f3c2-0a67-4f3e-8a39-9d7e1c6b2f22"
)

// annotation returns what the node has there.
func (x *nodeTrial) annotation(t *testing.T, key string) string {
	t.Helper()
	n, err := x.Client(t).Node(t.Context(), "node-0")
	if err != nil {
		t.Fatal(err)
	}
	return n.Annotations[key]
}

// edit changes the stored node.
func (x *nodeTrial) edit(change func(metadata, status map[string]any)) {
	x.Change(kubetest.NodePath("node-0"), func(n map[string]any) {
		for _, key := range []string{"annotations", "labels"} {
			if m := n["metadata"].(map[string]any); m[key] == nil {
				m[key] = map[string]any{}
			}
		}
		change(n["metadata"].(map[string]any), n["status"].(map[string]any))
	})
}

// boots changes the boot id of the node.
func (x *nodeTrial) boots(id string) {
	x.edit(func(_, status map[string]any) { status["nodeInfo"] = map[string]any{"bootID": id} })
}

// xid is an agent that has seen one.
func xid(code uint64) agentOf {
	return func(g *gpu.GPU) {
		g.Events = []gpu.Event{{At: atNoon().Add(-40 * time.Minute), Type: gpu.EventXID, Data: code}}
	}
}

// TestWhatGPUsNeededIsKept: what takes a node out keeps on the node what its GPUs
// need then, what is found later is added, and an undo takes it away.
func TestWhatGPUsNeededIsKept(t *testing.T) {
	const at = "2026-05-04T12:00:00Z boot=" + bootA
	for name, c := range map[string]struct {
		kind string
		gpus step.GPUs
		with map[string]any
		bad  map[string]string // conditions that others on the node set
		want string
	}{
		"well":                         {kind: "node.cordon", gpus: agentOf(func(*gpu.GPU) {}), want: at},
		"an application's fault":       {kind: "node.cordon", gpus: xid(31), want: at},
		"fallen off the bus":           {kind: "node.cordon", gpus: xid(79), want: at + " reset=GPU-node-0-1"},
		"drained":                      {kind: "node.drain", gpus: xid(95), want: at + " reset=GPU-node-0-1"},
		"tainted":                      {kind: "node.taint", gpus: xid(95), want: at + " reset=GPU-node-0-1"},
		"tainted mildly":               {kind: "node.taint", gpus: xid(95), with: map[string]any{"effect": "PreferNoSchedule"}, want: ""},
		"to be replaced":               {kind: "node.drain", gpus: xid(64), want: at + " replace=GPU-node-0-1"},
		"an XID that nobody knows":     {kind: "node.drain", gpus: xid(999), want: at + " unseen"},
		"the agent does not answer":    {kind: "node.drain", gpus: silent{}, want: at + " unseen"},
		"nobody tells of GPUs":         {kind: "node.drain", want: at + " unseen"},
		"a UUID that is none":          {kind: "node.drain", gpus: agentOf(func(g *gpu.GPU) { xid(79)(g); g.UUID = "GPU-1 boot=x" }), want: at + " unseen"},
		"one of its GPUs is not there": {kind: "node.drain", gpus: missingOne{}, want: at + " reset=some"},
		"one at fault, one not known":  {kind: "node.drain", gpus: twoGPUs{hot, unread}, want: at + " unseen"},
		"hot, the rest of it unread":   {kind: "node.drain", gpus: agentOf(func(g *gpu.GPU) { hot(g); g.Rows, g.Pages = gpu.Rows{}, gpu.Pages{} }), want: at + " unseen"},
		"one for a reset, one unread":  {kind: "node.drain", gpus: twoGPUs{xid(79), unread}, want: at + " reset=GPU-node-0-1 unseen"},
		"others tell of it":            {kind: "node.drain", gpus: agentOf(func(*gpu.GPU) {}), bad: map[string]string{"GpuXidError": "True", "KernelDeadlock": "True"}, want: at + " told=GpuXidError"},
		"two of them, and the agent":   {kind: "node.cordon", gpus: xid(79), bad: map[string]string{"GPUMissing": "Unknown", "AcceleratedHardwareReady": "False"}, want: at + " reset=GPU-node-0-1 told=AcceleratedHardwareReady,GPUMissing"},
		"all is well, say others":      {kind: "node.drain", gpus: agentOf(func(*gpu.GPU) {}), bad: map[string]string{"GpuXidError": "False"}, want: at},
		"for a reset, the rest unread": {kind: "node.drain", gpus: agentOf(func(g *gpu.GPU) { xid(79)(g); unread(g) }), want: at + " reset=GPU-node-0-1"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newNodeTrial(t, c.kind, c.with)
			x.boots(bootA)
			x.deps.GPUs = c.gpus
			x.edit(func(_, status map[string]any) {
				for name, value := range c.bad {
					status["conditions"] = append(status["conditions"].([]any), map[string]any{"type": name, "status": value})
				}
			})
			plan := x.applied(t)
			if got := x.annotation(t, whenOut); got != c.want {
				t.Errorf("kept is %q, want %q", got, c.want)
			}
			if o := x.do(t, machine.ActionUndo, plan, ""); o.Status != machine.StatusOK {
				t.Fatalf("undo: %s %s", o.Status, o.Message)
			}
			if got := x.annotation(t, whenOut); got != "" {
				t.Errorf("undone, the node still has %q", got)
			}
		})
	}
}

// missingOne is a node of two GPUs that shows one.
type missingOne struct{}

func (missingOne) Snapshots(_ context.Context, nodes []string, back time.Duration) []gpu.Answer {
	out := agentOf(func(*gpu.GPU) {}).at(atNoon(), nodes, back)
	out[0].Snapshot.Expected = gpu.Known[int64](2)
	return out
}

// twoGPUs is a node with two GPUs.
type twoGPUs [2]agentOf

func (b twoGPUs) Snapshots(_ context.Context, nodes []string, back time.Duration) []gpu.Answer {
	out := b[0].at(atNoon(), nodes, back)
	second := b[1].at(atNoon(), nodes, back)[0].Snapshot.GPUs[0]
	second.UUID, second.Index = "GPU-node-0-2", 2
	out[0].Snapshot.GPUs = append(out[0].Snapshot.GPUs, second)
	return out
}

// hot is a GPU that is slowed down by heat, which no reset mends.
func hot(g *gpu.GPU) {
	g.Clocks.Reasons = gpu.Known(gpu.HWThermalSlowdown)
	for i := range g.Minutes {
		g.Minutes[i].Reasons = map[gpu.Reasons]int{gpu.HWThermalSlowdown: 60}
	}
}

// unread is one of which the memory errors are not known.
func unread(g *gpu.GPU) { g.ECC = gpu.ECC{} }

// TestWhatGPUsNeededIsAdded: to a node that is out already.
func TestWhatGPUsNeededIsAdded(t *testing.T) {
	for name, c := range map[string]struct{ before, want string }{
		"nothing was wrong": {"2026-05-04T11:00:00Z boot=" + bootA, "2026-05-04T12:00:00Z boot=" + bootA + " reset=GPU-node-0-1"},
		"others":            {"2026-05-04T11:00:00Z boot=" + bootA + " reset=GPU-z replace=GPU-y unseen", "2026-05-04T12:00:00Z boot=" + bootA + " reset=GPU-node-0-1,GPU-z replace=GPU-y unseen"},
		"a condition":       {"2026-05-04T11:00:00Z boot=" + bootA + " told=GpuXidError", "2026-05-04T12:00:00Z boot=" + bootA + " reset=GPU-node-0-1 told=GpuXidError"},
		"the same":          {"2026-05-04T11:00:00Z boot=" + bootA + " reset=GPU-node-0-1", "2026-05-04T12:00:00Z boot=" + bootA + " reset=GPU-node-0-1"},
		"the boot unknown":  {"2026-05-04T11:00:00Z reset=GPU-z", "2026-05-04T12:00:00Z reset=GPU-node-0-1,GPU-z"},
		"no words of ours":  {"later", "later"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newNodeTrial(t, "node.drain", nil)
			ourCordon(x.Server)
			x.boots(bootA)
			x.edit(func(m, _ map[string]any) { m["annotations"].(map[string]any)[whenOut] = c.before })
			x.deps.GPUs = xid(79)
			plan := x.applied(t)
			if got := x.annotation(t, whenOut); got != c.want {
				t.Errorf("kept is %q, want %q", got, c.want)
			}
			if o := x.do(t, machine.ActionUndo, plan, ""); o.Status != machine.StatusOK || x.annotation(t, whenOut) != c.want {
				t.Errorf("undo of the drain alone: %s %s, kept is %q; want it to stay", o.Status, o.Message, x.annotation(t, whenOut))
			}
		})
	}
	x := newNodeTrial(t, "node.cordon", nil)
	x.boots(bootA)
	x.edit(func(m, _ map[string]any) {
		m["annotations"].(map[string]any)[whenOut] = "2026-05-04T11:00:00Z boot=x reset=GPU-z"
	})
	if x.applied(t); x.annotation(t, whenOut) != "2026-05-04T12:00:00Z boot="+bootA {
		t.Errorf("of a time when the node was let back in by others is kept %q", x.annotation(t, whenOut))
	}
}

// TestUncordonAfterTheAgentForgot: the node went out for an XID that needs a
// reset. The agent was started anew, and says that all is well.
func TestUncordonAfterTheAgentForgot(t *testing.T) {
	note := func(text string) func(x *nodeTrial) {
		return func(x *nodeTrial) {
			x.edit(func(m, _ map[string]any) { m["annotations"].(map[string]any)[whenOut] = text })
		}
	}
	asked := func(at, key string, labels map[string]any) func(x *nodeTrial) {
		return func(x *nodeTrial) {
			x.edit(func(m, _ map[string]any) {
				m["annotations"].(map[string]any)["responder.dev/gpu-reset-request"] = key + " " + at
				m["annotations"].(map[string]any)["responder.dev/gpu-reset-requested"] = "GPU GPU-node-0-1: XID 95"
				for k, v := range labels {
					m["labels"].(map[string]any)[k] = v
				}
			})
		}
	}
	reboot := func(x *nodeTrial) { x.boots(bootB) }
	const needs = "GPU-node-0-1 needed a reset or a reboot when it went out at 2026-05-04 12:00 UTC, and "
	for name, c := range map[string]struct {
		world []func(*nodeTrial)
		says  string // of the refusal; empty: the node comes back
	}{
		"not rebooted":          {nil, needs + "it was not rebooted since; if it was repaired without a reboot"},
		"rebooted":              {[]func(*nodeTrial){reboot}, ""},
		"its boot is not known": {[]func(*nodeTrial){func(x *nodeTrial) { x.boots("") }}, needs + "it is unknown whether it was rebooted since"},
		"nor was it then":       {[]func(*nodeTrial){note("2026-05-04T12:00:00Z reset=GPU-node-0-1")}, needs + "it is unknown whether it was rebooted since"},
		"somebody's word": {[]func(*nodeTrial){func(x *nodeTrial) {
			x.edit(func(m, _ map[string]any) { delete(m["annotations"].(map[string]any), whenOut) })
		}}, ""},
		"the request is answered": {[]func(*nodeTrial){asked("2026-05-04T12:10:00Z", "r-1/ask#1/apply#1", nil)}, ""},
		"another one was":         {[]func(*nodeTrial){asked("2026-05-04T11:10:00Z", "r-1/ask#1/apply#1", nil)}, needs},
		"it was taken back":       {[]func(*nodeTrial){asked("2026-05-04T12:10:00Z", "r-1/ask#1/undo#1", nil)}, needs},
		"it is being answered":    {[]func(*nodeTrial){asked("2026-05-04T12:10:00Z", "r-1/ask#1/apply#1", map[string]any{"responder.dev/repair": "in-progress"})}, "kubectl label node node-0 responder.dev/repair-"},
		"nobody had the request": {[]func(*nodeTrial){asked("2026-05-04T12:10:00Z", "r-1/ask#1/apply#1", nil), func(x *nodeTrial) {
			x.edit(func(m, _ map[string]any) {
				m["annotations"].(map[string]any)["responder.dev/gpu-reset-requested"] = "asking for GPU GPU-node-0-1: XID 95"
			})
		}}, "the requests that were answered since did not cover all of that"},
		"too little was known":        {[]func(*nodeTrial){note("2026-05-04T12:00:00Z boot=" + bootA + " unseen")}, "too little was known of its GPUs when it went out"},
		"others told of a fault":      {[]func(*nodeTrial){note("2026-05-04T12:00:00Z boot=" + bootA + " told=GPUMissing,GpuXidError")}, "GPUMissing, GpuXidError told of a fault of its GPUs when it went out at 2026-05-04 12:00 UTC, and it was not rebooted since"},
		"they did, and a reboot":      {[]func(*nodeTrial){note("2026-05-04T12:00:00Z boot=" + bootA + " told=GpuXidError"), reboot}, ""},
		"all that can be at once":     {[]func(*nodeTrial){note("2026-05-04T12:00:00Z boot=" + bootA + " reset=GPU-a told=GpuXidError unseen")}, "GPU-a needed a reset or a reboot, and GpuXidError told of a fault of its GPUs, and of others too little was known when it went out"},
		"was to be replaced":          {[]func(*nodeTrial){note("2026-05-04T12:00:00Z boot=" + bootA + " replace=GPU-node-0-1"), reboot}, "GPU-node-0-1 was to be replaced when it went out at 2026-05-04 12:00 UTC, and is still there"},
		"was replaced":                {[]func(*nodeTrial){note("2026-05-04T12:00:00Z boot=" + bootA + " replace=GPU-old"), reboot}, ""},
		"one had left the bus":        {[]func(*nodeTrial){note("2026-05-04T12:00:00Z boot=" + bootA + " reset=some")}, "one of its GPUs needed a reset or a reboot when it went out"},
		"it needed nothing":           {[]func(*nodeTrial){note("2026-05-04T12:00:00Z boot=" + bootA)}, ""},
		"somebody wrote into it":      {[]func(*nodeTrial){note("mended"), reboot}, `"mended" does not begin with a time; whoever knows`},
		"or something new":            {[]func(*nodeTrial){note("2026-05-04T12:00:00Z boot=" + bootA + " firmware=1"), reboot}, `"firmware=1" is an unknown field of it`},
		"rebooted, and none is there": {[]func(*nodeTrial){reboot, offered("cpu", "8")}, "it shows no GPUs now, but had some when it went out at 2026-05-04 12:00 UTC"},
		"none needed anything, or is": {[]func(*nodeTrial){note("2026-05-04T12:00:00Z boot=" + bootA), offered("cpu", "8")}, "it shows no GPUs now"},
		"and the node has no GPUs?":   {[]func(*nodeTrial){offered("cpu", "8")}, needs + "it was not rebooted since"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newNodeTrial(t, "node.cordon", nil)
			x.boots(bootA)
			x.deps.GPUs = xid(95)
			x.applied(t)
			x.kind, x.with, x.now = "node.uncordon", map[string]any{"node": "node-0", "healthy_for": "10m"}, atNoon().Add(time.Hour)
			x.deps.GPUs = later{agentOf: func(*gpu.GPU) {}, allDay: true}
			for _, change := range c.world {
				change(x)
			}
			o := x.do(t, machine.ActionPlan, nil, "")
			if c.says != "" {
				if o.Reason != fault.NotMet || !strings.Contains(o.Message, c.says) {
					t.Errorf("plan: %s %s %s, want %q", o.Status, o.Reason, o.Message, c.says)
				}
				return
			}
			if o.Status != machine.StatusOK {
				t.Fatalf("plan: %s %s %s", o.Status, o.Reason, o.Message)
			}
			before := x.annotation(t, whenOut)
			if a := x.do(t, machine.ActionApply, o.Plan, ""); a.Status != machine.StatusOK || x.annotation(t, whenOut) != "" {
				t.Errorf("apply: %s %s, kept is %q", a.Status, a.Message, x.annotation(t, whenOut))
			}
			if u := x.do(t, machine.ActionUndo, o.Plan, ""); u.Status != machine.StatusOK || x.annotation(t, whenOut) != before {
				t.Errorf("undo: %s %s, kept is %q, want %q", u.Status, u.Message, x.annotation(t, whenOut), before)
			}
		})
	}
}

// TestARequestMendsWhatItNames: who has answered a request says nothing of a GPU
// that it did not name.
func TestARequestMendsWhatItNames(t *testing.T) {
	const reset, replace = " reset=GPU-a,GPU-b", " replace=GPU-node-0-1"
	for name, c := range map[string]struct {
		out, gpus string
		back      bool
	}{
		"all of them":                    {reset, "GPU-b, GPU-a", true},
		"and others":                     {reset, "GPU-c, GPU-b, GPU-a", true},
		"all of the node":                {reset, "", true},
		"one of two":                     {reset, "GPU-a", false},
		"by their indices":               {reset, "0, 1", false},
		"another than was to go":         {replace, "GPU-a", false},
		"the one that was to go":         {replace, "GPU-node-0-1", true},
		"one of both kinds":              {reset + replace, "GPU-a, GPU-b", false},
		"of others too little was known": {reset + " unseen", "GPU-a, GPU-b", false},
		"and all were asked for":         {reset + " unseen", "", true},
		"others told of a fault":         {reset + " told=GpuXidError", "GPU-a, GPU-b", false},
		"they did, and all asked for":    {reset + " told=GpuXidError", "", true},
		"nothing was known":              {" unseen", "GPU-a", false},
		"nothing, and all asked for":     {" unseen", "", true},
		"one cannot be named":            {" reset=some,GPU-a", "GPU-a, some", false},
		"that, and all asked for":        {" reset=some,GPU-a", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			x := newNodeTrial(t, "gpu.reset_request", map[string]any{"gpus": c.gpus, "reason": "GPU-b: all GPUs: XID 95"})
			ourCordon(x.Server)
			x.boots(bootA)
			x.edit(func(m, _ map[string]any) {
				m["annotations"].(map[string]any)[whenOut] = "2026-05-04T11:00:00Z boot=" + bootA + c.out
			})
			x.applied(t)
			x.edit(func(m, _ map[string]any) { delete(m["labels"].(map[string]any), "responder.dev/gpu-reset") })
			x.kind, x.with, x.now = "node.uncordon", map[string]any{"node": "node-0", "healthy_for": "10m"}, atNoon().Add(time.Hour)
			x.deps.GPUs = later{agentOf: func(*gpu.GPU) {}, allDay: true}
			o := x.do(t, machine.ActionPlan, nil, "")
			if c.back && o.Status != machine.StatusOK {
				t.Errorf("%s %s; want it back", o.Reason, o.Message)
			}
			if !c.back && (o.Reason != fault.NotMet || !strings.Contains(o.Message, "the requests that were answered since did not cover all of that, and it was not rebooted since")) {
				t.Errorf("%s %s %s; want it to stay out, and why", o.Status, o.Reason, o.Message)
			}
		})
	}
	x := newNodeTrial(t, "node.uncordon", map[string]any{"node": "node-0", "healthy_for": "10m"})
	ourCordon(x.Server)
	x.boots(bootA)
	x.edit(func(m, _ map[string]any) {
		for k, v := range map[string]string{"gpus-when-out": "2026-05-04T11:00:00Z boot=" + bootA + reset, "gpu-reset-request": "r-1/ask#1/apply#1 2026-05-04T11:30:00Z", "gpu-reset-requested": "done, both of them"} {
			m["annotations"].(map[string]any)["responder.dev/"+k] = v
		}
	})
	x.deps.GPUs = agentOf(func(*gpu.GPU) {})
	if o := x.do(t, machine.ActionPlan, nil, ""); o.Reason != fault.NotMet {
		t.Errorf("by a text that names none: %s %s %s", o.Status, o.Reason, o.Message)
	}
}

// TestNodeWithoutGPUs: what says that a node had GPUs is not written on one that
// has none, so that it comes back as such.
func TestNodeWithoutGPUs(t *testing.T) {
	x := newNodeTrial(t, "node.cordon", nil)
	offered("cpu", "8")(x)
	x.applied(t)
	if got := x.annotation(t, whenOut); got != "" {
		t.Errorf("the node has the annotation %q, want none", got)
	}
	x.kind, x.with, x.now = "node.uncordon", map[string]any{"node": "node-0", "healthy_for": "10m"}, atNoon().Add(time.Hour)
	if o := x.do(t, machine.ActionPlan, nil, ""); o.Status != machine.StatusOK || !strings.Contains(strings.Join(o.Plan.Notes, "\n"), "it has no GPUs") {
		t.Errorf("plan: %s %s %s, want that it comes back without GPUs", o.Status, o.Reason, o.Message)
	}
}
