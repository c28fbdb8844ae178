package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// dispatchLoop reads the intake until ctx is done.
func (e *Executor) dispatchLoop(ctx context.Context) {
	changed, end := e.o.Journal.Watch()
	defer end()
	prune := time.NewTicker(10 * time.Minute)
	defer prune.Stop()
	e.poke() // a pause may have been lifted just before the process ended
	for {
		for ctx.Err() == nil && e.alive() {
			more, err := e.dispatchSome()
			if err != nil {
				if e.alive() {
					e.fail(fmt.Errorf("dispatch notifications: %w", err))
				}
				return
			}
			if !more {
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-e.poked:
			if err := e.reconsider(); err != nil {
				if e.alive() {
					e.fail(fmt.Errorf("dispatch suppressed alerts again: %w", err))
				}
				return
			}
		case <-prune.C:
			now := e.clock.now()
			e.episodes.prune(now)
			e.ledger.prune(now)
			e.requests.prune(now)
			if err := e.endObserved(); err != nil {
				if e.alive() {
					e.fail(err)
				}
				return
			}
		}
	}
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
