package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Restored is the result of Restore.
type Restored struct {
	Segment  SegmentReport
	Restored uint64 // bodies that are back in the file
	Present  uint64 // that were there already
}

// Restore puts the bodies of a segment back into a journal's file, usually a copy, that
// no service has open. The segment must verify with the public key, which must be the
// file's, and each entry must have the leaf hash that the file has in its place; else
// nothing is written. With a Checker the file is first examined in a child process. A
// crash leaves some bodies restored, and doing it again finishes.
func Restore(ctx context.Context, path, segment, publicKey string, check Checker) (r Restored, err error) {
	key, err := parseKey(publicKey)
	if err != nil {
		return r, err
	}
	if _, _, err := readHeader(path); err != nil {
		return r, err
	}
	if check != nil {
		if err := check(ctx, path); err != nil {
			return r, fmt.Errorf("check before opening: %w", err)
		}
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, NoFreelistSync: true, FreelistType: bolt.FreelistMapType, NoStatistics: true})
	if err != nil {
		return r, openError(path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.View(func(tx *bolt.Tx) error {
		meta, err := readMeta(tx, path)
		if err == nil && meta.origin != key.Name() {
			err = fmt.Errorf("%s is the journal %s, the key is for %s", path, meta.origin, key.Name())
		}
		return err
	}); err != nil {
		return r, err
	}
	p := &restorer{db: db, path: path, report: &r}
	if r.Segment, err = readSegment(ctx, segment, key, p.compare); err != nil || !r.Segment.OK() {
		return r, err
	}
	if err := p.flush(); err != nil { // the last of those to compare
		return r, err
	}
	// From here on the file is not as its last clean stop left it.
	if err := removeMarker(path); err != nil {
		return r, err
	}
	p.write = true
	if _, err = readSegment(ctx, segment, key, p.compare); err == nil {
		err = p.flush()
	}
	return r, err
}

// A restorer compares the entries of a segment with those of a file, a few at a time,
// and in its second pass writes those that have no body.
type restorer struct {
	db     *bolt.DB
	path   string
	report *Restored
	write  bool

	first   uint64 // of entries
	entries [][]byte
	bytes   int
}

// compare takes the next entry.
func (p *restorer) compare(seq uint64, entry []byte) error {
	if len(p.entries) == 0 {
		p.first = seq
	}
	p.entries = append(p.entries, bytes.Clone(entry))
	p.bytes += len(entry)
	if len(p.entries) < dropBatch && p.bytes < maxCommitBytes {
		return nil
	}
	return p.flush()
}

// flush compares, or restores, the entries that were taken.
func (p *restorer) flush() error {
	defer func() { p.entries, p.bytes = nil, 0 }()
	if len(p.entries) == 0 {
		return nil
	}
	if !p.write {
		return p.db.View(func(tx *bolt.Tx) error {
			_, err := p.missing(tx)
			return err
		})
	}
	return p.db.Update(func(tx *bolt.Tx) error {
		missing, err := p.missing(tx)
		if err != nil {
			return err
		}
		log := tx.Bucket(bucketLog)
		for _, i := range missing {
			if err := log.Put(u64(p.first+uint64(i)), p.entries[i]); err != nil {
				return fmt.Errorf("restore entry %d: %w", p.first+uint64(i), err)
			}
		}
		p.report.Restored += uint64(len(missing))
		p.report.Present += uint64(len(p.entries) - len(missing))
		return addToCell(tx.Bucket(bucketCells), cellBodies, -uint64(len(missing)))
	})
}

// missing returns which of the entries the file has no body of.
func (p *restorer) missing(tx *bolt.Tx) (missing []int, err error) {
	log := tx.Bucket(bucketLog)
	for i, entry := range p.entries {
		seq := p.first + uint64(i)
		have, body, ok := splitEntry(log.Get(u64(seq)))
		want, _, _ := splitEntry(entry)
		switch {
		case !ok:
			return nil, fmt.Errorf("%s has no entry %d: it is an older copy, or of another journal; nothing was restored", p.path, seq)
		case have != want:
			return nil, fmt.Errorf("entry %d of %s has another hash than in the segment: one of them was altered; nothing was restored", seq, p.path)
		case len(body) == 0:
			missing = append(missing, i)
		}
	}
	return missing, nil
}
