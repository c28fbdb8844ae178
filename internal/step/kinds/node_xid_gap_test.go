package kinds_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/step"
)

// exporterSays answers for the XIDs of a time that is gone.
type exporterSays struct {
	err   error
	asked *[]string
}

func (e exporterSays) Quiet(_ context.Context, node string, uuids []string, since time.Time) error {
	*e.asked = append(*e.asked, node+" "+strings.Join(uuids, ",")+" since "+since.UTC().Format("15:04"))
	return e.err
}

// TestUncordonWantsAllXIDs: the node needed nothing when it went out at noon. What
// its GPUs had since then, and nobody remembers, may have been anything.
func TestUncordonWantsAllXIDs(t *testing.T) {
	const (
		gap  = "it is out since 2026-05-04 12:00 UTC, and the XIDs of its GPUs from 2026-05-04 12:00 to 2026-05-04 12:30 UTC are unknown to nvml"
		help = "; a reboot closes that gap, and so does an answered request for all of its GPUs made after it; if they need nothing, remove the annotation responder.dev/gpus-when-out"
	)
	asked := func(at, gpus string) func(*nodeTrial) {
		return func(x *nodeTrial) {
			x.edit(func(m, _ map[string]any) {
				m["annotations"].(map[string]any)["responder.dev/gpu-reset-request"] = "r-1/ask#1/apply#1 " + at
				m["annotations"].(map[string]any)["responder.dev/gpu-reset-requested"] = gpus + ": XID 95"
			})
		}
	}
	out := func(text string) func(*nodeTrial) {
		return func(x *nodeTrial) {
			x.edit(func(m, _ map[string]any) { m["annotations"].(map[string]any)[whenOut] = text })
		}
	}
	told := func(err error) func(*nodeTrial) {
		return func(x *nodeTrial) { x.deps.XIDs = exporterSays{err, new([]string)} }
	}
	forgot := later{agentOf: func(*gpu.GPU) {}}
	for name, c := range map[string]struct {
		gpus  step.GPUs
		world func(*nodeTrial)
		says  string // of the refusal; empty: the node comes back
	}{
		"watched all the time":            {gpus: later{agentOf: func(*gpu.GPU) {}, allDay: true}},
		"since a second before":           {gpus: later{agentOf: func(g *gpu.GPU) { g.EventsSince = atNoon().Add(-time.Second) }, allDay: true}},
		"the agent was started anew":      {gpus: forgot, says: gap + help},
		"the driver alone was":            {gpus: later{agentOf: func(g *gpu.GPU) { g.EventsSince = atNoon().Add(30 * time.Minute) }, allDay: true}, says: gap + help},
		"nobody knows since when":         {gpus: later{agentOf: func(g *gpu.GPU) { g.EventsSince = time.Time{} }, allDay: true}, says: "from 2026-05-04 12:00 to 2026-05-04 13:00 UTC are unknown"},
		"rebooted":                        {gpus: forgot, world: func(x *nodeTrial) { x.boots(bootB) }},
		"its boot is not known":           {gpus: forgot, world: func(x *nodeTrial) { x.boots("") }, says: gap},
		"nor was it then":                 {gpus: forgot, world: out("2026-05-04T12:00:00Z"), says: gap},
		"somebody's word":                 {gpus: forgot, world: out("")},
		"asked for before it forgot":      {gpus: forgot, world: asked("2026-05-04T12:10:00Z", "all GPUs"), says: "from 2026-05-04 12:10 to 2026-05-04 12:30 UTC"},
		"asked for after it":              {gpus: forgot, world: asked("2026-05-04T12:30:00Z", "all GPUs")},
		"for the one that there is":       {gpus: forgot, world: asked("2026-05-04T12:40:00Z", "GPU GPU-node-0-1")},
		"for another one":                 {gpus: forgot, world: asked("2026-05-04T12:40:00Z", "GPU GPU-node-0-2"), says: gap},
		"asked for in times to come":      {gpus: forgot, world: asked("2027-05-04T12:40:00Z", "all GPUs"), says: gap},
		"it goes out in times to come":    {gpus: forgot, world: out("2027-05-04T12:00:00Z"), says: "its annotation responder.dev/gpus-when-out says that it went out at 2027-05-04 12:00 UTC, which is in the future"},
		"the exporter saw none":           {gpus: forgot, world: told(nil)},
		"the exporter does not know":      {gpus: forgot, world: told(errors.New("scraped at 3 of 120 steps")), says: gap + "; by dcgm-exporter: scraped at 3 of 120 steps" + help},
		"the node's clock is behind":      {gpus: behind(25 * time.Second), says: "from 2026-05-04 12:00 to 2026-05-04 12:00 UTC"},
		"it is right, and seconds sooner": {gpus: behind(0)},
	} {
		t.Run(name, func(t *testing.T) {
			x := newNodeTrial(t, "node.cordon", nil)
			x.boots(bootA)
			x.applied(t)
			x.kind, x.with, x.now = "node.uncordon", map[string]any{"node": "node-0", "healthy_for": "10m"}, atNoon().Add(time.Hour)
			x.deps.GPUs = c.gpus
			if c.world != nil {
				c.world(x)
			}
			o := x.do(t, machine.ActionPlan, nil, "")
			if c.says == "" && o.Status != machine.StatusOK {
				t.Errorf("%s %s; want it back", o.Reason, o.Message)
			}
			if c.says != "" && (o.Reason != fault.NotMet || !strings.Contains(o.Message, c.says)) {
				t.Errorf("%s %s %s; want it to stay out: %s", o.Status, o.Reason, o.Message, c.says)
			}
		})
	}
}

// behind is an agent that was started ten seconds before noon, and whose node's
// clock is behind.
type behind time.Duration

func (b behind) Snapshots(_ context.Context, nodes []string, back time.Duration) []gpu.Answer {
	now := atNoon().Add(time.Hour - time.Duration(b))
	out := agentOf(func(*gpu.GPU) {}).at(now, nodes, back)
	since := atNoon().Add(-10 * time.Second)
	if b > 0 {
		since = atNoon().Add(15*time.Second - time.Duration(b)) // a quarter of a minute after noon
	}
	out[0].Snapshot.GPUs[0].EventsSince = since
	return out
}

// TestUncordonAsksForEachGPU: of the one that the agent has not lost sight of
// nobody else is asked.
func TestUncordonAsksForEachGPU(t *testing.T) {
	x := newNodeTrial(t, "node.cordon", nil)
	x.boots(bootA)
	x.applied(t)
	x.kind, x.with, x.now = "node.uncordon", map[string]any{"node": "node-0", "healthy_for": "10m"}, atNoon().Add(time.Hour)
	x.deps.GPUs = laterTwoGPUs{}
	asked := []string{}
	x.deps.XIDs = exporterSays{errors.New("no"), &asked}
	if o := x.do(t, machine.ActionPlan, nil, ""); o.Reason != fault.NotMet || strings.Join(asked, ";") != "node-0 GPU-node-0-2 since 12:00" {
		t.Errorf("%s %s, asked %q; want one question, of the GPU that was lost sight of", o.Reason, o.Message, asked)
	}
}

// laterTwoGPUs is two GPUs an hour later, of which the second was lost sight of.
type laterTwoGPUs struct{}

func (laterTwoGPUs) Snapshots(_ context.Context, nodes []string, back time.Duration) []gpu.Answer {
	now := atNoon().Add(time.Hour)
	out := agentOf(func(*gpu.GPU) {}).at(now, nodes, back)
	second := agentOf(func(g *gpu.GPU) { g.EventsSince = now.Add(-20 * time.Minute) }).at(now, nodes, back)[0].Snapshot.GPUs[0]
	second.UUID, second.Index = "GPU-node-0-2", 2
	out[0].Snapshot.GPUs = append(out[0].Snapshot.GPUs, second)
	return out
}

// TestWhatWasForgottenIsAdded: when a node that is out is drained for another
// fault, the time counts from then on, and what was not known of the time before
// is kept.
func TestWhatWasForgottenIsAdded(t *testing.T) {
	needs := func(g *gpu.GPU) {
		g.Events = []gpu.Event{{At: atNoon().Add(50 * time.Minute), Type: gpu.EventXID, Data: 79}}
	}
	for name, c := range map[string]struct {
		gpus later
		want string
	}{
		"watched all the time": {later{agentOf: needs, allDay: true}, " reset=GPU-node-0-1"},
		"started anew":         {later{agentOf: needs}, " reset=GPU-node-0-1 unseen"},
	} {
		x := newNodeTrial(t, "node.drain", nil)
		ourCordon(x.Server)
		x.boots(bootA)
		x.edit(func(m, _ map[string]any) {
			m["annotations"].(map[string]any)[whenOut] = "2026-05-04T12:00:00Z boot=" + bootA
		})
		x.now, x.deps.GPUs = atNoon().Add(time.Hour), c.gpus
		if x.applied(t); x.annotation(t, whenOut) != "2026-05-04T13:00:00Z boot="+bootA+c.want {
			t.Errorf("%s: kept is %q, want %q", name, x.annotation(t, whenOut), c.want)
		}
	}
}
