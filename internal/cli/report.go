package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
)

func newReportCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Write what happened in a run as Markdown, for the review of an incident",
		Long: `Write what happened in a run as Markdown: what burned, what was changed and by whose
decision, what proved it, where the time went and what waiting for people cost, the
timeline and the evidence.`,
		Args: one(runArgument),
		Example: `  responder report r-01JDXYZ > incident.md
  responder report r-01JDXYZ -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := c.RunNamed(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			run, _, err := fetchRun(cmd.Context(), &c, id)
			if err != nil {
				return err
			}
			var events []machine.Event
			for _, e := range run.Events {
				events = append(events, e.Machine())
			}
			incident := runview.IncidentOf(run.Run.Machine(), events)
			return out.Print(p.Stdout, incident, func(w io.Writer) error { return runview.WriteIncident(w, incident) })
		},
	}
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	completeRuns(cmd, &c)
	return cmd
}
