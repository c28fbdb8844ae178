package cli

import (
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/spf13/cobra"
)

func newPlaybookCommand(p *command.Process) *cobra.Command {
	return group("playbook", "Check, test, draw, list, show and begin playbooks",
		newPlaybookLintCommand(p), newPlaybookTestCommand(p), newPlaybookGraphCommand(p), newPlaybookSchemaCommand(p),
		newPlaybookListCommand(p), newPlaybookKindsCommand(p), newPlaybookShowCommand(p), newPlaybookNewCommand(p))
}
