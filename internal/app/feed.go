package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
)

// feedOptions is what a channel wants to know of every run.
type feedOptions struct {
	name  string // of the channel
	kinds []machine.EventKind
	send  func(ctx context.Context, f runFact) error
}

// feed sends the facts of runs to one channel, each at least once and in the
// journal's order. Where it stands is kept in a cell of the journal, so what
// happens while the receiver is down, or this service, is sent later. A
// channel that is new begins with what happens from now on, and with the
// reminders and escalations of questions that are open still.
type feed struct {
	feedOptions
	journal *audit.Journal
	runs    runBook
	log     *slog.Logger
	at      feedPosition
	saved   uint64 // of at.Next, in the cell
}

const (
	feedFirst = time.Second // before a fact is sent again
	feedMost  = time.Minute // between two attempts
	feedSave  = 1000        // entries without a fact after which the position is kept
)

// run sends until ctx is done.
func (f *feed) run(ctx context.Context) error {
	changed, end := f.journal.Watch()
	defer end()
	if err := f.begin(); err != nil {
		return err
	}
	for {
		if err := f.catchUp(ctx); err != nil {
			// The service goes on without: runs never wait for who is told.
			f.log.Error("channel cannot follow the journal, it is tried again", "err", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *feed) catchUp(ctx context.Context) error {
	if done, err := f.payOff(ctx); err != nil || !done {
		return err
	}
	for rec, err := range f.journal.Log(f.at.Next) {
		if err != nil {
			if errors.Is(err, audit.ErrClosed) {
				return nil
			}
			return fmt.Errorf("channel %s: %w", f.name, err)
		}
		run, isRun := strings.CutPrefix(rec.Stream, runStreams)
		wanted := isRun && slices.Contains(f.kinds, machine.EventKind(rec.Kind))
		if wanted && !f.deliver(ctx, run, rec) {
			return nil // ctx is done; the fact is sent after the next start
		}
		f.at.Next = rec.Seq + 1
		if wanted || f.at.Next-f.saved >= feedSave {
			if err := f.save(); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliver sends one fact until it is taken; false when ctx ends before. One
// that the receiver refuses for what it is is left out: it would block the rest
// for ever.
func (f *feed) deliver(ctx context.Context, run string, rec audit.Record) bool {
	for wait := feedFirst; ; wait = min(2*wait, feedMost) {
		err := f.send(ctx, f.fact(run, rec)) // read each time: what it is about may be over
		var e *fault.Error
		switch {
		case err == nil:
			return true
		case errors.As(err, &e) && e.Reason == fault.Invalid:
			f.log.Error("fact is refused and left out", "run", run, "step", rec.Kind, "err", err)
			return true
		case e != nil && e.RetryAfter > wait:
			wait = e.RetryAfter
		}
		f.log.Warn("fact could not be told, it is tried again", "run", run, "step", rec.Kind, "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false
		}
	}
}
