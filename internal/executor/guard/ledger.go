package guard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Ledger is what guards ask of the past and of other runs: which levers were
// applied when, who holds which lock, who waits. It is a projection of the
// runs' events, plus what guards have let through and the log does not say yet.
type Ledger struct {
	config Config

	mu      sync.Mutex // guards everything below, which only the executor's loop changes; a leaf lock
	acts    []act      // levers applied, by time
	air     map[string]*flying
	locks   map[string]string // lock to run
	waiting []waiter          // in the order of arrival
}

// act is a lever that was applied.
type act struct {
	run, service, playbook string
	at                     time.Time
}

// flying is a run that may change the world now.
type flying struct {
	service  string
	playbook string
	counted  bool // the lever under way is among the acts
	locks    []string
	shares   []machine.Share // ready replicas that its change costs
}

// waiter is a run that waits for what others hold.
type waiter struct {
	run   string
	since time.Time
	wants []string
}

// NewLedger returns an empty ledger.
func NewLedger(c Config) *Ledger {
	return &Ledger{config: c.withDefaults(), air: map[string]*flying{}, locks: map[string]string{}}
}

// Horizon is how far back acts matter.
func (l *Ledger) Horizon() time.Duration {
	return max(l.config.Budget.Window, l.config.Cooldown, maxCooldown)
}

// Note folds the events of a run.
func (l *Ledger) Note(s machine.State, events []machine.Event) {
	for i := range events {
		if events[i].Kind == machine.Applied {
			l.applied(s.Start, events[i].At)
		}
	}
}

// applied records a lever. Acts come nearly in order of time. The return of a loan
// is none that keeps others away: the next incident of the service must not wait
// for its cooldown.
func (l *Ledger) applied(s machine.Start, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Loan != "" {
		if f := l.air[s.Run]; f != nil {
			f.counted = true
		}
		return
	}
	a := act{run: s.Run, service: s.Service.Name, playbook: s.Playbook, at: at}
	i := len(l.acts)
	for i > 0 && l.acts[i-1].at.After(at) {
		i--
	}
	l.acts = slices.Insert(l.acts, i, a)
	if f := l.air[s.Run]; f != nil {
		f.counted = true
	}
}

// Sync brings the ledger in line with a run's state, and returns the runs that
// may now get what they wait for.
func (l *Ledger) Sync(s machine.State) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := s.Start.Run
	freed := false
	switch wants := s.Locks(); {
	case len(wants) > 0:
		f := l.take(s.Start, wants)
		f.shares = taking(s)
		f.counted = f.counted || (s.Lever != nil && !s.Lever.AppliedAt.IsZero())
	case s.Phase == machine.PhaseGuarding && s.Open != nil && s.Paused == "":
		// What its guards have just taken is neither confirmed nor returned yet:
		// this is another event of the run.
	case l.air[id] != nil:
		l.release(id)
		freed = true
	}
	i := slices.IndexFunc(l.waiting, func(w waiter) bool { return w.run == id })
	queues := s.Queues() // a paused run lets others pass
	switch {
	case queues && i < 0:
		w := waiter{run: id, since: s.Updated, wants: s.LocksWanted()}
		if from := s.Consent().WaitFrom; !from.IsZero() {
			w.since = from // also after a restart
		}
		l.waiting = append(l.waiting, w)
		freed = true // what it waits for may have become free in the same batch
		slices.SortStableFunc(l.waiting, func(a, b waiter) int {
			return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.run, b.run))
		})
	case !queues && (s.Phase != machine.PhaseGuarding || s.Paused != "") && i >= 0:
		l.waiting = slices.Delete(l.waiting, i, i+1)
		freed = true
	}
	if !freed {
		return nil
	}
	return l.next()
}

// everything is the lock of a run of which not even the service is known: as
// long as it is held, nobody gets any other.
const everything = "everything"

// Hold keeps for a run that cannot be folded what its record shows, and counts
// it as in the air.
func (l *Ledger) Hold(s machine.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wants := s.LocksWanted()
	if s.Start.Service.Name == "" {
		wants = append(wants, everything)
	}
	l.take(s.Start, wants).counted = s.Levers > 0
}

// Leave takes a run out of the line of those who wait, and returns the runs that
// may now get what they wait for.
func (l *Ledger) Leave(id string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.waiting, func(w waiter) bool { return w.run == id })
	if i < 0 {
		return nil
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return l.next()
}

func (l *Ledger) take(s machine.Start, wants []string) *flying {
	f := l.air[s.Run]
	if f == nil {
		f = &flying{service: s.Service.Name, playbook: s.Playbook}
		l.air[s.Run] = f
	}
	f.locks = wants
	for _, name := range wants {
		l.locks[name] = s.Run
	}
	return f
}

func (l *Ledger) release(id string) {
	for _, name := range l.air[id].locks {
		if l.locks[name] == id {
			delete(l.locks, name)
		}
	}
	delete(l.air, id)
}

// next returns the waiting runs none of whose locks is held or wanted by one that
// came earlier, as many as may be under way.
func (l *Ledger) next() []string {
	var out []string
	claimed := map[string]bool{}
	slots := len(l.waiting)
	if most := l.config.Concurrency.Levers; most > 0 {
		slots = most - len(l.air)
	}
	for _, w := range l.waiting {
		if len(out) >= slots {
			break
		}
		free := l.locks[everything] == ""
		for _, name := range w.wants {
			free = free && l.locks[name] == "" && !claimed[name]
			claimed[name] = true
		}
		if free {
			out = append(out, w.run)
		}
	}
	return out
}

// lockedBy reports who keeps a run from its locks: who holds one, or came earlier.
func (l *Ledger) lockedBy(id string, wants []string) (name, by string) {
	if holder := l.locks[everything]; holder != "" && holder != id {
		return everything, holder
	}
	for _, name := range wants {
		if holder := l.locks[name]; holder != "" && holder != id {
			return name, holder
		}
	}
	if l.air[id] != nil {
		return "", "" // it holds them: whoever waits came later
	}
	for _, w := range l.waiting {
		if w.run == id {
			break
		}
		for _, name := range wants {
			if slices.Contains(w.wants, name) {
				return name, w.run
			}
		}
	}
	return "", ""
}

// Holder returns the run that keeps others from changing a service: it holds the
// service's lock, or everything; empty: there is none.
func (l *Ledger) Holder(service string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.locks[everything], l.locks["service:"+service])
}

// Spent returns which limit of the budget keeps a new run from changing a service; empty:
// none does.
func (l *Ledger) Spent(service string, now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _, limit := l.spent(service, "", now)
	return limit
}

// spent counts the levers on a service and in all within the budget's window, and returns
// which limit of the budget is reached; empty: none is. It needs mu.
func (l *Ledger) spent(service, except string, now time.Time) (levers, allLevers int, limit string) {
	b := l.config.Budget
	since := now.Add(-b.Window)
	levers, runs := l.count(service, except, since)
	allLevers, allRuns := l.count("", except, since)
	for _, x := range []struct {
		noun, which string
		used, limit int
	}{
		{"lever", "on this service", levers, b.LeversPerService},
		{"run", "that changed this service", runs, b.RunsPerService},
		{"lever", "in all", allLevers, b.Levers},
		{"run", "that changed something", allRuns, b.Runs},
	} {
		if x.limit > 0 && x.used >= x.limit {
			if x.used != 1 {
				x.noun += "s"
			}
			return levers, allLevers, fmt.Sprintf("%d %s %s within %s, limit %d", x.used, x.noun, x.which, short(b.Window), x.limit)
		}
	}
	return levers, allLevers, ""
}

// actsOn reports whether a run may be changing a service now.
func (l *Ledger) actsOn(run, service string) bool {
	f := l.air[run]
	return f != nil && f.service == service
}

// Acted answers a policy how much was done. False: the time lies before what is
// remembered.
func (l *Ledger) Acted(a Acts, except string, now time.Time) (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Since.Before(now.Add(-l.Horizon())) {
		return 0, false
	}
	levers, runs := l.tally(a.Service, a.Playbook, except, a.Since)
	if a.Runs {
		return runs, true
	}
	return levers, true
}

// taking returns the ready replicas that a run's change costs and that may not be gone
// yet. Once the change is in effect, those that are gone show as not ready.
func taking(s machine.State) []machine.Share {
	switch s.Phase {
	case machine.PhaseApplying, machine.PhaseSettling, machine.PhaseUndoing, machine.PhaseUnwinding, machine.PhaseHeld:
		if s.Lever != nil && s.Lever.Plan != nil {
			return s.Lever.Plan.Shares
		}
	}
	return nil
}

// Taken returns how many ready replicas of services the runs under way but one cost at
// worst, in a namespace or, empty, in all. Some of them may be gone already.
func (l *Ledger) Taken(namespace, except string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for id, f := range l.air {
		for _, s := range f.shares {
			if id != except && s.Namespace == namespace {
				n += s.Lost
			}
		}
	}
	return n
}

// count reports how many levers and runs acted since then, on one service or
// (empty) on all. Levers let through and not applied yet count too; a run that
// asks does not count itself among the runs.
func (l *Ledger) count(service, except string, since time.Time) (levers, runs int) {
	return l.tally(service, "", except, since)
}

func (l *Ledger) tally(service, playbook, except string, since time.Time) (levers, runs int) {
	is := func(s, p string) bool { return (service == "" || service == s) && (playbook == "" || playbook == p) }
	acted := map[string]bool{}
	for _, a := range l.acts {
		if !a.at.Before(since) && is(a.service, a.playbook) {
			levers++
			acted[a.run] = true
		}
	}
	for id, f := range l.air {
		if !f.counted && id != except && is(f.service, f.playbook) {
			levers++
			acted[id] = true
		}
	}
	delete(acted, except)
	return levers, len(acted)
}

// lastBy returns the newest lever on a service by another run.
func (l *Ledger) lastBy(service, except string) (act, bool) {
	for i := len(l.acts) - 1; i >= 0; i-- {
		if a := l.acts[i]; a.service == service && a.run != except {
			return a, true
		}
	}
	return act{}, false
}

// Prune forgets acts that no guard asks for any more.
func (l *Ledger) Prune(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := now.Add(-l.Horizon())
	i := 0
	for i < len(l.acts) && l.acts[i].at.Before(old) {
		i++
	}
	l.acts = slices.Delete(l.acts, 0, i)
}

// Holdings is what runs hold and wait for now.
type Holdings struct {
	Locks   map[string]string // lock to run
	InAir   int               // runs with a change that is neither kept nor undone
	Waiting int               // runs that wait for a lock
	Levers  int               // applied within the budget's window
}

// Holdings returns what runs hold and wait for now.
func (l *Ledger) Holdings(now time.Time) Holdings {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := Holdings{Locks: maps.Clone(l.locks), InAir: len(l.air), Waiting: len(l.waiting)}
	h.Levers, _ = l.count("", "", now.Add(-l.config.Budget.Window))
	return h
}

// ActedSince returns another run that changed the service since then, empty when
// none did.
func (l *Ledger) ActedSince(service, except string, since time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a, ok := l.lastBy(service, except); ok && !a.at.Before(since) {
		return a.run
	}
	return ""
}
