package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/runview"
)

// decision is a command that tells a run what a person decides.
type decision struct {
	verb   string                                // of the API
	needs  string                                // asked for a missing reason; empty: it may be missing
	reason string                                // what --reason is
	check  func() error                          // of the other flags; nil: they are always good
	said   func(id string, after api.Run) string // printed once it is taken
}

// command completes a command that has words and flags of its own already. d is
// what is sent.
func (o decision) command(p *command.Process, d *api.DecisionRequest, cmd *cobra.Command) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	cmd.Args = one(whichRun)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.check != nil {
			if err := o.check(); err != nil {
				return err
			}
		}
		if d.Reason == "" && o.needs != "" {
			return errors.New(o.needs)
		}
		after, err := c.Decide(cmd.Context(), args[0], o.verb, *d)
		if err != nil {
			return err
		}
		return out.Print(p.Stdout, after, func(w io.Writer) error {
			_, err := io.WriteString(w, o.said(args[0], after)+"\n")
			return err
		})
	}
	c.AddFlags(cmd)
	cmd.Flags().StringVar(&d.Reason, "reason", "", o.reason)
	out.AddFlag(cmd)
	return cmd
}

// says is a decision.said that needs the run's id alone.
func says(format string) func(string, api.Run) string {
	return func(id string, _ api.Run) string { return fmt.Sprintf(format, id) }
}

// addQuestionFlags names the question and the plan that are decided about.
func addQuestionFlags(cmd *cobra.Command, d *api.DecisionRequest) {
	cmd.Flags().StringVar(&d.Digest, "digest", "", "digest of the plan you saw; a different one is refused")
	cmd.Flags().StringVar(&d.Gate, "gate", "", "the question you answer (default: the one that is open)")
}

func newApproveCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	cmd := &cobra.Command{
		Use:   "approve RUN",
		Short: "Approve the plan that a run asks about",
		Long: `Approve the plan that a run asks about. The approval is bound to the plan: when
the world has moved since, it is void and a fresh plan is shown. --digest names
the plan you saw ('responder runs show RUN' prints it), so that no other one is
approved by accident.

Where several people are needed, your approval counts and the run goes on asking
the others. --break-glass approves alone, if a rule of the policy names you for
that; it takes --reason and stands out in the log.`,
		Example: `  responder approve r-01JDXYZ
  responder approve r-01JDXYZ --digest sha256:5f2c... --reason 'deploy is the cause'
  responder approve r-01JDXYZ --break-glass --reason 'nobody else answers, checkout is down'`,
	}
	addQuestionFlags(cmd, &d)
	cmd.Flags().BoolVar(&d.BreakGlass, "break-glass", false, "approve alone, past what is needed; takes --reason")
	return decision{
		verb: "approve", reason: "why, for the record",
		check: func() error {
			if d.BreakGlass && d.Reason == "" {
				return errors.New("why? --break-glass takes --reason, which stands out in the run's record")
			}
			return nil
		},
		said: func(id string, after api.Run) string {
			if g := after.Gate; g != nil && len(g.Votes) > 0 {
				return fmt.Sprintf("your approval of %s counts; still needed:\n%s", id, strings.TrimSuffix(runview.Printable(runview.UnmetLines(*after.Machine().Gate)), "\n"))
			}
			return fmt.Sprintf("approved %s; follow it with: %s", id, runview.WatchCommand(id))
		},
	}.command(p, &d, cmd)
}

func newDenyCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	cmd := &cobra.Command{
		Use:     "deny RUN --reason TEXT",
		Short:   "Deny the plan that a run asks about",
		Example: "  responder deny r-01JDXYZ --reason 'load test, not an incident'",
	}
	addQuestionFlags(cmd, &d)
	return decision{
		verb: "deny", reason: "why, for the record", needs: "why? a denial takes --reason, which the run's record keeps",
		said: says("denied %s"),
	}.command(p, &d, cmd)
}

func newReplanCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	cmd := &cobra.Command{
		Use:   "replan RUN",
		Short: "Ask for a fresh plan instead of the one a run asks about",
		Long: `Ask for a fresh plan instead of the one a run asks about. The question and all
approvals of it are void; the lever is planned as the world is now, guards and
policy are asked again, and people decide about the new plan. Whoever may decide
may ask for this, a few times for one lever.`,
		Example: "  responder replan r-01JDXYZ --reason 'the node is back'",
	}
	addQuestionFlags(cmd, &d)
	return decision{
		verb: "replan", reason: "why, for the record",
		said: func(id string, _ api.Run) string {
			return id + " plans afresh; look at what it asks then with: " + runview.ShowCommand(id)
		},
	}.command(p, &d, cmd)
}

func newRunsCancelCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	cmd := &cobra.Command{
		Use:     "cancel RUN --reason TEXT",
		Short:   "Stop a run; a change that is half done is finished or undone first",
		Example: "  responder runs cancel r-01JDXYZ --reason 'handled by hand'",
	}
	return decision{
		verb: "cancel", reason: "why, for the record", needs: "why? cancelling takes --reason, which the run's record keeps",
		said: says("asked %s to stop"),
	}.command(p, &d, cmd)
}

func newRunsResolveCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	var applied, notApplied bool
	cmd := &cobra.Command{
		Use:   "resolve RUN --applied|--not-applied --reason TEXT",
		Short: "Tell a held run what became of its change",
		Long: `A run is held when it cannot prove whether its change happened. Look at the
target yourself, then say which it is; the run goes on from there.`,
		Example: `  responder runs resolve r-01JDXYZ --not-applied --reason 'generation is still 7'
  responder runs resolve r-01JDXYZ --applied --reason 'replicas are 5'`,
	}
	cmd.Flags().BoolVar(&applied, "applied", false, "the change is in the world")
	cmd.Flags().BoolVar(&notApplied, "not-applied", false, "it is not")
	d.Applied = &applied
	return decision{
		verb: "resolve", reason: "how you know, for the record", needs: "how do you know? --reason says it, and the run's record keeps it",
		check: func() error {
			if applied == notApplied {
				return errors.New("which is it? say --applied or --not-applied")
			}
			return nil
		},
		said: says("told %s"),
	}.command(p, &d, cmd)
}

func newRunsReleaseCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	cmd := &cobra.Command{
		Use:   "release RUN --reason TEXT",
		Short: "Let go of a run that was set aside",
		Long: `A run is set aside when it cannot be processed: its record cannot be read, its
playbook no longer compiles, or the service died over it again and again.
'responder runs list' shows it as "quarantined". What it changed is still in
place, and so are its locks, so that no other run acts over what it left behind.

Look at the target yourself and put right what is half done. Then release the
run: it ends, its locks are free, and its alerts start a new run with the next
notification if they still fire.`,
		Example: "  responder runs release r-01JDXYZ --reason 'replicas are 4 as before, nothing is half done'",
	}
	return decision{
		verb: "release", reason: "what you found, for the record", needs: "what did you find? --reason says it, and the journal keeps it",
		said: says("released %s"),
	}.command(p, &d, cmd)
}
