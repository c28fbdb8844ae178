package executor

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// The alert of a run that only observed recovers by itself, or after another run
// acted, or does not within a day. All of that survives restarts.
func TestShadow(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = func(o *Options) { o.Autonomy = playbook.Observe }
		h.start()
		one, two := alertOf("Slow", "a"), alertOf("Slow", "a")
		two.Fingerprint += "-2"
		h.post(one, two)
		h.post(alertOf("Slow", "b"))
		h.pass(time.Minute)
		if n := h.trustIn(firstOn("a")).Watched + h.trustIn(firstOn("b")).Watched; n != 2 {
			t.Fatalf("%d runs are watched, want 2: %v", n, h.fates())
		}
		h.post(resolvedOf(one))
		restart := func() {
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			h.start()
		}
		restart()
		if sh := h.observedOutcome("a"); sh == nil || sh.Known {
			t.Fatalf("one of two alerts resolved: %+v", sh)
		}
		h.pass(6 * time.Minute)
		h.post(resolvedOf(two))
		sh := h.observedOutcome("a")
		if sh == nil || !sh.Recovered || sh.Acted != "" || sh.After.Round(time.Minute) != 7*time.Minute {
			t.Fatalf("both resolved: %+v", sh)
		}
		h.pass(26 * time.Hour)
		restart()
		if sh := h.observedOutcome("b"); sh == nil || !sh.Known || sh.Recovered || sh.After < 24*time.Hour {
			t.Errorf("it never resolved: %+v", sh)
		}
		if sh := h.observedOutcome("a"); sh == nil || !sh.Recovered {
			t.Errorf("forgotten: %+v", sh)
		}
		a, b := h.trustIn(firstOn("a")), h.trustIn(firstOn("b"))
		if a.Recovered != 1 || b.Recovered != 0 || a.Watched+b.Watched != 0 || a.WouldApply != 1 {
			t.Errorf("a %+v, b %+v", a.Figured, b.Figured)
		}
		h.mustAgree("at the end")
	})
}

func (h *rig) observedOutcome(service string) *machine.ObservedOutcome {
	h.t.Helper()
	for _, r := range h.runs() {
		if r.Start.Service.Name == service {
			s, _ := h.e.RunState(r.Start.Run)
			return s.ObservedOutcome
		}
	}
	return nil
}

// An alert that recovers after another run changed the service did not recover
// by itself.
func TestShadowNotByItself(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = func(o *Options) { o.Autonomy = playbook.Observe }
		h.start()
		a := alertOf("Slow", "a")
		h.post(a)
		h.pass(time.Minute)
		h.e.ledger.Note(machine.State{Start: machine.Start{Run: "r-other", Service: playbook.Service{Name: "a"}}}, []machine.Event{{Kind: machine.Applied, At: time.Now()}})
		h.pass(time.Minute)
		h.post(resolvedOf(a))
		if sh := h.observedOutcome("a"); sh == nil || sh.Acted != "r-other" || h.trustIn(firstOn("a")).Recovered != 0 {
			t.Errorf("%+v", sh)
		}
	})
}
