package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"

	bolt "go.etcd.io/bbolt"
)

// A Reader reads a journal's file, usually a copy, without writing to it and
// without its keys. It checks the structure, not the signatures: see [Verify].
type Reader struct {
	j      *Journal
	public string
}

// OpenReader opens the file read-only. With a Checker the structure is first
// examined in a child process. The error is ErrCorrupt, ErrForeign, ErrLocked
// (a service has it open: ask the service, or read a snapshot) or the system's.
func OpenReader(ctx context.Context, path string, check Checker) (_ *Reader, err error) {
	if _, _, err := readHeader(path); err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(ctx, path); err != nil {
			return nil, fmt.Errorf("check before opening: %w", err)
		}
	}
	db, err := bolt.Open(path, 0, &bolt.Options{Timeout: lockTimeout, ReadOnly: true, NoStatistics: true})
	if err != nil {
		return nil, openError(path, err)
	}
	j, public := &Journal{path: path, db: db, copy: true}, ""
	if err := db.View(func(tx *bolt.Tx) error {
		meta, err := readMeta(tx, path)
		if err != nil {
			return err
		}
		public = meta.public
		j.committed.Store(&meta.tree)
		return j.loadArchive(tx)
	}); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Reader{j, public}, nil
}

// Log yields the records from seq from on, ascending.
func (r *Reader) Log(from uint64) iter.Seq2[Record, error] { return r.j.Log(from) }

// Streams returns the streams whose name begins with prefix, in the order of their names.
func (r *Reader) Streams(prefix string) iter.Seq2[StreamInfo, error] { return r.j.Streams(prefix) }

// Status returns how much of the log is where.
func (r *Reader) Status() (Status, error) { return r.j.Status() }

// PublicKey returns the key that the file names, as journal.pub holds it. That the file
// is signed with it, or that it is the service's, [Verify] shows with a key from elsewhere.
func (r *Reader) PublicKey() string { return r.public }

// Close closes the file.
func (r *Reader) Close() error { return r.j.db.Close() }
