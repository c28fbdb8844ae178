package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/runview"
)

// slackCheckWithin bounds the whole check.
const slackCheckWithin = 2 * time.Minute

func newSlackCheckCommand(p *command.Process) *cobra.Command {
	var noEmail bool
	var out command.Output
	var file string
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Check that Slack is set up as the configuration needs it, and say what to fix",
		Long: `Check that Slack is set up as the configuration needs it: the tokens and their
scopes, the transport, the people of auth.people and the user groups. In each
channel a message is posted, edited, found and deleted, which 'responder doctor'
leaves out.

Exit codes:
  0  everything works
  1  something does not; the table says what to do`,
		Example: `  responder slack check --config responder.yaml
  responder slack check --config responder.yaml -o json`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), slackCheckWithin)
			defer cancel()
			c, err := config.Load(file)
			if err != nil {
				return err
			}
			findings, err := app.CheckSlack(ctx, c, app.SlackCheck{NoEmail: noEmail})
			if err != nil {
				return err
			}
			if err := out.Print(p.Stdout, findings, func(w io.Writer) error { return writeChecks(w, findings, out.Wide()) }); err != nil {
				return err
			}
			if slices.ContainsFunc(findings, func(f app.Finding) bool { return !f.OK }) {
				return command.ExitCode(command.ExitError)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&noEmail, "no-email", false, "the app was made with --no-email")
	cmd.Flags().StringVar(&file, "config", "responder.yaml", "configuration file")
	out.AddFlag(cmd)
	return cmd
}

// writeChecks writes a table, and below it what to do about each failure.
func writeChecks(w io.Writer, findings []app.Finding, wide bool) error {
	t := runview.Table{Columns: []runview.Column{{Head: "CHECK"}, {Head: "RESULT"}, {Head: "DETAIL", Flex: true}}}
	var fixes []string
	for _, f := range findings {
		result := "ok"
		if !f.OK {
			result = "FAILED"
			fixes = append(fixes, f.Name+": "+f.Detail+"\n  "+f.Fix)
		}
		t.Add(f.Name, result, runview.Printable(f.Detail))
	}
	if err := t.Write(w, wide); err != nil {
		return err
	}
	for _, fix := range fixes {
		if _, err := fmt.Fprintf(w, "\n%s\n", fix); err != nil {
			return err
		}
	}
	return nil
}
