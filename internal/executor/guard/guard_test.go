package guard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// question for guards as nothing speaks against it: every case spoils one thing.
func goodQuestion() Question {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	alert := playbook.Alert{Fingerprint: "f", Status: playbook.Firing}
	return Question{
		Now: now, Ceiling: playbook.Auto, ledger: NewLedger(Defaults()), State: &playbook.State{},
		Run: machine.State{
			Start:    machine.Start{Run: "r-1", Service: playbook.Service{Name: "a", MinReady: 2, Autonomy: playbook.Auto}, Autonomy: playbook.Auto},
			Playbook: &playbook.Playbook{Autonomy: playbook.Auto},
			Episodes: machine.EpisodesOf(map[string]*machine.Episode{"f": {Alert: alert, Firing: true}}),
			Began:    now.Add(-2 * time.Minute),
			LookedAt: now.Add(-time.Minute),
			Numbers:  map[string]any{},
			Lever:    &machine.Lever{Plan: &machine.Plan{Locks: []string{"service:a"}, Capacity: machine.Capacity{ReadyNow: 3, LowestReady: 2, ReadyAfter: 3}}},
		},
	}
}

func ask(q Question) (no []machine.GuardVerdict) {
	for _, g := range guards() {
		if v := g.ask(q); v.Guard != "" && !v.OK {
			no = append(no, v)
		}
	}
	return no
}

func startOf(run, service string) machine.Start {
	return machine.Start{Run: run, Service: playbook.Service{Name: service}, Playbook: "ladder"}
}

func (q Question) act(run, service string, ago time.Duration) {
	q.ledger.applied(startOf(run, service), q.Now.Add(-ago))
}

// asks sets one number of the state's guards to what its expression came to when
// the run entered the state.
func (q Question) asks(path string, value any) {
	v := &playbook.Value{}
	q.State.Guards = map[string]*playbook.Guards{
		playbook.NumberCooldown:    {Cooldown: v},
		playbook.NumberEvidenceAge: {EvidenceAge: v},
		playbook.NumberMinReady:    {MinReady: v},
	}[path]
	q.Run.Numbers[path] = value
}

// TestGuards is one list: what is spoilt, and which guard says what about it.
func TestGuards(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(q *Question)
		want  string // guard: figures; empty: passes
		wait  bool
	}{
		{"nothing", func(*Question) {}, "", false},
		{"paused", func(q *Question) { q.Paused = "everything is paused by ada" }, "paused: everything is paused by ada", true},
		{"resolved", func(q *Question) { q.Run.Episodes = q.Run.Episodes.With("f", &machine.Episode{}) }, "firing: none of 1 alerts fires any more", false},
		{"truncated", func(q *Question) { q.Run.Truncated = true }, "blast-radius: a notification was truncated", false},
		{"too many alerts", func(q *Question) {
			q.Run.Truncated = true
			for i := range machine.MostEpisodes {
				q.Run.Episodes = q.Run.Episodes.With(fmt.Sprint(i), &machine.Episode{Firing: true})
			}
		}, "blast-radius: 256 alerts fire, the most that a run remembers", false},
		{"no evidence", func(q *Question) { q.Run.LookedAt = time.Time{} }, "evidence: there is none", false},
		{"stale evidence", func(q *Question) { q.Run.LookedAt = q.Now.Add(-6 * time.Minute) }, "evidence: newest is 6m old, limit 5m", false},
		{"playbook wants fresher", func(q *Question) { q.asks(playbook.NumberEvidenceAge, "30s") }, "evidence: newest is 1m old, limit 30s", false},
		{"playbook cannot loosen", func(q *Question) {
			q.asks(playbook.NumberEvidenceAge, "1h")
			q.Run.LookedAt = q.Now.Add(-6 * time.Minute)
		}, "evidence: newest is 6m old, limit 5m", false},
		{"approved on fresh evidence", func(q *Question) {
			q.Run.LookedAt = q.Now.Add(-20 * time.Minute)
			q.Run.Lever.FirstAsk, q.Run.Lever.Approved = q.Now.Add(-18*time.Minute), &machine.Decision{Approve: true}
		}, "", false},
		{"asked again on evidence that was fresh", func(q *Question) {
			q.Run.LookedAt = q.Now.Add(-20 * time.Minute)
			q.Run.Lever.FirstAsk, q.State.Approve = q.Now.Add(-18*time.Minute), &playbook.Approve{Always: true}
		}, "", false},
		{"asked on stale evidence, and nobody decides any more", func(q *Question) {
			q.Run.LookedAt, q.Run.Lever.FirstAsk = q.Now.Add(-20*time.Minute), q.Now.Add(-18*time.Minute)
		}, "evidence: newest is 20m old, limit 5m", false},
		{"capacity unknown", func(q *Question) { q.Run.Lever.Plan.Capacity.Unknown = true }, "min-ready: the effect on capacity is unknown", false},
		{"too few ready", func(q *Question) { q.Run.Lever.Plan.Capacity.LowestReady = 1 }, "min-ready: 1 would stay ready, needed 2", false},
		{"playbook wants more ready", func(q *Question) { q.asks(playbook.NumberMinReady, 3.0) }, "min-ready: 2 would stay ready, needed 3", false},
		{"an outage may be repaired", func(q *Question) { q.Run.Lever.Plan.Capacity = machine.Capacity{ReadyAfter: 3} }, "", false},
		{"an outage may not grow", func(q *Question) {
			q.Run.Lever.Plan.Capacity = machine.Capacity{ReadyNow: 1, LowestReady: 0, ReadyAfter: 3}
		}, "min-ready: 0 would stay ready, needed 2", false},
		{"cooldown", func(q *Question) { q.act("r-0", "a", 4*time.Minute) }, "cooldown: last lever 4m ago by r-0, cooldown 10m", true},
		{"cooldown beyond the time in which it may look again", func(q *Question) {
			q.act("r-0", "a", 4*time.Minute)
			q.Run.Began = q.Now.Add(5*time.Minute - machine.MaxAgain)
		}, "cooldown: last lever 4m ago by r-0, cooldown 10m", false},
		{"acting on the service", func(q *Question) {
			q.ledger.config.Concurrency.LeversPerService = 0
			q.ledger.take(startOf("r-0", "a"), []string{"service:a"})
		}, "lock: waits for run r-0, which acts on the service", true},
		{"playbook wants longer cooldown", func(q *Question) {
			q.act("r-0", "a", 30*time.Minute)
			q.asks(playbook.NumberCooldown, "1h")
		}, "cooldown: last lever 30m ago by r-0, cooldown 1h", false},
		{"own ladder has no cooldown", func(q *Question) { q.act("r-1", "a", time.Minute) }, "", false},
		{"another service's lever", func(q *Question) { q.act("r-0", "b", time.Minute) }, "", false},
		{"levers on the service", func(q *Question) {
			for i := range 6 {
				q.act("r-1", "a", time.Duration(20+i)*time.Minute)
			}
		}, "budget: 6 levers on this service within 1h, limit 6", false},
		{"a loan goes back after many levers", func(q *Question) {
			for i := range 6 {
				q.act("r-0", "a", time.Duration(20+i)*time.Minute)
			}
			q.Run.Start.Loan = "r-0/levers#1"
		}, "", false},
		{"runs on the service", func(q *Question) {
			for i := range 3 {
				q.act(fmt.Sprint("r-0", i), "a", time.Duration(20+i)*time.Minute)
			}
		}, "budget: 3 runs that changed this service within 1h, limit 3", false},
		{"one run on the service", func(q *Question) {
			q.ledger.config.Budget.RunsPerService = 1
			q.act("r-0", "a", 20*time.Minute)
		}, "budget: 1 run that changed this service within 1h, limit 1", false},
		{"one run on another service", func(q *Question) {
			q.ledger.config.Budget.Runs = 1
			q.act("r-0", "b", 20*time.Minute)
		}, "budget: 1 run that changed something within 1h, limit 1", false},
		{"outside of the window", func(q *Question) {
			for i := range 9 {
				q.act(fmt.Sprint("r-0", i), "a", time.Duration(61+i)*time.Minute)
			}
		}, "", false},
		{"levers in all", func(q *Question) {
			for i := range 20 {
				q.act("r-0", fmt.Sprint("s", i), 30*time.Minute)
			}
		}, "budget: 20 levers in all within 1h, limit 20", false},
		{"under way", func(q *Question) {
			for i := range 5 {
				q.ledger.take(startOf(fmt.Sprint("r-0", i), fmt.Sprint("s", i)), nil)
			}
		}, "concurrency: 5 levers under way, limit 5", true},
		{"locked", func(q *Question) { q.ledger.take(startOf("r-0", "b"), []string{"service:a"}) }, "lock: service:a is held or awaited by r-0", true},
		{"awaited by an earlier one", func(q *Question) {
			q.ledger.waiting = []waiter{{run: "r-0", wants: []string{"service:a"}}, {run: "r-1", wants: []string{"service:a"}}}
		}, "lock: service:a is held or awaited by r-0", true},
		{"awaited by a later one", func(q *Question) {
			q.ledger.waiting = []waiter{{run: "r-1", wants: []string{"service:a"}}, {run: "r-2", wants: []string{"service:a"}}}
		}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := goodQuestion()
			tt.spoil(&q)
			no := ask(q)
			if tt.want == "" {
				if len(no) > 0 {
					t.Fatalf("refused by %+v", no)
				}
				return
			}
			if len(no) != 1 {
				t.Fatalf("refused by %+v, want %s", no, tt.want)
			}
			if got := no[0].Guard + ": " + no[0].Why; !strings.HasPrefix(got, tt.want) || no[0].Wait != tt.wait {
				t.Errorf("%s (wait %v), want %s (wait %v)", got, no[0].Wait, tt.want, tt.wait)
			}
		})
	}
}

// TestGuardsOfAnEnd: what only ends an approved change is kept apart from nothing, and is
// stopped by a pause, a missing right and the level observe all the same.
func TestGuardsOfAnEnd(t *testing.T) {
	q := goodQuestion()
	q.Run.Lever.Plan.Ends, q.Run.Lever.Plan.Locks = "approved with the hold", nil
	q.Firing, q.Ceiling, q.ledger.locks["service:a"] = "r-2", playbook.Suggest, "r-2"
	q.act("r-2", "a", time.Minute)
	q.Policy = &machine.GuardVerdict{Guard: "policy", Why: "frozen"}
	for _, v := range q.ledger.Ask(q) {
		if !v.OK {
			t.Errorf("%s: %s", v.Guard, v.Why)
		}
	}
	if h := q.ledger.Holdings(q.Now); h.InAir != 0 || len(h.Locks) != 1 {
		t.Errorf("it takes %+v", h)
	}
	q.Paused, q.Run.Lever.Plan.Lacks, q.Ceiling = "everything", "patch deployments", playbook.Observe
	var no []string
	for _, v := range q.ledger.Ask(q) {
		if !v.OK {
			no = append(no, v.Guard)
		}
	}
	if got := strings.Join(no, " "); got != "paused autonomy rights" {
		t.Errorf("%s refuse", got)
	}
}

// Guards that were let through and are not applied yet count as applied.
func TestBudgetCountsReservations(t *testing.T) {
	q := goodQuestion()
	for i := range 4 {
		q.ledger.take(startOf(fmt.Sprint("r-0", i), fmt.Sprint("s", i)), nil)
	}
	for i := range 16 {
		q.act("r-9", fmt.Sprint("t", i), 30*time.Minute)
	}
	if no := ask(q); len(no) != 1 || !strings.HasPrefix(no[0].Why, "20 levers in all") {
		t.Errorf("refused by %+v", no)
	}
}

func TestGuardSettings(t *testing.T) {
	if got := (Config{}).withDefaults(); got != Defaults() {
		t.Errorf("no settings give %+v", got)
	}
	if got := (Config{Cooldown: time.Minute}).withDefaults(); got.EvidenceAge == 0 || got.Budget.Window == 0 {
		t.Errorf("evidence of any age would be good: %+v", got)
	}
	if err := (Config{Cooldown: -1}).Check(); err == nil {
		t.Error("a negative cooldown is accepted")
	}
}

// While a run that its guards let through waits to write that down, other
// events of it (an alert joins) come first. Its locks must not be given away
// meanwhile: two runs would change the same service.
func TestGuardKeepsLocksUntilItsOutcome(t *testing.T) {
	q := goodQuestion()
	s := q.Run
	s.Phase, s.Open = machine.PhaseGuarding, &machine.OpenEffect{Key: "k", Action: machine.ActionGuard, Attempt: 1}
	l := q.ledger
	l.take(startOf("r-1", "a"), s.LocksWanted())
	l.Sync(s) // an alert joined
	if _, by := l.lockedBy("r-2", []string{"service:a"}); by != "r-1" {
		t.Fatalf("service:a is held by %q between the guards and the apply, want r-1", by)
	}
	s.Paused = "everything is paused by ada"
	l.Sync(s)
	if _, by := l.lockedBy("r-2", []string{"service:a"}); by != "" {
		t.Errorf("a paused run keeps service:a: its guards are asked again after the pause")
	}
	l.take(startOf("r-1", "a"), s.LocksWanted())
	s.Paused, s.Phase, s.Open = "", machine.PhaseWaiting, nil
	l.Sync(s)
	if holder := l.locks["service:a"]; holder != "" {
		t.Errorf("a waiting run holds service:a")
	}
}

// The operator lowered the ceiling and restarted: runs that began under the
// higher one act no more than the new one allows.
func TestGuardCeiling(t *testing.T) {
	for _, tt := range []struct {
		name     string
		ceiling  playbook.Autonomy
		approved bool
		want     bool
	}{
		{"unchanged", playbook.Auto, false, true},
		{"people are asked now and were not", playbook.Suggest, false, false},
		{"people are asked now and were", playbook.Suggest, true, true},
		{"nothing is done any more", playbook.Observe, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := goodQuestion()
			q.Ceiling = tt.ceiling
			if tt.approved {
				q.Run.Lever.AskedAt, q.Run.Lever.Approved = q.Now, &machine.Decision{Approve: true}
			}
			no := ask(q)
			if (len(no) == 0) != tt.want || len(no) > 0 && no[0].Guard != "autonomy" {
				t.Errorf("refused by %+v", no)
			}
		})
	}
}

// TestTaken: replicas that a run's change may still take are counted for the others, from
// the moment its guards let it through until the change is in effect.
func TestTaken(t *testing.T) {
	q := goodQuestion()
	s, l := q.Run, q.ledger
	s.Lever.Plan.Shares = []machine.Share{{Lost: 2}, {Namespace: "prod", Lost: 2}}
	want := func(when string, others int) {
		t.Helper()
		for _, namespace := range []string{"", "prod"} {
			if got := l.Taken(namespace, "r-2"); got != others {
				t.Errorf("%s: others take %d in %q, want %d", when, got, namespace, others)
			}
			if got := l.Taken(namespace, "r-1"); got != 0 {
				t.Errorf("%s: the run counts its own %d", when, got)
			}
		}
	}
	want("before its guards", 0)
	for _, v := range l.Ask(q) {
		if !v.OK {
			t.Fatalf("%s: %s", v.Guard, v.Why)
		}
	}
	want("let through", 2)
	for phase, taken := range map[machine.Phase]int{
		machine.PhaseApplying: 2, machine.PhaseSettling: 2, machine.PhaseVerifying: 0, machine.PhaseUndoing: 2, machine.PhaseHeld: 2,
	} {
		s.Phase = phase
		l.Sync(s)
		want(string(phase), taken)
	}
	if got := l.Taken("test", "r-2"); got != 0 {
		t.Errorf("a namespace that loses nothing counts %d", got)
	}
}
