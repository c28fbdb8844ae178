package catalog

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
)

// TestDefaultThresholds: a default is moved to a bucket that the engine has.
func TestDefaultThresholds(t *testing.T) {
	d := Defaults{SLOs: []playbook.SLO{{Name: "ttft", Threshold: 0.5}, {Name: "tpot", Threshold: 0.05}, {Name: "errors"}}}
	for engine, want := range map[string][3]float64{
		"vllm": {0.5, 0.05, 0}, "kserve": {0.5, 0.05, 0}, "sglang": {0.6, 0.06, 0}, "dynamo": {0.47, 0.045, 0}, "": {0.5, 0.05, 0},
	} {
		s := playbook.Service{Engine: engine}
		d.into(&s, map[string][]playbook.SLO{})
		for i, w := range want {
			if got := s.SLOs[i].Threshold; got != w {
				t.Errorf("%s, %s: within %v s, want %v s", engine, s.SLOs[i].Name, got, w)
			}
		}
		if unusual := Unusual(s); len(unusual) > 0 {
			t.Errorf("%s: %q", engine, unusual)
		}
	}
}

func TestUnusual(t *testing.T) {
	s := playbook.Service{Engine: "sglang", SLOs: []playbook.SLO{{Name: "ttft", Threshold: 0.5}, {Name: "tpot", Threshold: 0.04}}}
	got := Unusual(s)
	if len(got) != 1 || !strings.Contains(got[0], "no bucket that ends at 0.5 s") || !strings.Contains(got[0], "0.4 s and 0.6 s") {
		t.Errorf("%q", got)
	}
}
