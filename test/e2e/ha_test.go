//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// A pair of Alertmanagers that cannot see each other sends everything twice;
// one run results, and what became of the duplicate is on record.
func TestPairOfAlertmanagersMakesOneRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{alertmanagers: 2})
	w.setImage(t, "vllm:v2-bad")
	w.responder.AwaitEnd(t, 2*time.Minute, machine.OutcomeResolved)

	rig.Await(t, 60*time.Second, "both Alertmanagers said firing and resolved", func(ctx context.Context) (bool, string) {
		entries, err := w.responder.Entries(ctx)
		if err != nil {
			return false, err.Error()
		}
		firing, resolved := notifications(t, entries, "InferenceTTFTFastBurn")
		return firing >= 2 && resolved >= 2, fmt.Sprintf("%d firing, %d resolved", firing, resolved)
	})
	w.responder.AwaitEnd(t, 10*time.Second, machine.OutcomeResolved) // still the only run
	w.wantWrites(t, w.patched(200))
	entries, err := w.responder.Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	decided := map[string]int{}
	for _, e := range entries {
		if e.Stream == "dispatch" {
			decided[e.Kind]++
		}
	}
	if decided["alert.matched"] != 1 || decided["alert.repeated"] < 1 {
		t.Errorf("what became of the alerts: %v; want one matched and the others on record as repeats", decided)
	}
}

// notifications counts the admitted notifications of one alert.
func notifications(t *testing.T, entries []rig.Entry, alertname string) (firing, resolved int) {
	t.Helper()
	for _, e := range entries {
		if e.Stream != "intake" {
			continue
		}
		var n struct {
			Status      string            `json:"status"`
			GroupLabels map[string]string `json:"groupLabels"`
		}
		if err := json.Unmarshal(e.Data, &n); err != nil {
			t.Fatalf("entry %d: %v", e.Seq, err)
		}
		switch {
		case n.GroupLabels["alertname"] != alertname:
		case n.Status == "firing":
			firing++
		default:
			resolved++
		}
	}
	return firing, resolved
}
