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
	if !r.OK() {
		_, err := fmt.Fprintf(w, "NOT INTACT: %s\n%s\n", file, runview.Cell(r.FirstBad.String()))
		return err
	}
	if r.Overdue != "" {
		fmt.Fprintf(w, "NOT PROVEN: %s\n%d of its %d entries are not signed: %s.\nWhoever can write the file could have written them. They are left by a crash, or their\n"+
			"checkpoints were removed. 'responder audit export' of the running service is signed whole.\n", file, r.Unsigned, r.Entries, r.Overdue)
	} else {
		fmt.Fprintf(w, "intact: %s\n", file)
	}
	fmt.Fprintf(w, "  origin       %s, since %s\n", r.Origin, r.Created)
	fmt.Fprintf(w, "  entries      %d in %s\n", r.Entries, runview.Count(int(r.Streams), "stream")) //nolint:gosec // a count of streams fits
	if r.Archived > 0 {
		fmt.Fprintf(w, "  archived     %d of them: their bodies are in %s of the archive, their hashes here\n", r.Archived, runview.Count(int(r.Segments), "segment")) //nolint:gosec // a count of segments fits
	}
	fmt.Fprintf(w, "  checkpoints  %d, the last over %d entries\n", r.Checkpoints, r.Signed)
	if r.Unsigned > 0 {
		fmt.Fprintf(w, "  unsigned     %s after it: consistent, but no signature covers them yet\n", runview.Count(int(r.Unsigned), "entry")) //nolint:gosec // a count of entries fits
	}
	writeRedactions(w, r.Redacted)
	switch {
	case r.External:
		fmt.Fprintf(w, "  continues    the checkpoint given, so nothing it covers was cut off\n")
	case r.Beside:
		fmt.Fprintf(w, "  continues    the checkpoint kept beside it, so nothing it covers was cut off or rewritten\n")
	case r.Unread != "":
		fmt.Fprintf(w, "  beside it    is a checkpoint that proves nothing: %s\n", runview.Cell(r.Unread))
	}
	_, err := fmt.Fprintf(w, "  root         %s\n", r.Root)
	return err
}

// writeRedactions names the entries of which a text was taken out.
func writeRedactions(w io.Writer, all []audit.Redaction) {
	for _, r := range all {
		fmt.Fprintf(w, "  redacted     entry %d (%s %s) by %s at %s: %s\n", r.Seq, runview.Cell(r.Stream), runview.Cell(r.Kind), runview.Cell(r.By), runview.Time(r.At), runview.Cell(r.Reason))
	}
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
		writeRedactions(w, r.Redacted)
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
