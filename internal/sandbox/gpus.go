package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// ailment is a fault of one GPU of a node.
type ailment struct {
	gpu  int
	from time.Duration // after the world's start; negative: before
	kind ailing
	drag float64 // how many times too low the clock of the pod that holds it is
}

// ailing is the kind of a fault.
type ailing string

const (
	hot     ailing = "hot"     // slows down for heat, while it works
	failing ailing = "failing" // hardware slowdown and memory errors that a reset would repair
)

const (
	gpusPerSlot = 4 // tensor parallel
	gpuMinutes  = 15
)

// loads records how many pods each node had, minute by minute: a GPU's history
// depends on when it worked.
type loads struct {
	minutes []nodeLoads // the last ones, oldest first
}

type nodeLoads struct {
	start time.Time
	pods  map[string]int
}

// note records the present minute.
func (l *loads) note(at time.Time, fleets []*fleet) {
	minute := at.Truncate(time.Minute)
	if n := len(l.minutes); n == 0 || !l.minutes[n-1].start.Equal(minute) {
		l.minutes = append(l.minutes, nodeLoads{start: minute})
	}
	l.minutes = l.minutes[max(0, len(l.minutes)-gpuMinutes):]
	l.minutes[len(l.minutes)-1].pods = podsOn(fleets)
}

func podsOn(fleets []*fleet) map[string]int {
	pods := map[string]int{}
	for _, f := range fleets {
		for _, p := range f.pods {
			pods[p.node]++
		}
	}
	return pods
}

// drag slows down the pods that hold an ailing GPU. The caller holds mu.
func (w *World) drag(f *fleet, at time.Time) {
	for _, p := range f.pods {
		p.drag = 0
		for _, n := range w.scenario.nodes {
			for _, a := range n.ailments {
				if n.name == p.node && !at.Before(w.start.Add(a.from)) && w.holder(n.name, a.gpu) == p {
					p.drag = max(p.drag, a.drag)
				}
			}
		}
	}
}

// holder returns the pod that holds a GPU, nil when none does: the first pod of
// a node has the first GPUs.
func (w *World) holder(node string, index int) *pod {
	slot := 0
	for _, f := range w.fleets {
		for _, p := range f.pods {
			if p.node != node {
				continue
			}
			if index/gpusPerSlot == slot {
				return p
			}
			slot++
		}
	}
	return nil
}

// Snapshots returns the readings of the nodes' GPUs, as far back as they are kept.
func (w *World) Snapshots(_ context.Context, nodes []string, _ time.Duration) []gpu.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	now := w.clock.Now().UTC().Round(0)
	out := make([]gpu.Answer, len(nodes))
	for i, name := range nodes {
		out[i].Node = name
		k := slices.IndexFunc(w.scenario.nodes, func(n nodeSpec) bool { return n.name == name })
		if k < 0 {
			out[i].Err = errors.New("there is no such node in the sandbox")
			continue
		}
		out[i].Snapshot = w.snapshot(w.scenario.nodes[k], now)
	}
	return out
}

// GPUNodes returns the nodes that have GPUs.
func (w *World) GPUNodes(context.Context) ([]string, error) {
	var out []string
	for _, n := range w.scenario.nodes {
		out = append(out, n.name)
	}
	return out, nil
}

func (w *World) snapshot(n nodeSpec, now time.Time) gpu.Snapshot {
	count := n.slots * gpusPerSlot
	s := gpu.Snapshot{
		Format: gpu.Format, Node: n.name, Source: "sandbox", Driver: "570.172.08", TakenAt: now, Since: now.Add(-24 * time.Hour), PeriodMS: 1000,
		Expected: gpu.Known(int64(count)),
	}
	for i := range count {
		s.GPUs = append(s.GPUs, w.device(n, i, now))
	}
	return s
}

// ailmentOf returns the fault of a GPU at a moment.
func (w *World) ailmentOf(n nodeSpec, index int, at time.Time) (ailment, bool) {
	for _, a := range n.ailments {
		if a.gpu == index && !at.Before(w.start.Add(a.from)) {
			return a, true
		}
	}
	return ailment{}, false
}

func (w *World) device(n nodeSpec, index int, now time.Time) gpu.GPU {
	load := w.working(n.name, index)
	state := w.stateAt(n, index, now, load)
	g := gpu.GPU{
		UUID: gpuUUID(w.scenario.seed, n.name, index),
		PCI:  fmt.Sprintf("00000000:%02X:00.0", 0x1b+index*0x11), Index: index, Name: "NVIDIA H100 80GB HBM3", TakenAt: now,
		EventsWatched: gpu.Known(true), EventsSince: now.Add(-24 * time.Hour), Pods: gpu.Known(w.podsOf(n.name, index)), Recovery: gpu.Known(gpu.RecoveryNone), MIG: gpu.MIG{Enabled: gpu.Known(false)},
	}
	state.into(&g)
	g.Baseline = gpu.Baseline{At: now.Add(-24 * time.Hour), Counters: healthyCounters()}
	for _, m := range w.loads.minutes {
		then := w.stateAt(n, index, m.start, m.pods[n.name] > index/gpusPerSlot)
		minute := then.minute(m.start)
		if last := now.Sub(m.start); last < time.Minute {
			minute = then.partly(minute, int(last/time.Second))
		}
		g.Minutes = append(g.Minutes, minute)
	}
	if a, ill := w.ailmentOf(n, index, now); ill && a.kind == failing {
		g.Events = append(g.Events, gpu.Event{At: w.start.Add(a.from).UTC(), Type: gpu.EventXID, Data: 63})
	}
	return g
}

// gpuUUID returns the UUID of a GPU of a node.
func gpuUUID(seed uint64, node string, index int) string {
	rng := hash(seed ^ nameHash(node))
	id := rng.of("gpu", uint64(index))
	return fmt.Sprintf("GPU-%08x-%04x-%04x-9000-%012x", id>>32, id>>16&0xffff, id&0xffff, rng.of("uuid", uint64(index))&0xffffffffffff)
}

// bootID returns the ID of a boot of a node's kernel.
func bootID(seed uint64, node string, boot int) string {
	id := hash(seed^nameHash(node)).of("boot", uint64(boot))
	return fmt.Sprintf("%08x-%04x-4000-9000-%012x", id>>32, id>>16&0xffff, id&0xffff)
}

func (w *World) working(node string, index int) bool { return w.holder(node, index) != nil }

func (w *World) podsOf(node string, index int) []gpu.Pod {
	p := w.holder(node, index)
	if p == nil {
		return []gpu.Pod{}
	}
	for _, f := range w.fleets {
		if slices.Contains(f.pods, p) {
			return []gpu.Pod{{Namespace: f.ref.Namespace, Name: p.name, Container: f.spec.service.Container}}
		}
	}
	return []gpu.Pod{} // unreachable unless a pod has no fleet
}
