package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

func newJournalCommand(p *command.Process) *cobra.Command {
	return group("journal", "Archive what is old in the journal, and put it back",
		newJournalStatusCommand(p), newJournalArchiveCommand(p), newJournalRestoreCommand(p), newJournalCompactCommand(p))
}

func newJournalStatusCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	var file string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is in the journal and in its archive",
		Args:  none,
		Example: `  responder journal status
  responder journal status -o json
  responder journal status --file data/journal.db`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s api.JournalStatus
			if file == "" {
				if err := c.Get(cmd.Context(), client.JournalPath, nil, &s); err != nil {
					return err
				}
			} else {
				var err error
				if err = wantJournal(file); err == nil {
					s, err = app.JournalStatus(cmd.Context(), file)
				}
				if err != nil {
					return journalAdvice(err)
				}
			}
			return out.Print(p.Stdout, s, func(w io.Writer) error { return writeJournalStatus(w, s, file == "") })
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().StringVar(&file, "file", "", "read this copy of a journal, or the file of a stopped service, instead of asking a service")
	out.AddFlag(cmd)
	return cmd
}

func writeJournalStatus(w io.Writer, s api.JournalStatus, service bool) error {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-11s%s\n", name, fmt.Sprintf(format, args...))
	}
	line("origin", "%s", s.Origin)
	line("entries", "%d, of which %d have their bodies in the archive alone", s.Entries, s.Archived)
	line("file", "%s", mebibytes(s.Bytes))
	if !s.Oldest.IsZero() {
		line("oldest", "%s, of what is not archived", runview.Time(s.Oldest))
	}
	if service {
		line("keep", "%s", s.Keep)
		line("archive", "%s", runview.OrText(s.Archive, "none"))
	}
	if n := len(s.Segments); n > 0 {
		size := int64(0)
		for _, x := range s.Segments {
			size += x.Bytes
		}
		line("segments", "%d of %s, up to entry %d; the last is %s", n, mebibytes(size), s.Segments[n-1].Last, s.Segments[n-1].Segment)
	} else {
		line("segments", "none")
	}
	if s.Next != nil {
		line("next", "%s", stretchText(*s.Next))
	}
	if s.Waits != "" {
		line("waits", "%s", s.Waits)
	}
	if s.Failed != nil {
		line("FAILED", "%s: %s", runview.Time(s.Failed.At), s.Failed.Message)
	}
	return nil
}

// mebibytes is a size for people.
func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// stretchText describes a stretch of the log.
func stretchText(s api.JournalStretch) string {
	text := fmt.Sprintf("entries %d to %d, from %s to %s: %d bodies, of %s, %s and %s", s.First, s.Last, runview.Time(s.From), runview.Time(s.To),
		s.Bodies, runview.Count(s.Notifications, "notification"), runview.Count(s.Decisions, "decision"), runview.Count(s.Runs, "run"))
	if s.Kept > 0 {
		text += fmt.Sprintf("; %s stay, because people are still to be told of them", runview.Count(s.Kept, "ended run"))
	}
	return text
}

// archiveFlags are what journal archive is asked.
type archiveFlags struct {
	dryRun       bool
	config       string
	dir, archive string
	keep         string
	journal      config.Journal
}

func newJournalArchiveCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	f := archiveFlags{keep: playbook.FormatDuration(config.Default().Journal.Keep)}
	cmd := &cobra.Command{
		Use:   "archive [--dry-run]",
		Short: "Archive now what is old enough, as the service does every hour",
		Long: `Move what is older than journal.keep from the journal into segments of
journal.archive. The service does it every hour for the entries of a day and more;
this does it now, for less too. Each segment is written, read back and recorded in
the journal before the bodies of its notifications, of decisions about their alerts
and of ended runs leave the file.
Their hashes stay. The file does not shrink: what is free in it is used again, and
'responder journal compact' gives it back.

With --config or --dir it works on the journal of a service that is stopped.`,
		Args: none,
		Example: `  responder journal archive --dry-run
  responder journal archive
  responder journal archive --config responder.yaml
  responder journal archive --dir data --archive /mnt/archive --keep 90d`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			done, err := f.run(cmd, &c)
			if err != nil {
				return err
			}
			return out.Print(p.Stdout, done, func(w io.Writer) error { return writeArchived(w, done, f.dryRun) })
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only say what would be archived")
	cmd.Flags().StringVar(&f.config, "config", "", "configuration of a stopped service, which names its journal and archive")
	cmd.Flags().StringVar(&f.dir, "dir", "", "directory of the journal of a stopped service, instead of asking a service")
	cmd.Flags().StringVar(&f.archive, "archive", "", "with --dir: directory of the archive")
	cmd.Flags().StringVar(&f.keep, "keep", f.keep, "with --dir: age from which entries are archived, like 90d")
	out.AddFlag(cmd)
	return cmd
}

// run archives stretch after stretch.
func (f *archiveFlags) run(cmd *cobra.Command, c *client.Client) (out api.JournalArchived, err error) {
	step := func(ctx context.Context, q api.JournalArchiveRequest) (a api.JournalArchive, err error) {
		return a, c.Send(ctx, http.MethodPost, client.ArchivePath, q, &a)
	}
	if err := f.configured(cmd); err != nil {
		return out, err
	}
	switch {
	case f.dir == "" && (f.archive != "" || cmd.Flags().Changed("keep")):
		return out, errors.New("--archive and --keep go with --dir: a service has its own configuration")
	case f.dir != "" && f.archive == "":
		return out, errors.New("missing --archive: the directory of the archive")
	case f.dir != "":
		if err := wantJournal(filepath.Join(f.dir, app.JournalFile)); err != nil {
			return out, err
		}
		keep, err := playbook.ParseDuration(f.keep)
		if err != nil {
			return out, fmt.Errorf("--keep: %w", err)
		}
		f.journal.Dir, f.journal.Archive, f.journal.Keep = f.dir, f.archive, keep
		j, err := app.OpenStoppedJournal(f.journal)
		if err != nil {
			return out, journalAdvice(err)
		}
		defer func() { err = errors.Join(err, j.Close()) }()
		step = j.Archive
	}
	out.Stretches = []api.JournalStretch{}
	for q := (api.JournalArchiveRequest{DryRun: f.dryRun}); ; {
		a, err := step(cmd.Context(), q)
		if err != nil {
			return out, err
		}
		out.Waits = a.Waits
		if a.Stretch == nil {
			return out, nil
		}
		out.Stretches = append(out.Stretches, *a.Stretch)
		q.From = a.Stretch.Last + 1
	}
}

// configured takes over what the configuration of a stopped service says.
func (f *archiveFlags) configured(cmd *cobra.Command) error {
	if f.config == "" {
		return nil
	}
	if f.dir != "" || f.archive != "" || cmd.Flags().Changed("keep") {
		return errors.New("--dir, --archive and --keep say what --config does: leave them or --config out")
	}
	c, err := config.Load(f.config)
	if err != nil {
		return err
	}
	if c.Journal.Archive == "" {
		return fmt.Errorf("%s: journal.archive is not set: name the directory of the archive", c.File)
	}
	f.journal = c.Journal
	f.dir, f.archive, f.keep = c.Journal.Dir, c.Journal.Archive, playbook.FormatDuration(c.Journal.Keep)
	return nil
}

func writeArchived(w io.Writer, a api.JournalArchived, dryRun bool) error {
	for _, s := range a.Stretches {
		if dryRun {
			fmt.Fprintf(w, "would archive %s\n", stretchText(s))
		} else {
			fmt.Fprintf(w, "archived %s\n  in %s\n", stretchText(s), s.Segment)
		}
	}
	if len(a.Stretches) == 0 {
		_, err := fmt.Fprintf(w, "nothing to archive: %s\n", a.Waits)
		return err
	}
	_, err := fmt.Fprintf(w, "no more: %s\n", a.Waits)
	return err
}

func newJournalRestoreCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var file, key string
	cmd := &cobra.Command{
		Use:   "restore SEGMENT... --file FILE",
		Short: "Put archived bodies back into a copy of the journal",
		Long: `Put the bodies of segments back into a journal's file: into a copy, or into the
journal of a service that is stopped. A segment must verify with the public key, and
each of its entries must have the hash that the file has in its place; else nothing is
written. The service does not archive again what was restored. 'responder audit export'
makes a copy, and 'responder audit list --file' reads it.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return missing("SEGMENT; 'responder journal status' and 'responder runs show' name segments, which are files of journal.archive")
			}
			return nil
		},
		Example: `  responder journal restore /mnt/archive/1a2b3c4d-000000000000-000000065536.segment --file copy.db --key journal.pub`,
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := restoreJournal(cmd.Context(), p, file, key, args)
			if err != nil {
				return err
			}
			err = out.Print(p.Stdout, done, func(w io.Writer) error { return writeRestored(w, done) })
			if n := len(done); err == nil && n > 0 && !done[n-1].Segment.Intact {
				return command.ExitCode(command.ExitError)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "file of the journal to restore into")
	cmd.Flags().StringVar(&key, "key", "", "file with the public key (default: journal.pub beside FILE)")
	out.AddFlag(cmd)
	return cmd
}

// restoreJournal restores segments, up to the first that is altered.
func restoreJournal(ctx context.Context, p *command.Process, file, key string, segments []string) ([]api.JournalRestored, error) {
	if file == "" {
		return nil, errors.New("missing --file: the journal to restore into, usually a copy made with 'responder audit export'")
	}
	if err := wantJournal(file); err != nil {
		return nil, err
	}
	check, err := app.SelfChecker()
	if err != nil {
		return nil, err
	}
	public, err := publicKey(p, file, key)
	if err != nil {
		return nil, err
	}
	done := []api.JournalRestored{}
	for _, segment := range segments {
		r, err := audit.Restore(ctx, file, segment, public, check)
		if err != nil {
			return done, journalAdvice(err)
		}
		done = append(done, api.JournalRestored{Segment: app.SegmentVerificationOf(r.Segment), Restored: r.Restored, Present: r.Present})
		if !r.Segment.OK() {
			break
		}
	}
	return done, nil
}

func writeRestored(w io.Writer, done []api.JournalRestored) error {
	for _, r := range done {
		if f := r.Segment.Finding; f != nil {
			fmt.Fprintf(w, "NOT INTACT: %s\nentries %d to %d: %s\nnothing of it was restored\n", r.Segment.File, f.Seq, f.Last, runview.Cell(f.Problem))
			continue
		}
		fmt.Fprintf(w, "restored: %s\n  entries %d to %d: %d bodies were put back, %d were there\n", r.Segment.File, r.Segment.First, r.Segment.Last, r.Restored, r.Present)
	}
	return nil
}

func newJournalCompactCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var dir string
	cmd := &cobra.Command{
		Use:   "compact --dir DIR",
		Short: "Rewrite the journal of a stopped service without its free pages",
		Long: `Rewrite the file of a journal without the pages that are free since its entries were
archived. The service must be stopped. The new file is compared with the old one
before it takes its place; the disk needs room for both. It is worth it once, after
the first archive of a large journal: later the service uses free pages again.`,
		Args:    none,
		Example: `  responder journal compact --dir data`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("missing --dir: the directory of the journal")
			}
			file := filepath.Join(dir, app.JournalFile)
			if err := wantJournal(file); err != nil {
				return err
			}
			check, err := app.SelfChecker()
			if err != nil {
				return err
			}
			done := api.JournalCompacted{File: file}
			if done.Before, done.After, err = audit.Compact(cmd.Context(), file, check); err != nil {
				return journalAdvice(err)
			}
			return out.Print(p.Stdout, done, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: %s, %s before\n", file, mebibytes(done.After), mebibytes(done.Before))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory of the journal")
	out.AddFlag(cmd)
	return cmd
}

// publicKey reads the public key that a file of the journal is verified with.
func publicKey(p *command.Process, file, key string) (string, error) {
	beside := key == ""
	if beside {
		key = filepath.Join(filepath.Dir(file), audit.PublicKeyFile)
	}
	public, err := readNote("public key", key, "--key names the "+audit.PublicKeyFile+" that 'responder serve' wrote beside its journal")
	if err != nil {
		return "", err
	}
	if beside {
		fmt.Fprintf(p.Stderr, "responder: using the key beside the file, %s: whoever can change one can change both\n", key)
	}
	return strings.TrimSpace(string(public)), nil
}
