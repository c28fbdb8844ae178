package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

// backupNote is the name of the file that says what a backup has.
const backupNote = "backup.json"

// backupFlags are what backup is asked.
type backupFlags struct {
	client  client.Client
	key     string // public
	withKey string // private
	force   bool
}

const backupLong = `Copy the journal of a running service into a new directory, with what is needed to
come back: journal.db, signed to its last entry, journal.pub, and backup.json, which
names the segments of the archive that the journal refers to. The segments are not
copied: back journal.archive up by itself. The copy is verified before the directory
gets its name, so a directory that is there is whole. It needs the scope admin.

The private key is in the backup only with --with-key, which names its file. Without
it nobody can restore, and whoever has it can sign another log in the place of yours.`

func newBackupCommand(p *command.Process) *cobra.Command {
	f := backupFlags{client: client.Client{Process: p}}
	var out command.Output
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy the journal of a running service into a directory, verified",
		Long:  backupLong,
		Args:  one("DIR: the directory to make"),
		Example: `  responder backup /mnt/backup/2026-11-01
  responder backup /mnt/backup/2026-11-01 --key journal.pub
  responder backup /mnt/safe/2026-11-01 --with-key data/journal.key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := f.make(cmd.Context(), filepath.Clean(args[0]))
			if err != nil {
				return err
			}
			return out.Print(p.Stdout, b, func(w io.Writer) error { return writeBackup(w, b) })
		},
	}
	f.client.AddFlags(cmd)
	cmd.Flags().StringVar(&f.key, "key", "", "file with the public key that the copy must be signed with (default: the one that the service's journal names)")
	cmd.Flags().StringVar(&f.withKey, "with-key", "", "file with the private key, to have it in the backup")
	cmd.Flags().BoolVar(&f.force, "force", false, "replace the directory when it is a backup")
	out.AddFlag(cmd)
	return cmd
}

// make makes the backup under another name, and renames it when it is whole.
func (f *backupFlags) make(ctx context.Context, dir string) (b api.Backup, err error) {
	if err := f.mayMake(dir); err != nil {
		return b, err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*")
	if err != nil {
		return b, fmt.Errorf("make the backup: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	file := filepath.Join(temp, app.JournalFile)
	if _, err := exportJournal(ctx, &f.client, file, false); err != nil {
		return b, err
	}
	if b, err = f.describe(ctx, file); err != nil {
		return b, err
	}
	note, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return b, fmt.Errorf("make the backup: %w", err)
	}
	if err := audit.WriteNew(filepath.Join(temp, backupNote), bytes.NewReader(append(note, '\n'))); err != nil {
		return b, fmt.Errorf("make the backup: %w", err)
	}
	if err := f.place(temp, dir); err != nil {
		return b, fmt.Errorf("make the backup: %w", err)
	}
	b.Dir = dir
	return b, nil
}

// mayMake refuses a directory that is there, unless it is a backup that may be replaced.
func (f *backupFlags) mayMake(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("make the backup: %w", err)
	}
	_, err := os.Stat(filepath.Join(dir, backupNote))
	switch {
	case err != nil:
		return fmt.Errorf("%s exists and is no backup; name a directory that does not exist", dir)
	case !f.force:
		return fmt.Errorf("%s is a backup; name another directory, or replace it with --force", dir)
	}
	return nil
}

// describe verifies the copy, puts the keys beside it and says what it has.
func (f *backupFlags) describe(ctx context.Context, file string) (b api.Backup, err error) {
	check, err := app.SelfChecker()
	if err != nil {
		return b, err
	}
	r, err := audit.OpenReader(ctx, file, check)
	if err != nil {
		return b, fmt.Errorf("the copy cannot be read, and is not kept: %w", err)
	}
	b = api.Backup{Made: time.Now().UTC(), Version: app.ReadBuildInfo().Version, Segments: []api.JournalSegment{}}
	public := r.PublicKey()
	err = describeLog(r, &b)
	if err = errors.Join(err, r.Close()); err != nil {
		return b, err
	}
	if f.key != "" {
		text, err := readNote("public key", f.key, "--key names the "+audit.PublicKeyFile+" that 'responder serve' wrote beside its journal")
		if err != nil {
			return b, err
		}
		public = strings.TrimSpace(string(text))
	}
	report, err := audit.Verify(ctx, file, public, audit.VerifyOptions{Checker: check})
	switch {
	case err != nil:
		return b, err
	case !report.OK():
		return b, fmt.Errorf("the copy is not intact, and is not kept: %s", runview.Cell(report.FirstBad.String()))
	case report.Overdue != "":
		return b, fmt.Errorf("the copy is not proven, and is not kept: %s; the service cannot sign now: see its log", report.Overdue)
	}
	b.Origin, b.Entries, b.Root = report.Origin, report.Entries, report.Root
	if err := audit.WriteNew(filepath.Join(filepath.Dir(file), audit.PublicKeyFile), strings.NewReader(public+"\n")); err != nil {
		return b, fmt.Errorf("make the backup: %w", err)
	}
	return b, f.addKey(file, &b)
}

// describeLog adds the time of the last entry, and the segments of the archive.
func describeLog(r *audit.Reader, b *api.Backup) error {
	s, err := r.Status()
	if err != nil {
		return err
	}
	for _, x := range s.Segments {
		b.Segments = append(b.Segments, app.SegmentOf(x))
	}
	if s.Entries == 0 {
		return nil
	}
	for rec, err := range r.Log(s.Entries - 1) {
		if err != nil && !errors.Is(err, audit.ErrArchived) {
			return err
		}
		b.Last = rec.Time.UTC()
	}
	return nil
}

// addKey copies the private key, which must be that of the copy.
func (f *backupFlags) addKey(file string, b *api.Backup) error {
	if f.withKey == "" {
		return nil
	}
	text, err := readNote("private key", f.withKey, "--with-key names the "+audit.KeyFile+" of the service")
	if err != nil {
		return err
	}
	if err := audit.CheckKey(file, string(text)); err != nil {
		return fmt.Errorf("--with-key %s: %w", f.withKey, err)
	}
	b.Key = true
	fmt.Fprintln(f.client.Process.Stderr, "responder: the private key is in the backup: whoever has it can sign another log in the place of yours")
	return audit.WriteNew(filepath.Join(filepath.Dir(file), audit.KeyFile), bytes.NewReader(text))
}

// place gives the backup its name.
func (f *backupFlags) place(temp, dir string) (err error) {
	if err := audit.SyncDir(temp); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = audit.SyncDir(filepath.Dir(dir))
		}
	}()
	if !f.force {
		if _, err := os.Lstat(dir); err == nil {
			return fmt.Errorf("%s came into being meanwhile", dir)
		}
		return os.Rename(temp, dir)
	}
	old := temp + "-old"
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(temp, dir); err != nil {
		return errors.Join(err, os.Rename(old, dir))
	}
	return os.RemoveAll(old)
}

func writeBackup(w io.Writer, b api.Backup) error {
	fmt.Fprintf(w, "backup: %s\n  origin    %s\n  entries   %d, all signed, the last of %s\n", b.Dir, b.Origin, b.Entries, runview.Time(b.Last))
	if n := len(b.Segments); n > 0 {
		fmt.Fprintf(w, "  archive   %s, which are not in the backup: back journal.archive up by itself\n", runview.Count(n, "segment"))
	}
	if !b.Key {
		fmt.Fprintf(w, "  key       not in the backup: keep %s somewhere else, or nobody can restore it\n", audit.KeyFile)
	}
	_, err := fmt.Fprintf(w, "verify it with: responder audit verify %s --key %s\n", filepath.Join(b.Dir, app.JournalFile), audit.PublicKeyFile)
	return err
}
