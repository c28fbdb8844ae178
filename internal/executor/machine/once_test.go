package machine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

const oncePlaybook = `
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: once, runbook: docs/once.md}
spec:
  match: '{alertname="Slow"}'
  start: tell
  states:
    tell: {notify: 'hot: ${service.name}', once: '${ {"pool": "a"}["pool"] } is hot', next: [{when: out.first, to: people}, {to: known}]}
    known: {end: no-action, title: 'People were told'}
    people: {end: escalated}
`

// onceRun starts the playbook; told is what other runs told.
func onceRun(t *testing.T, told map[string]Telling) (State, []Event) {
	t.Helper()
	docs, err := playbook.Parse("once.yaml", []byte(oncePlaybook), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	set, err := playbook.NewSet(docs)
	if err != nil {
		t.Fatal(err)
	}
	c := testStart(set, "once", playbook.Auto)
	c.Now, c.Told = epoch, told
	return decideAll(t, State{}, c)
}

// decideAll decides a command and folds its events.
func decideAll(t *testing.T, s State, c Command) (State, []Event) {
	t.Helper()
	if s.Playbook == nil {
		s.Playbook = c.Playbook
	}
	events, err := Decide(s, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		s = Evolve(s, e)
	}
	return s, events
}

// TestOnce: the first run tells people and goes on by out.first; when a run has
// told it, another one tells nobody and takes the other edge in the same turn.
func TestOnce(t *testing.T) {
	first, events := onceRun(t, nil)
	if e, due := Pending(first); !due || e.Action != ActionNotify || e.Text != "hot: serving/chat. Nothing was changed." {
		t.Fatalf("the first run owes %+v", e)
	}
	if diff := cmp.Diff(map[string]time.Time{"a is hot": epoch}, first.Told); diff != "" || events[len(events)-1].Once != "a is hot" {
		t.Errorf("told %s", diff)
	}
	first, _ = decideAll(t, first, Command{Kind: CmdOutcome, Now: epoch, Effect: first.Open.Key, Outcome: &Outcome{Status: StatusOK}})
	if first.Current != "people" || len(first.Told) != 1 {
		t.Errorf("the first run goes to %s, told %v", first.Current, first.Told)
	}

	other, events := onceRun(t, map[string]Telling{"a is hot": {Run: "r-0", At: epoch.Add(-time.Minute)}})
	if other.Phase != PhaseEnded || other.Ending.Outcome != OutcomeNoAction || len(other.Told) != 0 {
		t.Errorf("the other run is %s: %+v", other.Phase, other.Ending)
	}
	var said string
	for _, e := range events {
		if e.Kind == NoticeShared {
			said = e.Message
		}
		if e.Kind == EffectStarted {
			t.Errorf("it tells people: %+v", e)
		}
	}
	if said != "run r-0 told it at 07:59:00Z" {
		t.Errorf("said %q", said)
	}
	if s, _ := onceRun(t, map[string]Telling{"b is hot": {Run: "r-0", At: epoch}}); s.Phase != PhaseNotifying {
		t.Errorf("another text was told, and the run is %s", s.Phase)
	}
}

// TestOnceReachesNobody: what could not be delivered, or was canceled before, is
// not told, so that another run tells it.
func TestOnceReachesNobody(t *testing.T) {
	for name, c := range map[string]Command{
		"not delivered": {Kind: CmdOutcome, Outcome: &Outcome{Status: StatusFailed, Reason: fault.Forbidden, Message: "no"}},
		"canceled":      {Kind: CmdCancel, Decision: &Decision{By: "user:ada"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := onceRun(t, nil)
			c.Now, c.Effect = epoch, s.Open.Key
			before := s.Told
			s, _ = decideAll(t, s, c)
			if len(s.Told) != 0 || len(before) != 1 {
				t.Errorf("told %v, before %v", s.Told, before)
			}
		})
	}
	s, _ := onceRun(t, nil)
	s, _ = decideAll(t, s, Command{Kind: CmdOutcome, Now: epoch, Effect: s.Open.Key, Outcome: &Outcome{Status: StatusFailed, Reason: fault.Unreachable, Message: "later"}})
	if len(s.Told) != 1 || s.Open == nil || s.Open.NotUntil.IsZero() {
		t.Errorf("it is tried again, and told is %v", s.Told)
	}
}
