package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/spf13/cobra"
)

// slackCheckWithin bounds the whole check.
const slackCheckWithin = 2 * time.Minute

func newSlackCheckCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var file string
	var noEmail bool
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Prove that Slack is set up as the configuration needs it, and say what to fix",
		Long: `Prove that Slack is set up as the configuration needs it: the tokens and their
scopes, the transport, each channel by a message that is posted, edited, found
and deleted, the people of auth.people and the user groups.

Exit codes:
  0  everything works
  1  something does not; the table says what to do`,
		Args: none,
		Example: `  responder slack check --config responder.yaml
  responder slack check --config responder.yaml -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), slackCheckWithin)
			defer cancel()
			findings, err := app.CheckSlack(ctx, file, noEmail)
			if err != nil {
				return err
			}
			if err := out.Print(p.Stdout, findings, func(w io.Writer) error { return writeSlackFindings(w, findings, out.Wide()) }); err != nil {
				return err
			}
			for _, f := range findings {
				if !f.OK {
					return command.ExitCode(command.ExitError)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "responder.yaml", "configuration file")
	cmd.Flags().BoolVar(&noEmail, "no-email", false, "the app was made with --no-email")
	out.AddFlag(cmd)
	return cmd
}

func writeSlackFindings(w io.Writer, findings []app.Finding, wide bool) error {
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
