package executor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// outage is a catalog that cannot say anything until a time.
type outage struct {
	services
	until time.Time
}

// Resolve implements dispatch.Services.
func (o outage) Resolve(a playbook.Alert) ([]playbook.Service, string, error) {
	if time.Now().Before(o.until) {
		return nil, "", errors.New("discover services: not done yet")
	}
	return o.services.Resolve(a)
}

// A catalog that cannot say is no answer: the alert waits, over a restart too, and
// starts its run once the catalog can.
func TestCatalogThatCannotSayIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		o := outage{testServices(), time.Now().Add(10 * time.Minute)}
		h.options = func(opts *Options) { opts.Services = o }
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(5 * time.Minute)
		h.restart()
		h.pass(4 * time.Minute)
		if n := len(h.runs()); n != 0 || len(h.fates()) != 1 || !strings.HasPrefix(h.fates()[0], "suppressed (the catalog cannot say") {
			t.Fatalf("%d runs, %v", n, h.fates())
		}
		h.pass(2 * time.Minute)
		if s := h.only(); s.Start.Service.Name != "a" {
			t.Errorf("a run on %q", s.Start.Service.Name)
		}
	})
}

// An alert that waits because too many runs are open starts its run when one ends.
func TestTooManyOpenRunsIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = waitingSet(t)
		h.options = func(o *Options) { o.MaxOpenRuns = 1 }
		h.start()
		h.post(alertOf("Slow", "a"))
		h.post(alertOf("Slow", "b"))
		h.pass(time.Minute)
		cancel := machine.Command{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada"}}
		if err := h.e.Command(t.Context(), h.only().Start.Run, cancel); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Minute)
		if runs := h.runs(); len(runs) != 2 || runs[1].Start.Service.Name != "b" {
			t.Errorf("%d runs: %v", len(runs), h.fates())
		}
	})
}

// An alert that begins after the fix was in effect is not covered by its proof: it
// gets a run of its own, over a restart too.
func TestAlertAfterTheFixGetsItsOwnRun(t *testing.T) {
	for name, restart := range map[string]bool{"": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.start()
				h.post(alertOf("Slow", "a"))
				h.passUntil(func() bool { s := h.only(); return s.Phase == machine.PhaseVerifying })
				h.pass(30 * time.Second)
				late := alertOf("Slow", "a")
				late.Fingerprint, late.StartsAt = "late", time.Now()
				h.post(late)
				h.passUntil(func() bool { return h.runs()[0].Ending != nil })
				if restart {
					h.restart()
				}
				h.pass(time.Minute)
				runs := h.runs()
				if len(runs) != 2 || runs[0].Ending.Outcome != machine.OutcomeResolved || runs[1].Episodes.Len() != 1 || runs[1].Episodes.Get(late.Episode()) == nil {
					t.Fatalf("%d runs, the first ended %+v: %v", len(runs), runs[0].Ending, h.fates())
				}
				h.restart()
				h.post(late)
				h.pass(time.Minute)
				if n := len(h.runs()); n != 2 {
					t.Errorf("%d runs after a repeat", n)
				}
			})
		})
	}
}

// Lowering a service to observe, and restarting, stops its open runs.
func TestLoweredServiceStopsOpenRuns(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		level := playbook.Auto
		h.options = func(o *Options) {
			o.Catalog = func() ([]playbook.Service, error) { return []playbook.Service{{Name: "a", Autonomy: level}}, nil }
		}
		h.set = waitingSet(t)
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Minute)
		id := h.only().Start.Run
		level = playbook.Observe
		h.restart()
		if err := h.e.Command(t.Context(), id, yes("ada")); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Hour)
		if n := h.world.count("apply"); n != 0 {
			t.Errorf("%d changes of a service that is only to be observed", n)
		}
	})
}

// A service that was removed from the catalog is only observed: its open runs change
// nothing more, and people are told. While the catalog cannot say whether it still has
// the service, they wait.
func TestRemovedServiceStopsOpenRuns(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile error // of the catalog, for the first ten minutes
		back      bool  // then it has the service again
		applied   int
	}{
		"removed":                   {},
		"cannot say, then has it":   {errors.New("discover services: not done yet"), true, 1},
		"cannot say, then lacks it": {errors.New("discover services: not done yet"), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				known, unsure := []playbook.Service{{Name: "a", Autonomy: playbook.Auto}}, error(nil)
				h.options = func(o *Options) {
					o.Catalog = func() ([]playbook.Service, error) { return known, unsure }
				}
				h.set = waitingSet(t)
				h.start()
				h.post(alertOf("Slow", "a"))
				h.pass(time.Minute)
				id, all := h.only().Start.Run, known
				known, unsure = nil, tt.meanwhile
				h.restart()
				if err := h.e.Command(t.Context(), id, yes("ada")); err != nil {
					t.Fatal(err)
				}
				h.pass(5 * time.Minute)
				if n := h.world.count("apply"); n != 0 {
					t.Fatalf("%d changes of a service that the catalog does not have", n)
				}
				if s := h.only(); (s.Ending == nil) != (tt.meanwhile != nil) {
					t.Fatalf("it is %s: %+v", s.Phase, s.Ending)
				}
				if unsure = nil; tt.back {
					known = all
				}
				h.pass(time.Hour)
				if n := h.world.count("apply"); n != tt.applied {
					t.Errorf("%d changes, want %d: %+v", n, tt.applied, h.only().Ending)
				}
				if s := h.only(); tt.applied == 0 && (s.Ending == nil || s.Ending.Outcome == machine.OutcomeResolved || len(h.world.notices) == 0) {
					t.Errorf("it ended %+v, and people were told %q", s.Ending, h.world.notices)
				}
			})
		})
	}
}

// A paused run lets others pass in the line for a lock.
func TestPausedRunLeavesTheLine(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = func(o *Options) { o.Steps = sharedLock{h.world} }
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(30 * time.Second) // it holds the lock
		h.post(alertOf("Slow", "b"))
		h.pass(time.Second)
		h.post(alertOf("Slow", "c"))
		h.pass(time.Second)
		if err := h.e.Pause(t.Context(), Scope{Service: "b"}, "user:ada", "busy"); err != nil {
			t.Fatal(err)
		}
		h.pass(28 * time.Minute)
		applied := 0
		for _, s := range h.runs() {
			if s.Start.Service.Name == "c" {
				applied = s.Levers
			}
		}
		if applied == 0 {
			t.Errorf("the run behind a paused one waits for it: %v", h.fates())
		}
	})
}
