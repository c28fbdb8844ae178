package dispatch

import (
	"slices"
	"sync"
)

// mostRecent bounds the alerts that wait in memory for their decision, to some
// megabytes. The dispatcher reads what exceeds it from the journal.
const mostRecent = 4 * batchAlerts

// recent holds notifications from when they are durable until the dispatcher has
// decided about them: decoded as they were received, which is what their record
// decodes to. Without it each would be read, verified, unpacked and decoded again.
type recent struct {
	mu     sync.Mutex // guards everything below; a leaf lock
	notes  []Note     // in the order of the stream intake; some may be missing
	alerts int        // of all of them
}

// add adds a notification that was just written, unless there are too many.
func (r *recent) add(n Note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.alerts+len(n.data.Alerts) > mostRecent {
		return
	}
	r.notes = append(r.notes, n)
	r.alerts += len(n.data.Alerts)
}

// from returns the notifications from that index of the stream intake on, up to the
// first that is missing and as many as fit one batch. It forgets those before it.
func (r *recent) from(index uint64) []Note {
	r.mu.Lock()
	defer r.mu.Unlock()
	past := 0
	for past < len(r.notes) && r.notes[past].index < index {
		r.alerts -= len(r.notes[past].data.Alerts)
		past++
	}
	r.notes = slices.Delete(r.notes, 0, past)
	n, alerts := 0, 0
	for n < len(r.notes) && r.notes[n].index == index+uint64(n) && n < batchNotifications && alerts < batchAlerts {
		alerts += len(r.notes[n].data.Alerts)
		n++
	}
	return slices.Clone(r.notes[:n])
}
