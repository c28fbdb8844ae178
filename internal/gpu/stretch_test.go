package gpu

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shows is a sample that shows reasons.
func shows(r Reasons) GPU { return GPU{Clocks: Clocks{Reasons: Known(r)}} }

func sec(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func TestStretches(t *testing.T) {
	type look struct {
		second int
		g      GPU
	}
	counted := func(ns uint64) GPU {
		return GPU{Clocks: Clocks{Reasons: Known(Reasons(0)), Violation: Violations{HWThermalNS: Known(ns)}}}
	}
	old := func(ns uint64) GPU {
		return GPU{Clocks: Clocks{Reasons: Known(Reasons(0)), Violation: Violations{ThermalNS: Known(ns)}}}
	}
	blind := func(ns uint64) GPU { return GPU{Clocks: Clocks{Violation: Violations{HWThermalNS: Known(ns)}}} }
	hot := func(c, margin int64) GPU {
		return GPU{Temperature: Temperature{GPUC: Known(c), GPUMaxC: Known[int64](87), SlowdownC: Known[int64](89), MarginC: Known(margin), MemoryC: Known[int64](90)}}
	}
	for name, c := range map[string]struct {
		looks []look
		want  []Stretch
	}{
		"nothing":               {[]look{{0, shows(0)}, {1, shows(0)}}, nil},
		"from the first sample": {[]look{{0, shows(HWSlowdown)}, {90, shows(HWSlowdown)}}, []Stretch{{Reason: HWSlowdown, Since: sec(0), Last: sec(90), OrBefore: true}}},
		"begun while watched":   {[]look{{0, shows(0)}, {1, shows(HWSlowdown)}, {2, shows(HWSlowdown)}}, []Stretch{{Reason: HWSlowdown, Since: sec(1), Last: sec(2)}}},
		"one that flickers": {
			[]look{{0, shows(0)}, {1, shows(HWSlowdown)}, {60, shows(0)}, {121, shows(HWSlowdown)}},
			[]Stretch{{Reason: HWSlowdown, Since: sec(1), Last: sec(121)}},
		},
		"one that ended and came again": {
			[]look{{0, shows(0)}, {1, shows(HWSlowdown)}, {60, shows(0)}, {122, shows(HWSlowdown)}},
			[]Stretch{{Reason: HWSlowdown, Since: sec(122), Last: sec(122)}},
		},
		"nobody looked": {
			[]look{{0, shows(0)}, {1, shows(HWSlowdown)}, {60, GPU{}}, {122, shows(HWSlowdown)}},
			[]Stretch{{Reason: HWSlowdown, Since: sec(122), Last: sec(122), OrBefore: true}},
		},
		"several, and one that is new": {
			[]look{{0, shows(0x8000)}, {1, shows(0x8000 | HWThermalSlowdown | HWSlowdown)}},
			[]Stretch{{Reason: HWSlowdown, Since: sec(1), Last: sec(1)}, {Reason: HWThermalSlowdown, Since: sec(1), Last: sec(1)}, {Reason: 0x8000, Since: sec(0), Last: sec(1), OrBefore: true}},
		},
		"between two samples": {[]look{{0, counted(5)}, {1, counted(6)}, {2, counted(6)}}, []Stretch{{Reason: HWThermalSlowdown, Since: sec(1), Last: sec(1)}}},
		"counted while nobody saw the others": {
			[]look{{0, shows(HWSlowdown)}, {100, blind(5)}, {200, blind(6)}, {300, blind(7)}, {301, shows(HWSlowdown)}},
			[]Stretch{{Reason: HWSlowdown, Since: sec(301), Last: sec(301), OrBefore: true}, {Reason: HWThermalSlowdown, Since: sec(200), Last: sec(300), OrBefore: true}},
		},
		"shown, and then counted only": {
			[]look{{0, counted(5)}, {1, counted(6)}, {100, blind(7)}, {200, blind(8)}, {300, blind(9)}},
			[]Stretch{{Reason: HWThermalSlowdown, Since: sec(1), Last: sec(300)}},
		},
		"the driver counts anew":   {[]look{{0, counted(5)}, {1, counted(1)}}, nil},
		"what old drivers tell":    {[]look{{0, old(5)}, {1, old(6)}}, []Stretch{{Reason: EitherThermal, Since: sec(1), Last: sec(1)}}},
		"heat":                     {[]look{{0, hot(86, 1)}, {1, hot(87, 0)}}, []Stretch{{Heat: HotGPU, Since: sec(1), Last: sec(1)}, {Heat: NoMargin, Since: sec(1), Last: sec(1)}}},
		"kept for half an hour":    {[]look{{0, shows(GPUIdle)}, {1920, shows(0)}}, []Stretch{{Reason: GPUIdle, Since: sec(0), Last: sec(0), OrBefore: true}}},
		"and then no longer":       {[]look{{0, shows(GPUIdle)}, {1921, shows(0)}}, nil},
		"samples taken far apart":  {[]look{{0, shows(0)}, {60, shows(HWSlowdown)}, {120, shows(HWSlowdown)}, {180, shows(HWSlowdown)}}, []Stretch{{Reason: HWSlowdown, Since: sec(60), Last: sec(180)}}},
		"a temperature not at all": {[]look{{0, GPU{Temperature: Temperature{GPUC: Known[int64](99)}}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var s Stretches
			for _, l := range c.looks {
				s.Add(l.g, sec(l.second))
			}
			if d := cmp.Diff(c.want, s.All()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// However many reasons come and go, what is kept of them is bounded.
func TestStretchesAreBounded(t *testing.T) {
	var s Stretches
	hot := GPU{Temperature: Temperature{
		GPUC: Known[int64](99), MemoryC: Known[int64](99), GPUMaxC: Known[int64](87), MemMaxC: Known[int64](95), MarginC: Known[int64](-1),
	}}
	for i := range 10_000 {
		g := hot
		g.Clocks.Reasons = Known(Reasons(1) << (i % 64))
		g.Clocks.Violation.ThermalNS = Known(uint64(i))
		s.Add(g, sec(i))
	}
	if n := len(s.All()); n != maxStretches {
		t.Errorf("%d stretches, want %d", n, maxStretches)
	}
	g := h100(0)
	g.TakenAt, g.EventsSince, g.Stretches = sec(10_000), noon, s.All()
	snap := snapshot(g)
	snap.TakenAt, snap.Since = sec(10_000), noon
	if _, err := Encode(snap); err != nil {
		t.Error(err)
	}
}

func TestTimesThatCannotBe(t *testing.T) {
	good := Stretch{Reason: HWSlowdown, Since: noon.Add(-time.Hour), Last: noon}
	for name, c := range map[string]struct {
		change func(*Snapshot)
		want   string // of the error; empty: none
	}{
		"good":                        {func(*Snapshot) {}, ""},
		"heat":                        {func(s *Snapshot) { s.GPUs[0].Stretches[0] = Stretch{Heat: HotMemory, Since: noon, Last: noon} }, ""},
		"no time":                     {func(s *Snapshot) { s.GPUs[0].Stretches[0].Since = time.Time{} }, "stretches[0].since"},
		"before watching began":       {func(s *Snapshot) { s.GPUs[0].Stretches[0].Since = noon.Add(-61 * time.Minute) }, "before watching began"},
		"of an exporter":              {func(s *Snapshot) { s.Source, s.GPUs[0].Stretches[0].Since = SourceExporter, noon.Add(-12*time.Hour) }, ""},
		"ahead":                       {func(s *Snapshot) { s.GPUs[0].Stretches[0].Last = noon.Add(time.Minute) }, "later than the snapshot's taken_at"},
		"begins ahead":                {func(s *Snapshot) { s.GPUs[0].Stretches[0].Since = noon.Add(time.Minute) }, "before its since"},
		"no reason":                   {func(s *Snapshot) { s.GPUs[0].Stretches[0].Reason = 0 }, "neither one"},
		"two reasons":                 {func(s *Snapshot) { s.GPUs[0].Stretches[0].Reason = 0x81 }, "neither one"},
		"either thermal":              {func(s *Snapshot) { s.GPUs[0].Stretches[0].Reason = EitherThermal }, ""},
		"a kind of heat that is none": {func(s *Snapshot) { s.GPUs[0].Stretches[0] = Stretch{Heat: "fan", Since: noon, Last: noon} }, "neither one"},
		"both":                        {func(s *Snapshot) { s.GPUs[0].Stretches[0].Heat = HotGPU }, "neither one"},
		"twice":                       {func(s *Snapshot) { s.GPUs[0].Stretches = []Stretch{good, good} }, "told twice"},
		"too many":                    {func(s *Snapshot) { s.GPUs[0].Stretches = make([]Stretch, maxStretches+1) }, "entries, more than"},
		"an error before watching":    {func(s *Snapshot) { s.GPUs[0].Baseline.ErredAt = noon.Add(-2 * time.Hour) }, "baseline.erred_at"},
		"events before watching":      {func(s *Snapshot) { s.GPUs[0].EventsSince = noon.Add(-61 * time.Minute) }, "events_since: before watching began"},
		"events ahead":                {func(s *Snapshot) { s.GPUs[0].EventsSince = noon.Add(time.Minute) }, "events_since: later"},
		"events of an exporter":       {func(s *Snapshot) { s.Source, s.GPUs[0].EventsSince = SourceExporter, noon.Add(-12*time.Hour) }, ""},
		"events not known":            {func(s *Snapshot) { s.GPUs[0].EventsSince = time.Time{} }, ""},
		"an error ahead":              {func(s *Snapshot) { s.GPUs[0].Baseline.ErredAt = noon.Add(time.Hour) }, "baseline.erred_at"},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot(h100(0))
			s.GPUs[0].Stretches = []Stretch{good}
			c.change(&s)
			err := s.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
