package audit

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
)

// The newest entry and the oldest are checked, by whichever worker, as long as
// there is time.
func TestCheckEntries(t *testing.T) {
	const entries = spanSize + 100
	for _, seq := range []uint64{0, 99, spanSize, entries - 1} {
		path, _ := closedJournal(t, entries, Options{})
		for _, damaged := range []bool{false, true} {
			if damaged {
				editBolt(t, path, func(tx *bolt.Tx) error {
					entry := bytes.Clone(tx.Bucket(bucketLog).Get(u64(seq)))
					entry[len(entry)-1] ^= 1
					return tx.Bucket(bucketLog).Put(u64(seq), entry)
				})
				if err := os.Remove(markerPath(path)); err != nil {
					t.Fatal(err)
				}
			}
			j, err := Open(path, Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := j.CheckEntries(0); err != nil {
				t.Errorf("without time it says %v", err)
			}
			switch err := j.CheckEntries(time.Hour); {
			case !damaged && err != nil:
				t.Error(err)
			case damaged && (!errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "does not match its leaf hash")):
				t.Errorf("entry %d was changed, and it says %v", seq, err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
