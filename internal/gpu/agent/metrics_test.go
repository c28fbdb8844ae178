package agent

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
)

// shown is /metrics of one GPU, without the agent's own.
func shown(t *testing.T, g gpu.GPU) string {
	t.Helper()
	o := options()
	o.Registry, o.Source = prometheus.NewRegistry(), source{gpu.Snapshot{Node: "n", GPUs: []gpu.GPU{g}}}
	var lines []string
	for line := range strings.Lines(get(serverOf(t, o), "/metrics", "").Body.String()) {
		if strings.HasPrefix(line, "responder_agent_gpu_") && !strings.HasPrefix(line, "responder_agent_gpu_verdict") && !strings.HasPrefix(line, "responder_agent_gpu_throttled") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// everyReading calls each with the name of every reading of a GPU and a GPU of
// which nothing else is known.
func everyReading(t *testing.T, each func(name string, g gpu.GPU)) {
	t.Helper()
	blank := func() *gpu.GPU {
		return &gpu.GPU{UUID: "GPU-1", TakenAt: time.Now(), NVLinks: []gpu.NVLink{{Link: 3}}}
	}
	var walk func(v reflect.Value, name string, reach func(*gpu.GPU) reflect.Value)
	walk = func(v reflect.Value, name string, reach func(*gpu.GPU) reflect.Value) {
		if _, ok := v.Interface().(interface{ Why() gpu.Absence }); ok {
			g := blank()
			into := reach(g).Addr().Interface().(json.Unmarshaler)
			for _, text := range []string{"1", "true", `"0x0000000000000004"`, `[{"namespace":"a","name":"b","container":"c"}]`} {
				if into.UnmarshalJSON([]byte(text)) == nil {
					each(name, *g)
					return
				}
			}
			t.Fatalf("%s takes no value", name)
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag != "" && tag != "baseline" {
					walk(v.Field(i), name+"."+tag, func(g *gpu.GPU) reflect.Value { return reach(g).Field(i) })
				}
			}
		case reflect.Slice:
			if v.Len() > 0 {
				walk(v.Index(0), name+"[0]", func(g *gpu.GPU) reflect.Value { return reach(g).Index(0) })
			}
		default:
		}
	}
	walk(reflect.ValueOf(*blank()), "", func(g *gpu.GPU) reflect.Value { return reflect.ValueOf(g).Elem() })
}

// Every reading is a metric, so that none that is added can be forgotten, and
// one that is unknown has no sample.
func TestEveryReadingIsAMetric(t *testing.T) {
	none := shown(t, gpu.GPU{UUID: "GPU-1", TakenAt: time.Now(), NVLinks: []gpu.NVLink{{Link: 3}}})
	if n := strings.Count(none, "\n"); n != 1 { // the count of XIDs
		t.Errorf("of a GPU of which nothing is known %d samples are shown:\n%s", n, none)
	}
	seen := 0
	everyReading(t, func(name string, g gpu.GPU) {
		seen++
		if name == ".clocks.supported" { // says which reasons can ever be shown
			return
		}
		if got := shown(t, g); strings.Count(got, "\n") < 2 {
			t.Errorf("%s is no metric: %s", name, got)
		}
	})
	if seen < 65 {
		t.Errorf("only %d readings were tried", seen)
	}
}

func TestMetricsOfLists(t *testing.T) {
	at := time.Date(2026, 8, 22, 12, 0, 0, 0, time.UTC)
	g := gpu.GPU{UUID: "GPU-1", MIG: gpu.MIG{Instances: []gpu.MIGInstance{{UUID: "MIG-1", Profile: "1g.10gb"}}}, Events: []gpu.Event{
		{At: at, Type: gpu.EventXID, Data: 31}, {At: at.Add(time.Minute), Type: gpu.EventXID, Data: 31}, {At: at, Type: gpu.EventDoubleBitECC},
	}}
	g.NVLinks = []gpu.NVLink{
		{Active: gpu.Known(true), Replay: gpu.Known[uint64](3), Recovery: gpu.Known[uint64](1)},
		{Link: 1, Active: gpu.Known(false), Replay: gpu.Known[uint64](4), Recovery: gpu.Unknown[uint64](gpu.Timeout), CRCFlit: gpu.Unknown[uint64](gpu.NotSupported)},
	}
	g.NVLinks[0].CRCFlit = gpu.Known[uint64](9)
	text := shown(t, g)
	const who = `gpu="0",`
	for _, want := range []string{
		`mig_instance{` + who + `mig_instance="MIG-1",node="n",profile="1g.10gb",uuid="GPU-1"} 1`,
		`xid_timestamp_seconds{` + who + `node="n",uuid="GPU-1",xid="31"} 1.78740006e+09`, `xids_kept{` + who + `node="n",uuid="GPU-1"} 2`,
		`nvlinks{` + who + `node="n",state="active",uuid="GPU-1"} 1`, `nvlinks{` + who + `node="n",state="inactive",uuid="GPU-1"} 1`,
		`nvlink_errors_total{` + who + `kind="replay",node="n",uuid="GPU-1"} 7`, `nvlink_errors_total{` + who + `kind="crc_flit",node="n",uuid="GPU-1"} 9`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, `kind="recovery"`) {
		t.Error("a sum of which a part is unknown has a sample")
	}
}

// What is wrong with a node as a whole is shown next to its GPUs, and of what
// cannot be nobody is told that it is healthy.
func TestMetricsOfNodes(t *testing.T) {
	driver := gpu.ReadError{What: "gpus[1]", Why: gpu.Timeout}
	for name, c := range map[string]struct {
		change    func(*gpu.Snapshot)
		node, gpu judge.Verdict
	}{
		"well":                  {func(*gpu.Snapshot) {}, judge.Healthy, judge.Healthy},
		"a GPU has left":        {func(s *gpu.Snapshot) { s.Expected = gpu.Known[int64](2) }, judge.Failing, judge.Healthy},
		"a GPU cannot be told":  {func(s *gpu.Snapshot) { s.Errors = []gpu.ReadError{driver} }, judge.Uncertain, judge.Healthy},
		"two GPUs share a UUID": {func(s *gpu.Snapshot) { s.GPUs = append(s.GPUs, s.GPUs[0]); s.GPUs[1].Index = 1 }, judge.Uncertain, judge.Uncertain},
		"a GPU is at fault":     {func(s *gpu.Snapshot) { s.GPUs[0].Rows.Failed = gpu.Known(true) }, judge.Healthy, judge.Failing},
	} {
		t.Run(name, func(t *testing.T) {
			s := wellSnapshot()
			c.change(&s)
			o := options()
			o.Registry, o.Source = prometheus.NewRegistry(), source{s}
			text := get(serverOf(t, o), "/metrics", "").Body.String()
			for _, want := range []string{
				`responder_agent_node_verdict{node="n",verdict="` + string(c.node) + `"} 1`,
				`responder_agent_gpu_verdict{gpu="0",node="n",uuid="GPU-1",verdict="` + string(c.gpu) + `"} 1`,
			} {
				if !strings.Contains(text, want) {
					t.Errorf("/metrics has no %s", want)
				}
			}
		})
	}
}

// wellSnapshot is a node with one healthy GPU.
func wellSnapshot() gpu.Snapshot {
	now, none := time.Now().UTC(), gpu.Known[uint64](0)
	g := gpu.GPU{
		UUID: "GPU-1", TakenAt: now, Clocks: gpu.Clocks{Reasons: gpu.Known(gpu.GPUIdle)}, Temperature: gpu.Temperature{GPUC: gpu.Known[int64](40)},
		ECC: gpu.ECC{Enabled: gpu.Known(true), VolatileUncorrectable: none}, Rows: gpu.Rows{Pending: gpu.Known(false), Failed: gpu.Known(false)},
		EventsWatched: gpu.Known(true),
	}
	for i := range 5 {
		g.Minutes = append(g.Minutes, gpu.Minute{Start: now.Add(time.Duration(i-5) * time.Minute), Samples: 60})
	}
	return gpu.Snapshot{Node: "n", Source: "nvml", TakenAt: now, PeriodMS: 1000, GPUs: []gpu.GPU{g}}
}
