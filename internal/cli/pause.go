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

const pauseLong = `Keep runs from acting: everything, or one service or playbook. Alerts are still
taken in and recorded; a change under way is finished or undone. A pause
survives restarts, until 'responder unpause' lifts it.

With --intake it is the receiver that pauses: notifications are refused with
503 and nothing is recorded of them. Alertmanager keeps trying, and repeats what
still fires. Runs go on.`

func newPauseCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var r api.PauseRequest
	var out command.Output
	cmd := &cobra.Command{
		Use:   "pause --reason TEXT",
		Short: "Keep runs from acting: everything, or one service or playbook",
		Long:  pauseLong,
		Args:  none,
		Example: `  responder pause --reason 'datacenter maintenance'
  responder pause --service serving/chat --reason 'load test'
  responder pause --intake --reason 'the volume is being moved'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.Reason == "" {
				return errors.New("why? a pause takes --reason, which everyone who meets it is shown")
			}
			var answer api.PauseList
			if err := c.Send(cmd.Context(), http.MethodPost, client.PausesPath, r, &answer); err != nil {
				return err
			}
			if answer.Note != "" {
				fmt.Fprintf(p.Stderr, "responder: %s; 'responder services' and 'responder playbook list --server URL' list the names\n", answer.Note)
			}
			return out.PrintTable(p.Stdout, answer.Pauses, pauseTable(answer.Pauses))
		},
	}
	c.AddFlags(cmd)
	addPauseFlags(cmd, &r)
	out.AddFlag(cmd)
	return cmd
}

func newUnpauseCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var r api.PauseRequest
	var out command.Output
	cmd := &cobra.Command{
		Use:   "unpause",
		Short: "Lift a pause",
		Long: `Lift the pause with exactly this scope: without --service and --playbook the
one over everything. Runs that waited look again before they act.`,
		Args: none,
		Example: `  responder unpause --reason 'maintenance is over'
  responder unpause --service serving/chat`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer api.PauseList
			if err := c.Send(cmd.Context(), http.MethodDelete, client.PausesPath, r, &answer); err != nil {
				return err
			}
			return out.PrintTable(p.Stdout, answer.Pauses, pauseTable(answer.Pauses))
		},
	}
	c.AddFlags(cmd)
	addPauseFlags(cmd, &r)
	out.AddFlag(cmd)
	return cmd
}

func addPauseFlags(cmd *cobra.Command, r *api.PauseRequest) {
	cmd.Flags().StringVar(&r.Service, "service", "", "only this service")
	cmd.Flags().StringVar(&r.Playbook, "playbook", "", "only this playbook")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "why, for the record")
	cmd.Flags().BoolVar(&r.Intake, "intake", false, "the receiver, instead of runs")
	cmd.MarkFlagsMutuallyExclusive("service", "playbook", "intake")
}

func newPausesCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	cmd := &cobra.Command{
		Use:     "pauses",
		Short:   "List the pauses in force",
		Args:    none,
		Example: "  responder pauses -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer api.PauseList
			if err := c.Get(cmd.Context(), client.PausesPath, nil, &answer); err != nil {
				return err
			}
			return out.PrintTable(p.Stdout, answer.Pauses, pauseTable(answer.Pauses))
		},
	}
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	return cmd
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
