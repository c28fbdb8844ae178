package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/command"
)

func newGitopsCheckCommand(p *command.Process) *cobra.Command {
	return checkCommand(p, &cobra.Command{
		Short: "Check that Git and Argo CD can be reached and used as the configuration says",
		Long: `Check that Git and Argo CD can be reached and used as the configuration says. Each
repository is fetched. Argo CD is asked for its version, its applications and what
the token may do. For each configured service, its application, manifests and
object are looked up. Nothing is written.`,
		Example: `  responder gitops check --config responder.yaml
  responder gitops check --config responder.yaml -o json`,
	}, app.GitopsCheckWithin, func(ctx context.Context, file string) ([]app.Finding, error) {
		return app.CheckGitops(ctx, file, p.Temp.Dir)
	})
}
