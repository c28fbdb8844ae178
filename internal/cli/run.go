package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
)

// Run is the whole program without the process around it: it returns the exit code.
func Run(ctx context.Context, args []string, p *command.Process) int {
	return command.Execute(ctx, newRootCommand(p), args, p, func(cmd *cobra.Command, err error) error {
		if errors.As(err, new(config.NoFileError)) && cmd.Flags().Lookup("sandbox") != nil {
			return fmt.Errorf("%w; --sandbox needs none", err)
		}
		return err
	})
}
