package app

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/notify/notifytest"
	"github.com/inference-responder/responder/internal/playbook"
)

// phases is a run whose phase the test sets.
type phases struct {
	mu    sync.Mutex // guards state
	state machine.State
}

func (p *phases) RunState(id string) (machine.State, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, id == p.state.Start.Run
}

// set puts the run in a phase, which the next entry of its stream makes seen.
func (p *phases) set(t *testing.T, s *Service, phase machine.Phase, kind machine.EventKind) {
	t.Helper()
	p.mu.Lock()
	p.state.Phase = phase
	p.mu.Unlock()
	appendEvents(t, s.journal, p.state.Start.Run, machine.Event{Kind: kind})
}

func silencerLabels() map[string]string {
	return map[string]string{"alertname": "InferenceTTFTFastBurn", "namespace": "serving", "service": "chat"}
}

// startSilencer follows a service's journal until the returned function is called.
func startSilencer(t *testing.T, s *Service, am *notifytest.Alertmanager, runs *phases) (taken func() []playbook.Notification, stop func()) {
	t.Helper()
	client, err := notify.NewSilences(notify.SilencesOptions{URL: am.URL})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards admitted
	var admitted []playbook.Notification
	q := &silencer{silences: client, journal: s.journal, runs: runs, log: slog.New(slog.DiscardHandler), now: time.Now}
	q.admit = func(_ context.Context, n playbook.Notification) error {
		mu.Lock()
		defer mu.Unlock()
		admitted = append(admitted, n)
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	first, _ := runs.RunState("r-1")
	go func() { done <- q.run(ctx, []machine.State{first}) }()
	taken = func() []playbook.Notification {
		mu.Lock()
		defer mu.Unlock()
		return admitted
	}
	return taken, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func newPhases(phase machine.Phase) *phases {
	a := playbook.Alert{Fingerprint: "00000000deadbeef", Status: playbook.Firing, Labels: silencerLabels(), StartsAt: time.Now()}
	return &phases{state: machine.State{
		Start: machine.Start{Run: "r-1"}, Phase: phase, Lever: &machine.Lever{Applied: true},
		Episodes: map[string]*machine.Episode{a.Episode(): {Alert: a, Firing: true}},
	}}
}

// An alert is silent while the cure is proven, and only then; and what resolved
// in silence is heard of afterwards.
func TestSilencer(t *testing.T) {
	s, _ := startService(t, SandboxConfig())
	until(t, "ready", func() bool { return len(s.missing()) == 0 })
	am, runs := notifytest.StartAlertmanager(t), newPhases(machine.PhaseDeciding)
	am.SetAlerts(silencerLabels())
	taken, stop := startSilencer(t, s, am, runs)
	active := func(n int) func() bool { return func() bool { return len(am.Active()) == n } }

	runs.set(t, s, machine.PhaseSettling, machine.Applied)
	until(t, "silent while it takes effect", active(1))
	runs.set(t, s, machine.PhaseUndoing, machine.VerifyEnded)
	until(t, "heard when it did not help", active(0))
	if n := len(taken()); n != 0 {
		t.Errorf("%d notifications taken in, though the alert fires on", n)
	}
	runs.set(t, s, machine.PhaseVerifying, machine.Sampled)
	until(t, "silent for the next lever", active(1))
	am.SetAlerts()
	runs.set(t, s, machine.PhaseEnded, machine.RunEnded)
	until(t, "the end is taken in", func() bool { return len(am.Active()) == 0 && len(taken()) == 1 })
	n := taken()[0]
	if n.Sender != "silence" || len(n.Alerts) != 1 || n.Alerts[0].Status != playbook.Resolved || n.Alerts[0].EndsAt.IsZero() {
		t.Errorf("taken in: %+v", n)
	}
	stop()
	kinds := map[string]int{}
	for rec, err := range s.journal.Stream(controlStream, 0) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[rec.Kind]++
	}
	if kinds[silenceCreatedKind] != 2 || kinds[silenceEndedKind] != 2 {
		t.Errorf("journal: %v", kinds)
	}
}

// After a crash the silence of the life before is taken over and ended, and
// one that a person ended is not made again.
func TestSilencerAfterCrash(t *testing.T) {
	s, _ := startService(t, SandboxConfig())
	until(t, "ready", func() bool { return len(s.missing()) == 0 })
	am, runs := notifytest.StartAlertmanager(t), newPhases(machine.PhaseVerifying)
	am.SetAlerts(silencerLabels())
	am.Fail(notifytest.Fault{Status: 200, Body: "[]"}, notifytest.Fault{Status: 200, Body: "[]"}, notifytest.Fault{Lose: true}) // created, and nobody knows
	_, stop := startSilencer(t, s, am, runs)
	until(t, "a silence", func() bool { return len(am.Active()) == 1 })
	stop()
	_, stop = startSilencer(t, s, am, runs)
	runs.set(t, s, machine.PhaseVerifying, machine.Sampled)
	runs.set(t, s, machine.PhaseHeld, machine.RunHeld)
	until(t, "it is ended", func() bool { return len(am.Active()) == 0 })
	if n := len(am.Silences()); n != 1 {
		t.Errorf("%d silences for one alert", n)
	}
	runs.set(t, s, machine.PhaseVerifying, machine.Sampled)
	until(t, "another", func() bool { return len(am.Active()) == 1 })
	am.ExpireByHand(am.Active()[0].ID)
	stop()
	before := am.Seen()
	_, stop = startSilencer(t, s, am, runs)
	defer stop()
	until(t, "it looked for old ones, and before it would make one", func() bool { return am.Seen() >= before+2 })
	runs.set(t, s, machine.PhaseVerifying, machine.Sampled)
	if n := len(am.Active()); n != 0 {
		t.Errorf("%d active after a person ended it", n)
	}
}

// An Alertmanager that was started anew has no alerts until Prometheus sends
// them again: nothing has resolved, and nothing is taken in.
func TestSilencerAfterAlertmanagerRestart(t *testing.T) {
	s, _ := startService(t, SandboxConfig())
	until(t, "ready", func() bool { return len(s.missing()) == 0 })
	am, runs := notifytest.StartAlertmanager(t), newPhases(machine.PhaseVerifying)
	am.SetAlerts(silencerLabels())
	taken, stop := startSilencer(t, s, am, runs)
	until(t, "silent", func() bool { return len(am.Active()) == 1 })
	am.Restart()
	before := am.Seen()
	runs.set(t, s, machine.PhaseUndoing, machine.VerifyEnded)
	until(t, "heard again, and asked whether it fires", func() bool { return len(am.Active()) == 0 && am.Seen() >= before+5 })
	stop()
	if n := taken(); len(n) != 0 {
		t.Errorf("taken in as resolved: %+v", n[0].Alerts)
	}
}

// A change that waits for people to merge it quiets nothing.
func TestNotQuietBeforeTheMerge(t *testing.T) {
	st := newPhases(machine.PhaseSettling).state
	if !quiet(st) {
		t.Error("an alert sounds while its cure takes effect")
	}
	st.Lever.Waits = "https://git.example/pull/7"
	if quiet(st) {
		t.Error("an alert is quiet while people have to merge its cure")
	}
}
