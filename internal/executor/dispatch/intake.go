package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/playbook"
)

// Kinds of records that are written here.
const (
	KindNotification   = "notification"    // in the stream intake: playbook.Notification
	kindIntakePaused   = "intake.paused"   // in the stream control: IntakePause
	kindIntakeUnpaused = "intake.unpaused" // in the stream control: IntakePause, who lifted it and why
)

// streamControl holds facts about the service; see package executor.
const streamControl = "control"

// keepNotification is the size up to which buffers are kept for the next use.
const keepNotification = 256 << 10

// Errors of an Intake. Test with errors.Is; those of the journal come through too.
var (
	ErrPaused    = errors.New("intake is paused")
	ErrNotPaused = errors.New("intake is not paused")
)

// IntakePause is the record of a pause of the intake, and of its end.
type IntakePause struct {
	Intake bool      `json:"intake"` // true
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// Intake makes notifications durable, unless a person has paused it: then they
// are refused, and Alertmanager keeps trying. A paused intake is for work on the
// journal's volume and the like; a pause of runs keeps taking alerts in. Its
// methods may be called concurrently.
type Intake struct {
	journal *audit.Journal
	now     func() time.Time
	buffers sync.Pool // of *[]byte: notifications on their way into the journal
	recent  recent    // what was admitted just now

	change sync.Mutex // one change of off at a time
	off    atomic.Pointer[IntakePause]
}

// NewIntake finds in the journal whether intake is paused.
func NewIntake(journal *audit.Journal, now func() time.Time) (*Intake, error) {
	i := &Intake{journal: journal, now: now}
	for rec, err := range journal.Stream(streamControl, 0) {
		if err != nil {
			return nil, fmt.Errorf("read control: %w", err)
		}
		switch rec.Kind {
		case kindIntakePaused:
			var p IntakePause
			if err := json.Unmarshal(rec.Data, &p); err != nil {
				return nil, fmt.Errorf("entry %d of the journal: %w", rec.Seq, err)
			}
			i.off.Store(&p)
		case kindIntakeUnpaused:
			i.off.Store(nil)
		}
	}
	return i, nil
}

// Admit appends the notification to the stream intake, and returns once it is
// durable, with the bytes that were appended. It depends on nothing before it, so it
// conflicts with nobody. Nobody may change the notification afterwards.
func (i *Intake) Admit(ctx context.Context, n playbook.Notification) (stored int, err error) {
	if off := i.off.Load(); off != nil {
		return 0, fmt.Errorf("%w by %s: %s", ErrPaused, off.By, off.Reason)
	}
	buf, _ := i.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	data := n.AppendJSON((*buf)[:0])
	_, err = i.journal.Append(ctx, audit.Append{
		Stream: StreamIntake, After: audit.Any,
		Records: []audit.Record{{Kind: KindNotification, Time: n.ReceivedAt, Data: data}},
		Written: func(recs []audit.Record) { i.recent.add(Note{seq: recs[0].Seq, index: recs[0].Index, data: n}) },
	})
	if cap(data) <= keepNotification { // the journal is done with it, whatever the outcome
		*buf = data
		i.buffers.Put(buf)
	}
	return len(data), err
}

// Paused returns the pause in force, nil when there is none.
func (i *Intake) Paused() *IntakePause { return i.off.Load() }

// Pause refuses notifications until Unpause, also over restarts.
func (i *Intake) Pause(ctx context.Context, by, reason string) error {
	i.change.Lock()
	defer i.change.Unlock()
	p := IntakePause{Intake: true, By: by, Reason: reason, Since: i.now().UTC()}
	if err := i.record(ctx, kindIntakePaused, p); err != nil {
		return err
	}
	i.off.Store(&p)
	return nil
}

// Unpause takes notifications again.
func (i *Intake) Unpause(ctx context.Context, by, reason string) error {
	i.change.Lock()
	defer i.change.Unlock()
	if i.off.Load() == nil {
		return ErrNotPaused
	}
	p := IntakePause{Intake: true, By: by, Reason: reason, Since: i.now().UTC()}
	if err := i.record(ctx, kindIntakeUnpaused, p); err != nil {
		return err
	}
	i.off.Store(nil)
	return nil
}

func (i *Intake) record(ctx context.Context, kind string, p IntakePause) error {
	_, err := i.journal.Append(ctx, audit.Append{
		Stream: streamControl, After: audit.Any,
		Records: []audit.Record{{Kind: kind, Time: p.Since, Data: encode(p)}},
	})
	return err
}
