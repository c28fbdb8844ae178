package executor

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Reported is the record of a report to people over a period. It is written in one batch
// with the message, so that no report is sent twice and none is lost.
type Reported struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until,omitzero"` // the end of its period, where the next one begins; zero: there are no more of this name
}

// Report is a report and the message that tells it.
type Report struct {
	Reported
	Text string   // empty: nobody is told
	To   []string // channels by name; empty: the default ones
}

// RecordReport records a report and sends its message as other messages are sent: it is
// tried again and survives a crash. A period that an earlier report covers is refused with
// ErrConflict. Pauses do not matter: a report changes nothing.
func (e *Executor) RecordReport(ctx context.Context, r Report) error {
	if err := e.Ready(); err != nil {
		return err
	}
	t := &task{person: true} // while the journal takes nothing, the caller tries again
	t.decide = func(b *batch) error {
		if last, known := e.reported.all()[r.Name]; known && !r.Until.IsZero() && !r.Until.After(last) {
			return fmt.Errorf("%w: report %s was made until %s", ErrConflict, r.Name, last.Format(time.RFC3339))
		}
		b.record(KindReported, r.Reported)
		if r.Text != "" {
			b.notices = append(b.notices, machine.Effect{Key: "report/" + r.Name + "/" + r.Until.UTC().Format(time.RFC3339), Text: r.Text, To: r.To})
		}
		t.then = func() { e.reported.fold(r.Reported) }
		return nil
	}
	return e.do(ctx, t)
}

// Reported returns until when each report covers what happened, by its name.
func (e *Executor) Reported() map[string]time.Time { return e.reported.all() }

// reported folds the records of reports.
type reported struct {
	mu    sync.Mutex // guards until; a leaf lock
	until map[string]time.Time
}

func (r *reported) fold(x Reported) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.Until.IsZero() {
		delete(r.until, x.Name)
		return
	}
	if r.until == nil {
		r.until = map[string]time.Time{}
	}
	r.until[x.Name] = x.Until
}

func (r *reported) all() map[string]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.until)
}
