package executor

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// runError is the error about a run whose stream cannot be read, or is archived.
func runError(id string, err error) error {
	var absent *audit.ArchivedError
	if errors.As(err, &absent) {
		return fmt.Errorf("run %s is %w", id, absent)
	}
	return fmt.Errorf("read run %s: %w", id, err)
}

// KeepAtLeast is the least age at which a body may leave the journal: the dispatcher
// folds what is younger.
const KeepAtLeast = dispatch.EpisodesKept + 24*time.Hour

// ArchivedStreams are the streams of which bodies may leave the journal: notifications,
// decisions about their alerts, and runs. Everything else is folded from the first record
// at each start.
func ArchivedStreams() []string { return []string{dispatch.StreamIntake, dispatch.Stream, prefixRun} }

// A Leaving is what may leave the journal when a stretch of it is archived.
type Leaving struct {
	Entries       []uint64 // whose bodies may go; those of runs may be older than the stretch
	Notifications int
	Decisions     int // about alerts
	Runs          int
	Kept          int    // ended runs that stay: people were not told something of them
	Waits         string // why the stretch cannot be archived yet; empty: it can
}

// Retention decides what may leave a journal. It reads the journal alone, so that it
// says the same of a running service's and of one that is stopped.
type Retention struct {
	journal  *audit.Journal
	dispatch *dispatch.Dispatcher
	needed   map[uint64]bool   // notifications of alerts that still fire
	owed     map[string]bool   // runs that people are still to be told of
	paid     map[uint64]string // entries by which people were told of a run, and the run
}

// Retention reads what still needs old entries of the journal: this executor, and its
// next start.
func (e *Executor) Retention(now time.Time) (*Retention, error) {
	if err := e.Ready(); err != nil {
		return nil, err
	}
	r, err := NewRetention(e.o.Journal, now)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.needed, e.dispatch.Needed())
	return r, nil
}

// NewRetention reads what the next start of an executor needs. The answers are right as
// long as the entries they are asked about are older than KeepAtLeast: nothing refers
// anew to such.
func NewRetention(journal *audit.Journal, now time.Time) (*Retention, error) {
	r := &Retention{
		journal:  journal,
		dispatch: dispatch.New(dispatch.Options{Journal: journal, Log: slog.New(slog.DiscardHandler)}),
		owed:     map[string]bool{},
		paid:     map[uint64]string{},
	}
	if err := r.dispatch.Load(now); err != nil {
		return nil, err
	}
	r.needed = r.dispatch.Needed()
	dues := map[string]string{} // key to run
	for rec, err := range journal.Stream(streamControl, 0) {
		if err != nil {
			return nil, fmt.Errorf("read control: %w", err)
		}
		switch rec.Kind {
		case KindNoticeDue:
			d, err := decode[Due](rec)
			if err != nil {
				return nil, err
			}
			dues[d.Key] = d.Run
		case KindNotice:
			n, err := decode[Notice](rec)
			if err != nil {
				return nil, err
			}
			if run, due := dues[n.Key]; due {
				r.paid[rec.Seq] = run
			}
			delete(dues, n.Key)
		}
	}
	for _, run := range dues {
		r.owed[run] = true
	}
	return r, nil
}

// Leaving returns what may leave the journal with the entries from first to before end:
// notifications whose alerts are decided and do not wait, decisions, and runs that ended
// there. A run leaves whole, with the stretch that has its end, or with the later one
// that records that people were told of it; one that is open stays. The last decision
// stays: it is the dispatcher's cursor.
func (r *Retention) Leaving(first, end uint64) (Leaving, error) {
	var l Leaving
	decisions, err := r.journal.Head(dispatch.Stream)
	if err != nil {
		return l, err
	}
	for rec, err := range r.journal.Log(first) {
		if rec.Seq >= end {
			break
		}
		if errors.Is(err, audit.ErrArchived) { // by an attempt that did not finish
			continue
		}
		if err != nil {
			return l, err
		}
		run, isRun := strings.CutPrefix(rec.Stream, prefixRun)
		switch {
		case rec.Stream == dispatch.StreamIntake && !r.dispatch.Decided(rec.Index):
			l.Waits = fmt.Sprintf("notification %d of %s is not decided yet", rec.Seq, rec.Time.Format(time.RFC3339))
			return l, nil
		case rec.Stream == dispatch.StreamIntake && !r.needed[rec.Seq]:
			l.Entries = append(l.Entries, rec.Seq)
			l.Notifications++
		case rec.Stream == dispatch.Stream && rec.Index+1 < decisions:
			l.Entries = append(l.Entries, rec.Seq)
			l.Decisions++
		case isRun:
			if err := r.leave(&l, run, rec); err != nil {
				return l, err
			}
		case rec.Stream == streamControl && r.paid[rec.Seq] != "":
			if err := r.leaveLate(&l, r.paid[rec.Seq], first); err != nil {
				return l, err
			}
		}
	}
	return l, nil
}

// leaveLate adds the entries of a run that stayed when the stretch with its end was
// archived, because people were not told of it then. first begins the stretch in which
// they were.
func (r *Retention) leaveLate(l *Leaving, run string, first uint64) error {
	seqs, err := r.journal.Positions(prefixRun + run)
	if err != nil || len(seqs) == 0 || seqs[len(seqs)-1] >= first {
		return err
	}
	for rec, err := range r.journal.Stream(prefixRun+run, uint64(len(seqs)-1)) {
		if errors.Is(err, audit.ErrArchived) {
			return nil
		}
		if err != nil {
			return err
		}
		return r.leave(l, run, rec)
	}
	return nil
}

// leave adds the entries of a run whose last one is rec, when it has ended.
func (r *Retention) leave(l *Leaving, run string, rec audit.Record) error {
	head, err := r.journal.Head(rec.Stream)
	if err != nil || rec.Index+1 != head {
		return err
	}
	if ended, err := r.ended(rec); err != nil || !ended {
		return err
	}
	if r.owed[run] {
		l.Kept++
		return nil
	}
	seqs, err := r.journal.Positions(rec.Stream)
	if err != nil {
		return err
	}
	l.Entries = append(l.Entries, seqs...)
	l.Runs++
	return nil
}

// ended reports whether a run has ended, of which rec is the last entry. Something may
// follow the end: a decision that came too late.
func (r *Retention) ended(rec audit.Record) (bool, error) {
	if rec.Kind == string(machine.RunEnded) {
		return true, nil
	}
	for rec, err := range r.journal.Stream(rec.Stream, 0) {
		if errors.Is(err, audit.ErrArchived) { // by an attempt that did not finish
			return true, nil
		}
		if err != nil || rec.Kind == string(machine.RunEnded) {
			return err == nil, err
		}
	}
	return false, nil
}
