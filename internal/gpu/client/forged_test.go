package client

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/agent"
	"github.com/inference-responder/responder/internal/gpu/judge"
)

// told is a source whose clock and readings are a test's.
type told func() gpu.Snapshot

// Snapshot implements agent.Source.
func (f told) Snapshot() gpu.Snapshot { return f() }

// healthy is a node with one GPU of which nothing is wrong, by its own clock.
func healthy(node string, now time.Time) gpu.Snapshot {
	g := gpu.GPU{UUID: "GPU-" + node, TakenAt: now, EventsWatched: gpu.Known(true)}
	g.Clocks.Reasons, g.Temperature.GPUC = gpu.Known(gpu.GPUIdle), gpu.Known[int64](50)
	g.ECC.Enabled, g.ECC.VolatileUncorrectable = gpu.Known(true), gpu.Known[uint64](0)
	g.Rows.Pending, g.Rows.Failed = gpu.Known(false), gpu.Known(false)
	for m := range 5 {
		g.Minutes = append(g.Minutes, gpu.Minute{Start: now.Add(time.Duration(m-5) * time.Minute), Samples: 60})
	}
	return gpu.Snapshot{Format: gpu.Format, Node: node, Source: "nvml", TakenAt: now, PeriodMS: 1000, GPUs: []gpu.GPU{g}}
}

// lie is what the agent of a node says.
type lie struct {
	ahead  time.Duration // of the node's clock
	change func(*gpu.Snapshot, *gpu.GPU)
	words  string // empty: it is believed, and healthy
}

// lies are by node.
func lies() map[string]lie {
	return map[string]lie{
		"well":           {words: ""},
		"slightly-ahead": {ahead: 3 * time.Second},
		"new-bit":        {change: func(_ *gpu.Snapshot, g *gpu.GPU) { g.Clocks.Reasons = gpu.Known(gpu.Reasons(1 << 40)) }, words: "an unknown clocks event reason"},
		"new-xid": {change: func(s *gpu.Snapshot, g *gpu.GPU) {
			g.Events = []gpu.Event{{At: s.TakenAt, Type: gpu.EventXID, Data: 1 << 50}}
		}, words: "unknown XID"},
		"hot-as-the-sun": {change: func(_ *gpu.Snapshot, g *gpu.GPU) { g.Temperature.GPUC = gpu.Known[int64](5500) }, words: "temperature.gpu_c"},
		"absolute-zero":  {change: func(_ *gpu.Snapshot, g *gpu.GPU) { g.Temperature.GPUC = gpu.Known[int64](-273) }, words: "temperature.gpu_c"},
		"clock-back":     {ahead: -time.Hour, words: "more than 30s"},
		"clock-ahead":    {ahead: time.Hour, words: "ahead of the clock here"},
		"clock-jumped": {change: func(s *gpu.Snapshot, g *gpu.GPU) {
			g.Minutes[4].Start = s.TakenAt.Add(-time.Hour)
		}, words: "answers 500: encode snapshot: gpus[0].minutes[4].start: less than a minute after the one before; the clock jumped"},
		"from-tomorrow": {change: func(s *gpu.Snapshot, g *gpu.GPU) {
			g.Events = []gpu.Event{{At: s.TakenAt.Add(24 * time.Hour), Type: gpu.EventXID, Data: 79}}
		}, words: "answers 500: encode snapshot: gpus[0].events[0].at"},
		"twins": {change: func(s *gpu.Snapshot, g *gpu.GPU) {
			twin := *g
			twin.Index = 1
			s.GPUs = append(s.GPUs, twin)
		}, words: "two GPUs never share one"},
		"same-index": {change: func(s *gpu.Snapshot, g *gpu.GPU) {
			twin := *g
			twin.UUID = "GPU-other"
			s.GPUs = append(s.GPUs, twin)
		}, words: "gpus[1].index: 0 stands there already"},
		"liar":   {change: func(s *gpu.Snapshot, _ *gpu.GPU) { s.Node = "well" }, words: `its agent claims to be on node "well" and is refused`},
		"masked": {change: func(s *gpu.Snapshot, _ *gpu.GPU) { s.Source = gpu.SourceExporter }, words: "its agent claims to be dcgm-exporter"},
	}
}

// What a node's agent says that cannot be, or cannot be judged, is refused by
// the agent itself or by who asks, or makes the verdict unknown; and why is said
// in words, which is what runs keep.
func TestWhatCannotBeBelieved(t *testing.T) {
	h := newTestCluster(t)
	cases := lies()
	var nodes []string
	for node, c := range cases {
		nodes = append(nodes, node)
		h.agent(t, node, func(o *agent.Options) {
			o.Source = told(func() gpu.Snapshot {
				s := healthy(node, time.Now().UTC().Add(c.ahead))
				if c.change != nil {
					c.change(&s, &s.GPUs[0])
				}
				return s
			})
		})
	}
	answers := h.client(t, nil).Snapshots(t.Context(), nodes, 0)
	for i, j := range judge.Answers(time.Now(), answers) {
		c, found := cases[j.Node], false
		reasons := j.Reasons
		for _, g := range j.GPUs {
			reasons = append(reasons, g.Reasons...)
		}
		for _, r := range reasons {
			found = found || r.Verdict == judge.Uncertain && strings.Contains(r.Text+" "+r.Evidence, c.words)
		}
		if want := map[bool]judge.Verdict{true: judge.Healthy, false: judge.Uncertain}[c.words == ""]; j.Verdict != want || c.words != "" && !found {
			t.Errorf("%s: %s, error %v, %+v; want %s, %q", j.Node, j.Verdict, answers[i].Err, reasons, want, c.words)
		}
	}
}
