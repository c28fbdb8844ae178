package playbook

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// People read a service's SLOs as JSON, and runs are read back from it.
func TestSLOAsJSON(t *testing.T) {
	want := SLO{Name: "ttft", Objective: 0.99, Window: 30 * 24 * time.Hour, Threshold: 0.5}
	data, err := json.Marshal(Service{SLOs: []SLO{want}})
	if err != nil {
		t.Fatal(err)
	}
	var raw struct {
		SLOs []map[string]any `json:"slos"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"name": "ttft", "objective": 0.99, "window": "30d", "threshold": 0.5}, raw.SLOs[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var back Service
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]SLO{want}, back.SLOs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`{"window":"-5m"}`), new(SLO)); err == nil {
		t.Error("a negative window was read")
	}
}
