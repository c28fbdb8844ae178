package audit

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// The file is kept this much longer than what is in use, in zeros that are
// written, not skipped. A write into space that has a place on the disk is
// synced as it is; a write into a hole makes the file system write its own
// journal first, which takes a lone caller as long as the sync itself.
const (
	reserveBelow = 512 << 10 // less than this is ahead: reserve more
	reserveStep  = 1 << 20
)

// growBy is by how much more than it needs bbolt grows the file, in a hole,
// when one transaction takes more than there is in reserve.
const growBy = 64 << 10

// reserve makes sure that zeros follow the used bytes of the file. They need
// no sync: until a header names those pages, nobody reads them, and the sync
// of the pages that are written there covers the file's size. Only the
// committer calls it, so nothing else moves the end of the file.
func (j *Journal) reserve(used int64) error {
	if j.zeroed-used >= reserveBelow || j.o.NoSync {
		return nil
	}
	info, err := j.file.Stat() // bbolt may have grown it
	if err != nil {
		return fmt.Errorf("reserve space: %w", err)
	}
	j.zeroed = info.Size()
	if j.zeroed-used >= reserveBelow {
		return nil
	}
	zeros := make([]byte, 64<<10)
	for end := j.zeroed + reserveStep; j.zeroed < end; {
		n, err := j.file.WriteAt(zeros, j.zeroed)
		j.zeroed += int64(n)
		if err != nil {
			return fmt.Errorf("reserve space: %w", err)
		}
	}
	return nil
}

// logEnd is the number of records that the log holds, if its last key is the
// tree's and the one before it is a seq.
func logEnd(tx *bolt.Tx) (uint64, bool) {
	cur := tx.Bucket(bucketLog).Cursor()
	if k, _ := cur.Last(); string(k) != string(keyTree) {
		return 0, false
	}
	k, _ := cur.Prev()
	if k == nil {
		return 0, true
	}
	last, ok := parseU64(k)
	return last + 1, ok
}
