package audit

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Bounds of one transaction. They limit what a commit holds in memory: the
// callers' data, its encoded form and bbolt's pages.
const (
	maxCommitBytes   = 8 << 20
	maxCommitRecords = 8192
)

// commitLoop is the committer: the only goroutine that writes. It returns when
// the journal is closed and the queue is empty.
func (j *Journal) commitLoop() {
	defer close(j.ended)
	// A page of the file that cannot be read is a failed commit, not the end
	// of the process.
	debug.SetPanicOnFault(true)
	var timer *time.Timer // runs while there are unsigned records
	var due <-chan time.Time
	for {
		select {
		case <-j.wake:
		case <-due:
			due = nil
			j.commit([]*request{{sign: true, done: make(chan struct{})}})
		}
		for taken := j.take(); len(taken) > 0; taken = j.take() {
			j.commit(taken)
			// The callers that were just answered are about to append again.
			// Yielding to them makes the next commit one for all of them.
			runtime.Gosched()
		}
		unsigned := j.Size() > j.signed
		if j.isClosed() {
			if unsigned && j.writable() {
				j.commit([]*request{{sign: true, done: make(chan struct{})}})
			}
			if timer != nil {
				timer.Stop()
			}
			return
		}
		if unsigned && due == nil {
			timer = time.NewTimer(j.o.CheckpointInterval)
			due = timer.C
		} else if !unsigned && due != nil {
			timer.Stop()
			due = nil
		}
	}
}

// isClosed reports whether no request can follow those that were taken.
func (j *Journal) isClosed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.closed && len(j.queue) == 0
}

// writable reports whether no commit has failed.
func (j *Journal) writable() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed == nil
}

// take removes from the queue what fits one transaction: at least one request
// if there is any.
func (j *Journal) take() []*request {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, records, bytes := 0, 0, 0
	for ; n < len(j.queue); n++ {
		records += j.queue[n].records
		bytes += j.queue[n].bytes
		if n > 0 && (records > maxCommitRecords || bytes > maxCommitBytes) {
			break
		}
	}
	taken := j.queue[:n:n]
	j.queue = j.queue[n:]
	if len(j.queue) == 0 {
		j.queue = nil
	}
	return taken
}

// commit writes the requests in one transaction and answers each of them.
func (j *Journal) commit(taken []*request) {
	live := make([]*request, 0, len(taken))
	for _, r := range taken {
		if r.state.CompareAndSwap(queued, begun) {
			live = append(live, r)
		}
	}
	started, before := time.Now(), j.Size()
	applied, err := j.transact(live, started)
	if err != nil {
		j.fail(live, err, applied, started)
	} else {
		j.clearFull()
	}
	if cap(j.arena) > keepScratch {
		j.arena = nil
	}
	j.release(taken)
	for _, r := range live {
		r.written()
		close(r.done)
	}
	if j.Size() > before {
		j.Wake()
	}
}

// transact runs one transaction. It returns whether a failed one may have been
// applied all the same. Conflicts are answers of single requests, not failures.
func (j *Journal) transact(live []*request, now time.Time) (applied bool, err error) {
	var tx *bolt.Tx
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(fmt.Errorf("panic: %v\n%s", p, debug.Stack()), abandon(tx))
		}
	}()
	if err := j.refusedSince(); err != nil {
		return false, err
	}
	if err := j.o.Failpoint("commit-begin"); err != nil {
		return false, err
	}
	if tx, err = j.db.Begin(true); err != nil {
		return false, err
	}
	if err := j.reserve(tx.Size()); err != nil {
		return false, errors.Join(err, tx.Rollback())
	}
	w := newWriter(j, tx, now)
	err = w.apply(live)
	if err == nil && w.dirty {
		err = j.o.Failpoint("before-commit")
	}
	if err != nil || !w.dirty {
		return false, errors.Join(err, tx.Rollback())
	}
	applied = true
	txid := tx.ID()
	if err := tx.Commit(); err != nil {
		// The one harmless failure is the one that never reached the header.
		return !isNoSpace(err) || j.visible(txid), err
	}
	if err := j.o.Failpoint("after-commit"); err != nil {
		return true, err
	}
	j.committed.Store(&w.tree)
	j.signed = w.signed
	j.signedTo.Store(w.signed)
	if w.kept != nil {
		j.keeper.keep(w.kept)
	}
	return true, j.o.Failpoint("before-ack")
}

// abandon rolls back a transaction that panicked, so that Close does not wait for it.
func abandon(tx *bolt.Tx) (err error) {
	if tx == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rollback: panic: %v", p)
		}
	}()
	if err := tx.Rollback(); !errors.Is(err, bolterrors.ErrTxClosed) {
		return err
	}
	return nil
}

// refusedSince is for requests that were queued before a commit failed.
func (j *Journal) refusedSince() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// visible reports whether a transaction whose commit failed can be read.
func (j *Journal) visible(txid int) bool {
	tx, err := j.db.Begin(false)
	if err != nil {
		return true // nobody can say
	}
	seen := tx.ID()
	return tx.Rollback() != nil || seen >= txid
}

// fail answers the requests of a failed transaction. After a full disk the
// journal tries again later; after any other failure it takes no more requests.
func (j *Journal) fail(live []*request, cause error, applied bool, started time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	kind := errReadOnly
	switch {
	case j.failed != nil:
		// Queued before the failure, refused after it.
	case applied:
		kind = errOutcomeUnknown
		j.failed = cause
	case isNoSpace(cause):
		kind = ErrDiskFull
		j.full = cause
		// A failed commit makes bbolt read the whole file, so the next try
		// comes the later the longer this one took.
		j.fullUntil = time.Now().Add(max(time.Second, 4*time.Since(started)))
	default:
		j.failed = cause
	}
	for _, r := range live {
		r.out, r.err = nil, fmt.Errorf("%w: %w", kind, cause)
	}
}

// clearFull records that a write found space.
func (j *Journal) clearFull() {
	j.mu.Lock()
	j.full = nil
	j.mu.Unlock()
}

// release returns the requests' share of the queue bounds.
func (j *Journal) release(taken []*request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range taken {
		j.records -= r.records
		j.bytes -= r.bytes
	}
}

// isNoSpace reports whether a write failed because the disk is full. bbolt passes one
// such error on as text.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(err.Error(), syscall.ENOSPC.Error())
}
