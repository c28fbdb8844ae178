package cli

import (
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/spf13/cobra"
)

func newVersionCommand(p *command.Process) *cobra.Command {
	var out command.Output
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print what this binary was built from",
		Args:    none,
		Example: "  responder version -o json",
		RunE: func(*cobra.Command, []string) error {
			b := app.ReadBuildInfo()
			return out.Print(p.Stdout, b, b.Write)
		},
	}
	out.AddFlag(cmd)
	return cmd
}
