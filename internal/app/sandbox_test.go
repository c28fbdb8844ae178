package app

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// Simulated engines answer golden prompts as they did when those were recorded, by
// vLLM's API and by SGLang's own. One that stands still hangs.
func TestSandboxAnswersGoldenPrompts(t *testing.T) {
	for scenario, hung := range map[string]int{DefaultScenario: 0, "stuck-engine": 1} {
		synctest.Test(t, func(t *testing.T) {
			_, w, err := OpenSandbox(scenario, time.Now(), 1)
			if err != nil {
				t.Fatal(err)
			}
			o := kinds.New(w.Deps).Do(t.Context(), machine.Effect{
				Key: "probe", Action: machine.ActionCheck, Step: "engine.probe", Service: w.Services()[0], With: map[string]any{},
			})
			var out struct {
				Asked, Answered, Hung, Matched, Differed int
				Changed                                  int `json:"prompt_changed"`
			}
			if err := json.Unmarshal(o.Data, &out); err != nil {
				t.Fatalf("%s: %v", o.Message, err)
			}
			if out.Asked != 4 || out.Hung != hung || out.Answered != 4-hung || out.Matched != 5 || out.Differed+out.Changed > 0 {
				t.Errorf("%s: %+v, %q", scenario, out, o.Facts)
			}
		})
	}
}
