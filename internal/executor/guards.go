package executor

import (
	"errors"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// GuardConfig is what must hold right before a lever applies. A playbook can
// only tighten it. The zero value means DefaultGuards.
type GuardConfig struct {
	Cooldown    time.Duration // least time since another run's last lever on the service; 0: none
	EvidenceAge time.Duration // oldest that the newest evidence may be; 0: 5 m
	MinReady    int           // replicas that must stay ready, where the service does not say; 0: none
	Budget      Budget
	Concurrency Concurrency
	NodesOut    NodesOut
}

// Budget is how much may be done within a window. 0: no limit.
type Budget struct {
	Window           time.Duration // 0: 1 h
	RunsPerService   int           // runs that act on one service
	LeversPerService int           // levers on one service
	Runs             int           // runs that act, over all services
	Levers           int           // levers over all services
}

// Concurrency is how much may be under way at once. 0: no limit.
type Concurrency struct {
	Levers           int // over all services
	LeversPerService int // on one service; locks already keep it to 1
}

const maxCooldown = 7 * 24 * time.Hour // the longest a playbook may ask for

// DefaultGuards are careful enough for a fleet nobody has tuned for yet.
func DefaultGuards() GuardConfig {
	return GuardConfig{
		Cooldown:    10 * time.Minute,
		EvidenceAge: 5 * time.Minute,
		MinReady:    1,
		Budget:      Budget{Window: time.Hour, RunsPerService: 3, LeversPerService: 4, Runs: 20, Levers: 20},
		Concurrency: Concurrency{Levers: 5, LeversPerService: 1},
		NodesOut:    NodesOut{Max: 1, Percent: 25},
	}
}

func (c GuardConfig) withDefaults() GuardConfig {
	if c == (GuardConfig{}) {
		return DefaultGuards()
	}
	if c.EvidenceAge == 0 {
		c.EvidenceAge = 5 * time.Minute
	}
	if c.Budget.Window == 0 {
		c.Budget.Window = time.Hour
	}
	return c
}

func (c GuardConfig) check() error {
	b, p, n := c.Budget, c.Concurrency, c.NodesOut
	if min(c.Cooldown, c.EvidenceAge, b.Window) < 0 || min(c.MinReady, b.RunsPerService, b.LeversPerService, b.Runs, b.Levers, p.Levers, p.LeversPerService, n.Max, n.Percent) < 0 {
		return errors.New("executor: a guard's setting is negative")
	}
	if n.Percent > 100 {
		return errors.New("executor: more than 100 percent of the nodes may be out")
	}
	return nil
}

// question is what every guard is asked.
type question struct {
	now     time.Time
	run     machine.State
	state   *playbook.State
	paused  string
	ceiling playbook.Autonomy // in force now; the run began under its own
	ledger  *ledger           // locked

	policy  *machine.GuardVerdict // nil: none is configured
	demoted *ladder.Demotion      // of this lever on this service; nil: it is not
}

// guard is one of the list: a question with its name in the verdict, which is
// empty where the guard has nothing to say.
type guard struct {
	ask   func(question) machine.GuardVerdict
	gates bool // asked about gate states too; the others are about a change, and a gate is none
}

// guards is the one readable list. All are asked and all verdicts are shown.
// The policy is asked first of all, since what it says of the level binds the
// others; without one it is not listed.
func guards() []guard {
	return []guard{
		{guardPaused, true},
		{guardPolicy, true},
		{guardLadder, false},
		{guardAutonomy, true},
		{guardFiring, false},
		{guardBlastRadius, false},
		{guardEvidence, false},
		{guardRights, false},
		{guardMinReady, false},
		{guardNodes, false},
		{guardCooldown, false},
		{guardBudget, false},
		{guardConcurrency, false},
		{guardLock, false},
	}
}

// guard asks the guards about the run's lever or gate state. When all let a
// lever through and it will be applied now, its locks and its place in the
// budget are taken in the same moment, so that two runs cannot pass on the same
// free lock; the run's next event confirms or returns them. Where people are
// asked first, nothing is taken: the guards are asked again after their answer.
func (e *Executor) guard(s machine.State) machine.Outcome {
	st := s.Playbook.State(s.Current)
	if st == nil || (st.Kind != playbook.StateGate && (s.Lever == nil || s.Lever.Plan == nil)) {
		return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Invalid, Message: "there is no plan to guard"}
	}
	lever := s.Lever != nil
	l := e.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	q := question{now: e.clock.now(), run: s, state: st, ledger: l, ceiling: e.o.Autonomy, paused: e.pauses.why(s.Start.Service.Name, s.Start.Playbook)}
	out := machine.Outcome{Status: machine.StatusOK}
	out.Terms, q.policy = e.askPolicy(q)
	if lever {
		out.Terms, q.demoted = e.trust.Terms(out.Terms, ladder.LeverID{Playbook: s.Start.Playbook, Service: s.Start.Service.Name, State: st.Name, Lever: st.Step})
	}
	q.run = s.Under(out.Terms)
	free := true
	for _, g := range guards() {
		if !lever && !g.gates {
			continue
		}
		if v := g.ask(q); v.Guard != "" {
			free = free && v.OK
			out.Guards = append(out.Guards, v)
		}
	}
	if free && lever && !q.run.Asks(st) && q.run.Autonomy(st) != playbook.Observe {
		l.take(s.Start, s.LocksWanted())
	}
	return out
}

func pass(name, format string, args ...any) machine.GuardVerdict {
	return machine.GuardVerdict{Guard: name, OK: true, Why: fmt.Sprintf(format, args...)}
}

func refuse(name, format string, args ...any) machine.GuardVerdict {
	return machine.GuardVerdict{Guard: name, Why: fmt.Sprintf(format, args...)}
}

func later(name, format string, args ...any) machine.GuardVerdict {
	return machine.GuardVerdict{Guard: name, Wait: true, Why: fmt.Sprintf(format, args...)}
}

func guardPaused(q question) machine.GuardVerdict {
	if q.paused != "" {
		return later("paused", "%s", q.paused)
	}
	return pass("paused", "nothing is paused")
}

func guardFiring(q question) machine.GuardVerdict {
	if s := q.run; len(s.Episodes) == 0 && s.Start.ByHand() {
		return pass("firing", "started by %s, and no alert is asked", s.Start.By)
	}
	firing := 0
	for _, ep := range q.run.Episodes {
		if ep.Firing {
			firing++
		}
	}
	if firing == 0 && q.run.Wanted(q.state) {
		return pass("firing", "none of %d alerts fires any more; a request for a repair needs none, after a change that was verified", len(q.run.Episodes))
	}
	if firing == 0 {
		return refuse("firing", "none of %d alerts fires any more", len(q.run.Episodes))
	}
	return pass("firing", "%d of %d alerts fire", firing, len(q.run.Episodes))
}

func guardBlastRadius(q question) machine.GuardVerdict {
	if q.run.Truncated {
		return refuse("blast-radius", "the notification was truncated (max_alerts): how much is affected is unknown")
	}
	return pass("blast-radius", "the notification was complete: one service")
}

// guardEvidence asks how old the newest evidence is. Where people decide, and
// have been asked, it is the age at which they were first asked: they look at it
// since, what they approve is a fresh plan, and their answer has a limit of its
// own.
func guardEvidence(q question) machine.GuardVerdict {
	limit := q.ledger.config.EvidenceAge
	if g := q.state.Guards; g != nil && g.EvidenceAge > 0 {
		limit = min(limit, g.EvidenceAge)
	}
	if q.run.LookedAt.IsZero() {
		return refuse("evidence", "there is none")
	}
	at, when := q.now, ""
	people := q.run.Lever.Approved != nil || q.run.Asks(q.state)
	if asked := q.run.Lever.FirstAsk; people && !asked.IsZero() && asked.Before(at) {
		at, when = asked, " when people were asked"
	}
	age := at.Sub(q.run.LookedAt)
	if age > limit {
		return refuse("evidence", "newest is %s old%s, limit %s", short(age), when, short(limit))
	}
	return pass("evidence", "newest is %s old%s, limit %s", short(max(0, age)), when, short(limit))
}

// guardMinReady asks how few replicas stay ready. Where fewer are ready to
// begin with, it asks that they do not become fewer still: repairing an outage
// must stay possible.
func guardMinReady(q question) machine.GuardVerdict {
	need := q.run.Start.Service.MinReady
	if need == 0 {
		need = q.ledger.config.MinReady
	}
	if g := q.state.Guards; g != nil && g.MinReady != nil {
		need = max(need, *g.MinReady)
	}
	own := stayReady("", q.run.Lever.Plan.Capacity, need)
	for _, other := range q.run.Lever.Plan.Others {
		need := other.MinReady
		if need == 0 {
			need = q.ledger.config.MinReady
		}
		if v := stayReady(" of "+other.Service, other.Capacity, need); own.OK && !v.OK {
			own = v
		}
	}
	if n := len(q.run.Lever.Plan.Others); own.OK && n > 0 {
		own.Why += fmt.Sprintf(", and enough of the %d other services it touches", n)
	}
	return own
}

// stayReady judges the replicas of one service.
func stayReady(of string, c machine.Capacity, need int) machine.GuardVerdict {
	switch {
	case c.Unknown:
		return refuse("min-ready", "the effect on capacity%s is unknown, needed are %d", of, need)
	case c.LowestReady >= need:
		return pass("min-ready", "at least %d%s stay ready, needed %d", c.LowestReady, of, need)
	case c.ReadyNow < need && c.LowestReady >= c.ReadyNow:
		return pass("min-ready", "only %d of %d needed%s are ready now, and it does not become less", c.ReadyNow, need, of)
	default:
		return refuse("min-ready", "%d%s would stay ready, needed %d", c.LowestReady, of, need)
	}
}

// guardCooldown keeps runs apart. Levers of the same run are one ladder; the
// budget bounds them.
func guardCooldown(q question) machine.GuardVerdict {
	limit := q.ledger.config.Cooldown
	if g := q.state.Guards; g != nil {
		limit = max(limit, g.Cooldown)
	}
	last, ok := q.ledger.lastBy(q.run.Start.Service.Name, q.run.Start.Run)
	if !ok {
		return pass("cooldown", "no other run's lever on this service, cooldown %s", short(limit))
	}
	age := q.now.Sub(last.at)
	if age < limit {
		return refuse("cooldown", "last lever %s ago by %s, cooldown %s", short(age), last.run, short(limit))
	}
	return pass("cooldown", "last lever %s ago, cooldown %s", short(age), short(limit))
}

func guardBudget(q question) machine.GuardVerdict {
	b := q.ledger.config.Budget
	since := q.now.Add(-b.Window)
	id, service := q.run.Start.Run, q.run.Start.Service.Name
	levers, runs := q.ledger.count(service, id, since)
	allLevers, allRuns := q.ledger.count("", id, since)
	for _, x := range []struct {
		what        string
		used, limit int
	}{
		{"levers on this service", levers, b.LeversPerService},
		{"other runs acted on this service", runs, b.RunsPerService},
		{"levers in all", allLevers, b.Levers},
		{"other runs acted in all", allRuns, b.Runs},
	} {
		if x.limit > 0 && x.used >= x.limit {
			return refuse("budget", "%d %s within %s, limit %d", x.used, x.what, short(b.Window), x.limit)
		}
	}
	return pass("budget", "%d of %s levers on this service, %d of %s in all, within %s",
		levers, limitWord(b.LeversPerService), allLevers, limitWord(b.Levers), short(b.Window))
}

func guardConcurrency(q question) machine.GuardVerdict {
	c := q.ledger.config.Concurrency
	all, here := 0, 0
	for id, f := range q.ledger.air {
		if id == q.run.Start.Run {
			continue
		}
		all++
		if f.service == q.run.Start.Service.Name {
			here++
		}
	}
	switch {
	case c.Levers > 0 && all >= c.Levers:
		return later("concurrency", "%d levers under way, limit %d", all, c.Levers)
	case c.LeversPerService > 0 && here >= c.LeversPerService:
		return later("concurrency", "%d levers under way on this service, limit %d", here, c.LeversPerService)
	default:
		return pass("concurrency", "%d of %s levers under way", all, limitWord(c.Levers))
	}
}

func guardLock(q question) machine.GuardVerdict {
	wants := q.run.LocksWanted()
	if name, by := q.ledger.lockedBy(q.run.Start.Run, wants); name != "" {
		return later("lock", "%s is held or awaited by %s", name, by)
	}
	return pass("lock", "%d free", len(wants))
}

func limitWord(n int) string {
	if n == 0 {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

// short writes a duration without seconds nobody needs.
func short(d time.Duration) string {
	if d >= time.Minute {
		return playbook.FormatDuration(d.Round(time.Second))
	}
	return d.Round(100 * time.Millisecond).String()
}
