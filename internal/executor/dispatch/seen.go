package dispatch

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// Seen is what is known of an episode.
type Seen struct {
	Episode  string // fingerprint@start
	Firing   bool
	At       time.Time // when it was last mentioned
	Resolved time.Time // when that was learned; zero: it was not
	Runs     []string  // every run that it had a part in
	Joined   bool      // none of them began with it
	Kind     string    // one of the kinds of records: what became of it when no run did; empty: a run did
	Reason   string
	Retry    bool   // it is decided again by itself
	Paused   bool   // a pause kept it from starting a run
	Note     uint64 // notification that this was decided about, by its position in the log; 0: none

	Repeats  int       // how often it was sent again since, and nothing came of it
	Repeated time.Time // the last time; zero: it was not
}

// SeenFilter selects episodes; zero fields select everything.
type SeenFilter struct {
	Firing  *bool  // only those that fire, or only those that do not
	NoRun   bool   // only those without a run
	Episode string // only those that begin with it, such as a fingerprint
	Kind    string // only those without a run of which this became

	Since, Until time.Time // only those that began to fire in this time, Until excluded; zero: no bound

	Skip int // of those that pass, as many are left out that were mentioned last; [episodes.Tally] counts them
}

func (f SeenFilter) passes(id string, k known) bool {
	fires := k.firing && k.resolved.IsZero()
	return (f.Firing == nil || *f.Firing == fires) && (!f.NoRun || len(k.runs) == 0) && strings.HasPrefix(id, f.Episode) &&
		(f.Kind == "" || len(k.runs) == 0 && f.Kind == k.kind) && f.began(id, k)
}

// began reports whether an episode began to fire in the time of the filter. One whose
// name does not tell counts by when it was last mentioned.
func (f SeenFilter) began(id string, k known) bool {
	if f.Since.IsZero() && f.Until.IsZero() {
		return true
	}
	at := k.seen
	if _, start, ok := strings.Cut(id, "@"); ok {
		if t, err := time.Parse(time.RFC3339Nano, start); err == nil {
			at = t
		}
	}
	return !at.Before(f.Since) && (f.Until.IsZero() || at.Before(f.Until))
}

// Tally counts the episodes that pass, by what became of them: the kind of the record,
// [KindMatched] for those with a run, empty for those that resolved before they could
// start one.
func (x *episodes) Tally(f SeenFilter) map[string]int {
	out := map[string]int{}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, all := range []map[string]known{x.m, x.idle, x.older} {
		for id, k := range all {
			switch {
			case !f.passes(id, k):
			case len(k.runs) > 0:
				out[KindMatched]++
			default:
				out[k.kind]++
			}
		}
	}
	return out
}

// Seen returns at most so many of the episodes that pass, those first that were
// mentioned last, and whether there are more. What it takes of memory follows most and
// what is skipped, not the number of episodes.
func (x *episodes) Seen(most int, f SeenFilter) (out []Seen, more bool) {
	most += f.Skip
	newest := func() {
		slices.SortFunc(out, func(a, b Seen) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Episode, b.Episode)) })
		if len(out) > most {
			out, more = slices.Delete(out, most, len(out)), true
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, all := range []map[string]known{x.m, x.idle, x.older} {
		for id, k := range all {
			if !f.passes(id, k) {
				continue
			}
			out = append(out, Seen{
				Episode: strings.Clone(id), Firing: k.firing && k.resolved.IsZero(), At: k.seen, Resolved: k.resolved,
				Runs: strings.Fields(refIDs(k.runs)), Joined: k.joined(),
				Kind: k.kind, Reason: k.reason, Retry: k.retry && k.waits(), Paused: k.paused, Note: k.note,
				Repeats: k.repeats, Repeated: k.repeated,
			})
			if len(out) >= 2*most+100 {
				newest()
			}
		}
	}
	newest()
	return out[min(f.Skip, len(out)):], more
}

// Told returns the notification at that position in the log. An archived one is an
// error that wraps [audit.ErrArchived].
func (d *Dispatcher) Told(seq uint64) (playbook.Notification, error) {
	note, err := d.notification(seq)
	return note.data, err
}
