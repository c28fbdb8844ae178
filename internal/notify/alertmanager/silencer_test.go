package alertmanager

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
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
func (p *phases) set(t *testing.T, journal *audit.Journal, phase machine.Phase, kind machine.EventKind) {
	t.Helper()
	p.mu.Lock()
	p.state.Phase = phase
	p.mu.Unlock()
	entry := audit.Record{Kind: string(kind), Time: time.Now(), Data: []byte("{}")}
	if _, err := journal.Append(t.Context(), audit.Append{Stream: runStreams + p.state.Start.Run, After: audit.Any, Records: []audit.Record{entry}}); err != nil {
		t.Fatal(err)
	}
}

func silencerLabels() map[string]string {
	return map[string]string{"alertname": "InferenceTTFTFastBurn", "namespace": "serving", "service": "chat"}
}

func openJournal(t *testing.T) *audit.Journal {
	t.Helper()
	journal, err := audit.OpenTemp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = journal.Close() })
	return journal
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 1 min: %s", what)
		}
	}
}

// startSilencer follows a journal until the returned function is called.
func startSilencer(t *testing.T, journal *audit.Journal, am *notifytest.Alertmanager, runs *phases) (taken func() []playbook.Notification, stop func()) {
	t.Helper()
	client, err := NewSilences(Config{AlertmanagerURL: am.URL, Max: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards admitted
	var admitted []playbook.Notification
	q := NewSilencer(SilencerOptions{
		Silences: client, Journal: journal, Runs: runs, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Admit: func(_ context.Context, n playbook.Notification) error {
			mu.Lock()
			defer mu.Unlock()
			admitted = append(admitted, n)
			return nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	first, _ := runs.RunState("r-1")
	go func() { done <- q.Run(ctx, []machine.State{first}) }()
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
		Episodes: machine.EpisodesOf(map[string]*machine.Episode{a.Episode(): {Alert: a, Firing: true}}),
	}}
}

// An alert is silent while the cure is proven, and only then; and what resolved
// in silence is heard of afterwards.
func TestSilencer(t *testing.T) {
	journal := openJournal(t)
	am, runs := notifytest.StartAlertmanager(t), newPhases(machine.PhaseDeciding)
	am.SetAlerts(silencerLabels())
	taken, stop := startSilencer(t, journal, am, runs)
	active := func(n int) func() bool { return func() bool { return len(am.Active()) == n } }

	runs.set(t, journal, machine.PhaseSettling, machine.Applied)
	until(t, "silent while it takes effect", active(1))
	runs.set(t, journal, machine.PhaseUndoing, machine.VerifyEnded)
	until(t, "heard when it did not help", active(0))
	if n := len(taken()); n != 0 {
		t.Errorf("%d notifications taken in, though the alert fires on", n)
	}
	runs.set(t, journal, machine.PhaseVerifying, machine.Sampled)
	until(t, "silent for the next lever", active(1))
	am.SetAlerts()
	runs.set(t, journal, machine.PhaseEnded, machine.RunEnded)
	until(t, "the end is taken in", func() bool { return len(am.Active()) == 0 && len(taken()) == 1 })
	n := taken()[0]
	if n.Sender != "silence" || len(n.Alerts) != 1 || n.Alerts[0].Status != playbook.Resolved || n.Alerts[0].EndsAt.IsZero() {
		t.Errorf("taken in: %+v", n)
	}
	stop()
	kinds := map[string]int{}
	for rec, err := range journal.Stream(controlStream, 0) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[rec.Kind]++
	}
	if kinds[createdKind] != 2 || kinds[endedKind] != 2 {
		t.Errorf("journal: %v", kinds)
	}
}

// After a crash the silence of the life before is taken over and ended, and
// one that a person ended is not made again.
func TestSilencerAfterCrash(t *testing.T) {
	journal := openJournal(t)
	am, runs := notifytest.StartAlertmanager(t), newPhases(machine.PhaseVerifying)
	am.SetAlerts(silencerLabels())
	am.Fail(notifytest.Fault{Status: 200, Body: "[]"}, notifytest.Fault{Status: 200, Body: "[]"}, notifytest.Fault{Lose: true}) // created, and nobody knows
	_, stop := startSilencer(t, journal, am, runs)
	until(t, "a silence", func() bool { return len(am.Active()) == 1 })
	stop()
	_, stop = startSilencer(t, journal, am, runs)
	runs.set(t, journal, machine.PhaseVerifying, machine.Sampled)
	runs.set(t, journal, machine.PhaseHeld, machine.RunHeld)
	until(t, "it is ended", func() bool { return len(am.Active()) == 0 })
	if n := len(am.Silences()); n != 1 {
		t.Errorf("%d silences for one alert", n)
	}
	runs.set(t, journal, machine.PhaseVerifying, machine.Sampled)
	until(t, "another", func() bool { return len(am.Active()) == 1 })
	am.ExpireByHand(am.Active()[0].ID)
	stop()
	before := am.Seen()
	_, stop = startSilencer(t, journal, am, runs)
	defer stop()
	until(t, "it looked for old ones, and before it would make one", func() bool { return am.Seen() >= before+2 })
	runs.set(t, journal, machine.PhaseVerifying, machine.Sampled)
	if n := len(am.Active()); n != 0 {
		t.Errorf("%d active after a person ended it", n)
	}
}

// An Alertmanager that was started anew has no alerts until Prometheus sends
// them again: nothing has resolved, and nothing is taken in.
func TestSilencerAfterAlertmanagerRestart(t *testing.T) {
	journal := openJournal(t)
	am, runs := notifytest.StartAlertmanager(t), newPhases(machine.PhaseVerifying)
	am.SetAlerts(silencerLabels())
	taken, stop := startSilencer(t, journal, am, runs)
	until(t, "silent", func() bool { return len(am.Active()) == 1 })
	am.Restart()
	before := am.Seen()
	runs.set(t, journal, machine.PhaseUndoing, machine.VerifyEnded)
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
