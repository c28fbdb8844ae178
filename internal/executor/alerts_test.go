package executor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/dispatch"
)

// TestAlerts: each alert that was received is told with what became of it, those first
// that were mentioned last, also after a restart.
func TestAlerts(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		h.post(alertOf("Slow", "a"))
		time.Sleep(time.Second)
		h.post(alertOf("Unheard", "a"))
		time.Sleep(time.Second)
		h.post(alertOf("Slow", ""))
		look := func(when string) {
			t.Helper()
			all, more := h.e.Alerts(dispatch.SeenFilter{}, 50)
			if more || len(all) != 3 {
				t.Fatalf("%s: %d alerts, more: %v", when, len(all), more)
			}
			for i, want := range []string{"alert.no-service", "alert.unmatched", ""} {
				a := all[i]
				if a.Kind != want || (len(a.Runs) > 0) != (want == "") || (a.Reason == "") != (want == "") || !a.Firing || a.Alert == nil || a.Alert.Labels["alertname"] == "" {
					t.Errorf("%s: %d: %+v of %+v", when, i, a.Seen, a.Alert)
				}
			}
		}
		look("at first")
		h.restart()
		look("after a restart")
		if some, more := h.e.Alerts(dispatch.SeenFilter{NoRun: true}, 1); !more || len(some) != 1 || some[0].Kind != "alert.no-service" {
			t.Errorf("one without a run: %+v, more: %v", some, more)
		}
		first, _ := h.e.Alerts(dispatch.SeenFilter{}, 50)
		if one, _ := h.e.Alerts(dispatch.SeenFilter{Episode: first[2].Episode[:8]}, 50); len(one) == 0 || one[0].Alert == nil {
			t.Errorf("by its fingerprint: %+v", one)
		}
		fires := false
		if none, _ := h.e.Alerts(dispatch.SeenFilter{Firing: &fires}, 50); len(none) > 0 {
			t.Errorf("none is resolved: %+v", none)
		}
		h.post(resolvedOf(alertOf("Slow", "a")))
		if done, _ := h.e.Alerts(dispatch.SeenFilter{Firing: &fires}, 50); len(done) != 1 || done[0].Resolved.IsZero() {
			t.Errorf("one is resolved: %+v", done)
		}
	})
}

// What senders write into labels and annotations is in the journal as they wrote it, also
// where it looks like a credential: it is theirs to keep out.
func TestLabelsAreKeptAsTheyAre(t *testing.T) {
	const secret = "hf_canaryCANARYcanary01"
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		a := alertOf("Slow", "a")
		a.Labels["token"], a.Annotations = secret, map[string]string{"summary": "Bearer " + secret}
		h.post(a)
		h.pass(time.Second)
		h.restart()
		if got := h.only().Start.Alert; got.Labels["token"] != secret || got.Annotations["summary"] != "Bearer "+secret {
			t.Errorf("kept are %q and %q", got.Labels, got.Annotations)
		}
	})
}

// TestBecameOfAlerts: what became of an alert tells the one that started a run from one
// that joined it, a pause from what else was in the way, and how often it was sent again
// since. A restart gives the same answers, from the snapshot and from the log.
func TestBecameOfAlerts(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		ask, slow, paused, unheard := alertOf("Ask", "a"), alertOf("Slow", "a"), alertOf("Slow", "b"), alertOf("Unheard", "a")
		other := alertOf("Ask", "c") // its run is quarantined
		other.Fingerprint, other.Labels["pod"] = "f-other", "two"
		h.post(ask)
		h.post(alertOf("Ask", "c"))
		h.pass(time.Second)
		for _, s := range h.runs() {
			if s.Start.Service.Name == "c" {
				h.quarantineNow(s.Start.Run)
			}
		}
		if err := h.e.Pause(t.Context(), Scope{Service: "b"}, "user:ada", "load test"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			h.post(slow, paused)
			h.pass(time.Minute)
		}
		h.post(unheard)
		h.postTruncated(7, paused, other)
		last := time.Now()
		h.pass(time.Minute)
		h.post(alertOf("Slow", ""))
		look := func(when string, want map[string]string) {
			t.Helper()
			all, _ := h.e.Alerts(dispatch.SeenFilter{}, 50)
			got := map[string]string{}
			for _, s := range all {
				text := fmt.Sprintf("%d runs", len(s.Runs))
				if s.Joined {
					text += " joined"
				}
				if s.Paused {
					text += " paused"
				}
				if s.Kind != "" {
					text += " " + s.Kind
				}
				if s.Repeats > 0 {
					text += fmt.Sprintf(", %d times until %s", s.Repeats, s.Repeated.Sub(last))
				}
				got[s.Alert.Labels["alertname"]+" "+s.Alert.Labels["service"]+s.Alert.Labels["pod"]] = text
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		want := map[string]string{
			"Ask a": "1 runs", "Ask c": "1 runs", "Slow a": "1 runs joined, 2 times until -1m0s", "Slow b": "0 runs paused alert.suppressed, 3 times until 0s",
			"Ask ctwo": "0 runs alert.suppressed", "Slow ": "0 runs alert.no-service", "Unheard a": "0 runs alert.unmatched",
		}
		everywhere := func(when string) {
			t.Helper()
			look(when, want)
			h.restarted(false)
			look(when+", from the snapshot", want)
			h.restarted(true)
			look(when+", from the log", want)
		}
		everywhere("at first")
		if err := h.e.Unpause(t.Context(), Scope{Service: "b"}, "user:ada", "it is over"); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Second)
		want["Slow b"] = "1 runs"
		h.post(unheard)
		want["Unheard a"] = "0 runs alert.unmatched, 1 times until " + time.Since(last).String()
		everywhere("after the pause")
		h.post(resolvedOf(slow))
		everywhere("after one resolved")

		h.post(ask)
		for _, s := range h.runs() {
			if s.Start.Service.Name == "a" {
				h.quarantineNow(s.Start.Run)
				h.mustRelease(s.Start.Run)
			}
		}
		want["Ask a"], want["Slow a"] = "0 runs alert.released", "0 runs alert.released"
		everywhere("after a run was released")
		h.post(ask)
		h.pass(time.Second)
		want["Ask a"] = "1 runs"
		everywhere("after it was sent again")
	})
}

// TestReleasedAfterADivert: an alert whose run was released starts another one also where
// that run took over from a first one, and a restart knows the same of it.
func TestReleasedAfterADivert(t *testing.T) {
	for name, alerts := range map[string][]string{"it began the first run": {"Ask"}, "it joined the first run": {"Ask", "Slow"}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.set = loadSet(t, func(s string) string {
					return strings.NewReplacer("autonomy: auto", "autonomy: suggest", "out.value > 5", "out.value > 0").Replace(s)
				})
				h.start()
				for _, alert := range alerts {
					h.post(alertOf(alert, "a"))
				}
				h.pass(time.Minute)
				runs := h.runs()
				if len(runs) != 2 || runs[1].Start.DivertedFrom != runs[0].Start.Run {
					t.Fatalf("no run took over: %v", h.fates())
				}
				h.quarantineNow(runs[1].Start.Run)
				h.mustRelease(runs[1].Start.Run)
				want := "run " + runs[1].Start.Run + " was released"
				look := func(when string) {
					t.Helper()
					all, _ := h.e.Alerts(dispatch.SeenFilter{}, 50)
					for _, s := range all {
						if len(s.Runs) != 0 || s.Kind != dispatch.KindReleased || s.Reason != want {
							t.Errorf("%s: %+v, want that %s", when, s.Seen, want)
						}
					}
				}
				look("then")
				h.restarted(true)
				look("after a restart from the log")
				h.restarted(false)
				look("after a restart from the snapshot")
				h.post(alertOf(alerts[0], "a"))
				h.pass(time.Second)
				if n := len(h.runs()); n != 4 {
					t.Errorf("%d runs after it was sent again, want another one, and one that it hands over to: %v", n, h.fates())
				}
			})
		})
	}
}
