package cli

import (
	"context"
	"io"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/spf13/cobra"
)

func newGitopsCheckCommand(p *command.Process) *cobra.Command {
	var out command.Output
	var file string
	cmd := &cobra.Command{
		Use:   "check --config FILE",
		Short: "Prove that Git and Argo CD can be reached and used as the configuration says",
		Long: `Prove that Git and Argo CD can be reached and used as the configuration says: each
repository is fetched, Argo CD's server, token and rights are asked for, and each
configured service's application, manifests and object are looked up. It writes
nothing.

Exit codes:
  0  everything works
  1  something does not; the table says what to do`,
		Args: none,
		Example: `  responder gitops check --config responder.yaml
  responder gitops check --config responder.yaml -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), app.GitopsCheckWithin)
			defer cancel()
			findings, err := app.CheckGitops(ctx, file, p.Temp.Dir)
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
	out.AddFlag(cmd)
	return cmd
}
