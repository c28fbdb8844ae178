package dispatch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// EpisodesKept is how long an episode that nobody mentions is remembered.
const EpisodesKept = 14 * 24 * time.Hour

// episodes is the index of known episodes: the projection of the stream
// dispatch, and of the runs themselves for what they inherited by a divert.
type episodes struct {
	mu sync.Mutex // guards everything below; a leaf lock
	m  map[string]known

	// Alerts that nobody acts on are most of all, and are remembered only to tell a
	// repeat from news. There are two generations of them, so that memory does not
	// grow with their number: the older one is forgotten when the newer one is full.
	idle, older map[string]known
	mostIdle    int // the constant, save in tests

	// Alerts that wait for a run are bounded too: what exceeds it is remembered as if
	// nobody acted on it, and is decided again when Alertmanager repeats it.
	waiting     int // of m
	mostWaiting int // the constant, save in tests
	mostActed   int // the constant, save in tests

	crowd  bool      // no further episode gets a run
	looked time.Time // when nothing was found that may be forgotten

	released map[string]release // known at the start: runs that people released, and those that handed over to them
	people   map[asked]ended    // the last run that ended with people
}

// asked is what people have, or what nobody answered.
type asked struct {
	service  string
	playbook string // whose question nobody answered, or of a run that handed over to it; empty: people have the service
}

// ended is a run that ended with people.
type ended struct {
	run    string
	at     time.Time
	firing []string // its episodes that fired then

	// unanswered is set if nobody answered its question: after a while they may start
	// another run.
	unanswered *machine.Unanswered
}

// Bounds of what is remembered.
const (
	mostIdle    = 20_000 // of a generation of episodes that nobody acts on
	mostWaiting = 20_000 // of episodes that wait for a run

	// mostActed bounds the episodes of EpisodesKept that had a run. Beyond it those of
	// the past join the idle ones. Where there are none, no further episode gets a run:
	// forgetting one that fires would let a repeat of it start a second run.
	mostActed = 200_000

	lookAgain = time.Minute // between searches for what may be forgotten
)

func newEpisodes() *episodes {
	return &episodes{
		m: map[string]known{}, idle: map[string]known{}, older: map[string]known{}, mostIdle: mostIdle, mostWaiting: mostWaiting, mostActed: mostActed,
		released: map[string]release{}, people: map[asked]ended{},
	}
}

// get returns what is known of an episode, nothing when it is new.
func (x *episodes) get(id string) known {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.find(id)
}

// find is get under mu.
func (x *episodes) find(id string) known {
	if k, ok := x.m[id]; ok {
		return k
	}
	if k, ok := x.idle[id]; ok {
		return k
	}
	return x.older[id]
}

func (x *episodes) put(id string, k known) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.keep(id, k)
}

// take keeps what a batch decided about episodes. Their runs were noted before, and
// know more than the batch does.
func (x *episodes) take(decided map[string]known) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, k := range decided {
		k.runs = x.find(id).runs
		x.keep(id, k)
	}
}

// keep is put under mu.
func (x *episodes) keep(id string, k known) {
	old, ok := x.m[id]
	if ok && old.onlyWaits() {
		x.waiting--
	}
	if len(k.runs) > 0 || k.waits() && x.waiting < x.mostWaiting {
		delete(x.idle, id)
		delete(x.older, id)
		if !ok {
			id = strings.Clone(id)
		}
		x.m[id] = k
		if k.onlyWaits() {
			x.waiting++
		}
		return
	}
	x.rest(id, k)
}

// rest keeps an episode among the idle ones.
func (x *episodes) rest(id string, k known) {
	delete(x.m, id)
	if len(x.idle) >= x.mostIdle {
		if _, ok := x.idle[id]; !ok {
			x.idle, x.older = make(map[string]known, x.mostIdle), x.idle
		}
	}
	delete(x.older, id) // or it would be counted and listed twice
	x.idle[strings.Clone(id)] = k
}

// crowded reports whether no further episode may get a run, after it has made room.
func (x *episodes) crowded(now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	full := len(x.m)-x.waiting >= x.mostActed
	if full && (!x.crowd || now.Sub(x.looked) >= lookAgain) {
		x.looked = now
		full = !x.retire(now)
	}
	x.crowd = full
	return full
}

// retire lets the oldest of the past rest, and reports whether there were any.
func (x *episodes) retire(now time.Time) bool {
	var past []string
	for id, k := range x.m {
		if k.past(now) {
			past = append(past, id)
		}
	}
	slices.SortFunc(past, func(a, b string) int { return x.m[a].seen.Compare(x.m[b].seen) })
	for _, id := range past[:min(len(past), max(1, x.mostIdle/2))] {
		x.rest(id, x.m[id])
	}
	return len(past) > 0
}

// Crowded reports whether alerts start no runs because as many that had one are
// remembered as may be.
func (x *episodes) Crowded() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.crowd && len(x.m)-x.waiting >= x.mostActed
}

// Size is how many episodes are remembered.
func (x *episodes) Size() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.m) + len(x.idle) + len(x.older)
}

// Note folds that episodes have a part in a run, or no more. It reports whether
// some of them may start another run now.
func (x *episodes) Note(s machine.State, events []machine.Event) (free bool) {
	for i := range events {
		switch ev := &events[i]; ev.Kind {
		case machine.RunStarted:
			if ev.Start.ByHand() {
				continue // no alert has a part in it
			}
			x.Has(ev.Start.Alert, s.Start, ev.At)
		case machine.EpisodeJoined:
			x.Has(*ev.Alert, s.Start, ev.At)
		case machine.RunEnded:
			x.Release(s.Start.Run, ev.Ending)
			free = free || len(ev.Ending.Released) > 0
			x.settle(s.Start, ev.Ending, ev.At)
			if ev.Ending.Outcome.WithPeople() {
				x.handOver(s.Start.Service.Name, ended{run: s.Start.Run, at: ev.At, firing: s.FiringEpisodes(), unanswered: ev.Ending.Unanswered})
			}
		}
	}
	return free
}

// Release lets episodes that fire leave a run that has ended. They stay with the
// run that took over, if one did. At the start, what was decided about them after that
// end is known already, and stays.
func (x *episodes) Release(run string, end *machine.Ending) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range end.Released {
		k, ok := x.m[id]
		if !ok {
			continue
		}
		into := runRef{id: end.Into, playbook: end.Divert}
		k.runs = slices.DeleteFunc(slices.Clone(k.runs), func(r runRef) bool {
			leaves := r.id == run || end.Unanswered != nil && slices.Contains(end.Unanswered.Line, machine.Handed{Run: r.id, Playbook: r.playbook})
			into.started = into.started || leaves && r.started
			return leaves
		})
		if into.id != "" {
			k.runs = with(k.runs, into)
		}
		if len(k.runs) == 0 && k.kind == "" {
			k.news()
			k.kind, k.reason, k.retry, k.paused = KindSuppressed, "run "+run+" has ended, and it still fires", true, false
		}
		x.keep(id, k)
	}
}

// Inherit folds, at the start, how runs ended that are not open any more: what
// they handed over, and what they released. ended returns the end of a run and
// when that was, nil when it is open or too long ago.
func (x *episodes) Inherit(ended func(run string) (*machine.Ending, time.Time)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, k := range x.m {
		for i := 0; i < len(k.runs); i++ { // it grows
			end, at := ended(k.runs[i].id)
			if end == nil || end.Into == "" || !k.resolved.IsZero() && k.resolved.Before(at) {
				continue
			}
			k.runs = with(k.runs, runRef{id: end.Into, playbook: end.Divert})
		}
		x.keep(id, k)
	}
}

// Has records that an episode has a part in a run.
func (x *episodes) Has(a playbook.Alert, s machine.Start, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	id := a.Episode()
	k := x.find(id)
	if k.seen.IsZero() {
		k = known{firing: a.Status == playbook.Firing, seen: at}
	}
	started := !s.ByHand() && s.DivertedFrom == "" && id == s.Alert.Episode()
	k.runs = with(k.runs, runRef{s.Run, s.Playbook, started})
	x.keep(id, k)
}

// Forget lets the alerts of a run that was released start another. from lists the runs
// that handed over to it.
func (x *episodes) Forget(run string, from []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.leave(releases(run, 0, from))
}

// Leave folds, at the start and after Inherit and Release, which runs people released.
func (x *episodes) Leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.leave(x.released)
}

// leave takes all episodes out of the runs that people released, under mu.
func (x *episodes) leave(released map[string]release) {
	for id, k := range x.m {
		if k.leaves(func(run string) (release, bool) { r, ok := released[run]; return r, ok }) {
			x.keep(id, k)
		}
	}
}

// releases returns the runs that episodes leave when people release one.
func releases(run string, seq uint64, from []string) map[string]release {
	out := map[string]release{}
	for _, id := range from {
		out[id] = release{run, seq, true}
	}
	out[run] = release{run, seq, false}
	return out
}

// Prune forgets what nobody has mentioned for EpisodesKept.
func (x *episodes) Prune(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old := now.Add(-EpisodesKept)
	for id, k := range x.m {
		if k.seen.Before(old) {
			if k.onlyWaits() {
				x.waiting--
			}
			delete(x.m, id)
		}
	}
	maps.DeleteFunc(x.people, func(_ asked, e ended) bool { return now.Sub(e.at) > mostWindow })
}

// Released records at the start that people released a run, by an entry of the log. from
// are the runs that handed over to it.
func (x *episodes) Released(run string, seq uint64, from []string) {
	maps.Copy(x.released, releases(run, seq, from))
}

// ResolvedAt returns when an episode was known to be resolved; zero: it was not.
func (x *episodes) ResolvedAt(id string) time.Time { return x.get(id).resolved }

// Retries reports whether episodes wait for something that nobody says when it is
// gone.
func (x *episodes) Retries() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, k := range x.m {
		if k.retry && k.waits() {
			return true
		}
	}
	return false
}

// suppressed returns the episodes that wait, by the notification that told of
// them; not those that nobody has mentioned since that time, nor those that wait for
// one of these reasons.
func (x *episodes) suppressed(since time.Time, but map[string]bool) map[uint64][]string {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := map[uint64][]string{}
	for id, k := range x.m {
		if k.waits() && !k.seen.Before(since) && !but[k.reason] {
			out[k.note] = append(out[k.note], strings.Clone(id))
		}
	}
	return out
}

// Needed returns the notifications, by their position in the log, that told of episodes
// which fire still: one that waits, or that a run releases, is decided from it again.
func (x *episodes) Needed() map[uint64]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := map[uint64]bool{}
	for _, k := range x.m {
		if k.firing {
			out[k.note] = true
		}
	}
	return out
}

// Remembered returns what is known of each episode, as text: its runs, what became of it
// when no run did and why, how often it was repeated, whether it fires, whether it is
// decided again, when it resolved and from which notification it was decided. Two
// dispatchers that know the same return the same.
func (x *episodes) Remembered() map[string]string {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := map[string]string{}
	all := maps.Clone(x.older)
	maps.Copy(all, x.idle)
	maps.Copy(all, x.m)
	for id, k := range all {
		var runs []string
		for _, r := range k.runs {
			if r.started {
				r.id += " (started)"
			}
			runs = append(runs, r.id)
		}
		slices.Sort(runs)
		if k.kind != "" {
			runs = append(runs, k.kind)
		}
		if k.paused {
			runs = append(runs, "paused")
		}
		out[id] = fmt.Sprintf("%s, repeated %d times; %s %v %v %v %d", strings.Join(runs, " "), k.repeats, k.reason, k.firing, k.retry, k.resolved, k.note)
	}
	return out
}
