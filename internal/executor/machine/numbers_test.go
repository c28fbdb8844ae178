package machine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
        until:
          - {query: 'waiting{${service.selector}}', op: <, value: '${look.value * 2}'}
          - engine.waiting  <=  ${ look.value + 1 }
        burn: {error_ratio: 'sum(rate(errors_total{${service.selector}}[${since}]))', objective: '${service.slos[0].objective}', max: '${double(look.value) / 10.0}'}
        traffic: {query: 'rate{${service.selector}}', min_rate: '${double(look.value) / 100.0}', min_share: '${look.bad ? 0.25 : 2.0}'}
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
		{[]playbook.SLO{{Name: "ttft", Objective: 1}}, "want less than 1"},
		{nil, "index out of bounds"},
	} {
		s := State{
			Playbook: all[0], Current: "turn", Start: Start{Service: playbook.Service{SLOs: c.slos, Selector: `service="x"`}},
			Evidence: map[string]*Evidence{"look": {Data: json.RawMessage(`{"bad":true,"value":21}`)}},
		}
		spec, err := s.Proof("turn", epoch)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v, want %q", err, c.want)
		case c.want == "" && err != nil:
			t.Error(err)
		case c.want == "":
			got := []float64{spec.Until[0].Value, spec.Until[1].Value, spec.Objective, spec.MaxBurn, spec.MinRate, spec.MinTraffic}
			if diff := cmp.Diff([]float64{42, 22, 0.995, 2.1, 0.21, 0.25}, got); diff != "" || spec.Until[1].Query != "engine.waiting" {
				t.Errorf("query %q, numbers (-want +got):\n%s", spec.Until[1].Query, diff)
			}
		}
	}
}

// What a state asks of the guards may be ${...}. What cannot be told is an error,
// by which the guards refuse.
func TestGuarding(t *testing.T) {
	p := testPlaybooks(t).ByName("numbers")
	for _, c := range []struct {
		look, want string
		guarding   Guarding
	}{
		{`{"bad":true,"value":4}`, "", Guarding{Cooldown: 4 * time.Minute, EvidenceAge: 2 * time.Minute, MinReady: 3}},
		{`{"bad":true,"value":0}`, "guards.min_ready", Guarding{}},
	} {
		s := State{Playbook: p, Current: "more", Evidence: map[string]*Evidence{"look": {Data: json.RawMessage(c.look)}}}
		got, err := s.Guarding(p.State("more"), epoch)
		switch {
		case c.want == "" && (err != nil || got != c.guarding):
			t.Errorf("%s: %+v, %v, want %+v", c.look, got, err, c.guarding)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.look, err, c.want)
		}
	}
}

// An older version journaled no numbers of a state. Its runs go on with those
// that the playbook has.
func TestNumbersOfOlderRuns(t *testing.T) {
	s := &script{t: t, set: testPlaybooks(t), now: epoch}
	s.run("> start waits\n")
	var old State
	for _, e := range s.events {
		e.With = nil
		old.Playbook = s.state.Playbook
		old = Evolve(old, e)
	}
	if old.Numbers != nil {
		t.Fatalf("folded %v from events without it", old.Numbers)
	}
	hold, err := old.lasting("wait.hold", old.current().Wait.Hold, epoch)
	want, wantErr := s.state.lasting("wait.hold", s.state.current().Wait.Hold, epoch)
	if err != nil || wantErr != nil || hold != want || hold == 0 {
		t.Errorf("hold is %s (%v), of a newer run %s (%v)", hold, err, want, wantErr)
	}
}

// Where no run has evaluated a quorum, its expression is shown and nobody's
// approval meets it.
func TestQuorumThatNoRunEvaluated(t *testing.T) {
	p := testPlaybooks(t).ByName("numbers")
	s := State{Playbook: p, Start: Start{Autonomy: playbook.Auto, Service: playbook.Service{Autonomy: playbook.Auto, Owners: []string{"user:ada"}, Selector: `service="x"`}}}
	needs := s.Needs(p.State("more"))
	if len(needs) != 1 || needs[0].Who() != "${look.value - 1} of user:ada" || needs[0].Met([]Decision{{By: "user:ada", Approve: true}}) {
		t.Errorf("needs %+v, who %q", needs, needs[0].Who())
	}
	s.Evidence = map[string]*Evidence{"look": {Data: json.RawMessage(`{"value":2}`)}}
	if needs = s.Needs(p.State("more")); !needs[0].Met([]Decision{{By: "user:ada", Approve: true}}) {
		t.Errorf("%+v with the evidence", needs)
	}
}
