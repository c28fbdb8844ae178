package dcgm

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
)

var noon = time.Date(2026, 8, 22, 12, 0, 0, 0, time.UTC)

// exporter is what dcgm-exporter says of one GPU, each value at every step of
// the last minutes.
type exporter map[string]float64

// full is an exporter that was told to export all that a verdict needs.
func full() exporter {
	return exporter{
		maskName: 0, "DCGM_FI_DEV_SM_CLOCK": 1980, "DCGM_FI_DEV_GPU_TEMP": 55, "DCGM_FI_DEV_MEMORY_TEMP": 60, "DCGM_FI_DEV_GPU_UTIL": 60,
		"DCGM_FI_DEV_POWER_USAGE": 412.5, "DCGM_FI_DEV_FB_USED": 70000, "DCGM_FI_DEV_XID_ERRORS": 0, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
		"DCGM_FI_DEV_ROW_REMAP_FAILURE": 0, "DCGM_FI_DEV_ROW_REMAP_PENDING": 0, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 3,
	}
}

func (e exporter) series(more map[string]string) []Series {
	var out []Series
	for name, v := range e {
		labels := map[string]string{"UUID": "GPU-1", "gpu": "0", "modelName": "NVIDIA H100 80GB HBM3", "pci_bus_id": "00000000:1B:00.0", "Hostname": "gpu-17"}
		for k, x := range more {
			labels[k] = x
		}
		s := Series{Name: name, Labels: labels}
		for at := noon.Add(-Span); !at.After(noon); at = at.Add(Step) {
			s.Points = append(s.Points, Point{at, v})
		}
		out = append(out, s)
	}
	return out
}

func fromDCGM(t *testing.T, series []Series, scraped time.Time) (gpu.GPU, judge.Judgement) {
	t.Helper()
	s, err := Snapshot("gpu-17", exportedTill(series, scraped))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gpu.Encode(s); err != nil {
		t.Fatal(err)
	}
	return s.GPUs[0], judge.Nodes(noon, s)[0].GPUs[0]
}

// exportedTill is what Prometheus has of series whose exporter was scraped last
// at that moment, zero: never.
func exportedTill(series []Series, scraped time.Time) Exported {
	e := Exported{Series: series, From: noon.Add(-Span), Now: noon, Scraped: map[string][]Point{}}
	for at := e.From; !at.After(noon) && !scraped.IsZero(); at = at.Add(Step) {
		e.Scraped["GPU-1"] = append(e.Scraped["GPU-1"], Point{at, float64(minTime(at, scraped).Unix())})
	}
	return e
}

func TestVerdictFromDCGM(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(exporter)
		want     judge.Verdict
		text     string // of the first reason
		throttle judge.Throttle
	}{
		"all that is needed": {func(exporter) {}, judge.Healthy, "that the exporter does not export", ""},
		"the older name of the reasons": {func(e exporter) {
			e[oldMaskName] = e[maskName]
			delete(e, maskName)
		}, judge.Healthy, "", ""},
		"the default counters": {func(e exporter) {
			for _, n := range []string{maskName, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_ROW_REMAP_PENDING"} {
				delete(e, n)
			}
		}, judge.Uncertain, "", ""},
		"without the reasons":     {func(e exporter) { delete(e, maskName) }, judge.Uncertain, "", ""},
		"thermal slowdown":        {func(e exporter) { e[maskName] = 0x48 }, judge.Throttled, "hardware thermal slowdown since 11:45 UTC", judge.Thermal},
		"power cap":               {func(e exporter) { e[maskName] = 4 }, judge.Busy, "normal at full load", ""},
		"row remapping failed":    {func(e exporter) { e["DCGM_FI_DEV_ROW_REMAP_FAILURE"] = 1 }, judge.Failing, "could not be remapped", ""},
		"failed, and else little": {func(e exporter) { clear(e); e["DCGM_FI_DEV_ROW_REMAP_FAILURE"] = 1; e["DCGM_FI_DEV_GPU_TEMP"] = 50 }, judge.Failing, "could not be remapped", ""},
		"double bit errors":       {func(e exporter) { e["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"] = 2 }, judge.Degraded, "2 uncorrectable", ""},
		"fallen off":              {func(e exporter) { e["DCGM_FI_DEV_XID_ERRORS"] = 79 }, judge.Failing, "XID 79 (GPU has fallen off the bus) since 11:45 UTC or before", ""},
		"an application's XID":    {func(e exporter) { e["DCGM_FI_DEV_XID_ERRORS"] = 31 }, judge.Healthy, "XID 31", ""},
		"not a number":            {func(e exporter) { e["DCGM_FI_DEV_GPU_TEMP"] = math.NaN() }, judge.Uncertain, "temperature.gpu_c", ""},
		"blank":                   {func(e exporter) { e["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"] = blankInt64 }, judge.Uncertain, "", ""},
		"blank power":             {func(e exporter) { e["DCGM_FI_DEV_POWER_USAGE"] = blankFP64 }, judge.Healthy, "", ""},
		"a negative count":        {func(e exporter) { e["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"] = -1 }, judge.Uncertain, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := full()
			c.change(e)
			_, j := fromDCGM(t, e.series(nil), noon.Add(-15*time.Second))
			if j.Verdict != c.want || j.Throttle != c.throttle || (c.text != "" && (len(j.Reasons) == 0 || !strings.Contains(j.Reasons[0].Text, c.text))) {
				t.Errorf("got %s, throttle %q: %+v, want %s: %s", j.Verdict, j.Throttle, j.Reasons, c.want, c.text)
			}
		})
	}
}

func TestDCGMThatStopped(t *testing.T) {
	for name, scraped := range map[string]time.Time{"long ago": noon.Add(-4 * time.Minute), "nobody knows when": {}} {
		t.Run(name, func(t *testing.T) {
			if _, j := fromDCGM(t, full().series(nil), scraped); j.Verdict != judge.Uncertain {
				t.Errorf("got %s: %+v, want unknown", j.Verdict, j.Reasons)
			}
		})
	}
	if _, err := Snapshot("gpu-17", Exported{Now: noon}); !errors.Is(err, ErrNoSeries) {
		t.Errorf("without series: got %v", err)
	}
}

// TestDCGMSeriesThatEnded: what a series said before it ended is no reading of
// now, however well the GPU's other series go on.
func TestDCGMSeriesThatEnded(t *testing.T) {
	for name, reading := range map[string]func(gpu.GPU) gpu.Absence{
		"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": func(g gpu.GPU) gpu.Absence { return g.ECC.VolatileUncorrectable.Why() },
		"DCGM_FI_DEV_ROW_REMAP_PENDING": func(g gpu.GPU) gpu.Absence { return g.Rows.Pending.Why() },
		"DCGM_FI_DEV_ROW_REMAP_FAILURE": func(g gpu.GPU) gpu.Absence { return g.Rows.Failed.Why() },
		"DCGM_FI_DEV_XID_ERRORS":        func(g gpu.GPU) gpu.Absence { return g.EventsWatched.Why() },
		maskName:                        func(g gpu.GPU) gpu.Absence { return g.Clocks.Reasons.Why() },
		"DCGM_FI_DEV_MEMORY_TEMP":       func(g gpu.GPU) gpu.Absence { return g.Temperature.MemoryC.Why() },
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				ago       time.Duration // of the last point
				elsewhere bool          // the series goes on with other labels
				want      judge.Verdict
				why       gpu.Absence
			}{
				{14*time.Minute + 30*time.Second, false, judge.Uncertain, gpu.Stale},
				{time.Minute, false, judge.Uncertain, gpu.Stale},
				{Step, false, judge.Healthy, ""},
				{time.Minute, true, judge.Healthy, ""},
			} {
				series := full().series(nil)
				for i, s := range series {
					if s.Name != name {
						continue
					}
					if c.elsewhere {
						series = append(series, exporter{name: last(s).Value}.series(map[string]string{"exported_pod": "chat-0"})...)
					}
					series[i].Points = s.Points[:len(s.Points)-int(c.ago/Step)]
				}
				g, j := fromDCGM(t, series, noon.Add(-15*time.Second))
				if why := reading(g); j.Verdict != c.want || why != c.why {
					t.Errorf("ended %s ago, elsewhere %v: %s, %q: %+v, want %s, %q", c.ago, c.elsewhere, j.Verdict, why, j.Reasons, c.want, c.why)
				}
			}
		})
	}
}

// TestDCGMEventsSince: XIDs are known from when on their series has no gap.
func TestDCGMEventsSince(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]Point) []Point
		want   time.Time
	}{
		"all the time":   {func(p []Point) []Point { return p }, noon.Add(-Span)},
		"with a gap":     {func(p []Point) []Point { return append(p[:len(p)-11:len(p)-11], p[len(p)-10:]...) }, noon.Add(-9 * Step)},
		"from later on":  {func(p []Point) []Point { return p[len(p)-5:] }, noon.Add(-4 * Step)},
		"the last point": {func(p []Point) []Point { return p[:len(p)-1] }, noon.Add(-Span)},
		"it has ended":   {func(p []Point) []Point { return p[:len(p)-2] }, time.Time{}},
		"never":          {func([]Point) []Point { return nil }, time.Time{}},
	} {
		series := full().series(nil)
		for i, s := range series {
			if s.Name == XIDGauge {
				series[i].Points = c.change(s.Points)
			}
		}
		if g, _ := fromDCGM(t, series, noon); !g.EventsSince.Equal(c.want) {
			t.Errorf("%s: known since %s, want %s", name, g.EventsSince, c.want)
		}
	}
	if g, _ := fromDCGM(t, full().series(nil), noon.Add(-time.Minute)); g.EventsSince.IsZero() || g.EventsSince.After(noon.Add(-Span)) {
		t.Errorf("scraped a minute ago: known since %s", g.EventsSince)
	}
	if g, _ := fromDCGM(t, full().series(nil), noon.Add(-4*time.Minute)); !g.EventsSince.IsZero() {
		t.Errorf("not scraped for minutes: known since %s", g.EventsSince)
	}
}

func TestDCGMDetails(t *testing.T) {
	e := full()
	delete(e, maskName)
	series := e.series(map[string]string{"exported_pod": "llama-0", "exported_namespace": "serving", "exported_container": "vllm", "pod": "dcgm-x", "namespace": "gpu-operator", "container": "exporter"})
	for event, n := range map[string]float64{"hw_power_brake": 7, "gpu_idle": 0} {
		series = append(series, exporter{"DCGM_EXP_CLOCK_EVENTS_COUNT": n}.series(map[string]string{"clock_event": event})...)
	}
	xid := Series{Name: "DCGM_FI_DEV_XID_ERRORS", Labels: map[string]string{"UUID": "GPU-1", "gpu": "0"}}
	for i, code := range []float64{0, 31, 31, 48, 31} {
		xid.Points = append(xid.Points, Point{noon.Add(time.Duration(i-5) * time.Minute), code})
	}
	g, j := fromDCGM(t, append(series, xid), noon)
	if j.Verdict != judge.Failing || j.Throttle != judge.PowerBrake {
		t.Errorf("got %s, throttle %q: %+v, want failing for XID 48 and the power brake", j.Verdict, j.Throttle, j.Reasons)
	}
	if pods, _ := g.Pods.Get(); len(pods) != 1 || pods[0].Name != "llama-0" || pods[0].Namespace != "serving" {
		t.Errorf("pods are %+v", pods)
	}
	if got, _ := g.Power.DrawMW.Get(); got != 412_500 {
		t.Errorf("draw is %d mW", got)
	}
	if len(g.Events) != 3 || g.Events[0].Data != 31 || g.Events[1].Data != 48 || !g.Events[1].At.Equal(noon.Add(-2*time.Minute)) {
		t.Errorf("events are %+v", g.Events)
	}
	own := full().series(map[string]string{"pod": "dcgm-x", "namespace": "gpu-operator", "container": "exporter"})
	if g, _ := fromDCGM(t, own, noon); g.Pods.Why() != gpu.NotExported {
		t.Errorf("the exporter's own pod is taken for the one that holds the GPU: %s", g.Pods)
	}
	if lie := full().series(map[string]string{"gpu": "0\x1b"}); len(lie) > 0 {
		if _, err := Snapshot("gpu-17", exportedTill(lie, noon)); err == nil {
			t.Error("an index that is none is taken")
		}
	}
}
