package machine

import (
	"slices"
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
)

// What a playbook tells goes where the state says; what needs a person goes to
// the default channels, whatever state the run stands in.
func TestNoticeGoesWhere(t *testing.T) {
	docs, err := playbook.Parse("f.yaml", []byte(`
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: tell, runbook: docs/tell.md}
spec:
  match: '{alertname="A"}'
  start: tell
  states:
    tell: {notify: hello, to: [audit-feed], next: done}
    done: {end: escalated}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := State{Playbook: docs[0], Phase: PhaseNotifying, Current: "tell", Open: &OpenEffect{Action: ActionNotify}}
	if e, ok := Pending(s); !ok || !slices.Equal(e.To, []string{"audit-feed"}) || e.Urgent || e.Text != "hello. Nothing was changed." {
		t.Errorf("the state's own: %+v", e)
	}
	s.Closing = &Ending{Outcome: OutcomeEscalated, Message: "over to you"}
	if e, ok := Pending(s); !ok || len(e.To) != 0 || !e.Urgent {
		t.Errorf("an ending that needs a person: %+v", e)
	}
	s.Closing, s.Held, s.Phase = nil, &Hold{Message: "unknown"}, PhaseHeld
	if e, ok := Pending(s); !ok || len(e.To) != 0 || !e.Urgent {
		t.Errorf("a held run: %+v", e)
	}
}
