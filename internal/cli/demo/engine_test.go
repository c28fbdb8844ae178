package demo

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/sandbox"
)

// TestEnginePlaybooks runs the playbooks about engines through the whole service, from
// the alert over HTTP to the audit log.
func TestEnginePlaybooks(t *testing.T) {
	for _, tt := range []struct {
		scenario string
		outcome  []machine.RunOutcome // one of them
		playbook string               // of the last run
		levers   int
		told     []string // in the timeline, in this order
		shown    string   // to who looks on
	}{
		{
			"kv-thrash",
			[]machine.RunOutcome{machine.OutcomeResolved},
			"kv-cache-thrash", 1,
			[]string{" fires", "scale Deployment serving/inference-chat from 4 to 6 replicas", "VERIFIED"},
			"the KV cache is full",
		},
		{
			"long-prompts",
			[]machine.RunOutcome{machine.OutcomeEscalated},
			"inference-slo-breach", 0,
			[]string{"InferenceTTFTFastBurn fires"},
			"the first token waits for prefill",
		},
		{
			"stuck-engine",
			[]machine.RunOutcome{machine.OutcomeResolved},
			"stuck-engine", 1,
			[]string{"InferenceStalled fires", "replace pod inference-chat-", "VERIFIED"},
			"1 stuck",
		},
		{
			"cold-start",
			[]machine.RunOutcome{machine.OutcomeNoAction, machine.OutcomeCleared},
			"cold-start", 0,
			[]string{"InferenceColdStart fires"},
			"more replicas would load as long",
		},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			clock, err := sandbox.NewClock(time.Now(), 60)
			if err != nil {
				t.Fatal(err)
			}
			world, err := sandbox.New(tt.scenario, clock)
			if err != nil {
				t.Fatal(err)
			}
			report, shown := playDemo(t, world)
			if !slices.Contains(tt.outcome, machine.RunOutcome(report.Outcome)) || report.Playbook != tt.playbook || report.Levers != tt.levers || !report.Verified {
				t.Errorf("run of %s ended %s (%s) after %d levers, audit log intact: %t", report.Playbook, report.Outcome, report.Message, report.Levers, report.Verified)
			}
			if !strings.Contains(strings.Join(strings.Fields(shown), " "), tt.shown) {
				t.Errorf("%q is not shown:\n%s", tt.shown, shown)
			}
			rest := report.Timeline
			for _, want := range tt.told {
				i := slices.IndexFunc(rest, func(m api.DemoMoment) bool { return strings.Contains(m.What, want) })
				if i < 0 {
					t.Fatalf("the timeline has no %q where it should be: %+v", want, report.Timeline)
				}
				rest = rest[i+1:]
			}
		})
	}
}
