package judge

import (
	"math/bits"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/gpu"
)

// paths names every reading of a GPU outside of its history.
func paths(g gpu.GPU) []string {
	var out []string
	gpu.EachReading(reflect.ValueOf(g), func(name string, _ reflect.Value) { out = append(out, name) })
	return out
}

// forget makes the reading with that name unknown.
func forget(t *rapid.T, g *gpu.GPU, name string, why gpu.Absence) {
	found := false
	gpu.EachReading(reflect.ValueOf(g).Elem(), func(n string, v reflect.Value) {
		if n != name {
			return
		}
		found = true
		unknown := `{"unknown":"` + string(why) + `"}`
		if err := v.Addr().Interface().(interface{ UnmarshalJSON(b []byte) error }).UnmarshalJSON([]byte(unknown)); err != nil {
			t.Fatal(err)
		}
	})
	if !found {
		t.Fatalf("no reading is named %s", name)
	}
}

// TestUnknownIsNeverHealthy takes readings away. A reading that a verdict
// needs, or one that the GPU should have given, makes it unknown or worse. The
// others are those that a GPU may lack.
func TestUnknownIsNeverHealthy(t *testing.T) {
	names := paths(h100(0))
	if len(names) < 60 {
		t.Fatalf("walked only %d readings", len(names))
	}
	rapid.Check(t, func(t *rapid.T) {
		g := h100(0)
		mayBeHealthy := true
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 5, rapid.ID[string]).Draw(t, "names") {
			why := rapid.SampledFrom(gpu.Absences()).Draw(t, "why")
			forget(t, &g, name, why)
			must := slices.Contains([]string{"clocks.reasons", "temperature.gpu_c", "ecc.enabled", "ecc.volatile_uncorrectable", "events_watched", "rows.pending", "rows.failed"}, name)
			has := !slices.Contains([]gpu.Absence{gpu.NotSupported, gpu.OldDriver, gpu.NotRead, gpu.NotExported}, why)
			if name == gpu.WhatPods && why != gpu.Lost { // who holds it is no question of health
				has = false
			}
			mayBeHealthy = mayBeHealthy && !must && !has
		}
		got := Nodes(noon, snapshot(g))[0].Verdict
		if !mayBeHealthy && !got.WorseThan(Busy) {
			t.Fatalf("got %s", got)
		}
		if mayBeHealthy && got != Healthy {
			t.Fatalf("got %s, want healthy", got)
		}
	})
}

// harms are changes that never make a GPU better.
var harms = map[string]func(*rapid.T, *gpu.GPU){
	"xid": func(t *rapid.T, g *gpu.GPU) {
		g.Events = append(g.Events, gpu.Event{At: noon, Type: gpu.EventXID, Data: rapid.Uint64Range(1, 200).Draw(t, "xid")})
	},
	"event": func(t *rapid.T, g *gpu.GPU) {
		g.Events = append(g.Events, gpu.Event{At: noon, Type: gpu.EventType(1) << rapid.IntRange(0, 15).Draw(t, "type")})
	},
	"reason now": func(t *rapid.T, g *gpu.GPU) {
		r, _ := g.Clocks.Reasons.Get()
		g.Clocks.Reasons = gpu.Known(r | gpu.Reasons(1)<<rapid.IntRange(0, 63).Draw(t, "bit"))
	},
	"brake over time": func(t *rapid.T, g *gpu.GPU) {
		bit := rapid.SampledFrom(gpu.Harmful.Bits()).Draw(t, "brake")
		for i := range g.Minutes {
			more := map[gpu.Reasons]int{}
			for b, n := range g.Minutes[i].Reasons {
				more[b] = n
			}
			more[bit] = min(g.Minutes[i].Samples, more[bit]+rapid.IntRange(0, 60).Draw(t, "hits"))
			g.Minutes[i].Reasons = more
		}
	},
	"hotter": func(t *rapid.T, g *gpu.GPU) {
		c, _ := g.Temperature.GPUC.Get()
		c += rapid.Int64Range(0, 60).Draw(t, "degrees")
		g.Temperature.GPUC = gpu.Known(c)
		for i := range g.Minutes {
			g.Minutes[i].GPUMaxC = gpu.Known(c)
		}
	},
	"uncorrectable": func(t *rapid.T, g *gpu.GPU) {
		n, _ := g.ECC.VolatileUncorrectable.Get()
		g.ECC.VolatileUncorrectable = gpu.Known(n + rapid.Uint64Range(0, 1<<40).Draw(t, "errors"))
	},
	"row pending":   func(_ *rapid.T, g *gpu.GPU) { g.Rows.Pending = gpu.Known(true) },
	"row failed":    func(_ *rapid.T, g *gpu.GPU) { g.Rows.Failed = gpu.Known(true) },
	"sram":          func(_ *rapid.T, g *gpu.GPU) { g.ECC.SRAMThresholdExceeded = gpu.Known(true) },
	"lanes":         func(t *rapid.T, g *gpu.GPU) { g.PCIe.Width = gpu.Known(rapid.Int64Range(0, 15).Draw(t, "lanes")) },
	"a link down":   func(_ *rapid.T, g *gpu.GPU) { g.NVLinks[0].Active = gpu.Known(false) },
	"fabric failed": func(_ *rapid.T, g *gpu.GPU) { g.Fabric.Status = gpu.Known[int64](1) },
	"lost":          func(_ *rapid.T, g *gpu.GPU) { g.Power.DrawMW = gpu.Unknown[int64](gpu.Lost) },
	"ahead of time": func(_ *rapid.T, g *gpu.GPU) { g.TakenAt = g.TakenAt.Add(time.Hour) },
	"recovery": func(t *rapid.T, g *gpu.GPU) {
		if a, _ := g.Recovery.Get(); a == gpu.RecoveryNone { // there is one action at a time, and another one replaces it
			g.Recovery = gpu.Known(gpu.RecoveryAction(rapid.Int64Range(1, 9).Draw(t, "action")))
		}
	},
}

// TestMoreHarmIsNeverMilder adds evidence of harm one piece after the other.
// Heat past belief is the one exception: a sensor that says 190 °C is broken,
// which is unknown, and no longer throttled; it is bounded here.
func TestMoreHarmIsNeverMilder(t *testing.T) {
	var names []string
	for n := range harms {
		names = append(names, n)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		g := h100(0)
		before := Nodes(noon, snapshot(g))[0].Verdict
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 1, 6).Draw(t, "harms") {
			harms[name](t, &g)
			if c, _ := g.Temperature.GPUC.Get(); c > 130 {
				t.Skip("past belief")
			}
			if name == "ahead of time" { // its history is left behind
				g.TakenAt = noon
				continue
			}
			after := Nodes(noon, snapshot(g))[0].Verdict
			if before.WorseThan(after) {
				t.Fatalf("%s made it %s, and it was %s", name, after, before)
			}
			before = after
		}
	})
}

// TestBenignReasonsAreNoFault holds the table of clocks event reasons for every
// mask: benign bits and the power cap are never a fault, and a bit that is not
// known is never healthy.
func TestBenignReasonsAreNoFault(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mask := gpu.Reasons(rapid.Uint64().Draw(t, "mask"))
		g := h100(0)
		g.Clocks.Reasons = gpu.Known(mask)
		for i := range g.Minutes {
			g.Minutes[i].Reasons = map[gpu.Reasons]int{}
			for _, b := range mask.Bits() {
				g.Minutes[i].Reasons[b] = 60
			}
		}
		got := Nodes(noon, snapshot(g))[0].Verdict
		switch {
		case mask&gpu.Harmful != 0:
			if got != Throttled {
				t.Fatalf("%s: got %s, want throttled", mask, got)
			}
		case mask&^(gpu.Benign|gpu.SWPowerCap) != 0:
			if got != Uncertain {
				t.Fatalf("%s: got %s, want unknown", mask, got)
			}
		case got.WorseThan(Busy):
			t.Fatalf("%s: got %s, want healthy or busy", mask, got)
		}
		if len(mask.Names()) != bits.OnesCount64(uint64(mask)) {
			t.Fatalf("%s: not every bit has a name: %v", mask, mask.Names())
		}
	})
}

// FuzzJudge judges whatever decodes.
func FuzzJudge(f *testing.F) {
	for _, s := range []gpu.Snapshot{snapshot(), snapshot(h100(0)), snapshot(gpu.GPU{UUID: "GPU-1", TakenAt: noon})} {
		b, err := gpu.Encode(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := gpu.Decode(data)
		if err != nil {
			return
		}
		for _, n := range Nodes(noon, s, s) {
			if n.Verdict.rank() >= len(Verdicts()) {
				t.Fatalf("%q is no verdict", n.Verdict)
			}
			for _, g := range n.GPUs {
				if g.Verdict.WorseThan(n.Verdict) {
					t.Fatalf("GPU %s is %s and its node only %s", g.UUID, g.Verdict, n.Verdict)
				}
			}
		}
	})
}
