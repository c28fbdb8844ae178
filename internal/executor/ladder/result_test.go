package ladder

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestResultsOfPullRequests: a pull request that nobody merged says nothing of
// the lever; one that a person closed says that people know better; and one that
// was merged counts as any change.
func TestResultsOfPullRequests(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	open := func(waits string) machine.State {
		return machine.State{
			Phase: machine.PhaseSettling, Open: &machine.OpenEffect{Action: machine.ActionSettle},
			Lever: &machine.Lever{State: "cap", Applied: true, AppliedAt: at, Waits: waits},
		}
	}
	late := machine.Event{Kind: machine.VerifyEnded, At: at, Verdict: machine.VerdictInconclusive, Reason: fault.Deadline}
	for name, test := range map[string]struct {
		waits string
		event machine.Event
		want  Result
	}{
		"closed by a person":      {"pull/1", machine.Event{Kind: machine.Declined, At: at, Reason: fault.Denied}, ResultDenied},
		"not merged in time":      {"pull/1", late, ""},
		"merged and never synced": {"", late, ResultInconclusive},
	} {
		s := open(test.waits)
		if test.event.Kind == machine.VerifyEnded {
			s.Open = nil
		}
		s = machine.Evolve(s, test.event)
		if s.Lever.Signal == playbook.OnVerified || s.Lever.Waits != "" && test.event.Kind == machine.Declined {
			t.Errorf("%s: %+v", name, s.Lever)
		}
		if got := verdictOn(s, machine.Event{Kind: machine.EdgeTaken}); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestResultsOfSteps: a step that another may follow is recorded as one, whether the run
// gathers the evidence anew first or goes on at once.
func TestResultsOfSteps(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	s := machine.State{Phase: machine.PhaseEntering, Lever: &machine.Lever{State: "add", Applied: true, AppliedAt: at, Signal: playbook.OnNoEffect}}
	for name, test := range map[string]struct {
		edge machine.Event
		want bool
	}{
		"by way of another state": {machine.Event{Kind: machine.EdgeTaken, State: "add", To: "look", Further: true}, true},
		"at once":                 {machine.Event{Kind: machine.EdgeTaken, State: "add", To: "add"}, true},
		"the last one":            {machine.Event{Kind: machine.EdgeTaken, State: "add", To: "look"}, false},
	} {
		r, ok := resultOf(s, test.edge)
		if !ok || r.Result != ResultIneffective || r.Further != test.want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
