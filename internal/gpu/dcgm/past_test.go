package dcgm

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
)

// pastOf is a series before the last minutes; value says what it was so many
// minutes before them, and whether there was a point.
func pastOf(name string, labels map[string]string, value func(minutes int) (float64, bool)) Series {
	s := Series{Name: name, Labels: map[string]string{"UUID": "GPU-1", "Hostname": "gpu-17"}}
	for k, v := range labels {
		s.Labels[k] = v
	}
	for m := int(PastSpan / PastStep); m >= 0; m-- {
		if v, ok := value(m); ok {
			s.Points = append(s.Points, Point{noon.Add(-Span - time.Duration(m)*PastStep), v})
		}
	}
	return s
}

func fromPast(t *testing.T, now exporter, past ...Series) (gpu.Snapshot, judge.Judgement) {
	t.Helper()
	e := exportedTill(now.series(nil), noon.Add(-15*time.Second))
	e.Past = past
	s, err := Snapshot("gpu-17", e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gpu.Encode(s); err != nil {
		t.Fatal(err)
	}
	return s, judge.Nodes(noon, s)[0].GPUs[0]
}

// TestXIDOfThePast: the exporter gives the last XID without end, and the same once
// more does not move its gauge. So only a repair of memory is over after a day,
// where Prometheus remembers when it came: another one would wait for a reset.
func TestXIDOfThePast(t *testing.T) {
	at := func(code float64) func(int) (float64, bool) { return func(int) (float64, bool) { return code, true } }
	always := at(63)
	since := func(minutes int) func(int) (float64, bool) { // that many before the last ones
		return func(m int) (float64, bool) {
			if m <= minutes {
				return 63, true
			}
			return 0, true
		}
	}
	with := func(at int, v float64, there bool) func(int) (float64, bool) {
		return func(m int) (float64, bool) {
			if m == at {
				return v, there
			}
			return 63, true
		}
	}
	for name, c := range map[string]struct {
		past []Series
		xid  float64
		want judge.Verdict
		text string
	}{
		"nobody asked":         {nil, 63, judge.Degraded, "since 11:45 UTC or before"},
		"came today":           {[]Series{pastOf(XIDGauge, nil, since(9*60+31))}, 63, judge.Degraded, "since 02:14 UTC"},
		"came yesterday":       {[]Series{pastOf(XIDGauge, nil, always)}, 63, judge.Healthy, "since 2026-08-21 10:45 UTC or before"},
		"just within the day":  {[]Series{pastOf(XIDGauge, nil, since(23*60+45))}, 63, judge.Degraded, "since 2026-08-21 12:00 UTC"},
		"just past the day":    {[]Series{pastOf(XIDGauge, nil, since(23*60+46))}, 63, judge.Healthy, "since 2026-08-21 11:59 UTC"},
		"a point is missing":   {[]Series{pastOf(XIDGauge, nil, with(60, 0, false))}, 63, judge.Degraded, "since 10:46 UTC or before"},
		"another in between":   {[]Series{pastOf(XIDGauge, nil, with(60, 31, true))}, 63, judge.Degraded, "since 10:46 UTC"},
		"Prometheus is young":  {[]Series{pastOf(XIDGauge, nil, func(m int) (float64, bool) { return 63, m <= 120 })}, 63, judge.Degraded, "since 09:45 UTC or before"},
		"of another GPU":       {[]Series{pastOf(XIDGauge, map[string]string{"UUID": "GPU-2"}, always)}, 63, judge.Degraded, "since 11:45 UTC or before"},
		"another series":       {[]Series{pastOf(maskName, nil, always)}, 63, judge.Degraded, "since 11:45 UTC or before"},
		"contained":            {[]Series{pastOf(XIDGauge, nil, at(94))}, 94, judge.Degraded, "since 2026-08-21 10:45 UTC or before"},
		"a link":               {[]Series{pastOf(XIDGauge, nil, at(74))}, 74, judge.Degraded, "since 2026-08-21 10:45 UTC or before"},
		"no repair of memory":  {[]Series{pastOf(XIDGauge, nil, at(109))}, 109, judge.Degraded, "since 2026-08-21 10:45 UTC or before"},
		"one that needs reset": {[]Series{pastOf(XIDGauge, nil, at(48))}, 48, judge.Failing, "since 2026-08-21 10:45 UTC or before"},
		"labels that changed": {[]Series{
			pastOf(XIDGauge, map[string]string{"exported_pod": "chat-0"}, func(m int) (float64, bool) { return 63, m > 300 }),
			pastOf(XIDGauge, map[string]string{"exported_pod": "chat-1"}, func(m int) (float64, bool) { return 63, m <= 300 }),
		}, 63, judge.Healthy, "since 2026-08-21 10:45 UTC or before"},
	} {
		t.Run(name, func(t *testing.T) {
			now := full()
			now[XIDGauge] = c.xid
			s, j := fromPast(t, now, c.past...)
			if len(Undated(s)) != 1 && c.want == judge.Degraded && strings.HasSuffix(c.text, "before") {
				t.Errorf("undated are %v", Undated(s))
			}
			i := slices.IndexFunc(j.Reasons, func(r judge.Reason) bool { return r.Rule == "xid" })
			if j.Verdict != c.want || i < 0 || !strings.HasSuffix(j.Reasons[i].Text, c.text) {
				t.Errorf("got %s: %+v, want %s %q", j.Verdict, j.Reasons, c.want, c.text)
			}
		})
	}
}

// Row remapping that waits for a reset keeps an XID 63, however old.
func TestXIDOfThePastThatWaits(t *testing.T) {
	now := full()
	now[XIDGauge] = 63
	past := pastOf(XIDGauge, nil, func(int) (float64, bool) { return 63, true })
	if _, j := fromPast(t, now, past); j.Verdict != judge.Healthy {
		t.Errorf("nothing waits: %s: %+v", j.Verdict, j.Reasons)
	}
	delete(now, "DCGM_FI_DEV_ROW_REMAP_PENDING")
	if _, j := fromPast(t, now, past); j.Verdict != judge.Degraded {
		t.Errorf("nobody knows: %s: %+v", j.Verdict, j.Reasons)
	}
}

// TestSlowdownOfThePast: what slows a GPU down since the night is told so.
func TestSlowdownOfThePast(t *testing.T) {
	now := full()
	now[maskName] = float64(gpu.HWSlowdown)
	if s, _ := fromPast(t, now); !slices.Equal(Undated(s), []string{"GPU-1"}) {
		t.Errorf("undated are %v", Undated(s))
	}
	night := pastOf(maskName, nil, func(m int) (float64, bool) {
		if m > 9*60+31 {
			return float64(gpu.GPUIdle), true
		}
		return float64(gpu.HWSlowdown), true
	})
	s, j := fromPast(t, now, night)
	if len(j.Reasons) == 0 || j.Reasons[0].Text != "hardware slowdown since 02:14 UTC" || len(Undated(s)) != 0 {
		t.Errorf("undated are %v, reasons %+v", Undated(s), j.Reasons)
	}
	now[maskName] = float64(gpu.SWPowerCap | gpu.GPUIdle)
	if s, _ := fromPast(t, now); len(Undated(s)) != 0 {
		t.Errorf("what is no harm is undated: %v", Undated(s))
	}
}

// TestEventsUnderAnXIDThatStands: no XID is known to have come since the gauge
// stands at one that matters, for the same once more would not show.
func TestEventsUnderAnXIDThatStands(t *testing.T) {
	from := noon.Add(-Span)
	half := from.Add(Span / 2).Truncate(Step)
	for name, c := range map[string]struct {
		before, since float64
		want          time.Time
	}{
		"none":              {0, 0, from},
		"an application's":  {31, 31, from},
		"others":            {0, 43, from},
		"contained":         {94, 94, time.Time{}},
		"new":               {0, 94, time.Time{}},
		"past, began anew":  {94, 0, half},
		"followed by one":   {74, 31, half},
		"what is no number": {0, math.NaN(), time.Time{}},
		"none that is one":  {blankInt32, blankInt32, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			series := full().series(nil)
			for i := range series {
				for j := range series[i].Points {
					if p := &series[i].Points[j]; series[i].Name == XIDGauge {
						p.Value = c.since
						if p.At.Before(half) {
							p.Value = c.before
						}
					}
				}
			}
			if g, _ := fromDCGM(t, series, noon.Add(-15*time.Second)); !g.EventsSince.Equal(c.want) {
				t.Errorf("all events are known since %s, want %s", g.EventsSince, c.want)
			}
		})
	}
}

// TestGaugeThatFlaps: applications that fail in turn, for hours, hide nothing.
func TestGaugeThatFlaps(t *testing.T) {
	e := exportedTill(full().series(nil), noon.Add(-15*time.Second))
	e.From = noon.Add(-3 * time.Hour)
	for i, s := range e.Series {
		if s.Name != XIDGauge {
			continue
		}
		var points []Point
		for at := e.From; !at.After(noon); at = at.Add(Step) {
			points = append(points, Point{at, 31 + 12*float64(len(points)%2)}) // and 43
		}
		points[4].Value = 79
		e.Series[i].Points = points
		for _, p := range points[:len(points)-len(e.Scraped["GPU-1"])] {
			e.Scraped["GPU-1"] = append(e.Scraped["GPU-1"], Point{p.At, float64(p.At.Unix())})
		}
	}
	slices.SortFunc(e.Scraped["GPU-1"], func(a, b Point) int { return a.At.Compare(b.At) })
	s, err := Snapshot("gpu-17", e)
	if err != nil {
		t.Fatal(err)
	}
	g := s.GPUs[0]
	if j := judge.Nodes(noon, s)[0].GPUs[0]; j.Verdict != judge.Failing || len(g.Events) != gpu.MaxEvents || !g.EventsSince.After(e.From) {
		t.Errorf("%d events, all known since %s: %+v, want failing", len(g.Events), g.EventsSince, j)
	}
}
