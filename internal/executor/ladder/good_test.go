package ladder

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// TestUnseenRevision: a commit of which a part cannot be read from what runs is
// no revision to go back to; the settings that were read stay.
func TestUnseenRevision(t *testing.T) {
	settings := []machine.Setting{{Name: "image", Value: "vllm:v0.11"}}
	for unseen, want := range map[string]string{"": "c2", "memory: no field that is read": ""} {
		got := verifiedBy(&machine.Lever{
			Plan: &machine.Plan{Good: settings, Unseen: unseen}, Receipt: json.RawMessage(`{"revision":"c2"}`),
		})
		if diff := cmp.Diff(&Verified{Revision: want, Settings: settings}, got); diff != "" {
			t.Errorf("unseen %q (-want +got):\n%s", unseen, diff)
		}
	}
}
