package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/runview"
)

// maxRedactBytes is more than any credential has.
const maxRedactBytes = 64 << 10

// redactFlags are what audit redact is asked.
type redactFlags struct {
	dir, config string
	textFile    string
	options     audit.RedactOptions
	journal     config.Journal
}

func newAuditRedactCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var f redactFlags
	cmd := &cobra.Command{
		Use:   "redact [SEQ...] --text-file FILE --by WHO --reason TEXT",
		Short: "Take a credential out of the journal of a stopped service",
		Long: `Replace a text, wherever entries have it in a value, by (redacted). The service must be
stopped, and the private key must be there. Each entry keeps its place, its time and its
hash, so that every checkpoint still covers it. What is left of it carries a statement,
signed with the journal's key, of who redacted it and why; the journal records the same
in its stream redaction, and 'responder audit verify' names each such entry. Then the file
is rewritten, so that its free pages do not have the text either.

With SEQ only those entries are looked at. The text is read from a file, or with - from
standard input, and never an argument: arguments are in the list of processes.

It does not reach what has left the journal: backups, what a restore put aside as
replaced-TIME, exports, segments of the archive, messages, logs. Make a new backup, then
delete the older ones. Renew the credential in any case.`,
		Args: cobra.ArbitraryArgs,
		Example: `  responder audit redact --config responder.yaml --text-file leaked.txt --by ada --reason 'PGPASSWORD in a pod template' --dry-run
  responder audit redact 17 23 --dir data --text-file - --by ada --reason 'PGPASSWORD in a pod template'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			done, err := f.run(cmd, p, args)
			if err != nil {
				return journalAdvice(err)
			}
			return out.Print(p.Stdout, done, func(w io.Writer) error { return writeRedacted(w, done, f.options.DryRun) })
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "", "configuration of the stopped service, which names its journal and key")
	cmd.Flags().StringVar(&f.dir, "dir", "", "directory of the journal of the stopped service")
	cmd.Flags().StringVar(&f.textFile, "text-file", "", "file with the text to take out, without the line feed at its end; - is standard input")
	cmd.Flags().StringVar(&f.options.By, "by", "", "who redacts")
	cmd.Flags().StringVar(&f.options.Reason, "reason", "", "why")
	cmd.Flags().BoolVar(&f.options.DryRun, "dry-run", false, "only say which entries have the text")
	out.AddFlag(cmd)
	return cmd
}

// run redacts, and rewrites the file.
func (f *redactFlags) run(cmd *cobra.Command, p *command.Process, args []string) (done api.JournalRedacted, err error) {
	if err := f.read(p, args); err != nil {
		return done, err
	}
	file := filepath.Join(f.journal.Dir, app.JournalFile)
	if err := wantJournal(file); err != nil {
		return done, err
	}
	check, err := app.SelfChecker()
	if err != nil {
		return done, err
	}
	f.options.Open = audit.Options{Checker: check, Key: f.journal.KeyFile, Published: f.journal.Checkpoints.Dir}
	r, err := audit.Redact(cmd.Context(), file, f.options)
	if err != nil {
		return done, err
	}
	done = api.JournalRedacted{Entries: app.RedactionsOf(r.Entries), Segments: r.Segments, Archived: r.Archived}
	if f.options.DryRun {
		return done, nil
	}
	// What the service folded from entries may have the text, and is folded again.
	if err := os.Remove(file + "." + dispatch.ProjectionName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, fmt.Errorf("remove what was folded from the journal: %w", err)
	}
	if _, _, err := audit.Compact(cmd.Context(), file, check); err != nil {
		return done, fmt.Errorf("the entries are redacted, but free pages of the file may still have the text; run 'responder journal compact': %w", err)
	}
	return done, nil
}

// read reads the flags, the configuration and the text.
func (f *redactFlags) read(p *command.Process, args []string) error {
	for _, arg := range args {
		seq, err := strconv.ParseUint(arg, 10, 63)
		if err != nil {
			return fmt.Errorf("%q is not the number of an entry, as 'responder audit list' prints it", arg)
		}
		f.options.Entries = append(f.options.Entries, seq)
	}
	switch {
	case f.textFile == "":
		return errors.New("missing --text-file: the file with the text to take out, or - for standard input")
	case f.options.By == "":
		return errors.New("missing --by: a redaction needs who makes it")
	case f.options.Reason == "":
		return errors.New("missing --reason: a redaction needs one")
	case (f.dir == "") == (f.config == ""):
		return errors.New("give --config or --dir: the journal of the stopped service")
	}
	f.journal = config.Journal{Dir: f.dir}
	if f.config != "" {
		c, err := config.Load(f.config)
		if err != nil {
			return err
		}
		f.journal = c.Journal
	}
	in := p.Stdin
	if f.textFile != "-" {
		file, err := os.Open(f.textFile)
		if err != nil {
			return fmt.Errorf("read --text-file: %w", err)
		}
		defer file.Close()
		in = file
	}
	text, err := config.ReadAtMost(in, maxRedactBytes)
	if err != nil {
		return fmt.Errorf("read --text-file: %w", err)
	}
	f.options.Text = strings.TrimRight(string(text), "\r\n")
	return nil
}

func writeRedacted(w io.Writer, done api.JournalRedacted, dryRun bool) error {
	if len(done.Entries) == 0 {
		fmt.Fprintln(w, "no entry has the text")
	}
	for _, r := range done.Entries {
		verb := "redacted"
		if dryRun {
			verb = "would redact"
		}
		fmt.Fprintf(w, "%s entry %d (%s %s)\n", verb, r.Entry, runview.Cell(r.Stream), runview.Cell(r.Kind))
	}
	if len(done.Segments) > 0 {
		fmt.Fprintf(w, "the archive has such entries as they were, in %s\n", strings.Join(done.Segments, ", "))
	}
	if done.Archived > 0 {
		fmt.Fprintf(w, "%d entries are archived: only their segments tell whether they have the text\n", done.Archived)
	}
	if !dryRun && len(done.Entries) > 0 {
		if len(done.Segments) > 0 {
			fmt.Fprintln(w, "delete these segments if nobody needs what else is in them: 'responder audit verify' of the archive then misses them")
		}
		_, err := fmt.Fprint(w, `copies from before still have it: backups, replaced-TIME in the journal's directory, exports
make a new backup with 'responder backup DIR', then delete these copies
messages and logs still have it: renew the credential
`)
		return err
	}
	return nil
}
