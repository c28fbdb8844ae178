package cli

import (
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/spf13/cobra"
)

// completeScenarios lets shells complete a flag with the incidents.
func completeScenarios(cmd *cobra.Command, flag string) {
	// The error is of a flag that does not exist; the caller has added it.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(scenarioNames(), cobra.ShellCompDirectiveNoFileComp))
}

// scenarioNames lists the incidents that can be simulated.
func scenarioNames() []string {
	var names []string
	for _, s := range sandbox.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}
