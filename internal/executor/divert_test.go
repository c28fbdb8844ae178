package executor

import (
	"fmt"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// openByHand has a person start a run of the playbook ladder on service a, which
// waits for approval. Alerts of other playbooks do not join it.
func (h *rig) openByHand() {
	h.t.Helper()
	h.set = waitingSet(h.t)
	h.options = func(o *Options) {
		o.Catalog = func() ([]playbook.Service, error) { return []playbook.Service{testServices()["a"]}, nil }
	}
	h.start()
	if _, _, err := h.e.StartRun(h.t.Context(), StartRequest{Playbook: "ladder", Service: "a", By: "user:ada", Person: true}); err != nil {
		h.t.Fatal(err)
	}
	h.pass(time.Minute)
}

// A run is handed over to one that is open. Wherever the process dies, the open
// run has the alert exactly when the other one has ended; and when the alert
// resolves before the restart, it does not fire for ever.
func TestDivertJoinsInOneBatch(t *testing.T) {
	for _, resolves := range []bool{false, true} {
		t.Run(fmt.Sprintf("resolves=%v", resolves), func(t *testing.T) {
			for k := 1; ; k++ {
				crashed := ""
				bubble(t, func(t *testing.T, h *rig) {
					h.openByHand()
					if err := h.stop(); err != nil {
						t.Fatal(err)
					}
					h.world.object("a").value = 7
					stop := h.stopAt(k)
					h.start()
					ask := alertOf("Ask", "a")
					h.post(ask)
					h.pass(time.Minute)
					if crashed = stop.at(); crashed != "" {
						h.crashed()
						h.options = nil
						if resolves {
							h.post(resolvedOf(ask))
						}
						h.start()
						h.pass(time.Minute)
					}
					h.mustBeHandedOver(ask, resolves && crashed != "", fmt.Sprintf("crash %d at %s", k, crashed))
				})
				if crashed == "" {
					break
				}
			}
		})
	}
}

func (h *rig) mustBeHandedOver(a playbook.Alert, resolved bool, when string) {
	h.t.Helper()
	runs := h.runs()
	if len(runs) < 2 {
		h.t.Fatalf("%s: %d runs: %v", when, len(runs), h.fates())
	}
	open, handed := runs[0], runs[1]
	ep := open.Episodes.Get(a.Episode())
	joined := ep != nil
	ended := handed.Ending != nil && handed.Ending.Outcome == machine.OutcomeDiverted
	switch {
	case ended != joined && !resolved:
		h.t.Errorf("%s: ended %v, joined %v", when, ended, joined)
	case !resolved && (!ended || !ep.Firing):
		h.t.Errorf("%s: not handed over: %+v", when, handed.Ending)
	case resolved && joined && ep.Firing:
		h.t.Errorf("%s: the alert resolved and fires in the run for ever", when)
	}
	if len(runs) != 2 {
		h.t.Errorf("%s: %d runs, want 2: %v", when, len(runs), h.fates())
	}
}

// The run to hand over to is busy with an effect of its own: it takes the alert
// over all the same, and nothing is carried out twice.
func TestDivertToABusyRun(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.openByHand()
		checks := h.world.effects[machine.ActionCheck]
		h.world.object("a").value = 7
		ask := alertOf("Ask", "a")
		h.post(ask)
		h.pass(time.Minute)
		h.mustBeHandedOver(ask, false, "busy")
		if n := h.world.effects[machine.ActionCheck] - checks; n != 1 {
			t.Errorf("%d checks of the run that was handed over, want 1", n)
		}
	})
}

// Only what still fires is handed over, and a truncated notification stays one.
func TestHandedOver(t *testing.T) {
	first, second := alertOf("Slow", "a"), alertOf("Slow", "a")
	second.Fingerprint = "second"
	s := machine.State{
		Start: machine.Start{Run: "r-1", Alert: first}, Truncated: true,
		Episodes: machine.EpisodesOf(map[string]*machine.Episode{first.Episode(): {Alert: first}, second.Episode(): {Alert: second, Firing: true}}),
	}
	start, also := s.Successor()
	if start.Alert.Fingerprint != "second" || len(also) != 0 || !start.Truncated || start.DivertedFrom != "r-1" {
		t.Errorf("starts with %s and %d more, truncated %v", start.Alert.Fingerprint, len(also), start.Truncated)
	}
	s.Episodes.Get(second.Episode()).Firing = false
	if start, _ = s.Successor(); start.Alert.Status == playbook.Firing {
		t.Error("nothing fires any more, and the next run begins as if it did")
	}
}

// A truncated notification makes the blast radius unknown whenever it comes: at
// the start, when another alert joins, or as a repeat.
func TestTruncatedLater(t *testing.T) {
	other := func(a playbook.Alert) playbook.Alert { a.Fingerprint = "other"; return a }
	for name, next := range map[string]func(playbook.Alert) playbook.Alert{"repeat": func(a playbook.Alert) playbook.Alert { return a }, "joins": other} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.set = waitingSet(t)
				h.start()
				a := alertOf("Slow", "a")
				h.post(a)
				h.pass(time.Minute)
				h.postTruncated(9900, next(a))
				h.pass(time.Minute)
				s := h.only()
				if !s.Truncated {
					t.Fatal("the run does not know")
				}
				d := &machine.Decision{Approve: true, By: "user:ada", Person: true}
				if err := h.e.Command(t.Context(), s.Start.Run, machine.Command{Kind: machine.CmdDecide, Decision: d}); err != nil {
					t.Fatal(err)
				}
				h.pass(10 * time.Minute)
				if n := h.world.count("apply"); n != 0 {
					t.Errorf("applied with an unknown blast radius: %+v", h.only().Ending)
				}
			})
		})
	}
}
