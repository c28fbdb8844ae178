package ladder

import (
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// WatchedFor is how long the alerts of a run that only observed are watched. What
// has not recovered by then is not said to have recovered by itself.
const WatchedFor = 24 * time.Hour

// watchedRun is a run that would have acted, whose alerts are watched since: do they
// Recover without it?
type watchedRun struct {
	lever     LeverID
	run       string
	ended     time.Time
	waiting   map[string]bool // episodes that have not resolved
	recovered time.Time       // when the last of them was known to be; zero: they are waited for
}

// firingEpisodes are the run's alerts that fire, in order.
func firingEpisodes(s machine.State) []string {
	var out []string
	for _, id := range s.Episodes.IDs() {
		if s.Episodes.Get(id).Firing {
			out = append(out, id)
		}
	}
	return out
}

// watch begins to wait for the alerts of a run. The caller holds mu.
func (t *TrackRecord) watch(r LeverResult, at time.Time) {
	sh := &watchedRun{lever: r.LeverID, run: r.Run, ended: at, waiting: map[string]bool{}}
	for _, id := range r.Waiting {
		sh.waiting[id] = true
		t.waiting[id] = append(t.waiting[id], sh)
	}
	t.watched[r.Run] = sh
	t.get(r.LeverID).figures.Watched++
}

// observedEnded folds what became of a run's alerts.
func (t *TrackRecord) observedEnded(s ObservedEnd) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh := t.watched[s.Run]
	if sh == nil {
		return
	}
	for id := range sh.waiting {
		t.forget(id, sh)
	}
	delete(t.watched, s.Run)
	f := &t.get(s.LeverID).figures
	f.Watched--
	if s.Recovered && s.Acted == "" {
		f.Recovered++
	}
}

// forget takes a run from those that wait for an episode. The caller holds mu.
func (t *TrackRecord) forget(episode string, sh *watchedRun) {
	left := slices.DeleteFunc(slices.Clone(t.waiting[episode]), func(x *watchedRun) bool { return x == sh })
	if len(left) == 0 {
		delete(t.waiting, episode)
		return
	}
	t.waiting[episode] = left
}

// resolved folds that episodes resolved. Runs for which they were the last are
// over with the ObservedEnd in the same batch.
func (t *TrackRecord) resolved(episodes []string, at time.Time) {
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

// Waiters is how many runs wait for these episodes, each counted once for each.
func (t *TrackRecord) Waiters(episodes []string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, id := range episodes {
		n += len(t.waiting[id])
	}
	return n
}

// recoveries returns the runs whose last alerts these are.
func (t *TrackRecord) recoveries(episodes []string, now time.Time) []ObservedEnd {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := map[*watchedRun]int{}
	var out []ObservedEnd
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

func (sh *watchedRun) end(at time.Time, recovered bool) ObservedEnd {
	return ObservedEnd{LeverID: sh.lever, Run: sh.run, Recovered: recovered, After: max(0, at.Sub(sh.ended))}
}

// Overdue returns the runs that have been watched long enough, and those whose
// alerts are known to have resolved although the log of the ladder does not say so.
func (t *TrackRecord) Overdue(now time.Time) []ObservedEnd {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []ObservedEnd
	for _, run := range slices.Sorted(maps.Keys(t.watched)) {
		switch sh := t.watched[run]; {
		case !sh.recovered.IsZero():
			out = append(out, sh.end(sh.recovered, true))
		case now.Sub(sh.ended) >= WatchedFor:
			out = append(out, sh.end(now, false))
		}
	}
	return out
}

// Watches reports whether the alerts of a run are still waited for.
func (t *TrackRecord) Watches(run string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watched[run] != nil
}

// CatchUp folds what else is known of resolved alerts: a run that waits for
// several learns of each, and only the last is in the stream ladder. resolvedAt
// returns zero for an episode that is not known to be resolved.
func (t *TrackRecord) CatchUp(resolvedAt func(episode string) time.Time) {
	t.mu.Lock()
	ids := slices.Sorted(maps.Keys(t.waiting))
	t.mu.Unlock()
	for _, id := range ids {
		if at := resolvedAt(id); !at.IsZero() {
			t.resolved([]string{id}, at)
		}
	}
}
