package dispatch

import (
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Bounds of one batch of the dispatcher: a burst shares appends, a lone
// notification waits for nobody.
const (
	batchNotifications = 256
	batchAlerts        = 1024
	batchRecords       = audit.MaxBatch / 4 // of the stream dispatch: what follows for runs has to fit, too
	ahead              = 5 * time.Minute    // clock skew that is still believed
)

// quarantined is what people are told of a notification that was quarantined.
func (n Note) quarantined(why string) machine.Effect {
	return machine.Effect{
		Key:  fmt.Sprintf("intake/%d/quarantined", n.index),
		Text: fmt.Sprintf("notification %d cannot be processed and was quarantined, its alerts start no run: %s", n.seq, why),
	}
}

// Runs is what a decision may do to runs, all in one batch. Nothing of it is true
// before the batch is committed.
type Runs interface {
	// About returns the open run that an alert about a service joins: one that alerts
	// started on it, whatever its playbook, else the one of the playbook that a person
	// started; false when there is none.
	About(playbook, service string) (Run, bool)

	// Open returns an open run; false when there is none.
	Open(id string) (Run, bool)

	// Tell hands an alert to a run. It panics where a run that this batch starts
	// cannot take it.
	Tell(run string, a playbook.Alert, truncated bool)

	// Start starts a run, and returns its id; or why none may start now. The executor
	// adds the id and its own autonomy to s.
	Start(s machine.Start, p *playbook.Playbook) (id string, no Refusal)

	// Full reports whether no further alert should come into the batch.
	Full() bool
}

// Run is an open run.
type Run struct {
	ID       string
	Playbook string
	Usable   bool // it can be told of alerts; one in quarantine cannot
	Closing  bool // people are being told that it ends with them
	Full     bool // it remembers no further alert; told of one, it only knows that there are more
}

// Refusal is why no run may start now; the zero value refuses nothing.
type Refusal struct {
	Why   string
	Retry bool // the end of the reason is not announced: ask again after a while
}

// Decision is what becomes of alerts, in one batch of the executor: its Records
// are appended with the events of the runs, and Commit is called when they are
// durable.
type Decision struct {
	Notices  []machine.Effect // what people are told
	Resolved []string         // episodes whose end was learned

	// Stale: services were not asked about all alerts that may start a run, because
	// the playbooks changed meanwhile. Nothing of the decision counts.
	Stale bool

	d        *Dispatcher
	runs     Runs
	now      time.Time
	set      *playbook.Set
	found    Resolved
	next     cursor
	episodes map[string]known     // as the batch leaves them
	strays   map[string]*unserved // by reason: what people are told once

	note Note
	anew bool // the note was decided before, and these alerts of it suppressed

	records []audit.Record // of the stream dispatch, after Head
	last    Record         // the newest one, which the next alert may share: not encoded yet
	kind    string         // its kind; empty: there is none
}

// Decide begins a decision with the set of playbooks that is in force.
func (d *Dispatcher) Decide(runs Runs, now time.Time, set *playbook.Set, found Resolved) *Decision {
	return &Decision{d: d, runs: runs, now: now, set: set, found: found, next: d.cursor, episodes: map[string]known{}}
}

// Notifications decides alerts of notifications, as many as fit the batch.
func (d *Decision) Notifications(notes []Note) {
	left, alerts := batchAlerts, 0
	for i := range notes {
		alerts += len(notes[i].data.Alerts)
	}
	d.episodes = make(map[string]known, min(alerts, batchAlerts))
	for i := range notes {
		left -= d.notification(notes[i], left)
		if left <= 0 || d.full() {
			return
		}
	}
}

func (d *Decision) full() bool { return d.runs.Full() || len(d.records) >= batchRecords }

// Quarantine puts a notification into quarantine for good.
func (d *Decision) Quarantine(n Note, why error) {
	d.note = n
	d.whole(KindQuarantined, why.Error())
}

// Commit makes what was decided true in memory.
func (d *Decision) Commit() {
	d.next.head += uint64(len(d.Records()))
	d.d.cursor = d.next
	d.d.unsaved += len(d.records) + len(d.episodes)
	d.d.take(d.episodes)
}

// notification decides alerts of one notification, at most so many and until
// the batch is full, and returns how many it took.
func (d *Decision) notification(n Note, most int) int {
	d.flush()
	d.note = n
	switch {
	case n.broken != nil:
		d.whole(KindQuarantined, n.broken.Error())
		return 1
	case d.d.o.Blames(Place(n.index, d.next.offset)):
		d.whole(KindQuarantined, "the process ended while it was being processed, more than once")
		return 1
	case len(n.data.Alerts) == 0:
		d.whole(KindEmpty, "")
		return 1
	}
	rest := n.data.Alerts[min(d.next.offset, len(n.data.Alerts)):]
	if len(rest) > most {
		rest = rest[:most]
	}
	took := 0
	for ; took < len(rest) && (took == 0 || !d.full()); took++ {
		d.next.offset++
		d.alert(rest[took])
	}
	d.next.large = n
	if d.next.offset >= len(n.data.Alerts) {
		d.next.index, d.next.offset, d.next.large = n.index+1, 0, Note{}
	}
	return max(1, took)
}

// whole records what became of a whole notification.
func (d *Decision) whole(kind, reason string) {
	d.next.index, d.next.offset = d.note.index+1, 0
	d.record(kind, Record{
		Notification: d.note.seq, Index: d.note.index, Upto: len(d.note.data.Alerts), Done: true, Reason: reason,
	})
	if kind == KindQuarantined {
		d.d.o.Log.Error("notification quarantined", "entry", d.note.seq, "err", reason)
		d.Notices = append(d.Notices, d.note.quarantined(reason))
	}
}

// Records returns the records of the stream dispatch, to be appended after Head.
func (d *Decision) Records() []audit.Record {
	d.flush()
	return d.records
}

func (d *Decision) record(kind string, v Record) {
	d.flush()
	d.last, d.kind = v, kind
}

// flush encodes the newest record: no further alert shares it.
func (d *Decision) flush() {
	if d.kind != "" {
		d.records = append(d.records, audit.Record{Kind: d.kind, Time: d.now, Data: encode(d.last)})
		d.last, d.kind = Record{}, ""
	}
}

// became records what became of an alert, an episode of that id. Neighbours with the
// same fate share a record: a notification can carry ten thousand.
func (d *Decision) became(kind, id string, a playbook.Alert, v Record) {
	v.Notification, v.Index, v.Status = d.note.seq, d.note.index, string(a.Status)
	v.Upto, v.Done = d.next.offset, d.next.offset >= len(d.note.data.Alerts)
	if d.anew {
		v.Again, v.Index, v.Upto, v.Done = true, d.next.index, d.next.offset, d.next.offset == 0
		if v.Done {
			v.Index-- // the last one that is done
		}
	}
	last := &d.last
	if d.kind == kind && last.Run == v.Run && last.Playbook == v.Playbook && last.Service == v.Service && last.Reason == v.Reason && last.Status == v.Status {
		v.Episodes = append(last.Episodes, id)
		d.last = v
		return
	}
	v.Episodes = []string{id}
	d.record(kind, v)
}

// get returns what is known of an episode, as the batch leaves it.
func (d *Decision) get(id string) known {
	if k, ok := d.episodes[id]; ok {
		return k
	}
	return d.d.get(id)
}

// tell hands an alert to a run.
func (d *Decision) tell(run string, a playbook.Alert) {
	d.runs.Tell(run, a, d.note.data.TruncatedAlerts > 0)
}

// open returns the open runs that an episode has a part in.
func (d *Decision) open(id string) []string {
	var out []string
	for _, ref := range d.get(id).runs {
		if r, ok := d.runs.Open(ref.id); ok && r.Usable {
			out = append(out, r.ID)
		}
	}
	return out
}
