package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/inference-responder/responder/internal/audit"
)

const journalFile = "journal.db"

// openJournal opens or creates DIR/journal.db. The file is first examined by a
// child process of this program. observe is told how long each append took.
func openJournal(dir string, observe func(time.Duration)) (*audit.Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open journal: %w; journal.dir or --dir names a directory this user may write", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("open journal: find this program to check it with: %w", err)
	}
	return audit.Open(filepath.Join(dir, journalFile), audit.Options{
		Checker: audit.CheckerCommand(exe, "internal", "check-journal"),
		Observe: observe,
	})
}
