package app

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// scrape returns the samples of a scrape by name and labels.
func scrape(t *testing.T, m *metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("scrape answered %d: %s", w.Code, w.Body)
	}
	samples := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(line, "#") {
			if i := strings.LastIndex(line, " "); i > 0 {
				name, value = line[:i], strings.TrimSpace(line[i:])
			}
			samples[name] = value
		}
	}
	return samples
}

func appendEvents(t *testing.T, j *audit.Journal, run string, events ...machine.Event) {
	t.Helper()
	a := audit.Append{Stream: "run/" + run, After: audit.Any}
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		a.Records = append(a.Records, audit.Record{Kind: string(e.Kind), Time: e.At, Data: data})
	}
	if _, err := j.Append(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

// journalOfTwoRuns writes a run that was resolved, one that waits for a person,
// and what became of three alerts. It gives the time of the last entry.
func journalOfTwoRuns(t *testing.T, j *audit.Journal) time.Time {
	t.Helper()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	next := func(d time.Duration) time.Time { at = at.Add(d); return at }
	plan := &machine.Plan{Step: "kube.scale"}
	appendEvents(t, j, "r-1",
		machine.Event{Kind: machine.RunStarted, At: next(0), Start: &machine.Start{Run: "r-1", Playbook: "pb", Alert: playbook.Alert{Fingerprint: "deadbeefdeadbeef"}}},
		machine.Event{Kind: machine.EffectStarted, At: next(time.Second), State: "scale", Action: machine.ActionPlan},
		machine.Event{Kind: machine.PlanCompleted, At: next(time.Second), State: "scale", Plan: plan},
		machine.Event{Kind: machine.GateOpened, At: next(time.Second), Gate: &machine.Gate{ID: "g"}},
		machine.Event{Kind: machine.GateDecided, At: next(4 * time.Minute), Decision: &machine.Decision{By: "user:cap", Approve: true, BreakGlass: true}},
		machine.Event{Kind: machine.EffectStarted, At: next(time.Second), State: "scale", Action: machine.ActionApply},
		machine.Event{Kind: machine.Applied, At: next(time.Second)},
		machine.Event{Kind: machine.Settled, At: next(time.Minute)},
		machine.Event{Kind: machine.Verified, At: next(5 * time.Minute)},
		machine.Event{Kind: machine.RunEnded, At: next(0), Ending: &machine.Ending{Outcome: machine.OutcomeResolved}},
	)
	appendEvents(t, j, "r-2",
		machine.Event{Kind: machine.RunStarted, At: next(0), Start: &machine.Start{Run: "r-2", Playbook: "pb"}},
		machine.Event{Kind: machine.EffectStarted, At: next(0), State: "scale", Action: machine.ActionPlan},
		machine.Event{Kind: machine.PlanRefused, At: next(0), State: "scale", Reason: fault.Owned},
		machine.Event{Kind: machine.GateOpened, At: next(0), Gate: &machine.Gate{ID: "g"}},
	)
	for _, kind := range []string{"alert.matched", "alert.repeated", "alert.repeated"} {
		if _, err := j.Append(t.Context(), audit.Append{Stream: "dispatch", After: audit.Any, Records: []audit.Record{{Kind: kind, Data: []byte(`{"episodes":["a@b"]}`)}}}); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// What operators alert on has to follow the journal, and go on over restarts.
func TestMetricsFollowTheJournal(t *testing.T) {
	j, err := audit.OpenTemp("")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	at := journalOfTwoRuns(t, j)
	connect := func() *metrics {
		return newMetrics(newAppendTimes(), metricSources{
			room:    newRoom(j, 0),
			journal: j,
			policy:  func() (bool, bool) { return true, true },
			figures: func() executor.Figures {
				return executor.Figures{
					Phases:   map[executor.Standing]int{{Playbook: "pb", Phase: machine.PhaseDeciding}: 1},
					Loans:    map[string]int{"still-owed": 1},
					Holdings: guard.Holdings{Locks: map[string]string{"service:chat": "r-3"}}, Holders: map[string]string{"r-3": "pb"},
				}
			},
			pauses:    func() []string { return []string{"service:serving/chat"} },
			demoted:   func() map[string]int { return map[string]int{"pb": 2} },
			playbooks: func() []string { return []string{"pb", "second", "third"} },
			step:      func(_, state string) string { return "kube." + state },
			now:       func() time.Time { return at.Add(90 * time.Second) },
			archiving: func() *api.JournalFailure { return &api.JournalFailure{} },
		}, slog.New(slog.DiscardHandler))
	}
	want := map[string]string{
		`responder_runs_total{outcome="resolved",playbook="pb"}`:             "1",
		`responder_runs_open{phase="deciding",playbook="pb"}`:                "1",
		`responder_loans{state="still-owed"}`:                                "1",
		`responder_lock_held{lock="service:chat",playbook="pb"}`:             "1",
		`responder_levers_total{lever="kube.scale",result="verified"}`:       "1",
		`responder_levers_total{lever="kube.scale",result="refused"}`:        "1",
		`responder_lever_changes_total{change="applied",lever="kube.scale"}`: "1",
		`responder_alerts_total{decision="repeated"}`:                        "2",
		`responder_break_glass_total{playbook="pb"}`:                         "1",
		`responder_break_glass_total{playbook="third"}`:                      "0", // so that the first time is an increase
		`responder_alerts_total{decision="matched"}`:                         "1",
		`responder_gates_open`:                                               "1",
		`responder_journal_archive_last_failed`:                              "1",
		`responder_journal_archived_entries`:                                 "0",
		`responder_gate_oldest_seconds`:                                      "90",
		`responder_paused{scope="service:serving/chat"}`:                     "1",
		`responder_levers_demoted{playbook="pb"}`:                            "2",
		`responder_playbooks_loaded`:                                         "3",
		`responder_playbooks_rejected_total`:                                 "0",
		`responder_journal_entries`:                                          "17",
		`responder_run_phase_seconds_sum{phase="decide"}`:                    "240",
		`responder_run_phase_seconds_sum{phase="verify"}`:                    "300",
	}
	first := connect()
	for name, value := range want {
		if got := scrape(t, first)[name]; got != value {
			t.Errorf("%s = %q, want %s", name, got, value)
		}
	}
	again := scrape(t, connect()) // a restart
	for name, value := range want {
		if got := again[name]; got != value {
			t.Errorf("after a restart %s = %q, want %s", name, got, value)
		}
	}
	for name := range again {
		if strings.Contains(name, "r-2") || strings.Contains(name, "deadbeef") {
			t.Errorf("a label carries a run or a fingerprint: %s", name)
		}
	}
	appendEvents(t, j, "r-2", machine.Event{Kind: machine.RunEnded, At: at, Ending: &machine.Ending{Outcome: machine.OutcomeCanceled}})
	after := scrape(t, first)
	if got := after[`responder_runs_total{outcome="canceled",playbook="pb"}`]; got != "1" {
		t.Errorf("a run that ended right before the scrape is counted %q times", got)
	}
	if got := after[`responder_gates_open`]; got != "0" {
		t.Errorf("the question of an ended run is still open: %s", got)
	}
}

// A start counts on from what was stored, and comes to the same figures as one that
// counts the whole log. What another build stored, or of another log, is not used.
func TestCountingGoesOn(t *testing.T) {
	j, err := audit.OpenTemp("")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	at := journalOfTwoRuns(t, j)
	connect := func() *metrics {
		return newMetrics(newAppendTimes(), metricSources{
			room:    newRoom(j, 0),
			journal: j, policy: func() (bool, bool) { return true, true }, figures: func() executor.Figures { return executor.Figures{} },
			pauses: func() []string { return nil }, demoted: func() map[string]int { return nil }, playbooks: func() []string { return []string{"pb"} },
			step: func(_, state string) string { return "kube." + state }, now: func() time.Time { return at },
			archiving: func() *api.JournalFailure { return nil },
		}, slog.New(slog.DiscardHandler))
	}
	ours := func(m *metrics) map[string]string {
		out := scrape(t, m)
		maps.DeleteFunc(out, func(name, _ string) bool { // all but what is counted from the log
			return !strings.HasPrefix(name, "responder_") || name == "responder_memory_live_bytes" || name == "responder_journal_volume_free_bytes"
		})
		return out
	}
	first := connect()
	before := ours(first)
	if err := first.counts.stop(); err != nil {
		t.Fatal(err)
	}
	stored := j.Size()
	appendEvents(t, j, "r-2", // of which the start remembers playbook, lever, phase and question
		machine.Event{Kind: machine.GateWithdrawn, At: at.Add(time.Minute)},
		machine.Event{Kind: machine.Applied, At: at.Add(time.Minute)},
		machine.Event{Kind: machine.RunEnded, At: at.Add(2 * time.Minute), Ending: &machine.Ending{Outcome: machine.OutcomeCanceled}})

	other := connect()
	other.counts.build = "another"
	whole, short := ours(other), connect()
	if err := short.counts.restore(); err != nil || short.counts.next != stored {
		t.Fatalf("a start counts from entry %d on, want %d (%v)", short.counts.next, stored, err)
	}
	if diff := cmp.Diff(whole, ours(short)); diff != "" {
		t.Errorf("from what was stored it counts otherwise than from the log (-log +stored):\n%s", diff)
	}
	if cmp.Equal(before, whole) {
		t.Error("nothing was counted after what was stored")
	}

	b, err := j.Projection(countedName)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte(`"last":"`), []byte(`"last":"0`), 1)
	if err := j.SaveProjection(countedName, b); err != nil {
		t.Fatal(err)
	}
	foreign := connect()
	if err := foreign.counts.restore(); err != nil || foreign.counts.next != 0 {
		t.Errorf("what was counted of another log is used (%v)", err)
	}
}
