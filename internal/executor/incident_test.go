package executor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// restarted starts the executor again, from its snapshot or from the whole log.
func (h *rig) restarted(whole bool) {
	h.t.Helper()
	if err := h.stop(); err != nil {
		h.t.Fatal(err)
	}
	if whole {
		if err := h.journal.SaveProjection("dispatch", nil); err != nil {
			h.t.Fatal(err)
		}
	}
	h.start()
}

func (h *rig) decide(approve bool) {
	h.t.Helper()
	for _, s := range h.runs() {
		if s.Gate == nil {
			continue
		}
		d := &machine.Decision{Gate: s.Gate.ID, Digest: s.Gate.Digest, Approve: approve, By: "user:ada", Person: true, Reason: "so"}
		if err := h.e.Command(h.t.Context(), s.Start.Run, machine.Command{Kind: machine.CmdDecide, Decision: d}); err != nil {
			h.t.Fatal(err)
		}
	}
	h.pass(time.Minute)
}

// An alert of another playbook joins the run that is open about its service. When
// that run ends without having found anything to do, the alert gets a run of its own
// playbook; also after a restart in between.
func TestOneIncidentOneRun(t *testing.T) {
	for name, restart := range map[string]func(h *rig){
		"no restart": func(*rig) {}, "snapshot": func(h *rig) { h.restarted(false) }, "log": func(h *rig) { h.restarted(true) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.start()
				h.post(alertOf("Ask", "a"))
				h.pass(time.Second)
				slow := alertOf("Slow", "a")
				h.post(slow)
				restart(h)
				h.post(slow)
				s := h.only()
				if s.Episodes.Len() != 2 {
					t.Fatalf("the run has %d alerts; %v", s.Episodes.Len(), h.fates())
				}
				if f := h.fates()[1]; f != "coalesced (playbook ladder matches, and a run of playbook asks is open about the service)" {
					t.Errorf("recorded: %s", f)
				}
				h.decide(false) // ends it without an action
				restart(h)
				h.pass(time.Minute)
				runs := h.runs()
				if len(runs) != 2 || runs[1].Start.Playbook != "ladder" || runs[1].Start.Alert.Fingerprint != slow.Fingerprint {
					t.Fatalf("%d runs: %v", len(runs), h.fates())
				}
				if want := []string{slow.Episode()}; len(runs[0].Ending.Released) != 1 || runs[0].Ending.Released[0] != want[0] {
					t.Errorf("released %v, want %v", runs[0].Ending.Released, want)
				}
				restart(h)
				h.post(slow)
				h.pass(20 * time.Minute)
				if n := len(h.runs()); n != 2 {
					t.Errorf("%d runs at the end: %v", n, h.fates())
				}
			})
		})
	}
}

// Alerts of several playbooks in one notification are one incident.
func TestOneNotificationOneRun(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = waitingSet(t)
		h.start()
		h.post(alertOf("Slow", "a"), alertOf("Ask", "a"), alertOf("Slow", "b"))
		h.pass(time.Minute)
		if runs := h.runs(); len(runs) != 2 || runs[0].Start.Playbook != "ladder" || runs[0].Episodes.Len() != 2 {
			t.Errorf("%d runs: %v", len(runs), h.fates())
		}
	})
}

// An own playbook is taken before a shipped one that matches the same alert, and
// the record names the one that was not taken.
func TestOwnPlaybookBeforeShipped(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = loadSet(t, func(text string) string {
			first, _, _ := strings.Cut(text, "\n---\n")
			return text + "\n---\n" + strings.Replace(first, "name: ladder,", "name: own,", 1)
		})
		h.set.ByName("ladder").Shipped = true
		h.start()
		slow := alertOf("Slow", "a")
		h.post(slow)
		if s := h.only(); s.Start.Playbook != "own" {
			t.Errorf("playbook %s was taken", s.Start.Playbook)
		}
		if f := h.fates(); len(f) != 1 || f[0] != "matched (not taken, since one alert starts one run: playbook ladder)" {
			t.Errorf("recorded: %v", f)
		}
		h.pass(20 * time.Minute)
		h.post(slow)
		h.only()
	})
}

// While people have an incident, its next alerts start no run: they are told of
// them. After the window, or when the alerts of that incident have resolved, a run
// starts.
func TestWindowAfterPeople(t *testing.T) {
	for name, restart := range map[string]func(h *rig){
		"no restart": func(*rig) {}, "snapshot": func(h *rig) { h.restarted(false) }, "log": func(h *rig) { h.restarted(true) },
	} {
		for _, resolves := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(t *testing.T, h *rig) {
					h.set = waitingSet(t)
					h.options = func(o *Options) { o.Window = 30 * time.Minute }
					h.start()
					slow := alertOf("Slow", "a")
					h.post(slow)
					h.pass(time.Minute)
					h.decide(false) // escalates
					restart(h)
					h.post(alertOf("Ask", "a"))
					h.pass(10 * time.Minute)
					first := h.only()
					f := h.fates()
					if last := f[len(f)-1]; !strings.HasPrefix(last, "suppressed (people have run "+first.Start.Run+" about this service since 00:0") {
						t.Fatalf("recorded: %v", f)
					}
					if h.world.told("people have run "+first.Start.Run) != 1 {
						t.Errorf("people were told %q", h.world.notices)
					}
					restart(h)
					if resolves {
						h.post(resolvedOf(slow))
					} else {
						h.pass(20 * time.Minute)
					}
					h.pass(time.Minute)
					if runs := h.runs(); len(runs) != 2 || runs[1].Start.Playbook != "asks" {
						t.Errorf("%d runs: %v", len(runs), h.fates())
					}
				})
			})
		}
	}
}

// Nobody answers at night: the question is asked anew by another run once the window
// is over, and again, until the alert resolves. What somebody answered is not.
func TestAskedAnewWhereNobodyAnswers(t *testing.T) {
	for name, restart := range map[string]func(h *rig){
		"no restart": func(*rig) {}, "snapshot": func(h *rig) { h.restarted(false) }, "log": func(h *rig) { h.restarted(true) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.set = loadSet(t, func(s string) string { return strings.Replace(s, "autonomy: auto", "autonomy: suggest", 1) })
				h.options = func(o *Options) { o.Window = 30 * time.Minute }
				h.start()
				slow := alertOf("Slow", "a")
				h.post(slow)
				h.pass(16 * time.Minute)
				if s := h.only(); s.Ending == nil || !strings.Contains(s.Ending.Message, "while the alert fires, another run will look at it") {
					t.Fatalf("it ended %+v: %s %+v", s.Ending, s.Phase, s.Gate)
				}
				restart(h)
				h.pass(20 * time.Minute)
				h.only()
				h.pass(10 * time.Minute)
				if runs := h.runs(); len(runs) != 2 || runs[1].Gate == nil {
					t.Fatalf("%d runs, want a second one that asks: %v", len(runs), h.fates())
				}
				restart(h)
				h.decide(false)
				h.pass(2 * time.Hour)
				if runs := h.runs(); len(runs) != 2 {
					t.Errorf("%d runs, and somebody has denied: %v", len(runs), h.fates())
				}
				restart(h)
				further := alertOf("Slow", "a")
				further.Fingerprint = "further"
				h.post(further)
				h.pass(time.Minute)
				if runs := h.runs(); len(runs) != 3 || runs[2].Start.Unanswered != nil {
					t.Errorf("a further alert, and the question before it was answered: %d runs, %+v", len(runs), runs[len(runs)-1].Start.Unanswered)
				}
			})
		})
	}
}

// Whom nobody answers asks less and less often, and says how often it asked. An alert
// that another playbook matches does not wait for that. A run that took over by a divert
// is followed by another one, too.
func TestAsksLessOftenWhereNobodyAnswers(t *testing.T) {
	const first, second, third = 16 * time.Minute, 46 * time.Minute, 122 * time.Minute // 15 m of question and 30 m, then 60 m, of patience
	for name, alert := range map[string]string{"its own playbook": "Slow", "by divert": "Ask"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.set = loadSet(t, func(s string) string {
					return strings.NewReplacer("autonomy: auto", "autonomy: suggest", "out.value > 5", "out.value > 0").Replace(s)
				})
				h.options = func(o *Options) { o.Window = 30 * time.Minute }
				h.start()
				asked := func() (gates []string) {
					for _, s := range h.runs() {
						if s.Gate != nil {
							gates = append(gates, s.Gate.Text)
						}
					}
					return gates
				}
				h.post(alertOf(alert, "a"))
				h.pass(first)
				h.restarted(true)
				h.pass(second - first)
				if g := asked(); len(g) != 1 || !strings.Contains(g[0], "asked again: nobody answered the run before") {
					t.Fatalf("after the window: %q; %v", g, h.fates())
				}
				h.pass(third - 15*time.Minute - second)
				if g := asked(); len(g) != 0 {
					t.Errorf("it asks as often as before: %q", g)
				}
				h.restarted(false)
				h.pass(15 * time.Minute)
				if g := asked(); len(g) != 1 || !strings.Contains(g[0], "nobody answered the 2 runs before, the first by ") {
					t.Errorf("after two windows: %q; %v", g, h.fates())
				}
			})
		})
	}
	bubble(t, func(t *testing.T, h *rig) {
		h.set = loadSet(t, func(s string) string { return strings.Replace(s, "autonomy: auto", "autonomy: suggest", 1) })
		h.options = func(o *Options) { o.Window = 30 * time.Minute }
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(first)
		h.post(alertOf("Ask", "a"))
		h.pass(time.Minute)
		if runs := h.runs(); len(runs) != 2 || runs[1].Start.Playbook != "asks" || runs[1].Start.Unanswered != nil {
			t.Errorf("another playbook's alert waits for what nobody answered: %v", h.fates())
		}
	})
}

// The alerts of two playbooks on one service do not take turns in asking: each of them
// asks less and less often.
func TestTwoPlaybooksAskLessOften(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = loadSet(t, func(text string) string {
			text = strings.Replace(text, "autonomy: auto", "autonomy: suggest", 1)
			first, _, _ := strings.Cut(text, "\n---\n")
			return text + "\n---\n" + strings.NewReplacer("name: ladder,", "name: drill,", `="Slow"`, `="Drill"`).Replace(first)
		})
		h.options = func(o *Options) { o.Window = 30 * time.Minute }
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Minute)
		h.post(alertOf("Drill", "a"))
		h.pass(2 * time.Hour)
		h.restarted(true)
		h.pass(3 * time.Hour)
		of := map[string][]int{}
		for _, s := range h.runs() {
			times := 0
			if u := s.Start.Unanswered; u != nil {
				times = u.Times
			}
			of[s.Start.Playbook] = append(of[s.Start.Playbook], times)
		}
		if diff := cmp.Diff(map[string][]int{"ladder": {0, 1, 2, 3}, "drill": {0, 1, 2, 3}}, of); diff != "" {
			t.Errorf("runs within five hours, and how many before were not answered (-want +got):\n%s", diff)
		}
	})
}

// Whoever takes over learns of all alerts that fire.
func TestEscalationNamesJoinedAlerts(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = waitingSet(t)
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Minute)
		h.post(alertOf("Ask", "a"))
		h.pass(time.Minute)
		h.decide(false)
		if s := h.only(); s.Ending == nil || !strings.HasSuffix(s.Ending.Message, "; also firing: Ask") {
			t.Errorf("it ended %+v; %v", s.Ending, h.fates())
		}
		h.post(alertOf("Ask", "a"))
	})
}

// A decision that came too late may be recorded after the end of a run. The next
// start knows all the same which alerts the run let go.
func TestReleaseBeforeALateDecision(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		h.post(alertOf("Ask", "a"))
		h.pass(time.Second)
		h.post(alertOf("Slow", "a"))
		r := h.e.find(h.only().Start.Run)
		h.inLoop(func(b *batch) error {
			for range 2 {
				d := &machine.Decision{By: "user:ada", Person: true, Reason: "no"}
				refused, err := b.turn(r, machine.Command{Kind: machine.CmdDecide, Now: b.now, Decision: d})
				if err != nil {
					return err
				}
				t.Log("refused:", refused)
			}
			return nil
		})
		h.pass(time.Minute)
		known := h.e.dispatch.Remembered()
		h.restarted(true)
		if diff := cmp.Diff(known, h.e.dispatch.Remembered()); diff != "" {
			t.Errorf("the log has it otherwise (-memory +log):\n%s", diff)
		}
	})
}

// A run that finds another one acting on its service waits for it, without any
// limit but its own, and then looks again: what the other one did may have been
// enough.
func TestWaitsForTheOtherRun(t *testing.T) {
	for _, helps := range []bool{true, false} {
		t.Run(fmt.Sprintf("helps=%v", helps), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.set = loadSet(t, func(text string) string {
					first, _, _ := strings.Cut(text, "\n---\n")
					return text + "\n---\n" + strings.NewReplacer("name: ladder,", "name: drill,", `="Slow"`, `="Drill"`).Replace(first)
				})
				h.world.settles = 25 * time.Minute
				served := false // it takes its time
				h.world.helps = func(v int) bool { return helps && served && v == 5 }
				h.options = func(o *Options) {
					o.Catalog = func() ([]playbook.Service, error) { return []playbook.Service{testServices()["a"]}, nil }
					o.Guards.Cooldown = 10 * time.Minute
				}
				h.start()
				id, _, err := h.e.StartRun(t.Context(), StartRequest{Playbook: "drill", Service: "a", By: "user:bob", Person: true})
				if err != nil {
					t.Fatal(err)
				}
				h.pass(time.Second)
				h.decide(true) // ada approves
				h.post(alertOf("Slow", "a"))
				h.pass(20 * time.Minute)
				h.restart()
				waits := h.runs()[1]
				if run, same := waits.WaitsFor(); run != id || !same || h.world.count("apply") != 1 {
					t.Fatalf("it is %s in %s and waits for %q", waits.Phase, waits.Current, run)
				}
				h.world.mu.Lock()
				served = true
				h.world.mu.Unlock()
				h.passUntil(func() bool { return len(h.runs()[1].Path) > 2 })
				again := h.runs()[1]
				if again.Path[1].Edge != "run "+id+" no longer acts on the service: looks again" {
					t.Fatalf("the way of the run: %+v", again.Path)
				}
				h.pass(time.Hour)
				s := h.runs()[1]
				if want := map[bool]machine.RunOutcome{true: machine.OutcomeNoAction, false: machine.OutcomeEscalated}[helps]; s.Ending == nil || s.Ending.Outcome != want {
					t.Errorf("it ended %+v by %+v, want %s", s.Ending, s.Path, want)
				}
				if tried := s.Levers > 0; tried == helps {
					t.Errorf("%d levers of the run that waited, and the other one helped: %v", s.Levers, helps)
				}
			})
		})
	}
}
