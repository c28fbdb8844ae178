package cli

import (
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/spf13/cobra"
)

// completeScenarios lets shells complete a flag with the incidents.
func completeScenarios(cmd *cobra.Command, flag string) {
	// The error is of a flag that does not exist; the caller has added it.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(sandbox.ScenarioNames(), cobra.ShellCompDirectiveNoFileComp))
}
