package runview

import (
	"errors"
	"strings"
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
	for _, tt := range []struct {
		became  string
		runs    []string
		repeats int
		want    string
	}{
		{"run", []string{"r-1"}, 0, "  became   run: it started run r-1\n"},
		{"run", []string{"r-1", "r-2"}, 0, "  became   run: it has a part in runs r-1, r-2, and started at least one of them\n"},
		{"joined", []string{"r-1"}, 1, "  became   joined: it was added to run r-1, which it did not start\n  repeated 1 time, last 12:00:00 UTC, 60s ago; nothing new came of it\n"},
		{"joined", []string{"r-1", "r-2"}, 0, "  became   joined: it was added to runs r-1, r-2, none of which it started\n"},
		{"unmatched", nil, 3, "  became   no run: no playbook\n  repeated 3 times, last 12:00:00 UTC, 60s ago; nothing new came of it\n"},
		{"no-service", nil, 0, "  became   no run: no service\n"},
		{"suppressed", nil, 0, "  became   no run: suppressed\n"},
		{"resolved", nil, 0, "  became   no run: it resolved before it could start one\n"},
	} {
		a.Became, a.Runs, a.Repeats, a.Repeated = tt.became, tt.runs, tt.repeats, seen
		if got, want := AlertWhy(a, clock), "\nSlow aa\n"+tt.want+about; got != want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.became, got, want)
		}
	}
	a.Became, a.Reason, a.Remedy = "paused", "everything is paused by user:ada: load test", "lift it"
	if got, want := AlertWhy(a, clock), "\nSlow aa\n  became   no run: paused\n  why      everything is paused by user:ada: load test\n"+about+"  do       lift it\n"; got != want {
		t.Errorf("paused:\n%s\nwant\n%s", got, want)
	}
}

// TestAlertTableFits: the table fits a terminal, with the beginnings of IDs as the list
// of runs has them; -o wide has them whole, and when an alert was last repeated.
func TestAlertTableFits(t *testing.T) {
	now := time.Date(2030, 3, 4, 12, 0, 0, 0, time.UTC)
	const run, other = "r-01M8JZWJS559A1N2XFDWAMHQN5", "r-01M8K0S32QDASDVJC901PH1ZGX"
	list := api.AlertList{Now: now}
	for i, became := range []string{"run", "joined", "unmatched", "quarantined"} {
		a := api.ReceivedAlert{Episode: became + "@x", Labels: map[string]string{"alertname": "InferenceTTFTFastBurn"}, Seen: now.Add(-25 * time.Hour), Became: became}
		if i < 2 {
			a.Runs, a.Repeats, a.Repeated = []string{other, run}, 1000*i, now.Add(-26*time.Hour)
		}
		list.Alerts = append(list.Alerts, a)
	}
	var narrow, wide strings.Builder
	if err := errors.Join(AlertTable(list).Write(&narrow, false), AlertTable(list).Write(&wide, true)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(narrow.String()) {
		if len([]rune(line)) > Width+1 {
			t.Errorf("too wide: %s", line)
		}
	}
	const want = `AGE  ALERT                  STATE     BECAME       REPEATED  RUN
25h  InferenceTTFTFastBurn  resolved  run          -         r-01M8JZWJS5
25h  InferenceTTFTFastBurn  resolved  joined       1000      r-01M8JZWJS5
25h  InferenceTTFTFastBurn  resolved  no playbook  -         -
25h  InferenceTTFTFastBurn  resolved  quarantined  -         -
`
	if narrow.String() != want {
		t.Errorf("the table is\n%s\nwant\n%s", narrow.String(), want)
	}
	if !strings.Contains(wide.String(), run) || !strings.Contains(wide.String(), "2030-03-03 10:00:00Z") {
		t.Errorf("-o wide is\n%s", wide.String())
	}
}
