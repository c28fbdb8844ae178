package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

func newAuditVerifyCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var key, checkpoint, file string
	cmd := &cobra.Command{
		Use:   "verify FILE | SEGMENT | DIR --key PUB",
		Short: "Verify offline that a copy of the journal, or its archive, is unaltered",
		Long: `Check every entry of a copied journal against the Merkle tree, and the tree
against the signed checkpoints in the file. No service is asked, and the public key is
all that is needed. An entry under a checkpoint that was edited, removed, inserted or
reordered is found and named. Entries after the last checkpoint anybody could have
written: where the service must have signed them, the log is NOT PROVEN. A log that
was cut back to an earlier checkpoint is found only with a checkpoint that was kept
elsewhere: give it with --checkpoint.

Of entries whose bodies are archived the file has the hashes, and is as intact as
before. A segment of the archive is verified by itself: its entries against the
signed checkpoint it ends at. Of a directory every segment of the journal is
verified, and that they follow each other. Entries that were redacted are named, with
who did it and why.

Exit codes:
  0  intact
  1  altered, or it cannot be examined
  2  not proven: entries are unsigned that the service signs after a minute`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && file != "" {
				return fmt.Errorf("%q and --file %q are both given; give one", args[0], file)
			}
			if len(args) == 0 && file == "" {
				return missing("FILE; " + whereJournals)
			}
			return atMostOne(cmd, args)
		},
		Example: `  responder audit verify journal.db --key journal.pub
  responder audit verify journal.db --key journal.pub --checkpoint kept.checkpoint
  responder audit verify /mnt/archive --key journal.pub`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				file = args[0]
			}
			if isArchive(file) {
				if checkpoint != "" {
					return errors.New("--checkpoint goes with a journal's file; a segment ends at a checkpoint of its own")
				}
				return verifyArchive(cmd, p, &out, file, key)
			}
			return verifyJournal(cmd, p, &out, file, key, checkpoint)
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "the copy to verify, instead of the argument")
	cmd.Flags().StringVar(&key, "key", "", "file with the public key (default: journal.pub beside FILE)")
	cmd.Flags().StringVar(&checkpoint, "checkpoint", "", "file with a checkpoint that was kept elsewhere")
	out.AddFlag(cmd)
	return cmd
}

func verifyJournal(cmd *cobra.Command, p *command.Process, out *command.Output, file, key, checkpoint string) error {
	options := audit.VerifyOptions{Progress: progressOf(p)}
	var err error
	if options.Checker, err = app.SelfChecker(); err != nil {
		return err
	}
	if err := wantJournal(file); err != nil {
		return err
	}
	public, err := publicKey(p, file, key)
	if err != nil {
		return err
	}
	if checkpoint != "" {
		if options.Checkpoint, err = readNote("checkpoint", checkpoint, "'responder audit checkpoint' prints one"); err != nil {
			return err
		}
	}
	report, err := audit.Verify(cmd.Context(), file, public, options)
	if err != nil {
		return journalAdvice(err)
	}
	err = out.Print(p.Stdout, app.VerificationOf(report), func(w io.Writer) error {
		return writeVerifyReport(w, file, report)
	})
	if err == nil && !report.OK() {
		return command.ExitCode(command.ExitError)
	}
	if err == nil && report.Overdue != "" {
		return command.ExitCode(command.ExitUnsigned)
	}
	return err
}

func writeVerifyReport(w io.Writer, file string, r audit.Report) error {
	standing, wrong, facts := app.VerificationWords(r)
	switch standing {
	case app.NotIntact:
		_, err := fmt.Fprintf(w, "%s: %s\n%s\n", standing, file, runview.Cell(wrong))
		return err
	case app.NotProven:
		fmt.Fprintf(w, "%s: %s\n%s 'responder audit export' of the running service is signed whole.\n", standing, file, wrong)
	default:
		fmt.Fprintf(w, "%s: %s\n", standing, file)
	}
	return writeFacts(w, facts)
}

func writeFacts(w io.Writer, facts [][2]string) error {
	for _, f := range facts {
		if _, err := fmt.Fprintf(w, "  %-12s %s\n", f[0], runview.Cell(f[1])); err != nil {
			return err
		}
	}
	return nil
}

// isArchive reports whether a path is a segment, or a directory of segments.
func isArchive(path string) bool {
	if strings.HasSuffix(path, audit.SegmentSuffix) {
		return true
	}
	found, err := filepath.Glob(filepath.Join(path, "*"+audit.SegmentSuffix))
	return err == nil && len(found) > 0
}

func verifyArchive(cmd *cobra.Command, p *command.Process, out *command.Output, path, key string) error {
	public, err := publicKey(p, path, key)
	if err != nil {
		return err
	}
	var all []audit.SegmentReport
	if strings.HasSuffix(path, audit.SegmentSuffix) {
		var r audit.SegmentReport
		r, err = audit.VerifySegment(cmd.Context(), path, public)
		all = append(all, r)
	} else {
		all, err = audit.VerifySegments(cmd.Context(), path, public)
	}
	if err != nil {
		return err
	}
	found := make([]api.SegmentVerification, len(all))
	for i := range all {
		found[i] = app.SegmentVerificationOf(all[i])
	}
	err = out.Print(p.Stdout, found, func(w io.Writer) error { return writeSegmentReports(w, all) })
	if err == nil && slices.ContainsFunc(all, func(r audit.SegmentReport) bool { return !r.OK() }) {
		return command.ExitCode(command.ExitError)
	}
	return err
}

func writeSegmentReports(w io.Writer, all []audit.SegmentReport) error {
	for _, r := range all {
		if !r.OK() {
			fmt.Fprintf(w, "NOT INTACT: %s\n%s\n", r.File, runview.Cell(r.FirstBad.String()))
			continue
		}
		fmt.Fprintf(w, "intact: %s\n", r.File)
		fmt.Fprintf(w, "  entries      %d to %d of %s, from %s to %s\n", r.First, r.Last, r.Origin, runview.Time(r.From), runview.Time(r.To))
		fmt.Fprintf(w, "  sha256       %s\n", r.Digest)
		for _, x := range r.Redacted {
			if err := writeFacts(w, [][2]string{app.RedactionWords(x)}); err != nil {
				return err
			}
		}
		fmt.Fprintf(w, "  root         %s, signed over the %d entries up to its last\n", r.Root, r.Last+1)
	}
	return nil
}

// progressOf shows progress on a terminal, and nothing to a file or pipe.
func progressOf(p *command.Process) func(done, total uint64) {
	f, ok := p.Stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func(done, total uint64) {
		fmt.Fprintf(f, "\r%d of %d entries", done, total)
		if done >= total {
			fmt.Fprint(f, "\r\x1b[K")
		}
	}
}
