package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
)

// The list shows why a run is quarantined.
func TestQuarantinedRunIsListed(t *testing.T) {
	s := machine.State{Phase: machine.PhaseHeld, Current: "scale", Quarantine: &machine.Quarantine{Message: "its playbook no longer compiles"}}
	rows := runTable(api.RunList{Runs: []api.RunSummary{api.SummaryOf(s)}}).Rows
	if len(rows) != 1 || rows[0][2] != "quarantined" || rows[0][9] != "its playbook no longer compiles" {
		t.Errorf("listed as %q", rows)
	}
}

// Two services of one namespace differ at their end: other columns are cut before them. A
// state that only repeats the status leaves them more room.
func TestServicesAreListedWhole(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	list := api.RunList{Now: now, Runs: []api.RunSummary{
		{Run: "r-01M8JZWJS559A1N2XFDWAMHQN5", Status: "deciding", Service: "serving/inference-chat", Playbook: "inference-slo-breach", State: "rollback-release", Began: now},
		{Run: "r-01M8K0S32QDASDVJC901PH1ZGX", Status: "resolved", Service: "serving/inference-code", Playbook: "kv-cache-thrash", State: "resolved", Began: now},
	}}
	var table bytes.Buffer
	if err := runTable(list).Write(&table, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  serving/inference-chat  ", "  serving/inference-code  ", "  -\n"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("%q is not in\n%s", want, table.String())
		}
	}
	for line := range strings.Lines(table.String()) {
		if len([]rune(line)) > runview.Width+1 {
			t.Errorf("too wide: %s", line)
		}
	}
}

// The list fits a terminal: IDs are as short as they can be and still mean one run.
func TestRunsAreListedByShortIDs(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	list := api.RunList{Now: now}
	for _, id := range []string{"r-01M8JZWJS559A1N2XFDWAMHQN5", "r-01M8JZWJS559B1N2XFDWAMHQN5", "r-01M8K0S32QDASDVJC901PH1ZGX"} {
		list.Runs = append(list.Runs, api.RunSummary{Run: id, Status: "deciding", Service: "serving/inference-chat", Playbook: "inference-slo-breach", State: "rollback", Began: now.Add(-3 * time.Minute)})
	}
	var table, names bytes.Buffer
	if err := runTable(list).Write(&table, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nr-01M8JZWJS559A  3m ", "\nr-01M8JZWJS559B  3m ", "\nr-01M8K0S32Q     3m "} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("%q is not in\n%s", want, table.String())
		}
	}
	for line := range strings.Lines(table.String()) {
		if len([]rune(line)) > runview.Width+1 {
			t.Errorf("too wide: %s", line)
		}
	}
	if err := runTable(list).WriteNames(&names); err != nil || !strings.HasPrefix(names.String(), list.Runs[0].Run+"\n") {
		t.Errorf("names: %q, %v", names.String(), err)
	}
}
