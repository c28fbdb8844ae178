package cli

import (
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/spf13/cobra"
)

func newRunsCommand(p *command.Process) *cobra.Command {
	return group("runs", "List, show, watch and steer runs",
		newRunsListCommand(p), newRunsShowCommand(p), newRunsWatchCommand(p), newRunsStartCommand(p),
		newRunsCancelCommand(p), newRunsProceedCommand(p), newRunsResolveCommand(p), newRunsReleaseCommand(p))
}
