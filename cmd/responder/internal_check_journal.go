package main

import (
	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/audit"
)

// newInternalCommand holds what the program asks of itself.
func newInternalCommand(p *process) *cobra.Command {
	c := group("internal", "What the program asks of itself", newCheckJournalCommand(p), newGenerateCommand())
	c.Hidden = true
	return c
}

// newCheckJournalCommand is the child in which a journal's file is examined
// before it is opened: a damaged file can kill the process that looks at it.
func newCheckJournalCommand(p *process) *cobra.Command {
	return &cobra.Command{
		Use:     "check-journal PATH",
		Short:   "Examine a journal's file and exit with the verdict",
		Args:    cobra.ExactArgs(1),
		Example: "  responder internal check-journal data/journal.db",
		RunE: func(_ *cobra.Command, args []string) error {
			return exitCode(audit.CheckMain(args[0], p.stderr))
		},
	}
}
