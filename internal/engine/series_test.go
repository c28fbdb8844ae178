package engine

import (
	"slices"
	"strings"
	"testing"
)

// TestSeries: every engine has every indicator, in a form that can be counted.
func TestSeries(t *testing.T) {
	for _, name := range append(Names(), "") {
		e, _ := Named(name)
		for _, indicator := range Indicators() {
			all := e.Series(indicator)
			if len(all) == 0 {
				t.Errorf("%q has no series for %s", name, indicator)
			}
			for _, s := range all {
				if !slices.IsSorted(s.Bounds) {
					t.Errorf("%s: the bounds are not sorted", s.Histogram)
				}
				counters := s.Failed.Name != "" && s.Total.Name != ""
				if Timed(indicator) != (s.Histogram != "") || indicator == Errors && !counters || indicator == Goodput && s.Failed.Name == "" {
					t.Errorf("%q, %s: cannot be counted from %+v", name, indicator, s)
				}
				if strings.HasSuffix(s.Histogram, "_bucket") || strings.HasSuffix(s.Histogram, "_count") {
					t.Errorf("%s is not the name of a histogram", s.Histogram)
				}
			}
		}
		if e.Series("latency") != nil {
			t.Errorf("%q exports an unheard-of indicator", name)
		}
		if len(e.Progress()) == 0 {
			t.Errorf("%q shows no progress", name)
		}
	}
}

// TestSeriesOrder: the newest name comes first, and a frontend before its workers.
func TestSeriesOrder(t *testing.T) {
	names := func(engine, indicator string) []string {
		e, _ := Named(engine)
		var out []string
		for _, s := range e.Series(indicator) {
			out = append(out, s.Histogram)
		}
		return out
	}
	if got, want := names("vllm", TPOT), []string{
		"vllm:request_time_per_output_token_seconds", "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds",
	}; !slices.Equal(got, want) {
		t.Errorf("TPOT of vLLM: %v, want %v", got, want)
	}
	if got := names("dynamo", TTFT)[0]; got != "dynamo_frontend_time_to_first_token_seconds" {
		t.Errorf("TTFT of Dynamo begins with %s", got)
	}
	if got := names("kserve", E2E); !slices.Equal(got, []string{"vllm:e2e_request_latency_seconds", "revision_request_latencies"}) {
		t.Errorf("E2E of KServe: %v", got)
	}
}
