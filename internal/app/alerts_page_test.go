package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/api"
)

// TestAlertsPage: the page says of an alert without a run which playbook is nearest and what fails of it, and
// what to do, once for all of a kind.
func TestAlertsPage(t *testing.T) {
	page := alertsPage(api.AlertList{Alerts: []api.ReceivedAlert{
		{Episode: "1@x", Became: "unmatched", Labels: map[string]string{"alertname": "TTFTHigh"}, Reason: "no playbook matches", Nearest: "inference-slo-breach", Mismatches: []string{`alertname="TTFTHigh"`}, Remedy: "extend a match"},
		{Episode: "2@x", Became: "unmatched", Labels: map[string]string{"alertname": "Other"}, Reason: "no playbook matches", Remedy: "extend a match"},
		{Episode: "3@x", Became: "no-service", Reason: "no service has namespace=\"x\"", Remedy: "add it"},
		{Episode: "4@x", Became: "run", Runs: []string{"r-1"}},
	}})
	text := fmt.Sprint(page.Rows)
	for _, want := range []string{`no playbook matches; nearest is playbook inference-slo-breach: alertname="TTFTHigh"`, `no service has namespace="x"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
	if want := []string{"What to do about no-service: add it.", "What to do about unmatched: extend a match."}; !slices.Equal(page.Notes, want) {
		t.Errorf("its notes are %q, want %q", page.Notes, want)
	}
}
