package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// backupNote is the name of the file that describes a backup.
const backupNote = "backup.json"

// backupFlags are the flags of backup.
type backupFlags struct {
	client  client.Client
	key     string // public
	withKey string // private
}

const backupLong = `Copy the journal of a running service into a new directory, with what a restore
needs: journal.db, signed to its last entry, journal.pub, and backup.json, which names
the segments of the archive that the journal refers to. The segments are not copied:
back journal.archive up separately. The copy is verified before the directory gets its
name, so the directory always holds a complete backup. It needs the scope admin.

The backup contains the private key only with --with-key, which names its file. A
restore needs that key. Whoever has it can sign a forged log.`

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
	cmd.Flags().StringVar(&f.withKey, "with-key", "", "file with the private key, to include it in the backup")
	out.AddFlag(cmd)
	return cmd
}

// make writes the backup under a temporary name and renames it when it is complete.
func (f *backupFlags) make(ctx context.Context, dir string) (b api.Backup, err error) {
	if _, err := os.Lstat(dir); err == nil {
		return b, fmt.Errorf("%s exists; name a directory that does not exist", dir)
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*")
	if err != nil {
		return b, fmt.Errorf("make the backup %s: %w; name a directory whose parent exists and can be written", dir, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	file := filepath.Join(temp, app.JournalFile)
	if _, err := exportJournal(ctx, &f.client, file, false); err != nil {
		return b, fmt.Errorf("no backup was made in %s: %w", dir, err)
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
	if err := audit.SyncDir(temp); err != nil {
		return b, fmt.Errorf("make the backup: %w", err)
	}
	if err := os.Rename(temp, dir); err != nil { // never over a directory with files
		return b, fmt.Errorf("make the backup: %w", err)
	}
	if err := audit.SyncDir(filepath.Dir(dir)); err != nil {
		return b, fmt.Errorf("make the backup: %w", err)
	}
	b.Dir = dir
	return b, nil
}

// describe verifies the copy, writes the keys next to it and returns its description.
func (f *backupFlags) describe(ctx context.Context, file string) (b api.Backup, err error) {
	check, err := app.SelfChecker()
	if err != nil {
		return b, err
	}
	r, err := audit.OpenReader(ctx, file, check)
	if err != nil {
		return b, fmt.Errorf("read the copy: %w; no backup was made", err)
	}
	b = api.Backup{Made: time.Now().UTC(), Version: app.ReadBuildInfo().Version, Segments: []api.JournalSegment{}}
	public := r.PublicKey()
	err = describeLog(r, &b)
	if err = errors.Join(err, r.Close()); err != nil {
		return b, err
	}
	if f.key != "" {
		text, err := readNote("public key", f.key, "--key names the "+audit.PublicKeyFile+" that 'responder serve' wrote next to its journal")
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
		return b, fmt.Errorf("the copy is not intact: %s; no backup was made", runview.Cell(report.FirstBad.String()))
	case report.Overdue != "":
		return b, fmt.Errorf("the copy is not proven: %s; no backup was made; the service cannot sign now: see its log", report.Overdue)
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

// addKey copies the private key, which must be the one that the copy is signed with.
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
	fmt.Fprintln(f.client.Process.Stderr, "responder: the backup contains the private key: whoever has it can sign a forged log")
	return audit.WriteNew(filepath.Join(filepath.Dir(file), audit.KeyFile), bytes.NewReader(text))
}

func writeBackup(w io.Writer, b api.Backup) error {
	fmt.Fprintf(w, "backup: %s\n  origin    %s\n  entries   %d, all signed, the last of %s\n", b.Dir, b.Origin, b.Entries, runview.Time(b.Last))
	if n := len(b.Segments); n > 0 {
		fmt.Fprintf(w, "  archive   %s, not in the backup: back journal.archive up separately\n", runview.Count(n, "segment"))
	}
	if !b.Key {
		fmt.Fprintf(w, "  key       not in the backup: keep %s elsewhere; a restore needs it\n", audit.KeyFile)
	}
	_, err := fmt.Fprintf(w, "verify it with: responder audit verify %s --key %s\n", filepath.Join(b.Dir, app.JournalFile), audit.PublicKeyFile)
	return err
}
