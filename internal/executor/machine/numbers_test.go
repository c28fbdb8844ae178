package machine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
)

// A limit or an objective may be ${...}: the proof has its number, and a change
// whose proof cannot be filled in is not made.
func TestNumbersOfAProof(t *testing.T) {
	data := `
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: numbers, runbook: docs/test.md}
spec:
  match: ['{alertname="Slow"}']
  autonomy: auto
  start: look
  states:
    look:
      check: test.look
      next: [{when: 'out.bad', to: turn}, {to: people}]
    turn:
      lever: test.turn
      with: {to: 1}
      approve: {by: [service.owners], within: 15m}
      verify:
        within: 10m
        hold: 2m
        until: {query: waiting, op: <, value: '${look.value * 2}'}
        burn: {error_ratio: 'sum(rate(errors_total[${since}]))', objective: '${service.slos[0].objective}'}
        allow_no_traffic: true
      next: [{when: verified, to: resolved}, {to: people}]
    resolved: {end: resolved}
    people: {end: escalated}
`
	all, err := playbook.Parse("numbers.yaml", []byte(data), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		slos []playbook.SLO
		want string
	}{
		{[]playbook.SLO{{Name: "ttft", Objective: 0.995}}, ""},
		{[]playbook.SLO{{Name: "ttft", Objective: 1}}, "want a number between 0 and 1"},
		{nil, "index out of bounds"},
	} {
		s := State{
			Playbook: all[0], Current: "turn", Start: Start{Service: playbook.Service{SLOs: c.slos}},
			Evidence: map[string]*Evidence{"look": {Data: json.RawMessage(`{"bad":true,"value":21}`)}},
		}
		spec, err := s.Proof("turn", epoch)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v, want %q", err, c.want)
		case c.want == "" && (err != nil || spec.Until[0].Value != 42 || spec.Objective != 0.995):
			t.Errorf("%+v, %v", spec, err)
		}
	}
}
