package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor"
)

// liveJournal is a journal that a service has open.
type liveJournal struct {
	*audit.Journal

	dir string
}

func newLiveJournal(t *testing.T) *liveJournal {
	t.Helper()
	dir := t.TempDir()
	j, err := audit.Open(filepath.Join(dir, JournalFile), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &liveJournal{j, dir}
}

func (j *liveJournal) add(t *testing.T, stream string, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		if _, err := j.Append(t.Context(), audit.Append{Stream: stream, After: audit.Any, Records: []audit.Record{{Kind: kind, Data: json.RawMessage(`{}`)}}}); err != nil {
			t.Fatal(err)
		}
	}
}

// backup copies the journal as the service does.
func (j *liveJournal) backup(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Snapshot(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (j *liveJournal) options(t *testing.T, backup string) RestoreOptions {
	t.Helper()
	public, err := os.ReadFile(filepath.Join(j.dir, audit.PublicKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	return RestoreOptions{Backup: backup, Dir: j.dir, Key: filepath.Join(j.dir, audit.KeyFile), Public: strings.TrimSpace(string(public)), Now: time.Now()}
}

// TestBackupWhileEntriesComeIn: a copy that is made while entries come in is whole and
// signed, and is restored with a pause; what came later is not in it.
func TestBackupWhileEntriesComeIn(t *testing.T) {
	j := newLiveJournal(t)
	j.add(t, "run/r-ended", "run.started", "run.ended", "decision.ignored")
	j.add(t, "run/r-open", "run.started", "gate.opened")
	j.add(t, "run/r-clicked", "run.started", "gate.opened", "decision.ignored")
	stop, done := make(chan struct{}), sync.WaitGroup{}
	for n := range 4 {
		done.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					j.add(t, fmt.Sprint("noise/", n), "x")
				}
			}
		})
	}
	var copies []string
	for range 3 {
		copies = append(copies, j.backup(t))
	}
	close(stop)
	done.Wait()
	j.add(t, "noise/0", "later")
	if _, err := RestoreJournal(t.Context(), j.options(t, copies[0])); !errors.Is(err, audit.ErrLocked) {
		t.Fatalf("under a running service: %v", err)
	}
	size := j.Size()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, backup := range copies {
		o := j.options(t, backup)
		o.Dir = t.TempDir()
		got, err := RestoreJournal(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var open []string
		for _, r := range got.Open {
			open = append(open, r.Run)
		}
		if !slices.Equal(open, []string{"r-clicked", "r-open"}) || got.Entries == 0 || got.Entries >= size || got.Last.IsZero() || got.Lost != 0 || got.Replaced != "" {
			t.Errorf("restored %+v", got)
		}
		restored(t, o, got.Entries)
	}
}

// restored verifies what was restored, and that it has one entry more, the pause.
func restored(t *testing.T, o RestoreOptions, entries uint64) {
	t.Helper()
	file := filepath.Join(o.Dir, JournalFile)
	report, err := audit.Verify(t.Context(), file, o.Public, audit.VerifyOptions{})
	if err != nil || !report.OK() || report.Overdue != "" || report.Entries != entries+1 {
		t.Fatalf("restored: %+v, %v", report, err)
	}
	j, err := audit.Open(file, audit.Options{Key: o.Key})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for rec, err := range j.Log(entries) {
		var p executor.Pause
		if err != nil || rec.Kind != executor.KindPauseSet || rec.Stream != controlStream || json.Unmarshal(rec.Data, &p) != nil || p.Scope != (executor.Scope{}) || p.By == "" || p.Since.IsZero() {
			t.Errorf("the last entry is %+v, %v", rec, err)
		}
	}
}

// TestRestoreReplacesNothingByAccident: a journal that knows more, is another log or
// cannot be read stays, unless that is meant; then it is moved aside.
func TestRestoreReplacesNothingByAccident(t *testing.T) {
	j := newLiveJournal(t)
	j.add(t, "noise", "a", "b")
	older := j.backup(t)
	j.add(t, "noise", "c")
	same := j.backup(t)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(j.dir, JournalFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := newLiveJournal(t)
	other.add(t, "noise", "a")
	foreign := other.backup(t)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	untouched := func(what string) {
		t.Helper()
		now, err := os.ReadFile(file)
		left, _ := filepath.Glob(filepath.Join(j.dir, ".restore-*"))
		if err != nil || !slices.Equal(now, whole) || len(left) > 0 {
			t.Errorf("%s: the journal was changed, or %v is left (%v)", what, left, err)
		}
	}

	if _, err := RestoreJournal(t.Context(), j.options(t, older)); !errors.Is(err, ErrReplaces) {
		t.Errorf("one that knows more: %v", err)
	}
	untouched("one that knows more")
	if _, err := RestoreJournal(t.Context(), j.options(t, foreign)); err == nil {
		t.Error("a backup of another log was restored")
	}
	untouched("a backup of another log")
	o := j.options(t, older)
	o.Force, o.Key = true, filepath.Join(other.dir, audit.KeyFile)
	if _, err := RestoreJournal(t.Context(), o); err == nil {
		t.Error("restored with a key that does not sign it")
	}
	untouched("another log's key")
	broken := t.TempDir()
	damaged := slices.Clone(whole)
	for i := 8 << 10; i < len(damaged); i++ {
		damaged[i] = 0xa5
	}
	if err := os.WriteFile(filepath.Join(broken, JournalFile), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	o = j.options(t, broken)
	o.Force = true
	if _, err := RestoreJournal(t.Context(), o); err == nil {
		t.Error("a damaged backup was restored")
	}
	untouched("a damaged backup")

	// The same log, no older: that is what a backup is for.
	got, err := RestoreJournal(t.Context(), j.options(t, same))
	if err != nil || got.Lost != 0 || got.Entries != 3 {
		t.Fatalf("no older: %+v, %v", got, err)
	}
	restored(t, j.options(t, same), 3)
	if kept, err := os.ReadFile(filepath.Join(got.Replaced, JournalFile)); err != nil || !slices.Equal(kept, whole) {
		t.Errorf("the journal before is not in %s: %v", got.Replaced, err)
	}

	// Older, or in the place of a damaged one: only if that is meant.
	if err := os.WriteFile(file, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	o = j.options(t, older)
	if _, err := RestoreJournal(t.Context(), o); !errors.Is(err, ErrReplaces) {
		t.Errorf("one that cannot be read: %v", err)
	}
	o.Force, o.Now = true, o.Now.Add(time.Minute)
	if got, err := RestoreJournal(t.Context(), o); err != nil || got.Entries != 2 {
		t.Errorf("forced: %+v, %v", got, err)
	}
	restored(t, o, 2)
}

// TestRestoreIntoAnyDirectory: a directory whose name looks like a pattern loses nothing.
func TestRestoreIntoAnyDirectory(t *testing.T) {
	j := newLiveJournal(t)
	j.add(t, "noise", "a")
	o := j.options(t, j.backup(t))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	o.Dir, o.Force = filepath.Join(t.TempDir(), "j[1]"), true
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, JournalFile), []byte("what was there"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := RestoreJournal(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(filepath.Join(got.Replaced, JournalFile)); err != nil || string(kept) != "what was there" {
		t.Errorf("what was there is not in %q: %v", got.Replaced, err)
	}
}

// TestRestoreKeepsReplacedKeys: the private key of a log that a restore replaces is the
// only one that can continue that log, so it is kept with it.
func TestRestoreKeepsReplacedKeys(t *testing.T) {
	j, other := newLiveJournal(t), newLiveJournal(t)
	for _, l := range []*liveJournal{j, other} {
		l.add(t, "noise", "a")
	}
	backup := other.backup(t)
	if err := errors.Join(j.Close(), other.Close(), copyFile(filepath.Join(other.dir, audit.KeyFile), filepath.Join(backup, audit.KeyFile))); err != nil {
		t.Fatal(err)
	}
	o := other.options(t, backup)
	o.Dir, o.Key, o.Force = j.dir, backup+"/../"+filepath.Base(backup)+"/"+audit.KeyFile, true // the same, in other words
	before := map[string][]byte{}
	for _, name := range []string{JournalFile, audit.KeyFile, audit.PublicKeyFile} {
		text, err := os.ReadFile(filepath.Join(j.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = text
	}
	got, err := RestoreJournal(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range before {
		if kept, err := os.ReadFile(filepath.Join(got.Replaced, name)); err != nil || !slices.Equal(kept, text) {
			t.Errorf("%s is not kept in %s: %v", name, got.Replaced, err)
		}
	}
	o.Key = ""
	restored(t, o, got.Entries)
}

// TestRestoreWaitsForNoPipe: a pipe in the place of a file is refused, and not waited for.
func TestRestoreWaitsForNoPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(pipe, pipe+".copy"); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("a pipe is copied: %v", err)
	}
	j := newLiveJournal(t)
	j.add(t, "noise", "a")
	o := j.options(t, j.backup(t))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for name, force := range map[string]bool{JournalFile: false, audit.KeyFile: true} {
		o.Dir, o.Force = t.TempDir(), force
		o.Key = filepath.Join(j.dir, audit.KeyFile)
		if name == audit.KeyFile { // of a backup with the key in it
			inside := filepath.Join(o.Backup, name)
			if err := copyFile(o.Key, inside); err != nil {
				t.Fatal(err)
			}
			o.Key = inside
		}
		if err := syscall.Mkfifo(filepath.Join(o.Dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := RestoreJournal(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is no regular file") {
			t.Errorf("a pipe %s is there: %v", name, err)
		}
	}
	o.Dir, o.Force, o.Key = t.TempDir(), true, filepath.Join(j.dir, audit.KeyFile)
	if err := syscall.Mkfifo(filepath.Join(o.Dir, JournalFile), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := RestoreJournal(t.Context(), o)
	if err != nil {
		t.Fatalf("with --force: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(got.Replaced, JournalFile)); err != nil {
		t.Errorf("the pipe is not put aside: %v", err)
	}
}

// TestRestoredCopyIsVerified: a backup that is another one by the time it is copied is not
// restored, be it edited, of another log, or an older one of the same log.
func TestRestoredCopyIsVerified(t *testing.T) {
	j := newLiveJournal(t)
	j.add(t, "noise", "a")
	older := j.backup(t)
	j.add(t, "noise", "bbbbbbbbbbbb")
	good := j.backup(t)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	other := newLiveJournal(t)
	other.add(t, "noise", "a", "b")
	foreign := other.backup(t)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	o := j.options(t, good)
	source := filepath.Join(good, JournalFile)
	report, err := audit.Verify(t.Context(), source, o.Public, audit.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	edited := filepath.Join(t.TempDir(), JournalFile)
	if err := os.WriteFile(edited, bytes.ReplaceAll(data, []byte("bbbbbbbbbbbb"), []byte("cccccccccccc")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		source string
		ok     bool
	}{"the same": {source, true}, "edited": {edited, false}, "of another log": {filepath.Join(foreign, JournalFile), false}, "older": {filepath.Join(older, JournalFile), false}} {
		err := copyVerified(t.Context(), tt.source, filepath.Join(t.TempDir(), JournalFile), report, o.Public, nil)
		if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "changed while it was restored") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
