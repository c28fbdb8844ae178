package cli

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

const ladderLong = `Show the track record of each lever on each service: how often it was tried, the
results, its effective level of autonomy and what holds it at that level.

A lever that does not help several times in a row is demoted to suggest
automatically, and people are told. 'responder ladder promote' lifts the demotion.
Nothing is ever raised automatically: when a lever was verified often enough in a
row, a line below the table proposes what to change in the configuration.`

func newLadderCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	var service, playbook string
	cmd := &cobra.Command{
		Use:   "ladder",
		Short: "Show the track record of levers, and what holds each at its level",
		Long:  ladderLong,
		Args:  verbOrNothing,
		Example: `  responder ladder
  responder ladder --service serving/chat -o wide`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if service != "" {
				query.Set("service", service)
			}
			if playbook != "" {
				query.Set("playbook", playbook)
			}
			var answer api.LeverList
			if err := c.Get(cmd.Context(), client.LadderPath, query, &answer); err != nil {
				return err
			}
			return out.Print(p.Stdout, answer.Levers, func(w io.Writer) error { return writeLadder(w, answer.Levers, out.Wide()) })
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().StringVar(&service, "service", "", "only levers on this service")
	cmd.Flags().StringVar(&playbook, "playbook", "", "only levers of this playbook")
	completeServices(cmd, &c)
	out.AddFlag(cmd)
	cmd.AddCommand(newLadderPromoteCommand(p))
	return cmd
}

// verbOrNothing refuses words that are no subcommand.
func verbOrNothing(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownVerb(cmd, args[0])
}

func newLadderPromoteCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var reason string
	var out command.Output
	cmd := &cobra.Command{
		Use:   "promote PLAYBOOK SERVICE LEVER --reason TEXT",
		Short: "Lift the demotion of a lever",
		Long: `Lift the demotion of a lever. The results that led to it no longer count, and the
lever has again the level that configuration, service, playbook, state and policy
allow. Nothing is raised above that. LEVER is the name of its state, or its kind if
only one lever has it.`,
		Args:    exactly(3, "PLAYBOOK, SERVICE and LEVER; 'responder ladder' lists them"),
		Example: "  responder ladder promote inference-slo-breach serving/chat rollback --reason 'the alert was wrong, fixed in #812'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return errors.New("missing --reason: a promotion needs one")
			}
			r := api.Promotion{Playbook: args[0], Service: args[1], Lever: args[2], Reason: reason}
			var answer api.LeverList
			if err := c.Send(cmd.Context(), http.MethodPost, client.PromotePath, r, &answer); err != nil {
				return err
			}
			l, ok := promoted(answer.Levers, args[2])
			if !ok {
				return errors.New("promoted, but the server's answer does not show the lever; look with: responder ladder")
			}
			return out.Print(p.Stdout, l, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "promoted: %s\n", runview.Printable(standingLine(l)))
				return err
			})
		},
	}
	c.AddFlags(cmd)
	out.AddFlag(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is recorded")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) != 1 { // the service is the second
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return servedServices(cmd.Context(), &c), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// promoted finds the lever that was promoted just now: of those that the name,
// or the kind, stands for the one that changed last.
func promoted(levers []api.TrackRecord, name string) (api.TrackRecord, bool) {
	levers = slices.DeleteFunc(levers, func(l api.TrackRecord) bool { return l.Lever != name && l.Kind != name })
	if len(levers) == 0 {
		return api.TrackRecord{}, false
	}
	return slices.MaxFunc(levers, func(a, b api.TrackRecord) int { return a.Changed.Compare(b.Changed) }), true
}

// exactly takes n arguments.
func exactly(n int, arguments string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return missing(arguments)
		case len(args) > n:
			return fmt.Errorf("unexpected argument %q; write '%s'", args[n], cmd.UseLine())
		default:
			return nil
		}
	}
}

// standingLine reports how far a lever may go, and why not further.
func standingLine(l api.TrackRecord) string {
	line := fmt.Sprintf("%s of playbook %s on %s is at %s", l.Lever, l.Playbook, l.Service, l.Level)
	if why := runview.LimitWords(l); why != "" {
		line += ", held there by " + why
	}
	return line
}

// writeLadder writes the table, and below it what the columns are too narrow
// for: why a level is what it is, and what could be raised.
func writeLadder(w io.Writer, levers []api.TrackRecord, wide bool) error {
	if err := runview.LadderTable(levers).Write(w, wide); err != nil {
		return err
	}
	for _, note := range runview.LadderNotes(levers) {
		if _, err := fmt.Fprintf(w, "\n%s\n", runview.Printable(strings.Join(runview.Wrap(note, runview.Width-2), "\n  "))); err != nil {
			return err
		}
	}
	return nil
}
