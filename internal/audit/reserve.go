package audit

import (
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// This many zeros are written behind the part of the file that is in use. A write
// into allocated space is synced directly. A write into a hole makes the file
// system write its own journal first, which takes as long as the sync itself.
const (
	reserveBelow = 512 << 10 // less than this is ahead: reserve more
	reserveStep  = 1 << 20
)

// growBy is how much bbolt grows the file, as a hole, beyond what it needs when
// one transaction takes more than the reserve.
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

// Reusable returns how many bytes of the file are free pages, which later appends fill
// before the file grows. Pages that the last transaction, or one that a reader still
// sees, has freed count from the next transaction on.
func (j *Journal) Reusable() int64 {
	return int64(j.db.Stats().FreePageN) * j.pageSize
}

// logEnd returns the number of records in the log. It reports false unless the last
// key is the tree's and the one before it is a seq.
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
