package audit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/mod/sumdb/note"
)

// VerifyOptions refine Verify. The zero value is usable.
type VerifyOptions struct {
	// Checkpoint is a note that was exported earlier and kept elsewhere. Only
	// it can show that a log was cut back, rolled back or forked. Without one, the
	// checkpoint that a service keeps beside its journal is taken, if it is there.
	Checkpoint []byte

	// Progress is called now and then from one goroutine.
	Progress func(done, total uint64)

	// Checker runs the structural check in a child process first. Without
	// one, a damaged file can crash this process or make bbolt loop.
	Checker Checker

	// Now is the time of verifying; zero: the clock's.
	Now time.Time
}

// unsignedFor is how long an entry may be without a signature: the service signs a
// minute after the first that is not, and is given a minute more.
const unsignedFor = 2 * time.Minute

// A Report is the result of Verify.
type Report struct {
	Origin      string
	Created     string
	Entries     uint64
	Streams     uint64
	Archived    uint64 // entries of which the file has only the hash
	Segments    uint64 // of the archive, that by the log have their bodies
	Checkpoints uint64 // with a valid signature and the right root
	Signed      uint64 // entries the last of them covers
	Unsigned    uint64 // entries after it: consistent but not yet signed
	Root        string // over all entries
	External    bool   // the log continues VerifyOptions.Checkpoint
	Beside      bool   // the log continues the checkpoint kept beside it
	Unread      string // why the checkpoint kept beside it cannot be read; empty: it can, or there is none
	Redacted    []Redaction
	FirstBad    *Finding

	// Overdue says why more is unsigned than time allows; empty: it is not. Such
	// entries are consistent, and anybody could have written them: a service that
	// crashed leaves at most a minute of them, and signs them when it starts.
	Overdue string
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return r.FirstBad == nil }

// A Finding is the first problem that Verify found. It concerns the entries from
// Seq to Last. A single entry that can be decoded is named.
type Finding struct {
	Seq     uint64
	Last    uint64
	Stream  string
	Kind    string
	Time    time.Time
	Problem string
}

func (f *Finding) String() string {
	switch {
	case f.Last > f.Seq:
		return fmt.Sprintf("entries %d to %d: %s", f.Seq, f.Last, f.Problem)
	case f.Kind != "":
		return fmt.Sprintf("entry %d (%s %s at %s): %s", f.Seq, f.Stream, f.Kind, f.Time.Format(time.RFC3339Nano), f.Problem)
	}
	return fmt.Sprintf("entry %d: %s", f.Seq, f.Problem)
}

// at returns a finding about one entry.
func at(seq uint64, format string, args ...any) *Finding {
	return &Finding{Seq: seq, Last: seq, Problem: fmt.Sprintf(format, args...)}
}

// between returns a finding about the entries from seq up to, not including, end.
func between(seq, end uint64, format string, args ...any) *Finding {
	return &Finding{Seq: seq, Last: max(seq+1, end) - 1, Problem: fmt.Sprintf(format, args...)}
}

// Verify checks the log at path against a public key, without writing and
// without the private key. For a log that was changed it returns a Report with
// FirstBad; an error means that the file could not be examined, or (ErrCorrupt,
// ErrForeign) that it is too damaged to be.
func Verify(ctx context.Context, path, publicKey string, o VerifyOptions) (Report, error) {
	key, err := parseKey(publicKey)
	if err != nil {
		return Report{}, err
	}
	v := &verifier{key: key, o: o, workers: min(runtime.GOMAXPROCS(0), 8)}
	if o.Checkpoint != nil {
		c, err := openCheckpoint(o.Checkpoint, key)
		if err != nil {
			return Report{}, fmt.Errorf("the checkpoint to verify against: %w", err)
		}
		v.external, v.given = &c, "the given checkpoint"
	} else {
		v.takeBeside(path)
	}
	report, err := v.examine(ctx, path)
	if errors.Is(err, ErrCorrupt) {
		return report, fmt.Errorf("%w; nothing in this file is proven: verify another copy", err)
	}
	return report, err
}

// Verify is [Verify] of the open log, as it is at one moment, against the checkpoint kept
// beside it. The log is signed first, if the journal can still write. Appends go on
// meanwhile, on pages that are not used yet: the file grows by as much. It takes one
// processor. Of the options, Progress and Now count.
func (j *Journal) Verify(ctx context.Context, o VerifyOptions) (_ Report, err error) {
	if err := j.sign(); err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrFull) {
		return Report{}, fmt.Errorf("verify: %w", err)
	}
	key, err := parseKey(j.keys.public)
	if err != nil {
		return Report{}, err // unreachable unless the journal was opened with a key that it could not read
	}
	v := &verifier{key: key, o: VerifyOptions{Progress: o.Progress, Now: o.Now}, workers: 1}
	v.takeBeside(j.path) // before the log is looked at, which then has all that it covers
	view, end, err := j.viewsOfOneState(v.workers + 1)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, end()) }()
	v.view = view
	return v.read(ctx, j.path)
}

// viewsOfOneState returns what runs n read transactions at a time, all of the same state
// of the file. A transaction is for one goroutine, and those of two states would differ
// in their last entries.
func (j *Journal) viewsOfOneState(n int) (view func(func(*bolt.Tx) error) error, end func() error, err error) {
	free := make(chan *bolt.Tx, n)
	end = func() (err error) {
		for range len(free) {
			err = errors.Join(err, (<-free).Rollback())
		}
		return err
	}
	for id := 0; len(free) < n; {
		tx, err := j.db.Begin(false)
		if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
			err = fmt.Errorf("read journal: %w", ErrClosed)
		}
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		if tx.ID() != id { // the first, or something was committed since the last one
			if err := end(); err != nil {
				return nil, nil, errors.Join(err, tx.Rollback())
			}
			id = tx.ID()
		}
		free <- tx
	}
	view = func(fn func(*bolt.Tx) error) error {
		tx := <-free
		defer func() { free <- tx }()
		return fn(tx)
	}
	return view, end, nil
}

// takeBeside takes the checkpoint that the service keeps beside its journal, which nobody
// without the key can write. One that cannot be read proves as much as none.
func (v *verifier) takeBeside(path string) {
	switch s, err := readSigned(path, v.key); {
	case err != nil:
		v.report.Unread = err.Error()
	case s != nil:
		v.external, v.given = &checkpoint{size: s.tree.size, root: s.tree.root()}, "the checkpoint kept beside it"
	}
}

// examine checks what would not let bbolt open the file, and opens it.
func (v *verifier) examine(ctx context.Context, path string) (Report, error) {
	if _, _, err := readHeader(path); err != nil {
		return Report{}, err
	}
	if v.o.Checker != nil {
		if err := v.o.Checker(ctx, path); err != nil {
			return Report{}, err
		}
	}
	return v.open(ctx, path)
}

// A verifier is one run of Verify.
type verifier struct {
	key      note.Verifier
	o        VerifyOptions
	external *checkpoint
	given    string // external in words

	view    func(func(*bolt.Tx) error) error // runs a read transaction; those of a verifier are all of one state of the file
	workers int                              // goroutines that hash; one more reads what they found
	meta    metaInfo
	archive *archive
	absent  entrySet // entries without a body

	unbelievable *Finding // a record of the archive that was changed
	report       Report
}

// open opens the file read-only and reads it.
func (v *verifier) open(ctx context.Context, path string) (_ Report, err error) {
	db, err := bolt.Open(path, 0, &bolt.Options{Timeout: lockTimeout, ReadOnly: true, NoStatistics: true})
	if err != nil {
		return Report{}, openError(path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	v.view = db.View
	return v.read(ctx, path)
}

// read reads where the log stands and runs the passes.
func (v *verifier) read(ctx context.Context, path string) (_ Report, err error) {
	bad, err := guard(v.reached, func() (*Finding, error) {
		return nil, v.view(func(tx *bolt.Tx) error {
			if v.meta, err = readMeta(tx, path); err != nil {
				return err
			}
			v.archive, err = readArchive(tx)
			return err
		})
	})
	var unbelievable *archiveError
	if errors.As(err, &unbelievable) {
		err = nil
		v.unbelievable = at(unbelievable.seq, "%v", unbelievable.err)
	}
	if bad != nil {
		return Report{}, corrupt(path, "%s", bad.Problem)
	}
	if err != nil {
		return Report{}, err
	}
	v.report.Origin, v.report.Created = v.meta.origin, v.meta.created
	v.report.FirstBad, err = v.passes(ctx)
	return v.report, err
}

// passes runs the checks, those with the most specific findings first.
func (v *verifier) passes(ctx context.Context) (*Finding, error) {
	own, err := parseKey(v.meta.public)
	if err != nil {
		return between(0, v.meta.tree.size, "the log names no key that can be read: %v", err), nil
	}
	if own.Name() != v.key.Name() || own.KeyHash() != v.key.KeyHash() || v.meta.origin != v.key.Name() {
		return between(0, v.meta.tree.size, "nothing is proven: the log names the key %s+%08x, the key given is %s+%08x: "+
			"the wrong key file was given, or another log was put in this one's place",
			own.Name(), own.KeyHash(), v.key.Name(), v.key.KeyHash()), nil
	}
	if v.unbelievable != nil {
		return v.unbelievable, nil
	}
	for _, pass := range []func(context.Context) (*Finding, error){v.walk, v.ends, v.indexes, v.redactions, v.beyond, v.late} {
		bad, err := guard(v.reached, func() (*Finding, error) { return pass(ctx) })
		if bad != nil || err != nil {
			return bad, err
		}
	}
	return nil, nil
}

// reached is the entry after those that the walk found good.
func (v *verifier) reached() uint64 { return v.report.Entries }

// beyond compares with the external checkpoint what the walk could not.
func (v *verifier) beyond(context.Context) (*Finding, error) {
	if v.external == nil {
		return nil, nil
	}
	if v.external.size > v.report.Entries {
		return between(v.report.Signed, v.external.size,
			"missing in part: %s is over %d entries, the log has only %d; it was truncated or rolled back",
			v.given, v.external.size, v.report.Entries), nil
	}
	v.report.External, v.report.Beside = v.o.Checkpoint != nil, v.o.Checkpoint == nil
	return nil, nil
}

// late looks at the times of the entries that no checkpoint covers.
func (v *verifier) late(context.Context) (*Finding, error) {
	r := &v.report
	if r.Unsigned == 0 {
		return nil, nil
	}
	now := v.o.Now
	if now.IsZero() {
		now = time.Now()
	}
	oldest, newest := now, time.Time{}
	err := v.view(func(tx *bolt.Tx) error {
		log := tx.Bucket(bucketLog)
		for seq := r.Signed; seq < r.Entries; seq++ {
			raw, err := intactEntry(seq, log.Get(u64(seq)))
			if err != nil {
				r.Overdue = fmt.Sprintf("the body of entry %d left the file for the archive, which it does only under a checkpoint", seq)
				return nil
			}
			t := time.Unix(0, raw.nanos).UTC()
			if t.Before(oldest) {
				oldest = t
			}
			if t.After(newest) {
				newest = t
			}
		}
		return nil
	})
	switch {
	case r.Overdue != "":
	case now.Sub(oldest) > unsignedFor:
		r.Overdue = fmt.Sprintf("the oldest is of %s, and the service signs after a minute", oldest.Format(time.RFC3339))
	case newest.Sub(now) > unsignedFor:
		r.Overdue = fmt.Sprintf("the newest is of %s, which is still to come", newest.Format(time.RFC3339))
	}
	return nil, err
}
