package executor

import (
	"testing"
	"time"

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
			all, more, err := h.e.Alerts(dispatch.SeenFilter{}, 50)
			if err != nil || more || len(all) != 3 {
				t.Fatalf("%s: %d alerts, more: %v, %v", when, len(all), more, err)
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
		if some, more, err := h.e.Alerts(dispatch.SeenFilter{NoRun: true}, 1); err != nil || !more || len(some) != 1 || some[0].Kind != "alert.no-service" {
			t.Errorf("one without a run: %+v, more: %v, %v", some, more, err)
		}
		first, _, err := h.e.Alerts(dispatch.SeenFilter{}, 50)
		if err != nil {
			t.Fatal(err)
		}
		if one, _, err := h.e.Alerts(dispatch.SeenFilter{Episode: first[2].Episode[:8]}, 50); err != nil || len(one) == 0 || one[0].Alert == nil {
			t.Errorf("by its fingerprint: %+v, %v", one, err)
		}
		fires := false
		if none, _, err := h.e.Alerts(dispatch.SeenFilter{Firing: &fires}, 50); err != nil || len(none) > 0 {
			t.Errorf("none is resolved: %+v, %v", none, err)
		}
		h.post(resolvedOf(alertOf("Slow", "a")))
		if done, _, err := h.e.Alerts(dispatch.SeenFilter{Firing: &fires}, 50); err != nil || len(done) != 1 || done[0].Resolved.IsZero() {
			t.Errorf("one is resolved: %+v, %v", done, err)
		}
	})
}
