package dispatch

import (
	"maps"
	"slices"
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
	Kind     string    // one of the kinds of records: what became of it when no run did; empty: a run did
	Reason   string
	Retry    bool   // it is decided again by itself
	Note     uint64 // notification that this was decided about, by its position in the log; 0: none
}

// Seen returns at most so many of the episodes that pass, those first that were
// mentioned last, and whether there are more.
func (x *episodes) Seen(most int, passes func(Seen) bool) (out []Seen, more bool) {
	for _, all := range x.copies() {
		for id, k := range all {
			s := Seen{
				Episode: id, Firing: k.firing && k.resolved.IsZero(), At: k.seen, Resolved: k.resolved,
				Kind: k.kind, Reason: k.reason, Retry: k.retry && k.waits(), Note: k.note,
			}
			for _, r := range k.runs {
				s.Runs = append(s.Runs, r.id)
			}
			if passes(s) {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, func(a, b Seen) int {
		if d := b.At.Compare(a.At); d != 0 {
			return d
		}
		if a.Episode < b.Episode {
			return -1
		}
		return 1
	})
	if len(out) > most {
		return out[:most], true
	}
	return out, false
}

// copies returns the generations as they are now, so that nobody waits for who reads
// them.
func (x *episodes) copies() []map[string]known {
	x.mu.Lock()
	defer x.mu.Unlock()
	return []map[string]known{maps.Clone(x.m), maps.Clone(x.idle), maps.Clone(x.older)}
}

// Told returns the notification at that position in the log. An archived one is an
// error that wraps [audit.ErrArchived].
func (d *Dispatcher) Told(seq uint64) (playbook.Notification, error) {
	note, err := d.notification(seq)
	return note.data, err
}
