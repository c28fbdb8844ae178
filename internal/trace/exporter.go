package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// Why a trace was dropped: the values of the label reason.
const (
	droppedOverflow   = "overflow"   // more than mostWaiting runs waited
	droppedGivenUp    = "given_up"   // the receiver did not take it for longest
	droppedRefused    = "refused"    // the receiver refuses the trace or spans of it: sending it again does not help
	droppedUnreadable = "unreadable" // this program cannot read the run
)

// Dropped lists every reason.
func Dropped() []string {
	return []string{droppedOverflow, droppedGivenUp, droppedRefused, droppedUnreadable}
}

const (
	mostWaiting = 256              // runs whose traces wait for the receiver; of more, the oldest are dropped
	first       = time.Second      // before a trace is sent again
	most        = time.Minute      // between two attempts
	longest     = 15 * time.Minute // for one trace, so that one that is never taken does not hold up the others for ever
	saves       = 1000             // entries without a trace after which the position is saved
	cell        = "trace/next"     // of the journal: the position
	streams     = "run/"           // prefix of the journal's streams of runs
)

// Runs is what an exporter reads of runs. It may be called concurrently.
type Runs interface {
	// RunHistory returns a run with its events, as the machine accepts them.
	RunHistory(id string) (machine.State, []machine.Event, error)
}

// Options is what an exporter is built from.
type Options struct {
	Config  Config
	Journal *audit.Journal
	Runs    Runs
	Log     *slog.Logger
	Sent    func()              // called for a trace that the receiver took
	Dropped func(reason string) // called for a trace that is not sent, with one of [Dropped]
}

// Exporter sends the trace of each run that ends. Runs never wait for it: it
// follows the journal.
type Exporter struct {
	o      Options
	sender *sender

	next    uint64  // of the log
	saved   uint64  // in the cell
	waiting []ended // oldest first
	warned  bool    // that the receiver takes nothing, since it last did
}

// ended is a run whose trace was not sent yet.
type ended struct {
	run string
	seq uint64    // of its end
	at  time.Time // of the first attempt; zero: there was none
}

// New builds an exporter, and connects nowhere. An error is about the endpoint or a
// file; neither needs the options other than Config.
func New(o Options) (*Exporter, error) {
	s, err := newSender(o.Config)
	if err != nil {
		return nil, err
	}
	return &Exporter{o: o, sender: s}, nil
}

// Forget drops the position where no traces are sent, so that tracing that is
// switched on again begins with the runs that end from then on.
func Forget(journal *audit.Journal) error {
	if at, err := journal.Meta(cell); err != nil || at == nil {
		return err
	}
	return journal.SetMeta(cell, nil)
}

// Run sends traces until ctx ends. Without a position it begins with the runs
// that end from now on. What is not sent yet is sent after the next start.
func (x *Exporter) Run(ctx context.Context) error {
	changed, end := x.o.Journal.Watch()
	defer end()
	if err := x.begin(); err != nil {
		return err
	}
	var wait time.Duration
	for ctx.Err() == nil {
		x.follow()
		var again <-chan time.Time // never, where nothing waits
		if len(x.waiting) > 0 {
			if wait = x.attempt(ctx, wait); wait == 0 {
				continue
			}
			again = time.After(wait)
		}
		if !x.pause(ctx, changed, again) {
			return nil
		}
	}
	return nil
}

// pause waits for the time of the next attempt; where none is due, for the
// journal. It reports false when ctx has ended.
func (x *Exporter) pause(ctx context.Context, changed <-chan struct{}, again <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-again:
			return true
		case <-changed:
			if again == nil {
				return true
			}
			x.follow() // so that the bound on what waits holds meanwhile
		}
	}
}

// begin reads the position.
func (x *Exporter) begin() error {
	raw, err := x.o.Journal.Meta(cell)
	if err != nil {
		return fmt.Errorf("read the position of traces: %w", err)
	}
	if raw == nil {
		x.next = x.o.Journal.Size()
		return x.save()
	}
	if err := json.Unmarshal(raw, &x.next); err != nil {
		return fmt.Errorf("read the position of traces: %w", err)
	}
	x.saved = x.next
	x.next = min(x.next, x.o.Journal.Size())
	return nil
}

// follow reads the journal. What cannot be read now is read with the next entry.
func (x *Exporter) follow() {
	if err := x.read(); err != nil {
		x.o.Log.Error("traces cannot follow the journal, retrying", "err", err)
	}
}

// read finds the runs that ended since.
func (x *Exporter) read() error {
	for rec, err := range x.o.Journal.Log(x.next, streams) {
		switch {
		case errors.Is(err, audit.ErrArchived): // of a time in which no traces were sent
		case errors.Is(err, audit.ErrClosed):
			return nil
		case err != nil:
			return err
		default:
			if run, ok := strings.CutPrefix(rec.Stream, streams); ok && machine.EventKind(rec.Kind) == machine.RunEnded {
				x.waiting = append(x.waiting, ended{run: run, seq: rec.Seq})
			}
		}
		x.next = rec.Seq + 1
		if len(x.waiting) > mostWaiting {
			x.drop(droppedOverflow, fmt.Errorf("%d runs have ended and wait for the receiver", len(x.waiting)))
		}
	}
	if x.position()-x.saved >= saves {
		return x.save()
	}
	return nil
}

// attempt sends the oldest trace that waits, and returns how long to wait before
// the next attempt; 0: not at all. Before is how long it waited for this one.
func (x *Exporter) attempt(ctx context.Context, before time.Duration) time.Duration {
	e := &x.waiting[0]
	if e.at.IsZero() {
		e.at = time.Now()
	}
	spans, err := x.spansOf(e.run)
	if err != nil {
		x.drop(droppedUnreadable, err)
		return 0
	}
	err = x.sender.send(ctx, spans)
	var f *fault.Error
	errors.As(err, &f)
	switch {
	case err == nil:
		x.took()
		return 0
	case ctx.Err() != nil:
		return most // the next start sends it
	case f != nil && refuses(f):
		x.drop(droppedRefused, err)
		return 0
	case time.Since(e.at) >= longest:
		x.drop(droppedGivenUp, err)
		return most
	}
	if !x.warned {
		x.warned = true
		x.o.Log.Warn("traces are not taken; they are sent again, and runs do not wait for it", "run", e.run, "err", err)
	}
	wait := min(max(2*before, first), most)
	if f != nil {
		wait = max(wait, min(f.RetryAfter, longest))
	}
	return wait
}

// refuses reports whether the receiver rejects the content of a trace: spans of it with a
// 200, or all of it with a 4xx such as 400 or 413. Sending it again does not help.
func refuses(f *fault.Error) bool {
	return f.Reason == fault.Invalid && (f.Status == http.StatusOK || f.Status/100 == 4)
}

// spansOf reads a run and returns its spans.
func (x *Exporter) spansOf(run string) (spans []span, err error) {
	s, events, err := x.o.Runs.RunHistory(run)
	if err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil { // only a view: it must not end the service
			err = fmt.Errorf("run %s: %v", run, p)
		}
	}()
	return fold(s.Playbook, events), nil
}

// took counts the oldest trace as sent.
func (x *Exporter) took() {
	if x.warned {
		x.warned = false
		x.o.Log.Info("traces are taken again", "run", x.waiting[0].run)
	}
	x.o.Sent()
	x.leave()
}

// drop removes the oldest trace unsent. It logs one warning until the receiver takes one, and for
// every run that cannot be read.
func (x *Exporter) drop(reason string, err error) {
	x.o.Dropped(reason)
	if !x.warned || reason == droppedUnreadable {
		x.o.Log.Warn("trace dropped; responder_traces_dropped_total counts them", "run", x.waiting[0].run, "reason", reason, "err", err)
	}
	x.warned = x.warned || reason != droppedUnreadable
	x.leave()
}

// leave removes the oldest trace from those that wait, and saves the position.
func (x *Exporter) leave() {
	x.waiting = x.waiting[1:]
	if err := x.save(); err != nil && !errors.Is(err, audit.ErrClosed) {
		x.o.Log.Warn("the position of traces was not saved; some are sent again after the next start, with the same identifiers", "err", err)
	}
}

// position is where the next start begins.
func (x *Exporter) position() uint64 {
	if len(x.waiting) > 0 {
		return x.waiting[0].seq
	}
	return x.next
}

func (x *Exporter) save() error {
	at := x.position()
	raw, err := json.Marshal(at)
	if err == nil {
		err = x.o.Journal.SetMeta(cell, raw)
	}
	if err != nil {
		return fmt.Errorf("save the position of traces: %w", err)
	}
	x.saved = at
	return nil
}
