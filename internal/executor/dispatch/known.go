package dispatch

import (
	"slices"
	"time"
)

// lateWithin is how long after a resolution a firing notification of the same
// episode counts as late: written before the resolution and delivered after it,
// by the other one of a pair or by a retry. Later it is a refiring.
const lateWithin = 5 * time.Minute

// known is what the dispatcher remembers of an episode.
type known struct {
	firing   bool
	resolved time.Time // when we learned that it resolved; zero: it did not
	seen     time.Time // when it was last mentioned
	runs     []runRef  // every run it had a part in
	kind     string    // what became of it last, when no run did
	reason   string
	retry    bool   // that is asked again by itself
	note     uint64 // the notification, by its position in the log, that this was decided about
	paused   bool   // no run did, because of a pause

	repeats  int       // how often it was sent again since then and nothing came of it
	repeated time.Time // the last time; zero: it was not
}

// runRef is a run that an episode has a part in.
type runRef struct {
	id, playbook string
	started      bool // the run began with the episode; false: it joined, or the run took over from another one
}

// release is that people released a run.
type release struct {
	run  string
	seq  uint64 // of the log's entry that says so
	from bool   // of a run that handed over to that one
}

// leaves takes the episode out of the runs that people released, and reports whether it
// was in one. One that has not resolved was handed over to such a run by those before it,
// and leaves them too.
func (k *known) leaves(released func(run string) (release, bool)) bool {
	var rest []runRef
	var last string
	for _, r := range k.runs {
		if x, ok := released(r.id); ok && (!x.from || k.resolved.IsZero()) {
			last = x.run
		} else {
			rest = append(rest, r)
		}
	}
	if len(rest) == len(k.runs) {
		return false
	}
	if len(rest) == 0 && k.kind == "" {
		k.kind, k.reason = KindReleased, "run "+last+" was released"
		k.news()
	}
	k.runs = rest
	return true
}

// with returns the runs and one more. A run that is among them stays where it is: it was
// started if one of the two says so.
func with(runs []runRef, ref runRef) []runRef {
	i := slices.IndexFunc(runs, func(r runRef) bool { return r.id == ref.id && r.playbook == ref.playbook })
	switch {
	case i < 0:
		return append(slices.Clip(runs), ref)
	case ref.started && !runs[i].started:
		runs = slices.Clone(runs)
		runs[i].started = true
	}
	return runs
}

// again counts that the episode was sent once more and nothing came of it.
func (k *known) again(at time.Time) { k.repeats, k.repeated = k.repeats+1, at }

// news records that something came of the episode: it was not repeated since.
func (k *known) news() { k.repeats, k.repeated = 0, time.Time{} }

// same reports whether this is what became of the episode before, while it fires.
func (k known) same(kind, reason string) bool {
	return k.kind == kind && k.reason == reason && k.firing
}

// became records what became of the episode; an empty kind: a run did.
func (k *known) became(kind string, v Record) {
	k.kind, k.reason, k.retry, k.note, k.paused = kind, v.Reason, v.Retry, v.Notification, v.paused(kind)
}

func (k known) had(playbook string) bool {
	return slices.ContainsFunc(k.runs, func(r runRef) bool { return r.playbook == playbook })
}

// startable reports whether the episode may start a run, or join another one: it
// has a part in none, or the last one released it.
func (k known) startable() bool { return len(k.runs) == 0 || k.kind == KindSuppressed && k.firing }

// onlyWaits reports whether the episode waits for a run and has a part in none.
func (k known) onlyWaits() bool { return len(k.runs) == 0 && k.waits() }

// past reports whether an episode that had a run may be forgotten where there are too
// many: it resolved, and what may have been late has arrived; or nobody mentions it.
func (k known) past(now time.Time) bool {
	if !k.resolved.IsZero() {
		return now.Sub(k.resolved) >= lateWithin
	}
	return !k.waits() && now.Sub(k.seen) >= stillBelieved
}

// waits reports whether the episode starts no run only because something is in
// the way.
func (k known) waits() bool { return k.kind == KindSuppressed && k.firing && k.resolved.IsZero() }

// joined reports whether the episode has a part in runs of which none began with it.
func (k known) joined() bool {
	return len(k.runs) > 0 && !slices.ContainsFunc(k.runs, func(r runRef) bool { return r.started })
}

// stillIn reports whether the episode fires and belongs to a run.
func (k known) stillIn(run string) bool {
	return k.firing && k.resolved.IsZero() && slices.ContainsFunc(k.runs, func(r runRef) bool { return r.id == run })
}
