package notify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/notifytest"
	"github.com/inference-responder/responder/internal/playbook"
)

// openRuns are runs that ask, all but the one that was decided.
type openRuns struct{ at time.Time }

func (o openRuns) RunState(id string) (machine.State, bool) {
	s := machine.State{Start: machine.Start{Run: id, Playbook: "bad-rollout", Service: playbook.Service{Name: "serving/chat"}, Alert: testNotice().Alert}}
	if id != "r-decided" {
		s.Gate = &machine.Gate{
			ID: id + "/gate#1", Opened: o.at, Deadline: o.at.Add(time.Hour), Text: "roll back chat",
			Needs: []machine.Need{{From: []string{"user:ada"}, Quorum: 1}}, Told: 2,
			Tiers: []machine.Tier{{After: time.Minute, To: []string{"dead", "pager"}}, {After: time.Hour, To: []string{"gone"}}},
		}
	}
	return s, true
}

func (openRuns) RunEvents(string) ([]machine.Event, error) { return nil, nil }

// Who is called when nobody decides is called without any Slack, and while
// another channel of the same tier is down.
func TestEscalationReachesEveryChannelByItself(t *testing.T) {
	dead, pd := notifytest.StartReceiver(t), notifytest.StartPagerDuty(t)
	all := channelsOf(t, fmt.Sprintf(`
channels:
  - {name: dead, webhook: {url: %q}}
  - {name: pager, default: true, pagerduty: {url: %q, routing_key_file: %q}}
`, dead.URL, pd.URL, notifytest.SecretFile(t, notifytest.RoutingKey)))
	journal := openJournal(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for range 100 {
		dead.Fail(notifytest.Fault{Status: 503})
	}
	escalated := func(run string, tier int, when time.Time) {
		appendEvents(t, journal, run, machine.Event{Kind: machine.GateEscalated, At: when, State: "roll-back", Tier: tier, Message: "nobody has decided"})
	}
	defer startFeeds(t, journal, all, openRuns{at})()
	escalated("r-1", 1, at.Add(time.Minute))
	escalated("r-decided", 1, at.Add(time.Minute))
	escalated("r-old", 1, at.Add(-time.Minute)) // of an earlier question
	escalated("r-gone", 2, at.Add(time.Hour))   // its channel was taken out of the configuration: the default is told

	until(t, "the pages", func() bool { return len(pd.Events()) == 2 })
	for i, want := range []string{"r-1", "r-gone"} {
		e := pd.Events()[i]
		if e.DedupKey != "responder/"+want || e.Payload.Severity != "critical" || !strings.Contains(e.Payload.Summary, "roll back chat") {
			t.Errorf("page %d: %+v", i, e)
		}
	}
	if n := len(dead.Events()); n != 0 {
		t.Errorf("the dead channel took %d", n)
	}
}

// waitingRuns are runs that wait for run r-9, all but r-free.
type waitingRuns struct{ openRuns }

func (w waitingRuns) RunState(id string) (machine.State, bool) {
	s := machine.State{Start: machine.Start{Run: id, Playbook: "bad-rollout", Service: playbook.Service{Name: "serving/chat"}, Alert: testNotice().Alert}, Phase: machine.PhaseWaiting}
	s.Lever = &machine.Lever{}
	if id != "r-free" {
		s.Lever.Consent = machine.Consent{
			WaitFrom: w.at, WaitUntil: w.at.Add(4 * time.Hour),
			Guards: []machine.GuardVerdict{{Guard: "lock", Wait: true, Run: "r-9", Why: "run r-9 holds node gpu-1"}},
		}
	}
	return s, true
}

// The default channels are told of a run that waits for long, while it waits.
func TestLongWaitReachesTheDefaultChannels(t *testing.T) {
	usual := notifytest.StartReceiver(t)
	all := channelsOf(t, fmt.Sprintf("channels:\n  - {name: usual, default: true, webhook: {url: %q}}\n", usual.URL))
	journal := openJournal(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	defer startFeeds(t, journal, all, waitingRuns{openRuns{at}})()
	for _, run := range []string{"r-free", "r-1"} {
		appendEvents(t, journal, run, machine.Event{Kind: machine.GuardsReminded, At: at.Add(15 * time.Minute), State: "scale", Message: "lock: run r-9 holds node gpu-1"})
	}
	until(t, "the notice", func() bool { return len(usual.Events()) >= 1 })
	want := "Run r-1 has waited since 2026-03-01T12:00:00Z, and does nothing for serving/chat meanwhile: lock: run r-9 holds node gpu-1. It waits until 2026-03-01T16:00:00Z at most. responder runs show r-9"
	if e := usual.Events(); len(e) != 1 || !strings.Contains(string(e[0].Data), want) {
		t.Errorf("the default channel was told %s", e[0].Data)
	}
}

// A reminder goes where questions are told by default, once, and not to a
// channel that only escalations name.
func TestReminderReachesTheDefaultChannels(t *testing.T) {
	usual, second := notifytest.StartReceiver(t), notifytest.StartReceiver(t)
	all := channelsOf(t, fmt.Sprintf(`
channels:
  - {name: usual, default: true, webhook: {url: %q}}
  - {name: pager, webhook: {url: %q}}
  - {name: dead, webhook: {url: %q}}
`, usual.URL, second.URL, second.URL))
	journal := openJournal(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	defer startFeeds(t, journal, all, openRuns{at})()
	for _, run := range []string{"r-decided", "r-1"} {
		appendEvents(t, journal, run, machine.Event{Kind: machine.GateReminded, At: at.Add(time.Minute), State: "roll-back", Message: "still needed: user:ada"})
	}
	appendEvents(t, journal, "r-2", machine.Event{Kind: machine.GateEscalated, At: at.Add(time.Minute), State: "roll-back", Tier: 1, Message: "nobody has decided"})
	until(t, "the escalation", func() bool { return len(second.Events()) == 2 })
	until(t, "the reminder", func() bool { return len(usual.Events()) >= 1 })
	if e := usual.Events(); len(e) != 1 || !strings.Contains(string(e[0].Data), "Run r-1 asks since") {
		t.Errorf("the default channel was told %v", e)
	}
}
