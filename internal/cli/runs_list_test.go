package cli

import (
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/webhook"
)

// The list shows why a run was set aside.
func TestRunSetAsideIsListed(t *testing.T) {
	s := machine.State{Phase: machine.PhaseHeld, Current: "scale", Aside: &machine.Aside{Message: "its playbook no longer compiles"}}
	rows := runTable([]webhook.RunSummary{{State: s}}).Rows
	if len(rows) != 1 || rows[0][1] != "set aside" || rows[0][8] != "its playbook no longer compiles" {
		t.Errorf("listed as %q", rows)
	}
}
