package executor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// stillBelieved is how long after it was last mentioned a suppressed alert is
// believed to fire still. Alertmanager repeats what fires every few hours.
const stillBelieved = 24 * time.Hour

// poke lets the dispatcher look again at what was suppressed.
func (e *Executor) poke() {
	select {
	case e.poked <- struct{}{}:
	default: // it will look anyway
	}
}

// reconsider decides anew about alerts that were suppressed and still fire.
// Alertmanager would mention them only hours later. It is done when a pause is
// lifted, and at the start: the process may have died in between.
func (e *Executor) reconsider(ctx context.Context) error {
	suppressed := e.episodes.suppressed(e.clock.now().Add(-stillBelieved))
	for _, seq := range slices.Sorted(maps.Keys(suppressed)) {
		note, err := e.notification(seq)
		if err != nil {
			return err
		}
		alerts := slices.DeleteFunc(note.data.Alerts, func(a playbook.Alert) bool {
			return a.Status != playbook.Firing || !slices.Contains(suppressed[seq], a.Episode())
		})
		for len(alerts) > 0 {
			took, err := e.reconsiderAlerts(ctx, note, alerts[:min(len(alerts), batchAlerts)])
			if err != nil {
				return err
			}
			alerts = alerts[took:]
		}
	}
	return nil
}

// notification reads the one at that position in the log.
func (e *Executor) notification(seq uint64) (waitingNote, error) {
	for rec, err := range e.o.Journal.Log(seq) {
		if err != nil {
			return waitingNote{}, fmt.Errorf("read notification %d: %w", seq, err)
		}
		n := waitingNote{seq: seq, index: rec.Index}
		n.data, err = playbook.DecodeNotification(rec.Data)
		if err != nil {
			return n, fmt.Errorf("decode notification %d: %w", seq, err)
		}
		return n, nil
	}
	return waitingNote{}, fmt.Errorf("the log has no notification %d", seq)
}

// reconsiderAlerts decides about some alerts of a notification that was processed
// before, as many as fit one batch, and gives how many. What cannot be decided
// is set aside, as it is for a new one.
func (e *Executor) reconsiderAlerts(ctx context.Context, n waitingNote, alerts []playbook.Alert) (took int, err error) {
	place := fmt.Sprintf("again@%d", n.seq)
	survived, ok := e.crashes.enter(ctx, place)
	if !ok {
		return len(alerts), nil // the executor stops
	}
	defer survived()
	found := resolved{}
	if !e.crashes.blames(place) {
		e.resolveSome(found, e.o.Playbooks(), alerts)
	}
	err = e.dispatching(ctx, found, func(d *deciding) {
		d.note, d.anew = n, true
		if e.crashes.blames(place) {
			panic("the process ended over it, more than once")
		}
		for took = 0; took < len(alerts) && (took == 0 || !d.b.full()); took++ {
			d.alert(alerts[took])
		}
		survived()
	})
	if isBroken(err) {
		took = len(alerts)
		err = e.dispatching(ctx, nil, func(d *deciding) { d.quarantineAlerts(n, alerts, err) })
	}
	return took, err
}

// quarantineAlerts records that alerts cannot be processed.
func (d *deciding) quarantineAlerts(n waitingNote, alerts []playbook.Alert, why error) {
	d.note, d.anew = n, true
	for i := range alerts {
		id := alerts[i].Episode()
		k := d.get(id)
		k.kind, k.reason = KindQuarantined, why.Error()
		d.episodes[id] = k
		d.became(KindQuarantined, alerts[i], Dispatched{Reason: why.Error()})
	}
	d.e.log.Error("suppressed alerts quarantined", "entry", n.seq, "err", why)
	d.b.notices = append(d.b.notices, machine.Effect{
		Key:  fmt.Sprintf("again/%d/%s/quarantined", n.seq, alerts[0].Episode()),
		Text: fmt.Sprintf("%d alerts of notification %d cannot be processed and were set aside, they start no run: %v", len(alerts), n.seq, why),
	})
}

// suppressed returns the episodes that start no run only because something was in
// the way, by the notification that told of them; not those that nobody has
// mentioned since that time.
func (x *episodes) suppressed(since time.Time) map[uint64][]string {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := map[uint64][]string{}
	for id, k := range x.m {
		if k.kind == KindSuppressed && k.firing && k.resolved.IsZero() && !k.seen.Before(since) {
			out[k.note] = append(out[k.note], strings.Clone(id))
		}
	}
	return out
}
