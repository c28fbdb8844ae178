package executor

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// shadowFor is how long the alerts of a run that only observed are watched. What
// has not recovered by then is not said to have recovered by itself.
const shadowFor = 24 * time.Hour

// shadow is a run that would have acted, whose alerts are watched since: do they
// recover without it?
type shadow struct {
	lever     LeverID
	run       string
	ended     time.Time
	waiting   map[string]bool // episodes that have not resolved
	recovered time.Time       // when the last of them was known to be; zero: they are waited for
}

// firingEpisodes are the run's alerts that fire, in order.
func firingEpisodes(s machine.State) []string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(s.Episodes)) {
		if s.Episodes[id].Firing {
			out = append(out, id)
		}
	}
	return out
}

// watch begins to wait for the alerts of a run. The caller holds mu.
func (t *trust) watch(r LeverResult, at time.Time) {
	sh := &shadow{lever: r.LeverID, run: r.Run, ended: at, waiting: map[string]bool{}}
	for _, id := range r.Waiting {
		sh.waiting[id] = true
		t.waiting[id] = append(t.waiting[id], sh)
	}
	t.shadows[r.Run] = sh
	t.get(r.LeverID).figures.Watched++
}

// shadowEnded folds what became of a run's alerts.
func (t *trust) shadowEnded(s ShadowEnd) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh := t.shadows[s.Run]
	if sh == nil {
		return
	}
	for id := range sh.waiting {
		t.forget(id, sh)
	}
	delete(t.shadows, s.Run)
	f := &t.get(s.LeverID).figures
	f.Watched--
	if s.Recovered && s.Acted == "" {
		f.Recovered++
	}
}

// forget takes a run from those that wait for an episode. The caller holds mu.
func (t *trust) forget(episode string, sh *shadow) {
	left := slices.DeleteFunc(slices.Clone(t.waiting[episode]), func(x *shadow) bool { return x == sh })
	if len(left) == 0 {
		delete(t.waiting, episode)
		return
	}
	t.waiting[episode] = left
}

// resolved folds that episodes resolved. Runs for which they were the last are
// over with the ShadowEnd in the same batch.
func (t *trust) resolved(episodes []string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range episodes {
		for _, sh := range t.waiting[id] {
			delete(sh.waiting, id)
			if len(sh.waiting) == 0 {
				sh.recovered = at
			}
		}
		delete(t.waiting, id)
	}
}

// waiters is how many runs wait for these episodes, each counted once for each.
func (t *trust) waiters(episodes []string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, id := range episodes {
		n += len(t.waiting[id])
	}
	return n
}

// recoveries gives the runs whose last alerts these are.
func (t *trust) recoveries(episodes []string, now time.Time) []ShadowEnd {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := map[*shadow]int{}
	var out []ShadowEnd
	for _, id := range episodes {
		for _, sh := range t.waiting[id] {
			if _, seen := left[sh]; !seen {
				left[sh] = len(sh.waiting)
			}
			if left[sh]--; left[sh] == 0 {
				out = append(out, sh.end(now, true))
			}
		}
	}
	return out
}

func (sh *shadow) end(at time.Time, recovered bool) ShadowEnd {
	return ShadowEnd{LeverID: sh.lever, Run: sh.run, Recovered: recovered, After: max(0, at.Sub(sh.ended))}
}

// overdue gives the runs that have been watched long enough, and those whose
// alerts are known to have resolved although the log of the ladder does not say so.
func (t *trust) overdue(now time.Time) []ShadowEnd {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []ShadowEnd
	for _, run := range slices.Sorted(maps.Keys(t.shadows)) {
		switch sh := t.shadows[run]; {
		case !sh.recovered.IsZero():
			out = append(out, sh.end(sh.recovered, true))
		case now.Sub(sh.ended) >= shadowFor:
			out = append(out, sh.end(now, false))
		}
	}
	return out
}

// catchUp tells what the stream dispatch knows of resolved alerts: a run that
// waits for several learns of each, and only the last is in the stream ladder.
func (t *trust) catchUp(known *episodes) {
	t.mu.Lock()
	ids := slices.Sorted(maps.Keys(t.waiting))
	t.mu.Unlock()
	for _, id := range ids {
		if k := known.get(id); !k.resolved.IsZero() {
			t.resolved([]string{id}, k.resolved)
		}
	}
}

// endShadows gives up waiting where it has been long enough. The dispatcher
// calls it: nobody else ends a shadow.
func (e *Executor) endShadows() error {
	const together = 256
	ends := e.trust.overdue(e.clock.now())
	for part := range slices.Chunk(ends, together) {
		b := e.batch()
		b.shadows = part
		if err := b.commit(); err != nil {
			return fmt.Errorf("record what became of observed alerts: %w", err)
		}
	}
	return nil
}

// actedSince names another run that changed the service since then, empty when
// none did.
func (l *ledger) actedSince(service, except string, since time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a, ok := l.lastBy(service, except); ok && !a.at.Before(since) {
		return a.run
	}
	return ""
}

// shadowOf says what became of the alerts of an ended run, nil when it did not
// end observed at a lever.
func (e *Executor) shadowOf(s machine.State) *machine.Shadow {
	if s.Ending == nil || s.Ending.Outcome != machine.OutcomeObserved || s.Lever == nil || !s.Lever.Would {
		return nil
	}
	out := &machine.Shadow{Until: s.Ended.Add(shadowFor)}
	e.trust.mu.Lock()
	watched := e.trust.shadows[s.Start.Run] != nil
	e.trust.mu.Unlock()
	if watched {
		return out
	}
	end, ok := e.shadowEnd(s.Start.Run, s.Ended)
	if !ok {
		return nil // it is older than this record
	}
	out.Known, out.Recovered, out.After, out.Acted = true, end.Recovered, end.After, end.Acted
	return out
}

// shadowEnd finds the record of a run that ended then. Only a day's records can
// have it.
func (e *Executor) shadowEnd(run string, ended time.Time) (ShadowEnd, bool) {
	const slack = time.Hour // for a clock that was set, a service that was down
	head, err := e.o.Journal.Head(streamLadder)
	if err != nil || head == 0 {
		return ShadowEnd{}, false
	}
	from, err := e.youngSince(streamLadder, head, ended.Add(-slack))
	if err != nil {
		return ShadowEnd{}, false
	}
	for rec, err := range e.o.Journal.Stream(streamLadder, from) {
		if err != nil {
			return ShadowEnd{}, false
		}
		if rec.Kind != KindShadowEnded {
			continue
		}
		if s, err := decode[ShadowEnd](rec); err == nil && s.Run == run {
			return s, true
		}
	}
	return ShadowEnd{}, false
}
