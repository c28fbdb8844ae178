package cli

import (
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/cli/demo"
	"github.com/inference-responder/responder/internal/cli/doctor"
	"github.com/spf13/cobra"
)

// commands lists every command.
func commands(p *command.Process) []*cobra.Command {
	return []*cobra.Command{
		newServeCommand(p),
		newSandboxCommand(p),
		demo.NewCommand(p),
		newDryRunCommand(p),
		newReplayCommand(p),
		newPlaybookCommand(p),
		newPolicyCommand(p),
		newRunsCommand(p),
		newAlertsCommand(p),
		newApproveCommand(p),
		newDenyCommand(p),
		newReplanCommand(p),
		newReportCommand(p),
		newLoansCommand(p),
		newPauseCommand(p),
		newUnpauseCommand(p),
		newPausesCommand(p),
		newLadderCommand(p),
		newSessionsCommand(p),
		newServicesCommand(p),
		newNodesCommand(p),
		newSLOCommand(p),
		newGPUCommand(p),
		newAgentCommand(),
		newGitopsCommand(p),
		newEngineCommand(p),
		newSlackCommand(p),
		newAuditCommand(p),
		newJournalCommand(p),
		newBackupCommand(p),
		newRestoreCommand(p),
		newConfigCommand(p),
		doctor.NewCommand(p),
		newCompletionCommand(p),
		newVersionCommand(p),
		newInternalCommand(p),
	}
}
