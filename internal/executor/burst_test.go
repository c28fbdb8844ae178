package executor

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// manyPlaybooks is a set in which so many playbooks match each alert.
func manyPlaybooks(t *testing.T, n int) *playbook.Set {
	t.Helper()
	return loadSet(t, func(text string) string {
		first, _, _ := strings.Cut(text, "\n---\n")
		for i := range n - 1 {
			text += "\n---\n" + strings.Replace(first, "name: ladder,", fmt.Sprintf("name: ladder-%d,", i), 1)
		}
		return strings.ReplaceAll(text, "autonomy: auto", "autonomy: suggest") // they wait for people
	})
}

func stormOf(n int) []playbook.Alert {
	var alerts []playbook.Alert
	for i := range n {
		alerts = append(alerts, alertOf("Slow", fmt.Sprintf("n%d", i)))
	}
	return alerts
}

// A burst whose runs are more facts than one append takes starts all of them:
// no notification is blamed for those beside it.
func TestBurstOfManyPlaybooks(t *testing.T) {
	const alerts, playbooks = 1440, 2
	for name, post := range map[string]func(h *rig){
		"one notification": func(h *rig) { h.post(stormOf(alerts)...) },
		"many at once": func(h *rig) {
			for part := range 40 {
				h.post(stormOf(alerts)[part*36 : part*36+36]...)
			}
		},
	} {
		for _, paused := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/paused=%v", name, paused), func(t *testing.T) {
				bubble(t, func(t *testing.T, h *rig) {
					h.set = manyPlaybooks(t, playbooks)
					if paused {
						h.start()
						if err := h.e.Pause(t.Context(), Scope{}, "user:ada", "storm"); err != nil {
							t.Fatal(err)
						}
						post(h)
						if err := h.e.Unpause(t.Context(), Scope{}, "user:ada", "over"); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
					} else {
						post(h)
						h.start()
					}
					if n := h.e.countOpen(); n != alerts || h.e.Ready() != nil || h.world.told("quarantined") != 0 {
						t.Errorf("%d runs, want %d; ready: %v; people were told %.2000q", n, alerts, h.e.Ready(), h.world.notices)
					}
				})
			})
		}
	}
}

// Alerts about one service that somebody makes up fill a run's memory no further than
// its bound. It knows that there are more, so that it does not act by itself; the rest
// waits, and gets a run when that one has ended.
func TestBurstAboutOneService(t *testing.T) {
	const alerts = machine.MostEpisodes + 500
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		var made []playbook.Alert
		for i := range alerts {
			a := alertOf("Slow", "a")
			a.Fingerprint = fmt.Sprintf("%016x", i)
			made = append(made, a)
		}
		h.post(made[:300]...)
		h.post(made[300:]...)
		bounded := func(when string) {
			t.Helper()
			full := 0
			for _, s := range h.runs() { // in any order: they begin at one moment
				n := s.Episodes.Len()
				if n > machine.MostEpisodes || n == machine.MostEpisodes && !s.Truncated {
					t.Errorf("%s: run %s remembers %d alerts, and that there are more: %v", when, s.Start.Run, n, s.Truncated)
				}
				if s.Full() {
					full++
				}
				if s.Full() && s.Levers > 0 {
					t.Errorf("%s: run %s has %d alerts and has changed %d things", when, s.Start.Run, n, s.Levers)
				}
			}
			if full == 0 {
				t.Errorf("%s: no run is full", when)
			}
		}
		bounded("at first")
		h.restart()
		bounded("after a restart")
		if n := h.world.told("takes no more"); n == 0 || n > 10 {
			t.Errorf("people were told %d times: %.2000q", n, h.world.notices)
		}
	})
}

// With as many alerts that had a run as may be remembered, no other gets one. People are
// told, and the service says so itself.
func TestCrowdedAlerts(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		for i := range 200_000 {
			a := alertOf("Slow", "other")
			a.Fingerprint = fmt.Sprint(i)
			h.e.dispatch.Has(a, machine.Start{Run: "r-before", Playbook: "ladder"}, time.Now())
		}
		h.post(alertOf("Slow", "a"))
		if n := len(h.runs()); n != 0 || h.world.told("does somebody make alerts up?") != 1 || !h.e.Crowded() || !h.e.Figures().Crowded {
			t.Fatalf("%d runs; crowded: %v; people were told %.2000q", n, h.e.Crowded(), h.world.notices)
		}
	})
}

// Alerts that resolved leave room in a run's memory, so that flapping ones do not keep it
// from acting.
func TestFlappingAlertsDoNotFillARun(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = waitingSet(t)
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Minute)
		for i := range machine.MostEpisodes + 50 {
			a := alertOf("Slow", "a")
			a.Fingerprint = fmt.Sprint("flaps-", i)
			h.post(a)
			h.post(resolvedOf(a))
		}
		h.pass(time.Minute)
		h.restart()
		s := h.only()
		if n := s.Episodes.Len(); n != machine.MostEpisodes || s.Truncated || s.Full() || s.Episodes.Get(s.Start.Alert.Episode()) == nil {
			t.Fatalf("%d alerts are remembered, truncated: %v, full: %v, the first: %v", n, s.Truncated, s.Full(), s.Episodes.Get(s.Start.Alert.Episode()))
		}
		d := &machine.Decision{Approve: true, By: "user:ada", Person: true}
		if err := h.e.Command(t.Context(), s.Start.Run, machine.Command{Kind: machine.CmdDecide, Decision: d}); err != nil {
			t.Fatal(err)
		}
		h.pass(10 * time.Minute)
		if n := h.world.count("apply"); n != 1 {
			t.Errorf("applied %d times: %+v", n, h.only().Ending)
		}
	})
}
