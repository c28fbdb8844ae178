package cli

import (
	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/policy"
)

func newPolicyCommand(p *command.Process) *cobra.Command {
	return group("policy", "Check, test and explain the rules over all playbooks",
		newPolicyLintCommand(p), newPolicyTestCommand(p), newPolicyExplainCommand(p), newPolicySchemaCommand(p))
}

func newPolicySchemaCommand(p *command.Process) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of policies, for editors",
		Args:  none,
		Example: `  responder policy schema > policy.schema.json
  # first line of a policy, for editors with a YAML language server:
  # yaml-language-server: $schema=policy.schema.json`,
		RunE: func(*cobra.Command, []string) error {
			_, err := p.Stdout.Write(policy.Schema())
			return err
		},
	}
}
