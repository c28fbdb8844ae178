package cli

import (
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
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/runview"
)

// restoreFlags are the flags of restore.
type restoreFlags struct {
	config, dir     string
	key, privateKey string
	force           bool
}

const restoreLong = `Replace the journal of a stopped service by that of a backup. The backup is verified
first, with the public key next to the service's journal or else with the one in the
backup. A journal that is in use is never replaced. One that has more entries than the
backup, is another log or cannot be read is replaced only with --force. The previous
journal, and keys that are replaced, are kept in the directory replaced-TIME.

The restored journal contains a pause of everything: decisions and changes after the
backup are not known, and runs that were open then are open again. Such a run first
reads the state of a change that it had begun, and does not make it twice. It does not
know changes that it made later. Check the open runs and their targets, cancel those
that are done, then lift the pause: responder unpause --reason TEXT.`

func newRestoreCommand(p *command.Process) *cobra.Command {
	var f restoreFlags
	var out command.Output
	cmd := &cobra.Command{
		Use:   "restore DIR --config FILE | --dir DIR",
		Short: "Replace the journal of a stopped service by that of a backup",
		Long:  restoreLong,
		Args:  one("DIR: a directory that 'responder backup' made"),
		Example: `  responder restore /mnt/backup/2026-11-01 --config responder.yaml
  responder restore /mnt/backup/2026-11-01 --dir data --private-key /keys/journal.key`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, checkpoints, err := f.options(p, filepath.Clean(args[0]))
			if err != nil {
				return err
			}
			done, err := app.RestoreJournal(cmd.Context(), o)
			if err != nil {
				return err
			}
			return out.Print(p.Stdout, done, func(w io.Writer) error { return writeRestoredJournal(w, done, checkpoints) })
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "", "configuration of the stopped service, which names its journal and key")
	cmd.Flags().StringVar(&f.dir, "dir", "", "directory of the journal, instead of a configuration")
	cmd.Flags().StringVar(&f.key, "key", "", "file with the public key that the backup must be signed with")
	cmd.Flags().StringVar(&f.privateKey, "private-key", "", "with --dir: file with the private key (default: journal.key in the directory, else in the backup)")
	cmd.Flags().BoolVar(&f.force, "force", false, "replace a journal that has more entries than the backup, is another log, or cannot be read")
	out.AddFlag(cmd)
	return cmd
}

// options returns what to restore where, and the directory of published checkpoints.
func (f *restoreFlags) options(p *command.Process, backup string) (o app.RestoreOptions, checkpoints string, err error) {
	o = app.RestoreOptions{Backup: backup, Dir: f.dir, Key: f.privateKey, Force: f.force, Now: time.Now()}
	switch {
	case f.config != "" && f.dir+f.privateKey != "":
		return o, "", errors.New("--config already names the directory and the key: leave out --dir and --private-key, or --config")
	case f.config == "" && f.dir == "":
		return o, "", errors.New("missing --config or --dir: the place of the journal")
	case f.config != "":
		c, err := config.Load(f.config)
		if err != nil {
			return o, "", err
		}
		o.Dir, o.Key, checkpoints = c.Journal.Dir, c.Journal.KeyFile, c.Journal.Checkpoints.Dir
	}
	if info, err := os.Stat(filepath.Join(backup, app.JournalFile)); err != nil {
		return o, "", fmt.Errorf("no backup in %s: %w; name a directory that 'responder backup' made", backup, err)
	} else if !info.Mode().IsRegular() {
		return o, "", fmt.Errorf("no backup in %s: its %s is no file; name a directory that 'responder backup' made", backup, app.JournalFile)
	}
	if o.Key == "" {
		o.Key = filepath.Join(o.Dir, audit.KeyFile)
		if inside := filepath.Join(backup, audit.KeyFile); !present(o.Key) && present(inside) {
			o.Key = inside
		}
	}
	if !present(o.Key) {
		return o, "", fmt.Errorf("missing private key %s, without which the service cannot sign: put it there, name it with --private-key or journal.key_file, or use a backup made with --with-key", o.Key)
	}
	key := f.key
	if key == "" {
		if key = filepath.Join(o.Dir, audit.PublicKeyFile); !present(key) {
			key = filepath.Join(backup, audit.PublicKeyFile)
			fmt.Fprintf(p.Stderr, "responder: verifying with the public key in the backup, %s: whoever can change the backup can change both\n", key)
		}
	}
	public, err := readNote("public key", key, "--key names the "+audit.PublicKeyFile+" of the service")
	o.Public = strings.TrimSpace(string(public))
	return o, checkpoints, err
}

func present(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func writeRestoredJournal(w io.Writer, r api.Restored, checkpoints string) error {
	fmt.Fprintf(w, "restored: %s\n  origin    %s\n  entries   %d, the last of %s: nothing later is known\n", r.File, r.Origin, r.Entries, runview.Time(r.Last))
	if r.Lost > 0 {
		fmt.Fprintf(w, "  lost      %s that the previous journal had\n", runview.Count(int(r.Lost), "entry")) //nolint:gosec // a count of entries fits
	}
	if r.Replaced != "" {
		fmt.Fprintf(w, "  previous  journal kept in %s\n", r.Replaced)
	}
	if n := len(r.Segments); n > 0 {
		fmt.Fprintf(w, "  archive   needs %s, up to %s\n", runview.Count(n, "segment"), r.Segments[n-1])
	}
	if checkpoints != "" {
		fmt.Fprintf(w, "  published move checkpoints over more than %d entries out of %s, or the start refuses the journal\n", r.Entries, checkpoints)
	}
	for _, x := range r.Open {
		fmt.Fprintf(w, "  open      run %s, at %s since %s\n", x.Run, x.Last, runview.Time(x.At))
	}
	_, err := fmt.Fprint(w, "Everything is paused. Start the service, check the open runs and their targets, and\ncancel those that are done; then: responder unpause --reason TEXT\n")
	return err
}
