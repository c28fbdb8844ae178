package app

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/webhook"
)

// Kinds of records that are written here.
const (
	notificationKind   = "notification"    // intake: playbook.Notification
	intakePausedKind   = "intake.paused"   // control: webhook.Pause
	intakeUnpausedKind = "intake.unpaused" // control: webhook.Pause, who lifted it and why
)

// keepNotification is the size up to which buffers are kept for the next use.
const keepNotification = 256 << 10

// intake makes notifications durable, unless a person has paused it: then they
// are refused, and Alertmanager keeps trying. A paused intake is for work on the
// journal's volume and the like; a pause of runs keeps taking alerts in.
type intake struct {
	journal *audit.Journal
	now     func() time.Time
	buffers sync.Pool // of *[]byte: notifications on their way into the journal

	change sync.Mutex // one change of off at a time
	off    atomic.Pointer[webhook.Pause]
}

// newIntake finds in the journal whether intake is paused.
func newIntake(journal *audit.Journal, now func() time.Time) (*intake, error) {
	i := &intake{journal: journal, now: now}
	for rec, err := range journal.Stream(controlStream, 0) {
		if err != nil {
			return nil, fmt.Errorf("read control: %w", err)
		}
		switch rec.Kind {
		case intakePausedKind:
			var p webhook.Pause
			if err := json.Unmarshal(rec.Data, &p); err != nil {
				return nil, fmt.Errorf("entry %d of the journal: %w", rec.Seq, err)
			}
			i.off.Store(&p)
		case intakeUnpausedKind:
			i.off.Store(nil)
		}
	}
	return i, nil
}

// Admit appends the notification. It depends on nothing before it, so it
// conflicts with nobody.
func (i *intake) Admit(ctx context.Context, n playbook.Notification) error {
	if off := i.off.Load(); off != nil {
		return fmt.Errorf("%w by %s: %s", webhook.ErrPaused, off.By, off.Reason)
	}
	// The house's clock, not the receiver's: in a sandbox they differ, and the
	// log would run backwards.
	n.ReceivedAt = i.now().UTC()
	buf, _ := i.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	data := n.AppendJSON((*buf)[:0])
	_, err := i.journal.Append(ctx, audit.Append{
		Stream: intakeStream, After: audit.Any,
		Records: []audit.Record{{Kind: notificationKind, Time: n.ReceivedAt, Data: data}},
	})
	if cap(data) <= keepNotification { // the journal is done with it, whatever the outcome
		*buf = data
		i.buffers.Put(buf)
	}
	return journalRefusal(err)
}

// paused returns the pause in force, nil when there is none.
func (i *intake) paused() *webhook.Pause { return i.off.Load() }

// pause refuses notifications until unpause, also over restarts.
func (i *intake) pause(ctx context.Context, p webhook.Pause) error {
	i.change.Lock()
	defer i.change.Unlock()
	p.Since = i.now().UTC()
	if err := i.record(ctx, intakePausedKind, p); err != nil {
		return err
	}
	i.off.Store(&p)
	return nil
}

// unpause takes notifications again.
func (i *intake) unpause(ctx context.Context, p webhook.Pause) error {
	i.change.Lock()
	defer i.change.Unlock()
	if i.off.Load() == nil {
		return notPaused(p)
	}
	p.Since = i.now().UTC()
	if err := i.record(ctx, intakeUnpausedKind, p); err != nil {
		return err
	}
	i.off.Store(nil)
	return nil
}

func (i *intake) record(ctx context.Context, kind string, p webhook.Pause) error {
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode a pause: %w", err)
	}
	_, err = i.journal.Append(ctx, audit.Append{
		Stream: controlStream, After: audit.Any,
		Records: []audit.Record{{Kind: kind, Time: p.Since, Data: data}},
	})
	return journalRefusal(err)
}
