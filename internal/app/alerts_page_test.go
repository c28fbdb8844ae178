package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
)

// TestAlertsPage: the page says of an alert without a run which playbook is nearest and what fails of it, and
// what to do, once for all of a kind.
func TestAlertsPage(t *testing.T) {
	page := alertsPage(api.AlertList{Alerts: []api.ReceivedAlert{
		{Episode: "1@x", Became: "unmatched", Labels: map[string]string{"alertname": "TTFTHigh"}, Reason: "no playbook matches", Nearest: "inference-slo-breach", Mismatches: []string{`alertname="TTFTHigh"`}, Remedy: "extend a match"},
		{Episode: "2@x", Became: "unmatched", Labels: map[string]string{"alertname": "Other"}, Reason: "no playbook matches", Remedy: "extend a match"},
		{Episode: "3@x", Became: "no-service", Reason: "no service has namespace=\"x\"", Remedy: "add it"},
		{Episode: "4@x", Became: "run", Runs: []string{"r-1"}, Starts: time.Date(2026, 5, 4, 13, 0, 0, 0, time.UTC)},
		{Episode: "5@x", Became: "joined", Runs: []string{"r-1"}, Repeats: 3, Repeated: time.Date(2026, 5, 4, 14, 2, 0, 0, time.UTC)},
		{Episode: "6@x", Became: "paused", Reason: "everything is paused by user:ada: load test", Remedy: "lift it"},
	}})
	text := fmt.Sprint(page.Rows)
	for _, want := range []string{
		`no playbook matches; nearest is playbook inference-slo-breach: alertname="TTFTHigh"`, `no service has namespace="x"`, "everything is paused by user:ada: load test",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
	var shown [][]string
	for _, row := range page.Rows {
		var cells []string
		for i, c := range page.Columns {
			if !c.Wide && c.Head != "AGE" && c.Head != "REASON" && c.Head != "LABELS" {
				cells = append(cells, row[i])
			}
		}
		shown = append(shown, cells)
	}
	want := [][]string{
		{"TTFTHigh", "resolved", "no playbook", "", "", "", "1", ""},
		{"Other", "resolved", "no playbook", "", "", "", "2", ""},
		{"3", "resolved", "no service", "", "", "", "3", ""},
		{"4", "resolved", "run", "", "r-1", "", "4", "2026-05-04 13:00:00Z"},
		{"5", "resolved", "joined", "3", "r-1", "2026-05-04 14:02:00Z", "5", ""},
		{"6", "resolved", "paused", "", "", "", "6", ""},
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("the page shows (-want +got):\n%s", diff)
	}
	if want := []string{"What to do about no playbook: extend a match.", "What to do about no service: add it.", "What to do about paused: lift it."}; !slices.Equal(page.Notes, want) {
		t.Errorf("its notes are %q, want %q", page.Notes, want)
	}
}

// TestAlertOfAReleasedRun: an alert that fires and lost its run did not resolve.
func TestAlertOfAReleasedRun(t *testing.T) {
	got := received{}.alert(executor.SeenAlert{Seen: dispatch.Seen{Episode: "1@x", Firing: true, Kind: dispatch.KindReleased, Reason: "run r-1 was released"}})
	if got.Became != "released" || got.Reason != "run r-1 was released" || !strings.Contains(got.Remedy, "when Alertmanager sends it again") {
		t.Errorf("%+v", got)
	}
}
