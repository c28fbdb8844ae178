package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
)

const (
	// maxNoteBytes is more than any public key or checkpoint has.
	maxNoteBytes = 64 << 10

	// whereJournals is what to do about a file that is none.
	whereJournals = "a service keeps its journal as " + app.JournalFile + " in journal.dir of its configuration, and 'responder audit export --to FILE' copies it while it runs"
)

// wantJournal reports what is wrong with a path that is to name a journal's file,
// as far as can be told without opening it.
func wantJournal(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no file %s; %s", path, whereJournals)
	case err != nil:
		return fmt.Errorf("read the journal: %w", err)
	case info.IsDir():
		inside := filepath.Join(path, app.JournalFile)
		if _, err := os.Stat(inside); err == nil {
			return fmt.Errorf("%s is a directory; its journal is the file %s", path, inside)
		}
		return fmt.Errorf("%s is a directory without a %s; %s", path, app.JournalFile, whereJournals)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is a special file, which a journal never is; %s", path, whereJournals)
	}
	return nil
}

// journalAdvice adds to an error about a file that is no journal where one is.
func journalAdvice(err error) error {
	if errors.Is(err, audit.ErrForeign) {
		return fmt.Errorf("%w; %s", err, whereJournals)
	}
	return err
}

// readNote reads a small file of text, a public key or a checkpoint.
func readNote(what, path, advice string) ([]byte, error) {
	open := config.OpenRegular
	if path == "/dev/stdin" || strings.HasPrefix(filepath.Clean(path), "/dev/fd/") { // standard input, or a pipe that the caller's shell made
		open = os.Open
	}
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w; %s", what, err, advice)
	}
	defer f.Close()
	data, err := config.ReadAtMost(f, maxNoteBytes)
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w; %s", what, path, err, advice)
	}
	return data, nil
}
