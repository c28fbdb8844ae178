package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

const previewLong = `Print the summary that a report of the configuration would send next, with what is
known now. Nothing is sent and nothing is recorded: the report itself is sent when it
is due, with what happens until then.

NAME is that of an entry of the block reports of the service's configuration. The
summary is printed on standard output as its channels show it; when it is sent, and to
whom, on standard error.

With --since the period begins at another time than where the last report ended.`

func newReportPreviewCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	var since string
	cmd := &cobra.Command{
		Use:   "preview NAME",
		Short: "Print the summary that a configured report would send next",
		Long:  previewLong,
		Args:  atMostOne,
		Example: `  responder report preview weekly
  responder report preview weekly --since 7d
  responder report preview weekly -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return missing("NAME of a report, as the block reports of the service's configuration has it")
			}
			query := url.Values{"name": {args[0]}}
			if cmd.Flags().Changed("since") {
				at, err := moment("--since", since, time.Now())
				if err != nil {
					return err
				}
				query.Set("since", at.UTC().Format(time.RFC3339))
			}
			return printPreview(cmd.Context(), p, &c, &out, query)
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().StringVar(&since, "since", "", "the period begins at this time: 7d for seven days ago, 2026-11-01 for its midnight on this machine's clock, or 2026-11-01T12:00:00Z (default where the last report ended)")
	out.AddFlag(cmd)
	return cmd
}

func printPreview(ctx context.Context, p *command.Process, c *client.Client, out *command.Output, query url.Values) error {
	var found api.ReportPreview
	if err := c.Get(ctx, client.PreviewPath, query, &found); err != nil {
		return err
	}
	return out.Print(p.Stdout, found, func(w io.Writer) error {
		to := strings.Join(found.To, ", ")
		if found.Text == "" {
			_, err := fmt.Fprintf(p.Stderr, "report %s sends nothing: no run began since %s, and skip_empty is set\n", found.Name, runview.Time(found.Since))
			return err
		}
		if _, err := fmt.Fprintln(w, found.Text); err != nil {
			return err
		}
		_, err := fmt.Fprintf(p.Stderr, "report %s is due at %s, to %s; nothing was sent\n", found.Name, runview.Time(found.Until), to)
		return err
	})
}
