package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/client"
)

// completeWithin is how long a shell waits for names that somebody is asked for.
const completeWithin = 3 * time.Second

// completeRuns completes the ID of a run. Where runs cannot be listed there is nothing
// to complete, and no place to say why.
func completeRuns(cmd *cobra.Command, c *client.Client) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		runs, err := c.RunsNamed(ctx, begin)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []cobra.Completion
		for _, r := range runs {
			out = append(out, cobra.CompletionWithDesc(r.Run, fmt.Sprintf("%s, %s of %s", r.Status, r.Playbook, r.Service)))
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
