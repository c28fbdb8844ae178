package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// dispatchLoop reads the intake until ctx is done. It reads, decodes and looks for
// services; what becomes of alerts is decided by the loop.
func (e *Executor) dispatchLoop(ctx context.Context) {
	changed, end := e.o.Journal.Watch()
	defer end()
	prune := time.NewTicker(10 * time.Minute)
	defer prune.Stop()
	e.poke() // a pause may have been lifted just before the process ended
	for {
		err := e.dispatchAll(ctx)
		if err == nil {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			case <-e.poked:
				err = e.reconsider(ctx)
			case <-prune.C:
				err = e.prune(ctx)
			}
		}
		if ctx.Err() != nil || !e.alive() {
			return
		}
		if err != nil {
			e.fail(fmt.Errorf("dispatch notifications: %w", err))
			return
		}
	}
}

// dispatchAll decides all notifications that wait.
func (e *Executor) dispatchAll(ctx context.Context) error {
	for more := true; more && ctx.Err() == nil && e.alive(); {
		var err error
		if more, err = e.dispatchSome(ctx); err != nil {
			return err
		}
	}
	return nil
}

// prune forgets what is too old to matter.
func (e *Executor) prune(ctx context.Context) error {
	now := e.clock.now()
	e.episodes.prune(now)
	e.ledger.Prune(now)
	e.requests.prune(now)
	return e.endObserved(ctx)
}

// resolved is what Services said of alerts that may start a run, by episode. It
// is asked before the loop decides, since it may ask the cluster.
type resolved map[string]resolution

type resolution struct {
	services []playbook.Service
	why      string
	err      error
}

// resolveAll finds the services of the alerts that may start a run.
func (e *Executor) resolveAll(notes []waitingNote) resolved {
	found, set := resolved{}, e.o.Playbooks()
	for _, n := range notes {
		if e.crashes.blames(placeOfNote(n.index, e.offset(n))) {
			continue
		}
		e.resolveSome(found, set, n.data.Alerts[:min(len(n.data.Alerts), e.offset(n)+batchAlerts)][e.offset(n):])
	}
	return found
}

// offset is the alert of a notification that is decided next.
func (e *Executor) offset(n waitingNote) int {
	if n.index != e.dispatch.index {
		return 0
	}
	return min(e.dispatch.offset, len(n.data.Alerts))
}

func (e *Executor) resolveSome(found resolved, set *playbook.Set, alerts []playbook.Alert) {
	for _, a := range alerts {
		id := a.Episode()
		if _, ok := found[id]; ok || a.Status != playbook.Firing {
			continue
		}
		k := e.episodes.get(id)
		starts := slices.ContainsFunc(set.Match(a), func(p *playbook.Playbook) bool { return !k.had(p.Name) })
		if starts && k.resolved.IsZero() {
			found[id] = e.resolve(a)
		}
	}
}

// resolve asks for the services of an alert. A panic is an answer, too: the loop
// meets it again, where it is counted against the notification.
func (e *Executor) resolve(a playbook.Alert) (r resolution) {
	r.err = guarded(func() (err error) {
		r.services, r.why, err = e.o.Services.Resolve(a)
		return err
	})
	return r
}

// resolve returns the services of an alert.
func (d *deciding) resolve(id string, a playbook.Alert) ([]playbook.Service, string, error) {
	r, ok := d.found[id]
	if !ok {
		r = d.e.resolve(a) // it has become one that may start a run only just now
	}
	var p *panicError
	if errors.As(r.err, &p) {
		panic(p)
	}
	return r.services, r.why, r.err
}

// waitingNote is a notification to be decided.
type waitingNote struct {
	seq, index uint64
	data       playbook.Notification
	broken     error
}

// read takes the next notifications, as many as fit one batch.
func (e *Executor) read() ([]waitingNote, error) {
	if l := e.dispatch.large; e.dispatch.offset > 0 && l.index == e.dispatch.index && len(l.data.Alerts) > 0 {
		return []waitingNote{l}, nil
	}
	var out []waitingNote
	alerts := 0
	for rec, err := range e.o.Journal.Stream(streamIntake, e.dispatch.index) {
		if err != nil {
			return nil, fmt.Errorf("read notifications: %w", err)
		}
		n := waitingNote{seq: rec.Seq, index: rec.Index}
		n.broken = guarded(func() (err error) {
			n.data, err = playbook.DecodeNotification(rec.Data)
			return err
		})
		out = append(out, n)
		alerts += len(n.data.Alerts)
		if len(out) == batchNotifications || alerts >= batchAlerts {
			break
		}
	}
	return out, nil
}
