package runview

import (
	"slices"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// What decided comes first, and a new look takes the place of the old one.
func TestEvidenceThatDecidedComesFirst(t *testing.T) {
	var e Evidence
	e.Add("slo", []string{"slo: 97 % slow"})
	e.Add("pods", []string{"pods: 3 of 4 ready"})
	e.Add("changes", []string{"changes: revision 3 changed the image", "changes: 8 -> 9"})
	e.Add("pods", []string{"pods: 4 of 4 ready"})
	e.Decided([]machine.Examined{
		{Result: playbook.False, Values: []string{"slo.status = breached"}},
		{Result: playbook.True, Values: []string{"changes.suspect = true"}},
	})
	want := []string{"changes: revision 3 changed the image", "changes: 8 -> 9", "slo: 97 % slow", "pods: 4 of 4 ready"}
	if got := e.Lines(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
