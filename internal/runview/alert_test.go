package runview

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
)

// The age of an alert is by the service's clock: in a sandbox it differs from the
// client's by days. An answer without the time shows no age.
func TestAgeOfAlerts(t *testing.T) {
	seen := time.Date(2030, 3, 4, 12, 0, 0, 0, time.UTC)
	list := api.AlertList{Alerts: []api.ReceivedAlert{{Episode: "aa@x", Seen: seen}}}
	if age := AlertTable(list).Rows[0][0]; age != "" {
		t.Errorf("without a time: %q", age)
	}
	list.Now = seen.Add(90 * time.Second)
	if age := AlertTable(list).Rows[0][0]; age != "90s" {
		t.Errorf("after 90 s: %q", age)
	}
}

// An alert with a run is explained too, and one that was received says when.
func TestAlertWhy(t *testing.T) {
	seen := time.Date(2030, 3, 4, 12, 0, 0, 0, time.UTC)
	a := api.ReceivedAlert{
		Episode: "aa@x", Labels: map[string]string{"alertname": "Slow", "namespace": "serving"}, Starts: seen.Add(-time.Minute), Seen: seen,
		Became: "run", Runs: []string{"r-1", "r-2"},
	}
	clock := Clock{Now: seen.Add(time.Minute)}
	const about = "  labels   namespace=\"serving\"\n  started  11:59:00 UTC, 2m ago\n  seen     12:00:00 UTC, 60s ago\n"
	if got, want := AlertWhy(a, clock), "\nSlow aa\n  became   it started or joined runs r-1, r-2\n"+about; got != want {
		t.Errorf("with runs:\n%s\nwant\n%s", got, want)
	}
	a.Became, a.Runs, a.Reason, a.Remedy = "suppressed", nil, "paused: load test", "lift it"
	if got, want := AlertWhy(a, clock), "\nSlow aa\n  became   no run: suppressed\n  why      paused: load test\n"+about+"  do       lift it\n"; got != want {
		t.Errorf("paused:\n%s\nwant\n%s", got, want)
	}
}
