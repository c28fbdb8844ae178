package main

import "github.com/spf13/cobra"

// commands lists every command, in the order the help shows them.
func commands(p *process) []*cobra.Command {
	return []*cobra.Command{
		newCompletionCommand(p),
		newVersionCommand(p),
	}
}
