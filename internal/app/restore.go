package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// RestoreOptions are the options of [RestoreJournal].
type RestoreOptions struct {
	Backup string // directory of the backup
	Dir    string // directory of the journal
	Key    string // file with the private key of the log
	Public string // public key that the backup must be signed with
	Force  bool   // also replace a journal that has more entries than the backup, is another log, or cannot be read
	Now    time.Time
}

// ErrReplaces is the error of a restore that would replace entries which the backup does
// not have. Test with errors.Is.
var ErrReplaces = errors.New("the backup does not have everything that the present journal has")

// otherBackup is what to do about a backup that does not verify.
const otherBackup = "nothing was restored; use another backup, or name the " + audit.PublicKeyFile + " of its log with --key"

// RestoreJournal replaces the journal of a stopped service by that of a backup. The
// backup is verified and copied. The copy is verified again and opened as a service would
// open it, and a pause of everything is appended: nothing after the backup is known, so
// people check before anything acts. The previous journal and keys are kept in the directory replaced-TIME. Nothing is changed
// before the last step.
func RestoreJournal(ctx context.Context, o RestoreOptions) (out api.Restored, err error) {
	check, err := SelfChecker()
	if err != nil {
		return out, err
	}
	source := filepath.Join(o.Backup, JournalFile)
	report, err := audit.Verify(ctx, source, o.Public, audit.VerifyOptions{Checker: check})
	switch {
	case err != nil:
		return out, fmt.Errorf("%w; %s", err, otherBackup)
	case !report.OK():
		return out, fmt.Errorf("%s is not intact: %s; %s", source, report.FirstBad, otherBackup)
	case report.Overdue != "":
		return out, fmt.Errorf("%s is not proven: %s; %s", source, report.Overdue, otherBackup)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return out, fmt.Errorf("restore: %w; name a directory of the journal that this user can write", err)
	}
	out = api.Restored{File: filepath.Join(o.Dir, JournalFile), Origin: report.Origin, Entries: report.Entries, Open: []api.RestoredRun{}, Segments: []string{}}
	present, err := presentJournal(ctx, &out, o)
	if err != nil {
		return out, err
	}
	if present != nil { // it stays locked, so that no service opens it before it is replaced
		defer func() { err = errors.Join(err, present.Close()) }()
	}
	stage, err := os.MkdirTemp(o.Dir, ".restore-")
	if err != nil {
		return out, fmt.Errorf("restore: %w; name a directory of the journal that this user can write", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	if err := copyVerified(ctx, source, filepath.Join(stage, JournalFile), report, o.Public, check); err != nil {
		return out, err
	}
	if sameFile(o.Key, filepath.Join(o.Backup, audit.KeyFile)) { // the service looks for it next to the journal
		own := filepath.Join(stage, audit.KeyFile)
		if err := copyFile(o.Key, own); err != nil {
			return out, fmt.Errorf("restore: %w; nothing was restored", err)
		}
		o.Key = own
	}
	if err := prepareRestored(ctx, filepath.Join(stage, JournalFile), o, check, &out); err != nil {
		return out, err
	}
	return out, takeOver(stage, o, &out)
}

// copyVerified copies a backup that was verified, and verifies that the copy has the same
// entries: whoever may write where the backup is could have put another one there since.
func copyVerified(ctx context.Context, source, to string, verified audit.Report, public string, check audit.Checker) error {
	if err := copyFile(source, to); err != nil {
		return fmt.Errorf("restore: %w; nothing was restored", err)
	}
	report, err := audit.Verify(ctx, to, public, audit.VerifyOptions{Checker: check})
	if err == nil && report.OK() && report.Entries == verified.Entries && report.Root == verified.Root {
		return nil
	}
	return errors.Join(fmt.Errorf("%s changed while it was restored; nothing was restored, copy it to where nobody else may write, and restore that", source), err)
}

// presentJournal opens and locks the present journal and checks that it may be replaced.
// It returns nil when there is none, and with Force when it cannot be read.
func presentJournal(ctx context.Context, out *api.Restored, o RestoreOptions) (*audit.Reader, error) {
	if _, err := os.Lstat(out.File); errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	check, err := SelfChecker()
	if err != nil {
		return nil, err
	}
	r, err := openPresent(ctx, out.File, check)
	switch {
	case errors.Is(err, audit.ErrLocked):
		return nil, fmt.Errorf("%w; nothing was restored: stop the service first", err)
	case err != nil && !o.Force:
		return nil, fmt.Errorf("%w, as far as is known: %s cannot be read (%w); nothing was restored; --force replaces it", ErrReplaces, out.File, err)
	case err != nil:
		return nil, nil //nolint:nilnil // Force: an unreadable journal is replaced, too
	}
	s, err := r.Status()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if s.Origin == out.Origin && s.Entries > out.Entries {
		out.Lost = s.Entries - out.Entries
	}
	switch {
	case o.Force:
	case s.Origin != out.Origin:
		err = fmt.Errorf("%w: %s is the log %s, the backup is of the log %s; nothing was restored; --force replaces it", ErrReplaces, out.File, s.Origin, out.Origin)
	case out.Lost > 0:
		err = fmt.Errorf("%w: %s has %d entries, the backup %d; nothing was restored; --force replaces it, and the service then does not know the last %d", ErrReplaces, out.File, s.Entries, out.Entries, out.Lost)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// openPresent opens a journal that may be any file.
func openPresent(ctx context.Context, file string, check audit.Checker) (*audit.Reader, error) {
	f, err := config.OpenRegular(file)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, err
	}
	return audit.OpenReader(ctx, file, check)
}

// prepareRestored opens the copy as a service would, lists what is open in it, and
// appends the pause.
func prepareRestored(ctx context.Context, file string, o RestoreOptions, check audit.Checker, out *api.Restored) (err error) {
	key, err := readRegular(o.Key)
	if err == nil {
		err = audit.CheckKey(file, string(key))
	}
	if err != nil {
		return fmt.Errorf("private key %s: %w; nothing was restored; --private-key or journal.key_file names the %s of the log %s", o.Key, err, audit.KeyFile, out.Origin)
	}
	j, err := audit.Open(file, audit.Options{Checker: check, Key: o.Key})
	if err != nil {
		return fmt.Errorf("open the copy with the private key %s: %w; nothing was restored", o.Key, err)
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	for rec, err := range j.Log(out.Entries - min(1, out.Entries)) {
		if err == nil {
			out.Last = rec.Time.UTC()
		}
	}
	for _, s := range j.Segments() {
		out.Segments = append(out.Segments, s.Segment)
	}
	if out.Open, err = openRuns(j); err != nil {
		return fmt.Errorf("read the runs of the copy: %w", err)
	}
	pause, err := json.Marshal(executor.Pause{
		By: "restore", Since: o.Now.UTC(),
		Reason: fmt.Sprintf("restored from a backup whose last entry is of %s: nothing later is known. Check the open runs and their targets first", out.Last.Format(time.RFC3339)),
	})
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if _, err := j.Append(ctx, audit.Append{Stream: controlStream, After: audit.Any, Records: []audit.Record{{Kind: executor.KindPauseSet, Data: pause}}}); err != nil {
		return fmt.Errorf("restore: %w; nothing was restored", err)
	}
	return nil
}

// openRuns lists the runs that have not ended. An archived run has ended.
func openRuns(j *audit.Journal) ([]api.RestoredRun, error) {
	out := []api.RestoredRun{}
	for info, err := range j.Streams(runStreams) {
		if err != nil {
			return nil, err
		}
		from := info.Head - 1
		for {
			var last audit.Record
			ended := false
			for rec, err := range j.Stream(info.Name, from) {
				if errors.Is(err, audit.ErrArchived) {
					ended = true
					break
				} else if err != nil {
					return nil, err
				}
				last, ended = rec, ended || rec.Kind == string(machine.RunEnded)
			}
			if !ended && last.Kind == string(machine.DecisionIgnored) && from > 0 {
				from = 0 // it may have come before the end or after it
				continue
			}
			if !ended {
				out = append(out, api.RestoredRun{Run: strings.TrimPrefix(info.Name, runStreams), Last: last.Kind, At: last.Time.UTC()})
			}
			break
		}
	}
	return out, nil
}

// takeOver moves the present journal's files to the directory replaced-TIME and the
// restored files to their places. A crash in between leaves both, and keys without a
// journal: a service then refuses to start.
func takeOver(stage string, o RestoreOptions, out *api.Restored) error {
	journal, keys, err := replacedFiles(stage, o.Dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if len(journal)+len(keys) > 0 {
		out.Replaced = filepath.Join(o.Dir, "replaced-"+o.Now.UTC().Format("20060102T150405Z"))
		if err := os.Mkdir(out.Replaced, 0o700); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
		for _, name := range keys { // copied, not moved: a directory with neither key nor journal gets a new log
			if err := copyFile(filepath.Join(o.Dir, name), filepath.Join(out.Replaced, name)); err != nil {
				return fmt.Errorf("restore: %w", err)
			}
		}
		if err := audit.SyncDir(out.Replaced); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	for _, name := range journal {
		if err := os.Rename(filepath.Join(o.Dir, name), filepath.Join(out.Replaced, name)); err != nil {
			return fmt.Errorf("restore: %w; the files moved before are in %s", err, out.Replaced)
		}
	}
	staged, err := os.ReadDir(stage)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for _, f := range staged {
		if err := os.Rename(filepath.Join(stage, f.Name()), filepath.Join(o.Dir, f.Name())); err != nil {
			return fmt.Errorf("restore: %w; the previous journal is in %s", err, out.Replaced)
		}
	}
	return audit.SyncDir(o.Dir)
}

// replacedFiles names the files of the present journal in dir, and the keys there that
// differ from staged ones.
func replacedFiles(stage, dir string) (journal, keys []string, err error) {
	entries, err := os.ReadDir(dir) // no pattern: the directory's name may hold its characters
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), JournalFile) {
			journal = append(journal, e.Name())
		}
	}
	for _, name := range []string{audit.KeyFile, audit.PublicKeyFile} {
		present, err := readRegular(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, nil, err
		}
		staged, err := readRegular(filepath.Join(stage, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, nil, err
		case !bytes.Equal(present, staged):
			keys = append(keys, name)
		}
	}
	return journal, keys, nil
}

// maxKeyBytes is more than any key has.
const maxKeyBytes = 64 << 10

// readRegular reads a key's file. It waits for nobody who writes to a pipe.
func readRegular(file string) ([]byte, error) {
	f, err := config.OpenRegular(file)
	if err != nil {
		return nil, err
	}
	data, err := config.ReadAtMost(f, maxKeyBytes)
	return data, errors.Join(err, f.Close())
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// copyFile copies a file and syncs the copy, which only its owner may read.
func copyFile(from, to string) error {
	in, err := config.OpenRegular(from)
	if err != nil {
		return err
	}
	return errors.Join(audit.WriteNew(to, in), in.Close())
}
