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
