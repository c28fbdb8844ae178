package dispatch

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// stillBelieved is how long after it was last mentioned a suppressed alert is
// believed to fire still. Alertmanager repeats what fires every few hours.
const stillBelieved = 24 * time.Hour

// Waiting is a notification that was processed before, with those of its alerts
// that start no run only because something was in the way.
type Waiting struct {
	note   Note
	Alerts []playbook.Alert
}

// Place names the notification.
func (w Waiting) Place() string { return fmt.Sprintf("again@%d", w.note.seq) }

// Suppressed returns the alerts that were suppressed and still fire.
func (d *Dispatcher) Suppressed(now time.Time) ([]Waiting, error) {
	var out []Waiting
	suppressed := d.suppressed(now.Add(-stillBelieved), d.held(now))
	for _, seq := range slices.Sorted(maps.Keys(suppressed)) {
		note, err := d.notification(seq)
		if errors.Is(err, audit.ErrArchived) {
			d.o.Log.Error("suppressed alerts are not decided again: their notification is archived", "entry", seq, "err", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		alerts := slices.DeleteFunc(note.data.Alerts, func(a playbook.Alert) bool {
			return a.Status != playbook.Firing || !slices.Contains(suppressed[seq], a.Episode())
		})
		for part := range slices.Chunk(alerts, batchAlerts) {
			out = append(out, Waiting{note, part})
		}
	}
	return out, nil
}

// ResolveAgain finds the services of alerts that may start a run now.
func (d *Dispatcher) ResolveAgain(w Waiting, set *playbook.Set) Resolved {
	found := Resolved{}
	if !d.o.Blames(w.Place()) {
		d.resolveSome(found, set, w.Alerts)
	}
	return found
}

// notification reads the one at that position in the log.
func (d *Dispatcher) notification(seq uint64) (Note, error) {
	for rec, err := range d.o.Journal.Log(seq) {
		if err != nil {
			return Note{}, fmt.Errorf("read notification %d: %w", seq, err)
		}
		n := Note{seq: seq, index: rec.Index}
		n.data, err = playbook.DecodeNotification(rec.Data)
		if err != nil {
			return n, fmt.Errorf("decode notification %d: %w", seq, err)
		}
		return n, nil
	}
	return Note{}, fmt.Errorf("the log has no notification %d", seq)
}

// Again decides anew about alerts that were suppressed, as many as fit the batch,
// and returns how many.
func (d *Decision) Again(w Waiting) (took int) {
	d.note, d.anew = w.note, true
	if d.d.o.Blames(w.Place()) {
		panic("the process ended over it, more than once")
	}
	for ; took < len(w.Alerts) && (took == 0 || !d.full()); took++ {
		d.alert(w.Alerts[took])
	}
	return took
}

// QuarantineAgain records that such alerts cannot be processed.
func (d *Decision) QuarantineAgain(w Waiting, why error) {
	n, alerts := w.note, w.Alerts
	d.note, d.anew = n, true
	for i := range alerts {
		id := alerts[i].Episode()
		k := d.get(id)
		k.kind, k.reason, k.paused = KindQuarantined, why.Error(), false
		k.news()
		d.episodes[id] = k
		d.became(KindQuarantined, id, alerts[i], Record{Reason: why.Error()})
	}
	d.d.o.Log.Error("suppressed alerts quarantined", "entry", n.seq, "err", why)
	d.Notices = append(d.Notices, machine.Effect{
		Key:  fmt.Sprintf("again/%d/%s/quarantined", n.seq, alerts[0].Episode()),
		Text: fmt.Sprintf("%d alerts of notification %d cannot be processed and were quarantined, they start no run: %v", len(alerts), n.seq, why),
	})
}
