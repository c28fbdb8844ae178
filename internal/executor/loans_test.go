package executor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// lend brings a run of the playbook ladder to its end with a loan, and returns
// the run that owes it back.
func lend(t *testing.T, h *rig) machine.State {
	t.Helper()
	h.world.class = playbook.ClassCapacity
	h.incident("a", 5*time.Minute)
	for _, s := range h.runs() {
		if s.Start.Loan != "" {
			return s
		}
	}
	t.Fatalf("no run owes the loan: %v", h.fates())
	return machine.State{}
}

// TestLoan: what was added for an incident is given back after recovery, once,
// whatever restarts in between, and the run that added it has ended.
func TestLoan(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		before := h.world.valueOf("a")
		owed := lend(t, h)
		if owed.Phase != machine.PhaseWatching || owed.Start.Playbook != LoanReturn || len(owed.Locks()) != 0 {
			t.Fatalf("the loan is %s by playbook %s, holding %v", owed.Phase, owed.Start.Playbook, owed.Locks())
		}
		h.pass(5 * time.Minute)
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.world.calm()
		h.pass(time.Hour)
		if got := h.world.valueOf("a"); got != before {
			t.Errorf("the value is %d after the return, want %d as before", got, before)
		}
		for _, s := range h.runs() {
			if s.Phase != machine.PhaseEnded || s.Ending.Outcome != machine.OutcomeResolved {
				t.Errorf("run %s of %s: %s %+v", s.Start.Run, s.Start.Playbook, s.Phase, s.Ending)
			}
			if s.Start.Loan != "" && len(s.Loans) > 0 {
				t.Error("the return of a loan is a loan again")
			}
		}
		if n := len(h.runs()); n != 2 {
			t.Errorf("%d runs, want the incident's and one return", n)
		}
	})
}

// TestLoanKept: a person keeps a loan for good, or has it returned at once.
func TestLoanKept(t *testing.T) {
	for name, tt := range map[string]struct {
		command  machine.CommandKind
		outcome  machine.RunOutcome
		returned bool
	}{
		"kept":           {machine.CmdCancel, machine.OutcomeCanceled, false},
		"returned early": {machine.CmdProceed, machine.OutcomeResolved, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.start()
				before := h.world.valueOf("a")
				owed := lend(t, h)
				h.world.calm()
				by := machine.Command{Kind: tt.command, Decision: &machine.Decision{By: "user:ada", Channel: "cli", Reason: "traffic stays high"}}
				if err := h.e.Command(t.Context(), owed.Start.Run, by); err != nil {
					t.Fatal(err)
				}
				h.pass(8 * time.Minute) // less than the recovery time
				i := slices.IndexFunc(h.runs(), func(s machine.State) bool { return s.Start.Run == owed.Start.Run })
				if s := h.runs()[i]; s.Ending == nil || s.Ending.Outcome != tt.outcome {
					t.Fatalf("the loan's run is %s in %s: %+v", s.Phase, s.Current, s.Ending)
				}
				if got := h.world.valueOf("a") == before; got != tt.returned {
					t.Errorf("given back: %v, want %v", got, tt.returned)
				}
			})
		})
	}
}

// TestLoanWithoutPlaybook: a loan that no run can give back is told to people.
func TestLoanWithoutPlaybook(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		set := loadSet(t, func(text string) string { return strings.ReplaceAll(text, "name: loan-return", "name: other") })
		h.options = func(o *Options) { o.Playbooks = func() *playbook.Set { return set } }
		h.start()
		h.world.class = playbook.ClassCapacity
		h.incident("a", 10*time.Minute)
		h.pass(time.Minute)
		if n := h.world.told("no run will take it back: playbook loan-return is not loaded"); n != 1 {
			t.Errorf("people were told %d times", n)
		}
	})
}

// valueOf returns the value of a service's knob.
func (w *world) valueOf(service string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.object(service).value
}

// calm ends the load: the service is well with any value, and levers only give
// back.
func (w *world) calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.helps, w.class = func(int) bool { return true }, playbook.ClassReturn
}

// TestLoanDuringIncident: what is on loan stays while another incident of the
// service fires, and when only observing is allowed; it is returned afterwards.
func TestLoanDuringIncident(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		before := h.world.valueOf("a")
		owed := lend(t, h)
		h.world.calm()
		again := alertOf("Ask", "a") // a run that waits for people
		h.post(again)
		h.pass(9 * time.Minute) // past the loan's recovery time
		if got := h.world.valueOf("a"); got == before {
			t.Fatal("the loan was returned during an incident of its service")
		}
		h.post(resolvedOf(again))
		h.pass(2 * time.Hour)
		if got := h.world.valueOf("a"); got != before {
			t.Errorf("the value is %d after the incident, want %d: the loan is still owed", got, before)
		}
		i := slices.IndexFunc(h.runs(), func(s machine.State) bool { return s.Start.Run == owed.Start.Run })
		if s := h.runs()[i]; s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved {
			t.Errorf("the loan's run is %s in %s: %+v", s.Phase, s.Current, s.Ending)
		}
	})
}

// TestLoanOfReleasedRun: a run that is quarantined and released owes its loans all
// the same.
func TestLoanOfReleasedRun(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.world.helps = func(int) bool { return false }
		h.world.class = playbook.ClassCapacity
		h.start()
		run := h.incident("a", 13*time.Minute) // the first lever is kept, the second one asks
		if len(run.Loans) != 1 {
			t.Fatalf("%d loans, the run is %s in %s", len(run.Loans), run.Phase, run.Current)
		}
		h.quarantineNow(run.Start.Run)
		h.mustRelease(run.Start.Run)
		if n := len(h.runs()); n != 2 {
			t.Errorf("%d runs after the release, want the released one and the loan", n)
		}
	})
}

// TestHoldIsNoObstacle: the return of a hold is watched for while its run is open. It waits
// neither for the end of that run nor for people, and is not begun a second time.
func TestHoldIsNoObstacle(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.world.helps, h.world.class = func(int) bool { return false }, playbook.ClassHold
		h.start()
		before := h.world.valueOf("a")
		h.incident("a", 13*time.Minute) // the first lever is kept, the second one asks
		run := h.runs()[slices.IndexFunc(h.runs(), func(s machine.State) bool { return s.Start.Loan == "" })]
		if len(run.Loans) != 1 || !run.Loans[0].Early || run.Phase != machine.PhaseDeciding || len(h.runs()) != 2 {
			t.Fatalf("%d loans of %d runs, the run is %s in %s", len(run.Loans), len(h.runs()), run.Phase, run.Current)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.world.mu.Lock()
		h.world.helps, h.world.class, h.world.ends = func(int) bool { return true }, playbook.ClassReturn, "approved with the hold"
		h.world.mu.Unlock()
		h.pass(14 * time.Minute)
		if got := h.world.valueOf("a"); got != before {
			t.Errorf("the value is %d while the incident's run is open, want %d as before", got, before)
		}
		h.post(resolvedOf(run.Start.Alert))
		h.pass(time.Hour)
		for _, s := range h.runs() {
			if s.Phase != machine.PhaseEnded {
				t.Errorf("run %s of %s: %s in %s", s.Start.Run, s.Start.Playbook, s.Phase, s.Current)
			}
		}
		if n := len(h.runs()); n != 2 {
			t.Errorf("%d runs, want the incident's and one return", n)
		}
	})
}

// TestLoansReturnInAnyOrder: what stops a return is what was there before the first
// loan, since that one may be returned before.
func TestLoansReturnInAnyOrder(t *testing.T) {
	scaled := func(above int) machine.Loan {
		return machine.Loan{ID: fmt.Sprint(above), Step: "kube.scale", Back: map[string]any{"by": -2, "above": above}}
	}
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		h.incident("a", 5*time.Minute)
		second := machine.Start{Service: playbook.Service{Name: "a"}, Alert: playbook.Alert{Labels: loanLabels(scaled(6))}}
		h.e.belowLoans(second, []machine.Loan{scaled(4), scaled(6)})
		if got := second.Alert.Labels["above"]; got != "4" {
			t.Errorf("the return stops at %s replicas", got)
		}
		bounds := func(above int, bounds string) machine.Loan {
			l := scaled(above)
			l.Back["bounds"] = bounds
			return l
		}
		second.Alert.Labels = loanLabels(bounds(6, "6..8"))
		h.e.belowLoans(second, []machine.Loan{bounds(4, "2..5"), bounds(6, "6..8")})
		if got := second.Alert.Labels["bounds"]; got != "2..5" {
			t.Errorf("the return gives the bounds %s back", got)
		}
		flag := machine.Start{Service: playbook.Service{Name: "a"}, Alert: playbook.Alert{Labels: map[string]string{"lever": "gitops.set_flag"}}}
		h.e.belowLoans(flag, []machine.Loan{scaled(4)})
		if _, set := flag.Alert.Labels["above"]; set {
			t.Error("a flag counts no replicas")
		}
	})
}

// TestHeldAgain: a run whose undo holds a rollout again, which another run had held, owes
// that hold: it is watched for at once, while the run goes on.
func TestHeldAgain(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.world.helps = func(int) bool { return false }
		h.world.rehold = &machine.Rehold{Step: "rollout.hold", Summary: "hold it again", Back: map[string]any{"back": true, "held": "chat-7c9f"}}
		h.start()
		h.incident("a", 13*time.Minute) // the first lever is undone, the second one asks
		run := h.runs()[slices.IndexFunc(h.runs(), func(s machine.State) bool { return s.Start.Loan == "" })]
		if run.Phase != machine.PhaseDeciding || len(h.runs()) != 2 {
			t.Fatalf("%d runs, the incident's is %s in %s", len(h.runs()), run.Phase, run.Current)
		}
		i := slices.IndexFunc(h.runs(), func(s machine.State) bool { return s.Start.Loan != "" })
		labels := h.runs()[i].Start.Alert.Labels
		if labels["lever"] != "rollout.hold" || labels["held"] != "chat-7c9f" || labels["change"] != "hold it again" {
			t.Errorf("the loan is %v", labels)
		}
		keep := machine.Command{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada", Channel: "cli", Reason: "wait for the fix"}}
		if err := h.e.Command(t.Context(), h.runs()[i].Start.Run, keep); err != nil {
			t.Fatal(err)
		}
		if s := h.runs()[i]; s.Ending == nil || !strings.Contains(s.Ending.Message, "what it would have given back stays (run "+run.Start.Run+": hold it again)") {
			t.Errorf("%+v", s.Ending)
		}
	})
}
