package kinds_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// TestBreachesInScenarios: the incidents of the sandbox are those of one service.
func TestBreachesInScenarios(t *testing.T) {
	for scenario, after := range map[string]time.Duration{"bad-rollout": 0, "gpu-fault": 0, "thermal-emergency": 0, "traffic-burst": 5 * time.Minute} {
		t.Run(scenario, func(t *testing.T) {
			clock := sandbox.NewManualClock(noon)
			w, err := sandbox.New(scenario, clock)
			if err != nil {
				t.Fatal(err)
			}
			clock.Advance(after)
			services := func() []playbook.Service { return w.Services() }
			set := kinds.New(step.Deps{Querier: w, Workloads: w, Nodes: w, GPUs: w, Services: services, Now: clock.Now})
			o := set.Do(t.Context(), machine.Effect{Key: "k", Run: "r-1", Action: machine.ActionCheck, Step: "fleet.breaches", Service: w.Services()[0], At: clock.Now(), Timeout: time.Minute})
			var out struct {
				Services, Measured, Count int
				SharedBy                  string `json:"shared_by"`
			}
			if err := json.Unmarshal(o.Data, &out); err != nil {
				t.Fatalf("%v: %+v", err, o)
			}
			t.Log(o.Facts)
			if out.Services != 2 || out.Measured != 2 || out.SharedBy != "" {
				t.Errorf("%+v: %v", out, o.Facts)
			}
		})
	}
}
