package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

func newAuditVerifyCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var key, checkpoint, file string
	cmd := &cobra.Command{
		Use:   "verify FILE --key PUB",
		Short: "Verify that a copy of the journal is unaltered: offline, with the public key alone",
		Long: `Check every entry of a copied journal against the Merkle tree, and the tree
against the signed checkpoints in the file. An entry that was edited, removed,
inserted or reordered is found and named. A log that was truncated at its end is
found only with a checkpoint that was kept elsewhere: give it with --checkpoint.

Exit codes:
  0  intact
  1  altered, or it cannot be examined`,
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
  responder audit verify journal.db --key journal.pub --checkpoint kept.checkpoint`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				file = args[0]
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
	keyAdvice := "--key names the " + audit.PublicKeyFile + " that 'responder serve' wrote beside its journal"
	beside := key == ""
	if beside {
		key = filepath.Join(filepath.Dir(file), audit.PublicKeyFile)
	}
	public, err := readNote("public key", key, keyAdvice)
	if err != nil {
		return err
	}
	if beside {
		fmt.Fprintf(p.Stderr, "responder: using the key beside the file, %s: whoever can change one can change both\n", key)
	}
	if checkpoint != "" {
		if options.Checkpoint, err = readNote("checkpoint", checkpoint, "'responder audit checkpoint' prints one"); err != nil {
			return err
		}
	}
	report, err := audit.Verify(cmd.Context(), file, strings.TrimSpace(string(public)), options)
	if err != nil {
		return journalAdvice(err)
	}
	err = out.Print(p.Stdout, app.VerificationOf(report), func(w io.Writer) error {
		return writeVerifyReport(w, file, report, checkpoint != "")
	})
	if err == nil && !report.OK() {
		return command.ExitCode(command.ExitError)
	}
	return err
}

func writeVerifyReport(w io.Writer, file string, r audit.Report, external bool) error {
	if !r.OK() {
		_, err := fmt.Fprintf(w, "NOT INTACT: %s\n%s\n", file, runview.Cell(r.FirstBad.String()))
		return err
	}
	fmt.Fprintf(w, "intact: %s\n", file)
	fmt.Fprintf(w, "  origin       %s, since %s\n", r.Origin, r.Created)
	fmt.Fprintf(w, "  entries      %d in %s\n", r.Entries, runview.Count(int(r.Streams), "stream")) //nolint:gosec // a count of streams fits
	fmt.Fprintf(w, "  checkpoints  %d, the last over %d entries\n", r.Checkpoints, r.Signed)
	if r.Unsigned > 0 {
		fmt.Fprintf(w, "  unsigned     %s after it: consistent, but no signature covers them yet\n", runview.Count(int(r.Unsigned), "entry")) //nolint:gosec // a count of entries fits
	}
	if external {
		fmt.Fprintf(w, "  continues    the checkpoint given, so nothing it covers was cut off\n")
	}
	_, err := fmt.Fprintf(w, "  root         %s\n", r.Root)
	return err
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
