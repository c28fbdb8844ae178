package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/inference-responder/responder/internal/audit"
)

const journalFile = "journal.db"

// openJournal opens or creates DIR/journal.db. The file is first examined by a
// child process of this program. observe is told how long each append took.
func openJournal(dir string, observe func(time.Duration), failpoint func(string) error) (*audit.Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open journal: %w; journal.dir or --dir names a directory this user may write", err)
	}
	check, err := selfChecker()
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j, err := audit.Open(filepath.Join(dir, journalFile), audit.Options{Checker: check, Observe: observe, Failpoint: failpoint})
	if err != nil {
		return nil, err
	}
	if err := checkEntries(j, checkWithin); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

const (
	checkStride = 8192            // entries that are checked at a stretch
	checkWithin = 5 * time.Second // longer would keep a large journal from serving
)

// checkEntries reads the journal, the newest entries first, and finds those
// that were changed since they were written: nothing may be acknowledged that
// would follow them. What it does not get to in that time is checked when it
// is read, after the listener is up.
func checkEntries(j *audit.Journal, within time.Duration) error {
	begun := time.Now()
	for end := j.Size(); end > 0 && time.Since(begun) < within; {
		from := end - min(end, checkStride)
		for rec, err := range j.Log(from) {
			if err != nil {
				return fmt.Errorf("check the journal's entries: %w", err)
			}
			if rec.Seq+1 >= end {
				break
			}
		}
		end = from
	}
	return nil
}
