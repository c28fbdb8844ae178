package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

func newAuditListCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var source entrySource
	var filter entryFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List entries of the journal",
		Args:  none,
		Example: `  responder audit list
  responder audit list --stream run/r-01JD --from 0 --limit 0
  responder audit list --file journal.db --kind gate.decided -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if filter.limit < 0 {
				return fmt.Errorf("--limit is %d; it is a number of entries, and 0 means all", filter.limit)
			}
			all, err := source.entries(cmd.Context(), filter)
			if err != nil {
				return err
			}
			return out.PrintTable(p.Stdout, all, entryTable(all))
		},
	}
	source.addFlags(cmd, p)
	cmd.Flags().Uint64Var(&filter.from, "from", 0, "first entry")
	cmd.Flags().IntVar(&filter.limit, "limit", 100, "most entries; 0: all")
	cmd.Flags().StringVar(&filter.stream, "stream", "", "only this stream: intake, dispatch, control, run/RUN with a RUN as 'runs show' takes it; run/ means all runs")
	cmd.Flags().StringVar(&filter.kind, "kind", "", "only entries of this kind")
	source.completeStreams(cmd)
	out.AddTableFlag(cmd)
	return cmd
}

func entryTable(all []api.Entry) *runview.Table {
	t := &runview.Table{
		Columns: []runview.Column{
			{Head: "SEQ"}, {Head: "TIME (UTC)"}, {Head: "STREAM", Flex: true}, {Head: "KIND"}, {Head: "WHAT", Flex: true},
		},
		Empty: "no entries",
	}
	for _, e := range all {
		if e.Archived != "" {
			t.Add(strconv.FormatUint(e.Seq, 10), "-", "-", "-", "archived in segment "+e.Archived)
			continue
		}
		t.Add(strconv.FormatUint(e.Seq, 10), entryTime(e.Time), e.Stream, e.Kind, runview.EntrySummary(e.Data))
	}
	return t
}

func newAuditShowCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var source entrySource
	cmd := &cobra.Command{
		Use:   "show SEQ",
		Short: "Print one entry of the journal in full",
		Args:  one("SEQ; 'responder audit list' shows the numbers"),
		Example: `  responder audit show 17
  responder audit show 17 --file journal.db -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return fmt.Errorf("%q is not the number of an entry; 'responder audit list' shows them", args[0])
			}
			e, err := oneEntry(cmd.Context(), &source, seq)
			if err != nil {
				return err
			}
			return out.Print(p.Stdout, e, func(w io.Writer) error { return writeEntry(w, e) })
		},
	}
	source.addFlags(cmd, p)
	out.AddFlag(cmd)
	return cmd
}

func oneEntry(ctx context.Context, source *entrySource, seq uint64) (api.Entry, error) {
	found, err := source.entries(ctx, entryFilter{from: seq, limit: 1})
	if err != nil {
		return api.Entry{}, err
	}
	if len(found) == 1 && found[0].Seq == seq {
		return found[0], nil
	}
	return api.Entry{}, fmt.Errorf("the journal has no entry %d yet", seq)
}

func writeEntry(w io.Writer, e api.Entry) error {
	if e.Archived != "" {
		_, err := fmt.Fprintf(w, "entry   %d\narchived in segment %s; 'responder journal restore' puts it back into a copy of the journal\n", e.Seq, e.Archived)
		return err
	}
	fmt.Fprintf(w, "entry   %d\ntime    %s\nstream  %s, its record %d\nkind    %s\n", e.Seq, e.Time.UTC().Format("2006-01-02T15:04:05.999999999Z"), runview.Cell(e.Stream), e.Index, runview.Cell(e.Kind))
	if len(e.Data) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return command.WriteYAML(w, e.Data)
}
