package judge

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/gpu"
)

// capped is a GPU at the power cap with that clock.
func cappedAt(index int, mhz int64) gpu.GPU {
	g := h100(index)
	lastMinutes(&g, 10, func(m *gpu.Minute) {
		m.Reasons, m.SMMeanMHz, m.GPUPercent = map[gpu.Reasons]int{gpu.SWPowerCap: 58}, gpu.Known(mhz), gpu.Known[int64](97)
	})
	return g
}

func node(name string, gpus ...gpu.GPU) gpu.Snapshot {
	s := snapshot(gpus...)
	s.Node = name
	for i := range s.GPUs {
		s.GPUs[i].UUID = "GPU-" + name + "-" + string(rune('0'+i))
	}
	return s
}

// at is a GPU whose readings and history are so much later.
func at(later time.Duration, g gpu.GPU) gpu.GPU {
	g.TakenAt = g.TakenAt.Add(later)
	for i := range g.Minutes {
		g.Minutes[i].Start = g.Minutes[i].Start.Add(later)
	}
	return g
}

func TestPeers(t *testing.T) {
	other := cappedAt(0, 1000)
	other.Name = "NVIDIA A100"
	idle := h100(0)
	lastMinutes(&idle, 10, func(m *gpu.Minute) { m.SMMeanMHz, m.GPUPercent = gpu.Known[int64](345), gpu.Known[int64](0) })
	loaded := cappedAt(0, 1600)
	loaded.Minutes = slices.Clone(loaded.Minutes)
	for i := range loaded.Minutes[:len(loaded.Minutes)-2] { // idle until two minutes ago
		m := &loaded.Minutes[i]
		m.Reasons, m.SMMeanMHz, m.GPUPercent = map[gpu.Reasons]int{gpu.GPUIdle: 60}, gpu.Known[int64](345), gpu.Known[int64](0)
	}
	for name, c := range map[string]struct {
		snaps []gpu.Snapshot
		want  Verdict // of the first node
		text  string
	}{
		"slower than other nodes":          {[]gpu.Snapshot{node("a", cappedAt(0, 1100)), node("b", cappedAt(0, 1600)), node("c", cappedAt(0, 1590))}, Degraded, "runs at 1100 MHz under its software power cap while its peers run at 1600 MHz"},
		"as fast as other nodes":           {[]gpu.Snapshot{node("a", cappedAt(0, 1500)), node("b", cappedAt(0, 1600))}, Busy, "normal at full load"},
		"all slow":                         {[]gpu.Snapshot{node("a", cappedAt(0, 1100)), node("b", cappedAt(0, 1100))}, Busy, "normal at full load"},
		"slower than its neighbours":       {[]gpu.Snapshot{node("a", cappedAt(0, 1100), cappedAt(1, 1600))}, Degraded, "while its peers run"},
		"nobody to compare with":           {[]gpu.Snapshot{node("a", cappedAt(0, 1100))}, Busy, "normal at full load"},
		"another product":                  {[]gpu.Snapshot{node("a", cappedAt(0, 1100)), func() gpu.Snapshot { s := node("b", other); return s }()}, Busy, ""},
		"idle peers say nothing":           {[]gpu.Snapshot{node("a", cappedAt(0, 1100)), node("b", idle)}, Busy, ""},
		"idle itself":                      {[]gpu.Snapshot{node("a", idle), node("b", cappedAt(0, 1600))}, Healthy, ""},
		"idle until just now":              {[]gpu.Snapshot{node("a", loaded), node("b", cappedAt(0, 1600))}, Busy, ""},
		"stale peers say nothing":          {[]gpu.Snapshot{node("a", cappedAt(0, 1100)), node("b", at(-31*time.Second, cappedAt(0, 1600)))}, Busy, "normal at full load"},
		"peers ahead of time say nothing":  {[]gpu.Snapshot{node("a", cappedAt(0, 1100)), node("b", at(11*time.Second, cappedAt(0, 1600)))}, Busy, "normal at full load"},
		"instead of a stale peer":          {[]gpu.Snapshot{node("a", cappedAt(0, 1100), cappedAt(1, 1600)), node("b", at(-time.Hour, cappedAt(0, 1100)))}, Degraded, "while its peers run"},
		"peers faster than any can be":     {[]gpu.Snapshot{node("a", cappedAt(0, 1600)), node("b", cappedAt(0, 4000))}, Busy, "normal at full load"},
		"neighbours count only when alone": {[]gpu.Snapshot{node("a", cappedAt(0, 1500), cappedAt(1, 1980)), node("b", cappedAt(0, 1510))}, Busy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := Nodes(noon, c.snaps...)[0].GPUs[0]
			if j.Verdict != c.want || (c.text != "" && !strings.Contains(j.Reasons[0].Text, c.text)) {
				t.Errorf("got %s: %+v, want %s: %s", j.Verdict, j.Reasons, c.want, c.text)
			}
		})
	}
}

// many are nodes of eight GPUs that are at work, each with a highest clock of its own.
func many(nodes int) []gpu.Snapshot {
	snaps := make([]gpu.Snapshot, nodes)
	for i := range snaps {
		var gpus []gpu.GPU
		for k := range 8 {
			g := cappedAt(k, 1600)
			g.Clocks.SMMaxMHz = gpu.Known(int64(1980 + k))
			gpus = append(gpus, g)
		}
		snaps[i] = node(fmt.Sprintf("gpu-%d", i), gpus...)
	}
	return snaps
}

// TestJudgingManyNodes: what a GPU takes of memory does not grow with the others
// there are, whatever highest clocks they say: nobody makes a list of them for it.
func TestJudgingManyNodes(t *testing.T) {
	perNode := func(nodes int) uint64 {
		snaps := many(nodes)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Nodes(noon, snaps...)
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(nodes)
	}
	if few, more := perNode(50), perNode(500); 2*more > 3*few {
		t.Errorf("a node of 500 takes %d bytes, one of 50 %d", more, few)
	}
}

// TestPeersOfSorted: peers taken from what was sorted once are those that a look at
// each GPU finds.
func TestPeersOfSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var snaps []gpu.Snapshot
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			var gpus []gpu.GPU
			for k := range rapid.IntRange(0, 5).Draw(t, "gpus") {
				g := cappedAt(k, rapid.SampledFrom([]int64{1000, 1050, 1051, 1600, 2000}).Draw(t, "mhz"))
				g.Name = rapid.SampledFrom([]string{"NVIDIA A100", "NVIDIA H100"}).Draw(t, "product")
				g.Clocks.SMMaxMHz = rapid.SampledFrom([]gpu.Reading[int64]{gpu.Known[int64](1000), gpu.Known[int64](1001), gpu.Known[int64](1980), gpu.Unknown[int64](gpu.NotSupported)}).Draw(t, "most")
				if rapid.Bool().Draw(t, "idle") {
					lastMinutes(&g, 10, func(m *gpu.Minute) { m.GPUPercent = gpu.Known[int64](0) })
				}
				if rapid.Bool().Draw(t, "stale") {
					g = at(-time.Hour, g)
				}
				gpus = append(gpus, g)
			}
			snaps = append(snaps, node(fmt.Sprintf("gpu-%d", i), gpus...))
		}
		f := newFleet(noon, snaps)
		for i, s := range snaps {
			for _, g := range s.GPUs {
				want := lookedAt(snaps, g, func(node int, _ gpu.GPU) bool { return node != i })
				if want.count == 0 {
					want = lookedAt(snaps, g, func(node int, other gpu.GPU) bool { return node == i && other.UUID != g.UUID })
				}
				if got := f.peersOf(g, i); got != want {
					t.Fatalf("GPU %s: %+v, want %+v", g.UUID, got, want)
				}
			}
		}
	})
}

// lookedAt are the peers of a GPU among those that count, one by one.
func lookedAt(snaps []gpu.Snapshot, g gpu.GPU, counts func(node int, other gpu.GPU) bool) peers {
	var out peers
	var clocks []int64
	most, known := g.Clocks.SMMaxMHz.Get()
	for i, s := range snaps {
		for _, other := range s.GPUs {
			if other.Name != g.Name || noon.Sub(other.TakenAt) > time.Minute || !counts(i, other) {
				continue
			}
			out.count++
			out.linked++ // all have
			if l, _ := loadOf(other); l.percent >= atWork && (!known || float64(l.mhz) <= beyond*float64(most)) {
				clocks = append(clocks, l.mhz)
			}
		}
	}
	if slices.Sort(clocks); len(clocks) > 0 {
		out.working, out.median = len(clocks), clocks[len(clocks)/2]
	}
	return out
}

// BenchmarkJudge judges a thousand nodes of eight GPUs.
func BenchmarkJudge(b *testing.B) {
	snaps := many(1000)
	for b.Loop() {
		if got := Nodes(noon, snaps...); got[999].Verdict != Busy {
			b.Fatalf("%+v", got[999])
		}
	}
}

// TestTwins: a GPU that two nodes say they have is known of neither; what is wrong
// with it stays wrong. A node that said so long ago says nothing.
func TestTwins(t *testing.T) {
	twins := func(a, b gpu.Snapshot) []gpu.Snapshot {
		b.GPUs[0].UUID = a.GPUs[0].UUID
		return []gpu.Snapshot{a, b}
	}
	ill := h100(0)
	ill.Rows.Failed = gpu.Known(true)
	for name, c := range map[string]struct {
		snaps []gpu.Snapshot
		want  []Verdict
	}{
		"two":          {twins(node("a", h100(0), h100(1)), node("b", h100(0))), []Verdict{Uncertain, Uncertain}},
		"one is ill":   {twins(node("a", ill), node("b", h100(0))), []Verdict{Failing, Uncertain}},
		"one is stale": {twins(node("a", h100(0)), node("b", at(-31*time.Second, h100(0)))), []Verdict{Healthy, Uncertain}},
		"one node":     {twins(node("a", h100(0)), node("a", h100(0))), []Verdict{Healthy, Healthy}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, j := range Nodes(noon, c.snaps...) {
				if j.GPUs[0].Verdict != c.want[i] {
					t.Errorf("node %s: got %s: %+v, want %s", j.Node, j.GPUs[0].Verdict, j.GPUs[0].Reasons, c.want[i])
				}
			}
		})
	}
	two := Nodes(noon, twins(node("a", h100(0), h100(1)), node("b", h100(0)))...)
	if r := two[0].GPUs[0].Reasons[0]; r.Rule != "one-node" || !strings.Contains(r.Text, "node b reports this GPU too") || two[0].GPUs[1].Verdict != Healthy {
		t.Errorf("%+v", two[0].GPUs)
	}
}

// TestLinksOfPeers: that no NVLink is up is a fault where peers have some up.
func TestLinksOfPeers(t *testing.T) {
	unlinked := func(index int) gpu.GPU {
		g := h100(index)
		for i := range g.NVLinks {
			g.NVLinks[i].Active = gpu.Known(false)
		}
		return g
	}
	other := h100(0)
	other.Name = "NVIDIA A100"
	for name, c := range map[string]struct {
		snaps []gpu.Snapshot
		want  Verdict
		text  string
	}{
		"peers of other nodes": {[]gpu.Snapshot{node("a", unlinked(0), unlinked(1)), node("b", h100(0))}, Degraded, "none of its 2 NVLinks is up, while those of its peers are"},
		"peers of its node":    {[]gpu.Snapshot{node("a", unlinked(0), h100(1))}, Degraded, "while those of its peers are"},
		"peers without, too":   {[]gpu.Snapshot{node("a", unlinked(0)), node("b", unlinked(0))}, Healthy, "nor are those of a peer"},
		"another product":      {[]gpu.Snapshot{node("a", unlinked(0)), node("b", other)}, Healthy, "nor are those of a peer"},
	} {
		t.Run(name, func(t *testing.T) {
			j := Nodes(noon, c.snaps...)[0].GPUs[0]
			if j.Verdict != c.want || len(j.Reasons) == 0 || !strings.Contains(j.Reasons[0].Text, c.text) {
				t.Errorf("got %s: %+v, want %s: %s", j.Verdict, j.Reasons, c.want, c.text)
			}
		})
	}
}

func TestVerdictOfNode(t *testing.T) {
	hot := h100(1)
	hot.Rows.Failed = gpu.Known(true)
	for name, c := range map[string]struct {
		snap gpu.Snapshot
		want Verdict
		text string // of the first reason of the node
	}{
		"all well":  {snapshot(h100(0), h100(1)), Healthy, ""},
		"the worst": {snapshot(h100(0), hot), Failing, ""},
		"no GPU":    {snapshot(), Uncertain, "no GPU was seen"},
		"no driver": {func() gpu.Snapshot {
			s := snapshot()
			s.Errors = []gpu.ReadError{{What: "driver", Why: gpu.Failed, Detail: "version mismatch"}}
			return s
		}(), Uncertain, "driver could not be read"},
		"a GPU is gone": {func() gpu.Snapshot { s := snapshot(h100(0)); s.Expected = gpu.Known[int64](8); return s }(), Failing, "1 of 8 GPUs are there"},
		"something that this driver lacks": {func() gpu.Snapshot {
			s := snapshot(h100(0))
			s.Errors = []gpu.ReadError{{What: "fabric", Why: gpu.OldDriver}}
			return s
		}(), Healthy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := Nodes(noon, c.snap)[0]
			if n.Verdict != c.want || n.Node != "gpu-17" {
				t.Errorf("got %s for %s, want %s: %+v", n.Verdict, n.Node, c.want, n)
			}
			if c.text != "" && (len(n.Reasons) == 0 || !strings.Contains(n.Reasons[0].Text, c.text)) {
				t.Errorf("got reasons %+v, want %q", n.Reasons, c.text)
			}
		})
	}
}

func TestClocksThatDisagree(t *testing.T) {
	for name, c := range map[string]struct {
		ahead time.Duration
		want  Verdict
	}{
		"fresh":       {-5 * time.Second, Healthy},
		"a bit ahead": {5 * time.Second, Healthy},
		"old":         {-31 * time.Second, Uncertain},
		"far ahead":   {11 * time.Second, Uncertain},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Nodes(noon.Add(-c.ahead), snapshot(h100(0)))[0].Verdict; got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	slow := snapshot(h100(0))
	slow.PeriodMS = 30_000
	if got := Nodes(noon.Add(80*time.Second), slow)[0].Verdict; got != Healthy {
		t.Errorf("with samples every 30s, readings of 80s ago are %s, want healthy", got)
	}
}

func TestUnseen(t *testing.T) {
	n := Unseen("gpu-17", "no agent runs there")
	if n.Verdict != Uncertain || !strings.Contains(n.Reasons[0].Text, "no agent runs there") {
		t.Errorf("got %+v", n)
	}
}
