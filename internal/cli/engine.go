package cli

import (
	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/engine"
)

func newEngineCommand(p *command.Process) *cobra.Command {
	return group("engine", "Show the flags of the serving engines, and probe a service's", newEngineFlagsCommand(p), newEngineProbeCommand(p))
}

// completeFlags completes the names of an engine's flags: of any engine, where
// none is named.
func completeFlags(of func() string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		e, _ := engine.Named(of())
		var names []string
		for _, name := range e.Flags() {
			if _, fixed := e.Settable(name); fixed == nil {
				names = append(names, name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
