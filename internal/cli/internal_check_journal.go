package cli

import (
	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/cli/command"
)

// newInternalCommand holds what the program asks of itself.
func newInternalCommand(p *command.Process) *cobra.Command {
	c := group("internal", "What the program asks of itself", newCheckJournalCommand(p), newGenerateCommand())
	c.Hidden = true
	return c
}

// newCheckJournalCommand is the child in which a journal's file is examined
// before it is opened: a damaged file can kill the process that looks at it.
func newCheckJournalCommand(p *command.Process) *cobra.Command {
	return &cobra.Command{
		Use:     "check-journal PATH",
		Short:   "Examine a journal's file and exit with the verdict",
		Args:    cobra.ExactArgs(1),
		Example: "  responder internal check-journal data/journal.db",
		RunE: func(_ *cobra.Command, args []string) error {
			return command.ExitCode(audit.CheckMain(args[0], p.Stderr))
		},
	}
}
