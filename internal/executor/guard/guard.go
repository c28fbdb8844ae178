package guard

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Config is what must hold right before a lever applies. A playbook can only
// tighten it. The zero value means Defaults.
type Config struct {
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

// Defaults are careful enough for a fleet nobody has tuned for yet.
func Defaults() Config {
	return Config{
		Cooldown:    10 * time.Minute,
		EvidenceAge: 5 * time.Minute,
		MinReady:    1,
		Budget:      Budget{Window: time.Hour, RunsPerService: 3, LeversPerService: 6, Runs: 20, Levers: 20},
		Concurrency: Concurrency{Levers: 5, LeversPerService: 1},
		NodesOut:    NodesOut{Max: 1, Percent: 25},
	}
}

func (c Config) withDefaults() Config {
	if c == (Config{}) {
		return Defaults()
	}
	if c.EvidenceAge == 0 {
		c.EvidenceAge = 5 * time.Minute
	}
	if c.Budget.Window == 0 {
		c.Budget.Window = time.Hour
	}
	return c
}

// Check reports settings that are out of range.
func (c Config) Check() error {
	b, p, n := c.Budget, c.Concurrency, c.NodesOut
	if min(c.Cooldown, c.EvidenceAge, b.Window) < 0 || min(c.MinReady, b.RunsPerService, b.LeversPerService, b.Runs, b.Levers, p.Levers, p.LeversPerService, n.Max, n.Percent) < 0 {
		return errors.New("guards: a guard's setting is negative")
	}
	if n.Percent > 100 {
		return errors.New("guards: more than 100 percent of the nodes may be out")
	}
	return nil
}

// Question is what every guard is asked about a run's lever or gate state.
type Question struct {
	Now     time.Time
	Run     machine.State // under the terms in force now
	State   *playbook.State
	Paused  string                // which pause covers it; empty: none does
	Ceiling playbook.Autonomy     // in force now; the run began under its own
	Gone    string                // service that the catalog no longer has; empty: it has all
	Unsure  error                 // why the catalog cannot say that; nil: it can
	Policy  *machine.GuardVerdict // nil: none is configured
	Demoted *ladder.Demotion      // of this lever on this service; nil: it is not
	Firing  string                // of the run of a loan: another run on the service whose alerts fire; empty: none

	ledger *Ledger // locked
}

// guard is one of the list: a question with its name in the verdict, which is
// empty where the guard has nothing to say.
type guard struct {
	ask   func(Question) machine.GuardVerdict
	gates bool // asked about gate states too; the others are about a change, and a gate is none
	ends  bool // asked about the end of a change, too; the others keep changes apart
}

// guards is the one readable list. All are asked and all verdicts are shown.
// The policy comes before the guards that its level binds; without one it is not
// listed.
func guards() []guard {
	return []guard{
		{guardPaused, true, true},
		{guardPolicy, true, false},
		{guardLadder, false, false},
		{guardAutonomy, true, true},
		{guardFiring, false, false},
		{guardBlastRadius, false, false},
		{guardEvidence, false, true},
		{guardRights, false, true},
		{guardMinReady, false, false},
		{guardNodes, false, false},
		{guardCooldown, false, false},
		{guardBudget, false, false},
		{guardConcurrency, false, false},
		{guardLock, false, false},
	}
}

// Ask asks the guards. When all let a lever through and it will be applied now,
// its locks and its place in the budget are taken in the same moment, so that two
// runs cannot pass on the same free lock; the run's next event confirms or returns
// them. Where people are asked first, nothing is taken: the guards are asked again
// after their answer.
func (l *Ledger) Ask(q Question) []machine.GuardVerdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.ledger = l
	lever, free := q.Run.Lever != nil, true
	ends := lever && q.Run.Lever.Plan != nil && q.Run.Lever.Plan.Ends != ""
	var out []machine.GuardVerdict
	for _, g := range guards() {
		if !lever && !g.gates || ends && !g.ends {
			continue
		}
		if v := g.ask(q); v.Guard != "" {
			free = free && v.OK
			out = append(out, v)
		}
	}
	if free && lever && !ends && !q.Run.Asks(q.State) && q.Run.Autonomy(q.State) != playbook.Observe {
		f := l.take(q.Run.Start, q.Run.LocksWanted())
		if q.Run.Lever.Plan != nil {
			f.shares = q.Run.Lever.Plan.Shares
		}
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

func guardPaused(q Question) machine.GuardVerdict {
	if q.Paused != "" {
		return later("paused", "%s", q.Paused)
	}
	return pass("paused", "nothing is paused")
}

func guardFiring(q Question) machine.GuardVerdict {
	if q.Firing != "" {
		return refuse("firing", "run %s is about an incident of this service: what is on loan stays", q.Firing)
	}
	if s := q.Run; s.Episodes.Len() == 0 && s.Start.ByHand() {
		return pass("firing", "started by %s, and no alert is asked", s.Start.By)
	}
	firing := 0
	for _, ep := range q.Run.Episodes.All() {
		if ep.Firing {
			firing++
		}
	}
	if firing == 0 && q.Run.Wanted(q.State) {
		return pass("firing", "none of %d alerts fires any more; a request for a repair needs none, after a change that was verified", q.Run.Episodes.Len())
	}
	if firing == 0 {
		return refuse("firing", "none of %d alerts fires any more", q.Run.Episodes.Len())
	}
	return pass("firing", "%d of %d alerts fire", firing, q.Run.Episodes.Len())
}

func guardBlastRadius(q Question) machine.GuardVerdict {
	switch {
	case q.Run.Truncated && q.Run.Full():
		return refuse("blast-radius", "%d alerts fire, the most that a run remembers: how much is affected is unknown", machine.MostEpisodes)
	case q.Run.Truncated:
		return refuse("blast-radius", "a notification was truncated (max_alerts), or more than %d alerts fired at once: how much is affected is unknown", machine.MostEpisodes)
	}
	touches := q.Run.Lever.Plan.Touches
	if len(touches) == 0 {
		return pass("blast-radius", "the notification was complete: one service")
	}
	var names []string
	for _, t := range touches {
		names = append(names, t.Name())
	}
	return pass("blast-radius", "the notification was complete; the service, and %s are judged", strings.Join(names, ", "))
}

// guardEvidence asks how old the newest evidence is. Where people decide, and
// have been asked, it is the age at which they were first asked: they look at it
// since, what they approve is a fresh plan, and their answer has a limit of its
// own.
func guardEvidence(q Question) machine.GuardVerdict {
	own, err := q.Run.Guarding(q.State, q.Now)
	if err != nil {
		return refuse("evidence", "%v", err)
	}
	limit := q.ledger.config.EvidenceAge
	if own.EvidenceAge > 0 {
		limit = min(limit, own.EvidenceAge)
	}
	if q.Run.LookedAt.IsZero() {
		return refuse("evidence", "there is none")
	}
	at, when := q.Now, ""
	people := q.Run.Lever.Approved != nil || q.Run.Asks(q.State)
	if asked := q.Run.Lever.FirstAsk; people && !asked.IsZero() && asked.Before(at) {
		at, when = asked, " when people were asked"
	}
	age := at.Sub(q.Run.LookedAt)
	if age > limit {
		return refuse("evidence", "newest is %s old%s, limit %s", short(age), when, short(limit))
	}
	return pass("evidence", "newest is %s old%s, limit %s", short(max(0, age)), when, short(limit))
}

// guardMinReady asks how few replicas stay ready. Where fewer are ready to
// begin with, it asks that they do not become fewer still: repairing an outage
// must stay possible.
func guardMinReady(q Question) machine.GuardVerdict {
	need := q.Run.Start.Service.MinReady
	if need == 0 {
		need = q.ledger.config.MinReady
	}
	asked, err := q.Run.Guarding(q.State, q.Now)
	if err != nil {
		return refuse("min-ready", "%v", err)
	}
	need = max(need, asked.MinReady)
	own := stayReady("", q.Run.Lever.Plan.Capacity, need)
	for _, other := range q.Run.Lever.Plan.Others {
		need := other.MinReady
		if need == 0 {
			need = q.ledger.config.MinReady
		}
		if v := stayReady(" of "+other.Service, other.Capacity, need); own.OK && !v.OK {
			own = v
		}
	}
	if n := len(q.Run.Lever.Plan.Others); own.OK && n > 0 {
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
// budget bounds them. A run waits for the general cooldown to pass, as it waits for
// the other run itself, where it may still look again afterwards. What a playbook
// asks for beyond is its limit for the lever, and refuses.
func guardCooldown(q Question) machine.GuardVerdict {
	asked, err := q.Run.Guarding(q.State, q.Now)
	if err != nil {
		return refuse("cooldown", "%v", err)
	}
	limit := q.ledger.config.Cooldown
	own := max(limit, asked.Cooldown)
	last, ok := q.ledger.lastBy(q.Run.Start.Service.Name, q.Run.Start.Run)
	if !ok {
		return pass("cooldown", "no other run's lever on this service, cooldown %s", short(own))
	}
	age, until := q.Now.Sub(last.at), last.at.Add(limit)
	switch {
	case age >= own:
		return pass("cooldown", "last lever %s ago, cooldown %s", short(age), short(own))
	case age >= limit, until.Sub(q.Run.Began) >= machine.MaxAgain:
		return refuse("cooldown", "last lever %s ago by %s, cooldown %s", short(age), last.run, short(own))
	default:
		v := later("cooldown", "last lever %s ago by %s, cooldown %s", short(age), last.run, short(own))
		v.Run, v.Again, v.Until = last.run, true, until
		return v
	}
}

func guardBudget(q Question) machine.GuardVerdict {
	if q.Run.Start.Loan != "" {
		return pass("budget", "a loan is given back once, and counts in no budget")
	}
	b := q.ledger.config.Budget
	levers, allLevers, spent := q.ledger.spent(q.Run.Start.Service.Name, q.Run.Start.Run, q.Now)
	if spent != "" {
		return refuse("budget", "%s", spent)
	}
	return pass("budget", "%d of %s levers on this service, %d of %s in all, within %s",
		levers, limitWord(b.LeversPerService), allLevers, limitWord(b.Levers), short(b.Window))
}

func guardConcurrency(q Question) machine.GuardVerdict {
	c := q.ledger.config.Concurrency
	all, here, other := 0, 0, ""
	for id, f := range q.ledger.air {
		if id == q.Run.Start.Run {
			continue
		}
		all++
		if f.service == q.Run.Start.Service.Name {
			here++
			if other == "" || id < other {
				other = id
			}
		}
	}
	switch {
	case c.LeversPerService > 0 && here >= c.LeversPerService:
		return behind(other, true, "concurrency", "%d levers under way on this service, limit %d", here, c.LeversPerService)
	case c.Levers > 0 && all >= c.Levers:
		return later("concurrency", "%d levers under way, limit %d", all, c.Levers)
	default:
		return pass("concurrency", "%d of %s levers under way", all, limitWord(c.Levers))
	}
}

// guardLock asks for the locks of the plan and of the service. Who waits for a run
// that acts on the service gathers its evidence again afterwards.
func guardLock(q Question) machine.GuardVerdict {
	wants := q.Run.LocksWanted()
	name, by := q.ledger.lockedBy(q.Run.Start.Run, wants)
	switch {
	case name == "":
		return pass("lock", "%d free", len(wants))
	case q.ledger.actsOn(by, q.Run.Start.Service.Name):
		return behind(by, true, "lock", "waits for run %s, which acts on the service", by)
	default:
		return behind(by, false, "lock", "%s is held or awaited by %s", name, by)
	}
}

// behind is a guard's answer to a run that another one is in the way of.
func behind(run string, same bool, name, format string, args ...any) machine.GuardVerdict {
	v := later(name, format, args...)
	v.Run, v.Again = run, same
	return v
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
