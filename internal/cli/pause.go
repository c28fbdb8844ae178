package cli

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

const pauseLong = `Keep runs from acting: all runs, or those of one service or playbook. Alerts are
still received and recorded. A change in progress is finished or undone. A pause
survives restarts; 'responder unpause' lifts it.

With --intake the receiver is paused instead: it refuses notifications with 503
and records nothing of them. Alertmanager keeps trying, and repeats alerts that
still fire. Runs continue.`

func newPauseCommand(p *command.Process) *cobra.Command {
	return pauseCommand(p, http.MethodPost, &cobra.Command{
		Use:   "pause --reason TEXT",
		Short: "Keep runs from acting: all of them, or those of one service or playbook",
		Long:  pauseLong,
		Example: `  responder pause --reason 'datacenter maintenance'
  responder pause --service serving/chat --reason 'load test'
  responder pause --intake --reason 'the volume is being moved'`,
	})
}

func newUnpauseCommand(p *command.Process) *cobra.Command {
	return pauseCommand(p, http.MethodDelete, &cobra.Command{
		Use:   "unpause",
		Short: "Lift a pause",
		Long: `Lift the pause with exactly this scope; without --service, --playbook and --intake,
the pause of all runs. Runs that waited check again before they act.`,
		Example: `  responder unpause --reason 'maintenance is over'
  responder unpause --service serving/chat`,
	})
}

// pauseCommand completes a command that sets or lifts a pause, and prints the
// pauses in force after it.
func pauseCommand(p *command.Process, method string, cmd *cobra.Command) *cobra.Command {
	c := client.Client{Process: p}
	var r api.PauseRequest
	var out command.Output
	cmd.Args = none
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if method == http.MethodPost && r.Reason == "" {
			return errors.New("missing --reason: a pause needs one")
		}
		var answer api.PauseList
		if err := c.Send(cmd.Context(), method, client.PausesPath, r, &answer); err != nil {
			return err
		}
		if answer.Note != "" {
			fmt.Fprintf(p.Stderr, "responder: %s; 'responder services' and 'responder playbook list --server URL' list the names\n", answer.Note)
		}
		return out.PrintTable(p.Stdout, answer.Pauses, pauseTable(answer.Pauses))
	}
	c.AddFlags(cmd)
	cmd.Flags().StringVar(&r.Service, "service", "", "only this service")
	completeServices(cmd, &c)
	cmd.Flags().StringVar(&r.Playbook, "playbook", "", "only this playbook")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why; it is recorded")
	cmd.Flags().BoolVar(&r.Intake, "intake", false, "the receiver instead of runs")
	cmd.MarkFlagsMutuallyExclusive("service", "playbook", "intake")
	out.AddTableFlag(cmd)
	return cmd
}

func newPausesCommand(p *command.Process) *cobra.Command {
	table := func(l api.PauseList) (any, *runview.Table) { return l.Pauses, pauseTable(l.Pauses) }
	return listing(p, client.PausesPath, table, &cobra.Command{
		Use:     "pauses",
		Short:   "List the pauses in force",
		Example: "  responder pauses -o json",
	})
}

func pauseTable(all []api.Pause) *runview.Table {
	t := &runview.Table{
		Columns: []runview.Column{{Head: "SCOPE", Flex: true}, {Head: "SINCE (UTC)"}, {Head: "BY", Flex: true}, {Head: "REASON", Flex: true}},
		Empty:   "nothing is paused",
	}
	for _, p := range all {
		t.Add(p.Scope, runview.Time(p.Since), p.By, p.Reason)
	}
	return t
}
