package kinds_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// TestEngineEvidence: in the simulated incidents the checks of engines and traffic
// tell what is the matter.
func TestEngineEvidence(t *testing.T) {
	for _, tt := range []struct{ scenario, bound, cause, shape string }{
		{"bad-rollout", "prefill", "slower", "none"},
		{"slow-load", "prefill", "slower", "none"},
		{"traffic-burst", "queue", "none", "burst"},
		{"no-help", "prefill", "long_prompts", "long_prompts"},
	} {
		clock := sandbox.NewManualClock(noon)
		w, err := sandbox.New(tt.scenario, clock)
		if err != nil {
			t.Fatal(err)
		}
		clock.Advance(5 * time.Minute)
		set := kinds.New(step.Deps{Querier: w, Workloads: w, Now: clock.Now})
		var got struct {
			Bound   string   `json:"bound"`
			Cause   string   `json:"prefill_cause"`
			Shape   string   `json:"shape"`
			Missing []string `json:"missing"`
			Stuck   int      `json:"stuck_replicas"`
			Unknown int      `json:"unknown_replicas"`
		}
		var facts []string
		for _, check := range []string{"engine.progress", "traffic.shape", "engine.snapshot"} {
			o := set.Do(t.Context(), machine.Effect{Key: "r-1/s#1/x#1", Run: "r-1", Step: check, Service: w.Services()[0], Action: machine.ActionCheck})
			if err := json.Unmarshal(o.Data, &got); err != nil {
				t.Fatalf("%s: %s: %v: %s", tt.scenario, check, err, o.Message)
			}
			facts = append(facts, o.Facts...)
		}
		if got.Bound != tt.bound || got.Cause != tt.cause || got.Shape != tt.shape || got.Stuck != 0 || got.Unknown != 0 || len(got.Missing) > 0 {
			t.Errorf("%s: %+v:\n%s", tt.scenario, got, strings.Join(facts, "\n"))
		}
	}
}
