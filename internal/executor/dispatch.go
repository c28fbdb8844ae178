package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Kinds of records in the stream dispatch: what became of alerts.
const (
	KindMatched     = "alert.matched"            // a run started
	KindCoalesced   = "alert.coalesced"          // it joined an open run of the same playbook and service
	KindRepeated    = "alert.repeated"           // known already: a repeat, a duplicate, or too late
	KindResolved    = "alert.resolved"           // its runs, if any are open, were told
	KindRefired     = "alert.refired"            // resolved and firing again: its open runs were told
	KindUnmatched   = "alert.unmatched"          // no playbook
	KindNoService   = "alert.no-service"         // no service, or more than one
	KindSuppressed  = "alert.suppressed"         // a pause, a clock that is ahead, too many open runs
	KindEmpty       = "notification.empty"       // it carried no alerts
	KindQuarantined = "notification.quarantined" // it cannot be processed; set aside for people to look at
)

// Dispatched is a record of the stream dispatch: what became of some alerts of
// one notification. The last record of the stream is the dispatcher's cursor.
type Dispatched struct {
	Notification uint64   `json:"notification"`       // its position in the log
	Index        uint64   `json:"index"`              // its position in the stream intake
	Upto         int      `json:"upto"`               // alerts of the notification decided so far
	Done         bool     `json:"done,omitempty"`     // all are
	Episodes     []string `json:"episodes,omitempty"` // fingerprint@start
	Run          string   `json:"run,omitempty"`
	Playbook     string   `json:"playbook,omitempty"`
	Service      string   `json:"service,omitempty"`
	Reason       string   `json:"reason,omitempty"`
	Status       string   `json:"status,omitempty"` // firing or resolved
	Again        bool     `json:"again,omitempty"`  // decided anew after a pause: Index, Upto and Done only repeat the cursor
}

// Bounds of one batch of the dispatcher: a storm shares appends, a lone
// notification waits for nobody.
const (
	batchNotifications = 64
	batchAlerts        = 256
	batchRecords       = audit.MaxBatch / 2 // the next alert may start many runs, and has to fit too
	ahead              = 5 * time.Minute    // clock skew that is still believed
)

// dispatcher is the state of the one loop that reads the stream intake.
type dispatcher struct {
	index  uint64 // of the next notification
	offset int    // of its next alert
	head   uint64 // of the stream dispatch

	large waitingNote // the notification at index, when it is decided in parts
}

// dispatchSome decides the next notifications in one batch. It reports whether
// there may be more.
func (e *Executor) dispatchSome(ctx context.Context) (bool, error) {
	notes, err := e.read()
	if err != nil || len(notes) == 0 {
		return false, err
	}
	notes = e.withoutSuspects(notes)
	err = e.dispatchBatch(ctx, notes)
	if len(notes) > 1 && isBroken(err) {
		return true, e.oneByOne(ctx, notes)
	}
	if isBroken(err) {
		err = e.quarantineNote(ctx, notes[0], err)
	}
	return true, err
}

// isBroken reports whether what was decided about cannot be processed.
func isBroken(err error) bool {
	var p *panicError
	return errors.As(err, &p) || errors.Is(err, audit.ErrInvalid)
}

// oneByOne finds the notification in a batch that cannot be processed.
func (e *Executor) oneByOne(ctx context.Context, notes []waitingNote) error {
	for i := range notes {
		err := e.dispatchBatch(ctx, notes[i:i+1])
		if isBroken(err) {
			err = e.quarantineNote(ctx, notes[i], err)
		}
		if err != nil || e.dispatch.offset != 0 { // a large notification goes on in the next batch
			return err
		}
	}
	return nil
}

// placeOfNote names a notification that is decided from an alert on.
func placeOfNote(index uint64, offset int) string {
	return fmt.Sprintf("intake@%d/%d", index, offset)
}

// places names notifications that are decided in one batch.
func (e *Executor) places(notes []waitingNote) []string {
	out := []string{placeOfNote(notes[0].index, e.dispatch.offset)}
	for _, n := range notes[1:] {
		out = append(out, placeOfNote(n.index, 0))
	}
	return out
}

// withoutSuspects returns the first notifications, up to one over which the
// process may have died: that one is decided alone.
func (e *Executor) withoutSuspects(notes []waitingNote) []waitingNote {
	for i, place := range e.places(notes) {
		if e.crashes.suspects(place) {
			return notes[:max(i, 1)]
		}
	}
	return notes
}

// checkDispatch makes sure that nobody else dispatches.
func (e *Executor) checkDispatch() error {
	head, err := e.o.Journal.Head(streamDispatch)
	if err == nil && head != e.dispatch.head {
		err = fmt.Errorf("stream dispatch has %d records, %d were expected: does a second executor run on this journal?", head, e.dispatch.head)
	}
	return err
}

// dispatchBatch decides notifications and commits what follows.
func (e *Executor) dispatchBatch(ctx context.Context, notes []waitingNote) error {
	survived, ok := e.crashes.enter(ctx, e.places(notes)...)
	if !ok {
		return nil // the executor stops
	}
	defer survived()
	found := e.resolveAll(notes)
	return e.dispatching(ctx, found, func(d *deciding) {
		left := batchAlerts
		for i := range notes {
			left -= d.notification(notes[i], left)
			if left <= 0 || d.b.full() {
				break
			}
		}
		survived() // what follows is the disk's
	})
}

// dispatching has the loop decide something about alerts, and makes it true.
func (e *Executor) dispatching(ctx context.Context, found resolved, decide func(d *deciding)) error {
	t := &task{}
	t.decide = func(b *batch) error {
		d := &deciding{e: e, b: b, found: found, episodes: map[string]known{}, next: e.dispatch}
		decide(d)
		t.then = d.commit
		return nil
	}
	return e.do(ctx, t)
}

// commit makes what was decided true.
func (d *deciding) commit() {
	d.next.head += uint64(len(d.b.dispatch))
	d.e.dispatch = d.next
	for id, k := range d.episodes {
		// Runs were noted before: they know more than the copy does.
		k.runs = d.e.episodes.get(id).runs
		d.e.episodes.put(id, k)
	}
}

// quarantineNote sets a notification aside for good.
func (e *Executor) quarantineNote(ctx context.Context, n waitingNote, why error) error {
	return e.dispatching(ctx, nil, func(d *deciding) {
		d.note = n
		d.whole(KindQuarantined, why.Error())
	})
}

// quarantined is what people are told of a notification that was set aside.
func (n waitingNote) quarantined(why string) machine.Effect {
	return machine.Effect{
		Key:  fmt.Sprintf("intake/%d/quarantined", n.index),
		Text: fmt.Sprintf("notification %d cannot be processed and was set aside, its alerts start no run: %s", n.seq, why),
	}
}

// deciding is one batch of the dispatcher in the making.
type deciding struct {
	e        *Executor
	b        *batch
	found    resolved
	next     dispatcher
	episodes map[string]known     // as the batch leaves them
	strays   map[string]*unserved // by reason: what people are told once

	note waitingNote
	anew bool       // the note was decided before, and these alerts of it suppressed
	last Dispatched // the record that the next alert may share
	kind string
}

// notification decides alerts of one notification, at most so many and until
// the batch is full, and gives how many it took.
func (d *deciding) notification(n waitingNote, most int) int {
	d.note = n
	d.last, d.kind = Dispatched{}, ""
	switch {
	case n.broken != nil:
		d.whole(KindQuarantined, n.broken.Error())
		return 1
	case d.e.crashes.blames(placeOfNote(n.index, d.next.offset)):
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
	for ; took < len(rest) && (took == 0 || !d.b.full()); took++ {
		d.next.offset++
		d.alert(rest[took])
	}
	d.next.large = n
	if d.next.offset >= len(n.data.Alerts) {
		d.next.index, d.next.offset, d.next.large = n.index+1, 0, waitingNote{}
	}
	return max(1, took)
}

// whole records what became of a whole notification.
func (d *deciding) whole(kind, reason string) {
	d.next.index, d.next.offset = d.note.index+1, 0
	d.record(kind, Dispatched{
		Notification: d.note.seq, Index: d.note.index, Upto: len(d.note.data.Alerts), Done: true, Reason: reason,
	})
	if kind == KindQuarantined {
		d.e.log.Error("notification quarantined", "entry", d.note.seq, "err", reason)
		d.b.notices = append(d.b.notices, d.note.quarantined(reason))
	}
}

func (d *deciding) record(kind string, v Dispatched) {
	d.b.dispatch = append(d.b.dispatch, audit.Record{Kind: kind, Time: d.b.now, Data: encode(v)})
}

// became records what became of an alert. Neighbours with the same fate share a
// record: a notification can carry ten thousand.
func (d *deciding) became(kind string, a playbook.Alert, v Dispatched) {
	v.Notification, v.Index, v.Status = d.note.seq, d.note.index, string(a.Status)
	v.Upto, v.Done = d.next.offset, d.next.offset >= len(d.note.data.Alerts)
	if d.anew {
		v.Again, v.Index, v.Upto, v.Done = true, d.next.index, d.next.offset, d.next.offset == 0
		if v.Done {
			v.Index-- // the last one that is done
		}
	}
	last := d.last
	if d.kind == kind && last.Run == v.Run && last.Playbook == v.Playbook && last.Service == v.Service && last.Reason == v.Reason && last.Status == v.Status {
		v.Episodes = append(last.Episodes, a.Episode())
		d.b.dispatch = d.b.dispatch[:len(d.b.dispatch)-1]
	} else {
		v.Episodes = []string{a.Episode()}
	}
	d.record(kind, v)
	d.last, d.kind = v, kind
}

// get returns what is known of an episode, as the batch leaves it.
func (d *deciding) get(id string) known {
	if k, ok := d.episodes[id]; ok {
		return k
	}
	return d.e.episodes.get(id)
}

// usable reports whether a run can be told of alerts.
func (d *deciding) usable(r *run) bool {
	return r != nil && r.dead == nil && d.b.state(r).Phase != machine.PhaseEnded
}

// tellRun hands an alert to a run. A panic over it sets the run
// aside, not the notification, unless the run begins with it: then there is
// none yet.
func (d *deciding) tellRun(r *run, a playbook.Alert) {
	c := machine.Command{Kind: machine.CmdAlert, Now: d.b.now, Alert: &a, Truncated: d.note.data.TruncatedAlerts > 0}
	err := d.b.must(r, c)
	switch {
	case err == nil:
	case d.b.byRun[r].fresh:
		panic(err) // the notification is quarantined, and the run dropped
	default:
		d.b.unstage(r)
		d.e.quarantineRun(r, err)
	}
}

// runs returns the open runs an episode has a part in.
func (d *deciding) runs(id string) []*run {
	var out []*run
	for _, ref := range d.get(id).runs {
		if r := d.open(ref.id); d.usable(r) {
			out = append(out, r)
		}
	}
	return out
}

// open finds an open run, also one that this batch starts.
func (d *deciding) open(id string) *run {
	for _, st := range d.b.runs {
		if st.r.id == id {
			return st.r
		}
	}
	return d.e.find(id)
}

func idsOf(runs []*run) string {
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.id
	}
	return strings.Join(ids, " ")
}
