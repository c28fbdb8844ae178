package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
)

// slackCheckWithin bounds the whole check.
const slackCheckWithin = 2 * time.Minute

func newSlackCheckCommand(p *command.Process) *cobra.Command {
	var noEmail bool
	cmd := checkCommand(p, &cobra.Command{
		Short: "Check that Slack is set up as the configuration needs it, and say what to fix",
		Long: `Check that Slack is set up as the configuration needs it: the tokens and their
scopes, the transport, the people of auth.people and the user groups. In each
channel a message is posted, edited, found and deleted.`,
		Example: `  responder slack check --config responder.yaml
  responder slack check --config responder.yaml -o json`,
	}, slackCheckWithin, func(ctx context.Context, file string) ([]app.Finding, error) {
		return app.CheckSlack(ctx, file, noEmail)
	})
	cmd.Flags().BoolVar(&noEmail, "no-email", false, "the app was made with --no-email")
	return cmd
}
