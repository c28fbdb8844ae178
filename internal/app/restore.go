package app

import (
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
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// RestoreOptions is what a journal is restored from, and to where.
type RestoreOptions struct {
	Backup string // directory of a backup
	Dir    string // of the journal
	Key    string // file with the private key
	Public string // the public key that the backup must be signed with
	Force  bool   // also where the journal that is there has more than the backup, or cannot be read
	Now    time.Time
}

// ErrReplaces tells that a restore would replace what the service has. Test with errors.Is.
var ErrReplaces = errors.New("the journal that is there is not older than the backup")

// RestoreJournal puts the journal of a backup into the place of a stopped service's. It
// is verified first, opened as a service would, and gets a pause of everything: what
// happened after the backup is not known, so people look before anything acts. The
// journal that was there is moved into a directory beside, never removed. Until the last
// step everything is as it was.
func RestoreJournal(ctx context.Context, o RestoreOptions) (out api.Restored, err error) {
	check, err := SelfChecker()
	if err != nil {
		return out, err
	}
	source := filepath.Join(o.Backup, JournalFile)
	report, err := audit.Verify(ctx, source, o.Public, audit.VerifyOptions{Checker: check})
	switch {
	case err != nil:
		return out, err
	case !report.OK():
		return out, fmt.Errorf("%s is not intact: %s; nothing was restored", source, report.FirstBad)
	case report.Overdue != "":
		return out, fmt.Errorf("%s is not proven: %s; nothing was restored", source, report.Overdue)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return out, fmt.Errorf("restore: %w", err)
	}
	out = api.Restored{File: filepath.Join(o.Dir, JournalFile), Origin: report.Origin, Entries: report.Entries, Open: []api.RestoredRun{}, Segments: []string{}}
	present, err := presentJournal(ctx, &out, o)
	if err != nil {
		return out, err
	}
	if present != nil { // no service can begin with it before it is replaced
		defer func() { err = errors.Join(err, present.Close()) }()
	}
	stage, err := os.MkdirTemp(o.Dir, ".restore-")
	if err != nil {
		return out, fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	if err := copyFile(source, filepath.Join(stage, JournalFile)); err != nil {
		return out, fmt.Errorf("restore: %w", err)
	}
	if o.Key == filepath.Join(o.Backup, audit.KeyFile) { // it belongs beside the journal
		own := filepath.Join(stage, audit.KeyFile)
		if err := copyFile(o.Key, own); err != nil {
			return out, fmt.Errorf("restore: %w", err)
		}
		o.Key = own
	}
	if err := prepareRestored(ctx, filepath.Join(stage, JournalFile), o, check, &out); err != nil {
		return out, err
	}
	return out, takeOver(stage, o, &out)
}

// presentJournal looks at the journal that is there, and keeps it locked; nil: there is
// none, or it cannot be read.
func presentJournal(ctx context.Context, out *api.Restored, o RestoreOptions) (*audit.Reader, error) {
	if _, err := os.Lstat(out.File); errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none
	}
	check, err := SelfChecker()
	if err != nil {
		return nil, err
	}
	r, err := audit.OpenReader(ctx, out.File, check)
	switch {
	case errors.Is(err, audit.ErrLocked):
		return nil, err
	case err != nil && !o.Force:
		return nil, fmt.Errorf("%w, as far as can be told: it cannot be read (%w); --force replaces it all the same", ErrReplaces, err)
	case err != nil:
		return nil, nil //nolint:nilnil // it was asked for
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
		err = fmt.Errorf("%w: it is another log, %s, and the backup is of %s; --force replaces it all the same", ErrReplaces, s.Origin, out.Origin)
	case out.Lost > 0:
		err = fmt.Errorf("%w: it has %d entries, the backup has %d; --force replaces it, and the service then knows nothing of the last %d", ErrReplaces, s.Entries, out.Entries, out.Lost)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// prepareRestored opens the copy as a service would, lists what is open in it, and
// appends the pause.
func prepareRestored(ctx context.Context, file string, o RestoreOptions, check audit.Checker, out *api.Restored) (err error) {
	j, err := audit.Open(file, audit.Options{Checker: check, Key: o.Key})
	if err != nil {
		return fmt.Errorf("open the copy with the key %s: %w", o.Key, err)
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
		Reason: fmt.Sprintf("restored from a backup whose last entry is of %s: nothing later is known. Look at the open runs and their targets first", out.Last.Format(time.RFC3339)),
	})
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if _, err := j.Append(ctx, audit.Append{Stream: controlStream, After: audit.Any, Records: []audit.Record{{Kind: executor.KindPauseSet, Data: pause}}}); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// openRuns lists the runs that have not ended. One that is archived has.
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

// takeOver moves the journal that is there aside, with what was kept beside it, and the
// restored one into its place. A crash in between leaves both, and no journal in the
// place: a service then refuses to start.
func takeOver(stage string, o RestoreOptions, out *api.Restored) error {
	entries, err := os.ReadDir(o.Dir) // no pattern: the directory's name may hold its characters
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	var there []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), JournalFile) {
			there = append(there, filepath.Join(o.Dir, e.Name()))
		}
	}
	if len(there) > 0 {
		out.Replaced = filepath.Join(o.Dir, "replaced-"+o.Now.UTC().Format("20060102T150405Z"))
		if err := os.Mkdir(out.Replaced, 0o700); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	for _, file := range there {
		if err := os.Rename(file, filepath.Join(out.Replaced, filepath.Base(file))); err != nil {
			return fmt.Errorf("restore: %w; what was moved is in %s", err, out.Replaced)
		}
	}
	staged, err := os.ReadDir(stage)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for _, f := range staged {
		if err := os.Rename(filepath.Join(stage, f.Name()), filepath.Join(o.Dir, f.Name())); err != nil {
			return fmt.Errorf("restore: %w; the journal before is in %s", err, out.Replaced)
		}
	}
	return audit.SyncDir(o.Dir)
}

// copyFile copies a file and syncs the copy, which only its owner may read.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	return errors.Join(audit.WriteNew(to, in), in.Close())
}
