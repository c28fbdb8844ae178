package cli

import (
	"testing"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// The list shows why a run is quarantined.
func TestQuarantinedRunIsListed(t *testing.T) {
	s := machine.State{Phase: machine.PhaseHeld, Current: "scale", Quarantine: &machine.Quarantine{Message: "its playbook no longer compiles"}}
	rows := runTable([]api.RunSummary{api.SummaryOf(s)}).Rows
	if len(rows) != 1 || rows[0][1] != "quarantined" || rows[0][8] != "its playbook no longer compiles" {
		t.Errorf("listed as %q", rows)
	}
}
