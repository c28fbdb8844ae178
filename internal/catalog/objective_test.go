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
		if ps := unmeasured("slos", s); len(ps) > 0 {
			t.Errorf("%s: %q", engine, ps)
		}
	}
}

// TestUnmeasured: a threshold that no bucket has is refused where it stands, with
// the nearest; one that is measured by other buckets is taken, also of a default.
func TestUnmeasured(t *testing.T) {
	s := playbook.Service{Engine: "sglang", SLOs: []playbook.SLO{
		{Name: "ttft", Threshold: 0.5}, {Name: "tpot", Threshold: 0.04}, {Name: "itl", Threshold: 0.05, CustomBuckets: true}, {Name: "errors"},
	}}
	got := unmeasured("slos", s)
	if len(got) != 1 || got[0].field != "slos[0].threshold" || !strings.Contains(got[0].message, "0.5 s in the versions that are known; the nearest are 0.4 s and 0.6 s") {
		t.Errorf("%q", got)
	}
	if of := (Defaults{SLOs: s.SLOs}).Of("sglang"); of[0].Threshold != 0.4 && of[0].Threshold != 0.6 || of[2].Threshold != 0.05 {
		t.Errorf("defaults %+v", of)
	}
}
