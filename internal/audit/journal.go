package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/mod/sumdb/note"
)

// Options of Open. The zero value is right for production, save for Checker.
type Options struct {
	// Bounds on what is queued or being committed. One batch that is larger
	// than a bound is still accepted when nothing else waits.
	QueueRecords int // default 16384
	QueueBytes   int // default 32 MiB

	// A checkpoint is signed after this many records (default and maximum
	// 1024), and this long after the first unsigned record (default 60 s).
	CheckpointEvery    int
	CheckpointInterval time.Duration

	// Checker checks the file in a child process (CheckerCommand) before it
	// is opened: after every stop that was not clean, and always when the
	// file is small. Without one a damaged file can crash this process. See
	// "What a start checks" in the package's comment.
	Checker Checker

	// Key is the file of the private key; empty: KeyFile beside the journal.
	Key string

	// Published is a directory with checkpoints that Publish wrote. A log that does not
	// continue the newest of them is refused. Empty: none are looked at.
	Published string

	// NoSync leaves syncing to the operating system: for benchmarks and
	// simulations. An acknowledged record may be lost with the power.
	NoSync bool

	// Failpoint is called at the places listed by Failpoints.
	Failpoint func(name string) error

	// Observe, if set, is told how long each successful Append took, from
	// call to answer. It may be called from several goroutines at once.
	Observe func(took time.Duration)
}

// checkAlways is the size up to which a file is checked even after a clean
// stop. It takes well under a second.
const checkAlways = 64 << 20

// initialMap reserves address space so that the file can grow without mapping
// it anew: that would wait for readers, and an export is a long reader.
const initialMap = 1 << 30

// keepScratch is the size up to which buffers are kept for the next use.
const keepScratch = 1 << 20

// withDefaults fills in zero values and refuses what makes no sense.
func (o Options) withDefaults() (Options, error) {
	if o.QueueRecords == 0 {
		o.QueueRecords = 16384
	}
	if o.QueueBytes == 0 {
		o.QueueBytes = 32 << 20
	}
	if o.CheckpointEvery == 0 {
		o.CheckpointEvery = maxCheckpointEvery
	}
	if o.CheckpointInterval == 0 {
		o.CheckpointInterval = time.Minute
	}
	if o.Failpoint == nil {
		o.Failpoint = func(string) error { return nil }
	}
	if o.QueueRecords < 0 || o.QueueBytes < 0 || o.CheckpointInterval < 0 {
		return o, errors.New("open journal: a negative bound or interval")
	}
	if o.CheckpointEvery < 0 || o.CheckpointEvery > maxCheckpointEvery {
		return o, fmt.Errorf("open journal: CheckpointEvery must be between 1 and %d", maxCheckpointEvery)
	}
	return o, nil
}

// A Journal is an open log. Its methods may be called concurrently.
type Journal struct {
	path string
	temp bool // the directory is ours to remove
	copy bool // the file is only read, see [Reader]
	was  bool // closed cleanly before it was opened

	unkept bool // it had entries when it was opened, and no checkpoint beside the file
	o      Options
	db     *bolt.DB
	keys   keyPair

	// committed is the tree after the last acknowledged commit: what readers
	// see, and never more, even if a failed commit left something behind.
	committed atomic.Pointer[tree]
	signed    uint64        // tree size of the last stored checkpoint; committer only
	signedTo  atomic.Uint64 // the same, for readers
	keeper    *keeper       // of the last checkpoint, outside the file; nil: it is not kept

	// archive is what the log says is in the archive; sealing serializes its growth.
	archive atomic.Pointer[archive]
	sealing sync.Mutex

	mu        sync.Mutex // guards the queue and the states that refuse a request
	queue     []*request
	records   int       // in queue or being committed
	bytes     int       // in queue or being committed
	closed    bool      // no more requests
	failed    error     // a commit failed: no more requests until reopened
	full      error     // the disk was full at the last attempt
	fullUntil time.Time // when to try again

	wake  chan struct{} // capacity 1: there may be work
	ended chan struct{} // closed when the committer has returned

	scratch sync.Pool // of *[]byte, for packing
	chunks  sync.Pool // of *chunk, for reading
	arena   []byte    // the stored forms of one commit; committer only
	file    *os.File  // the database's own; committer only
	zeroed  int64     // the file's size when last looked at; committer only

	pageSize int64 // of the file; fixed

	closeOnce sync.Once
	closeErr  error

	watchMu  sync.Mutex // guards watchers
	watchers map[chan struct{}]struct{}
}

// Open opens the journal at path, and creates it with new keys in the same
// directory if there is none. It takes an exclusive lock on the file.
func Open(path string, o Options) (_ *Journal, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	defer func() { err = advised(err) }()
	if o.Key == "" {
		o.Key = filepath.Join(filepath.Dir(path), KeyFile)
	}
	if err := prepare(path, o.Key, o.Failpoint); err != nil {
		return nil, err
	}
	clean, err := examine(path, o.Checker)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		path:     path,
		was:      clean,
		o:        o,
		wake:     make(chan struct{}, 1),
		ended:    make(chan struct{}),
		watchers: make(map[chan struct{}]struct{}),
	}
	if err := j.openDB(); err != nil {
		return nil, err
	}
	go j.commitLoop()
	return j, nil
}

// OpenTemp opens an empty journal in a directory below dir that Close removes;
// below the system's temporary one where dir is empty.
// It does not sync, because dry runs and tests do not need durability.
func OpenTemp(dir string) (*Journal, error) {
	dir, err := os.MkdirTemp(dir, "responder-journal-")
	if err != nil {
		return nil, fmt.Errorf("open temporary journal: %w", err)
	}
	j, err := Open(filepath.Join(dir, "journal.db"), Options{NoSync: true})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	j.temp = true
	return j, nil
}

// examine checks the file before bbolt maps it: the header here, the structure in
// the child process. It reports whether the file is as a clean Close left it.
func examine(path string, check Checker) (clean bool, err error) {
	head, size, err := readHeader(path)
	if err != nil {
		return false, err
	}
	mark, marked := readMarker(path)
	clean = marked && mark.txid == head.txid && mark.size == size
	if marked && mark.txid > head.txid {
		return false, corrupt(path, "it is older (transaction %d) than its last clean stop (%d): it lost its newest header "+
			"or was replaced by an older copy; if you restored that copy on purpose, remove %s and %s", head.txid, mark.txid, markerPath(path), projectionPath(path, signedName))
	}
	if clean && head.free != noFreeList {
		free, err := freeListDigest(path, head)
		if err != nil {
			return false, err
		}
		if free != mark.free {
			return false, corrupt(path, "its list of free pages was changed since its last clean stop: writing would overwrite entries")
		}
	}
	if check != nil && (!clean || size <= checkAlways) {
		if err := check(context.Background(), path); err != nil {
			return false, fmt.Errorf("check before opening: %w", err)
		}
	}
	return clean, nil
}

// openDB opens bbolt and reads where the log stands.
func (j *Journal) openDB() (err error) {
	head, size, err := readHeader(j.path)
	if err != nil {
		return err
	}
	j.pageSize = int64(head.pageSize)
	// If the open crashes this process, the next one finds no marker and checks
	// the file first.
	if err := removeMarker(j.path); err != nil {
		return err
	}
	j.db, err = bolt.Open(j.path, 0o600, &bolt.Options{
		Timeout:        lockTimeout,
		NoFreelistSync: true,
		FreelistType:   bolt.FreelistArrayType, // takes the lowest pages: neighbours share a write to the disk
		OpenFile: func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
			j.file, err = os.OpenFile(name, flag, mode)
			return j.file, err
		},
		InitialMmapSize: max(initialMap, int(2*size)),
		NoSync:          j.o.NoSync,
		NoGrowSync:      j.o.NoSync,
	})
	if err != nil {
		return openError(j.path, err)
	}
	j.db.AllocSize = growBy
	if err := j.load(); err != nil {
		return errors.Join(err, j.db.Close())
	}
	return nil
}

// load reads the header, the keys and the tree, and compares the tree with what was signed.
func (j *Journal) load() error {
	var meta metaInfo
	var proven *signedTree
	err := j.db.View(func(tx *bolt.Tx) error {
		var err error
		if meta, err = readMeta(tx, j.path); err != nil {
			return err
		}
		if end, ok := logEnd(tx); !ok || end != meta.tree.size {
			return corrupt(j.path, "the log does not end where its tree does, at %d entries", meta.tree.size)
		}
		if k, _ := tx.Bucket(bucketCheckpoints).Cursor().Last(); k != nil {
			j.signed, _ = parseU64(k)
		}
		if j.signed > meta.tree.size {
			return corrupt(j.path, "it has %d entries and a checkpoint over %d: entries were removed", meta.tree.size, j.signed)
		}
		var key note.Verifier
		if j.keys, key, err = loadKeys(j.path, j.o.Key, meta.public); err != nil {
			return err
		}
		if proven, err = j.prove(tx, &meta.tree, key); err != nil {
			return err
		}
		return j.loadArchive(tx)
	})
	if err != nil {
		return err
	}
	j.committed.Store(&meta.tree)
	j.signed = proven.tree.size
	j.signedTo.Store(j.signed)
	return j.beginKeeping(proven)
}

// Clean reports whether the file was, when it was opened, as a clean Close left it.
func (j *Journal) Clean() bool { return j.was }

// Unkept returns the file that was to hold the last checkpoint when the journal was
// opened, and was missing; empty: it was there, or the journal was new. Without it a log
// that was cut back to an earlier checkpoint of its own cannot be told from a whole one.
func (j *Journal) Unkept() string {
	if !j.unkept || j.o.NoSync {
		return ""
	}
	return projectionPath(j.path, signedName)
}

// Path returns the file's path.
func (j *Journal) Path() string { return j.path }

// PublicKey returns the note verifier key, as in journal.pub.
func (j *Journal) PublicKey() string { return j.keys.public }

// Origin returns the name under which checkpoints are signed.
func (j *Journal) Origin() string { return j.keys.signer.Name() }

// Size returns the number of records.
func (j *Journal) Size() uint64 { return j.committed.Load().size }

// Unsigned returns the number of records after the last stored checkpoint, which
// no verifier can prove yet.
func (j *Journal) Unsigned() uint64 {
	// Read in this order, a commit in between makes the number larger, never
	// negative.
	signed := j.signedTo.Load()
	return j.Size() - signed
}

// Checkpoint returns a signed note over the current tree: origin, size, root.
// Keep it outside the machine: it proves truncation and rollback.
func (j *Journal) Checkpoint() ([]byte, error) {
	return signCheckpoint(j.committed.Load(), j.keys.signer)
}

// Err returns nil while the journal takes appends, and otherwise why it does not.
// Readiness probes call it.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.refusal(time.Now())
}

// Close commits what is queued, signs a last checkpoint, and closes the file.
// Later calls return what the first did.
func (j *Journal) Close() error {
	j.closeOnce.Do(func() {
		j.mu.Lock()
		j.closed = true
		j.mu.Unlock()
		j.poke()
		<-j.ended
		j.closeErr = errors.Join(j.closeFiles(), j.keeper.close())
	})
	return j.closeErr
}

// closeFiles closes the database and writes the clean marker, unless a commit
// failed.
func (j *Journal) closeFiles() error {
	if j.temp {
		return errors.Join(j.db.Close(), os.RemoveAll(filepath.Dir(j.path)))
	}
	j.mu.Lock()
	failed := j.failed
	j.mu.Unlock()
	if err := j.o.Failpoint("close-checkpoint"); err != nil {
		return errors.Join(err, j.db.Close())
	}
	if failed == nil {
		failed = j.storeFreeList()
	}
	if j.o.NoSync {
		failed = errors.Join(failed, j.db.Sync())
	}
	if err := errors.Join(failed, j.db.Close()); err != nil {
		return fmt.Errorf("close journal: %w", err)
	}
	if err := j.o.Failpoint("close-marker"); err != nil {
		return err
	}
	return writeMarker(j.path)
}

// storeFreeList writes the list of free pages into the file, so that the next open
// need not read every page to find them. The first commit after that drops it: the
// open after a crash reads every page. On a full disk the file stays as it is.
func (j *Journal) storeFreeList() error {
	j.db.NoFreelistSync = false
	tx, err := j.db.Begin(true)
	if err != nil {
		return fmt.Errorf("store the list of free pages: %w", err)
	}
	txid := tx.ID()
	if err := tx.Commit(); err != nil && (!isNoSpace(err) || j.visible(txid)) {
		return fmt.Errorf("store the list of free pages: %w", err)
	}
	return nil
}
