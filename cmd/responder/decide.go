package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/webhook"
)

// decide sends what a person decides about a run. Who that is follows from the
// token.
func (c *client) decide(ctx context.Context, run, verb string, d webhook.DecisionRequest) error {
	_, err := c.decided(ctx, run, verb, d)
	return err
}

// decided is decide, and gives the run as it is then.
func (c *client) decided(ctx context.Context, run, verb string, d webhook.DecisionRequest) (machine.State, error) {
	var answer webhook.RunDetail
	err := c.send(ctx, http.MethodPost, runPath(run)+"/"+verb, d, &answer)
	return answer.Run, err
}

func newApproveCommand(p *process) *cobra.Command {
	c := client{process: p}
	var d webhook.DecisionRequest
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
		Args: one(whichRun),
		Example: `  responder approve r-01JDXYZ
  responder approve r-01JDXYZ --digest sha256:5f2c... --reason 'deploy is the cause'
  responder approve r-01JDXYZ --break-glass --reason 'nobody else answers, checkout is down'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.BreakGlass && d.Reason == "" {
				return errors.New("why? --break-glass takes --reason, which stands out in the run's record")
			}
			run, err := c.decided(cmd.Context(), args[0], "approve", d)
			if err != nil {
				return err
			}
			if g := run.Gate; g != nil && len(g.Votes) > 0 {
				_, err = fmt.Fprintf(p.stdout, "your approval of %s counts; still needed:\n%s", args[0], printable(unmetLines(*g)))
				return err
			}
			_, err = fmt.Fprintf(p.stdout, "approved %s; follow it with: responder runs watch %s\n", args[0], args[0])
			return err
		},
	}
	c.addFlags(cmd)
	addDecisionFlags(cmd, &d)
	cmd.Flags().BoolVar(&d.BreakGlass, "break-glass", false, "approve alone, past what is needed; takes --reason")
	return cmd
}

func newDenyCommand(p *process) *cobra.Command {
	c := client{process: p}
	var d webhook.DecisionRequest
	cmd := &cobra.Command{
		Use:     "deny RUN --reason TEXT",
		Short:   "Deny the plan that a run asks about",
		Args:    one(whichRun),
		Example: "  responder deny r-01JDXYZ --reason 'load test, not an incident'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.Reason == "" {
				return errors.New("why? a denial takes --reason, which the run's record keeps")
			}
			if err := c.decide(cmd.Context(), args[0], "deny", d); err != nil {
				return err
			}
			_, err := fmt.Fprintf(p.stdout, "denied %s\n", args[0])
			return err
		},
	}
	c.addFlags(cmd)
	addDecisionFlags(cmd, &d)
	return cmd
}

func addDecisionFlags(cmd *cobra.Command, d *webhook.DecisionRequest) {
	cmd.Flags().StringVar(&d.Reason, "reason", "", "why, for the record")
	cmd.Flags().StringVar(&d.Digest, "digest", "", "digest of the plan you saw; a different one is refused")
	cmd.Flags().StringVar(&d.Gate, "gate", "", "the question you answer (default: the one that is open)")
}

func newRunsCancelCommand(p *process) *cobra.Command {
	c := client{process: p}
	var d webhook.DecisionRequest
	cmd := &cobra.Command{
		Use:     "cancel RUN --reason TEXT",
		Short:   "Stop a run; a change that is half done is finished or undone first",
		Args:    one(whichRun),
		Example: "  responder runs cancel r-01JDXYZ --reason 'handled by hand'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.Reason == "" {
				return errors.New("why? cancelling takes --reason, which the run's record keeps")
			}
			if err := c.decide(cmd.Context(), args[0], "cancel", d); err != nil {
				return err
			}
			_, err := fmt.Fprintf(p.stdout, "asked %s to stop\n", args[0])
			return err
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&d.Reason, "reason", "", "why, for the record")
	return cmd
}

func newRunsResolveCommand(p *process) *cobra.Command {
	c := client{process: p}
	var d webhook.DecisionRequest
	var applied, notApplied bool
	cmd := &cobra.Command{
		Use:   "resolve RUN --applied|--not-applied --reason TEXT",
		Short: "Tell a held run what became of its change",
		Long: `A run is held when it cannot prove whether its change happened. Look at the
target yourself, then say which it is; the run goes on from there.`,
		Args: one(whichRun),
		Example: `  responder runs resolve r-01JDXYZ --not-applied --reason 'generation is still 7'
  responder runs resolve r-01JDXYZ --applied --reason 'replicas are 5'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if applied == notApplied {
				return errors.New("which is it? say --applied or --not-applied")
			}
			if d.Reason == "" {
				return errors.New("how do you know? --reason says it, and the run's record keeps it")
			}
			d.Applied = &applied
			if err := c.decide(cmd.Context(), args[0], "resolve", d); err != nil {
				return err
			}
			_, err := fmt.Fprintf(p.stdout, "told %s\n", args[0])
			return err
		},
	}
	c.addFlags(cmd)
	cmd.Flags().BoolVar(&applied, "applied", false, "the change is in the world")
	cmd.Flags().BoolVar(&notApplied, "not-applied", false, "it is not")
	cmd.Flags().StringVar(&d.Reason, "reason", "", "how you know, for the record")
	return cmd
}

func newRunsReleaseCommand(p *process) *cobra.Command {
	c := client{process: p}
	var d webhook.DecisionRequest
	cmd := &cobra.Command{
		Use:   "release RUN --reason TEXT",
		Short: "Let go of a run that was set aside",
		Long: `A run is set aside when it cannot be processed: its record cannot be read, its
playbook no longer compiles, or the service died over it again and again.
'responder runs list' shows it as "set aside". What it changed is still in
place, and so are its locks, so that no other run acts over what it left behind.

Look at the target yourself and put right what is half done. Then release the
run: it ends, its locks are free, and its alerts start a new run with the next
notification if they still fire.`,
		Args:    one(whichRun),
		Example: "  responder runs release r-01JDXYZ --reason 'replicas are 4 as before, nothing is half done'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if d.Reason == "" {
				return errors.New("what did you find? --reason says it, and the journal keeps it")
			}
			if err := c.decide(cmd.Context(), args[0], "release", d); err != nil {
				return err
			}
			_, err := fmt.Fprintf(p.stdout, "released %s\n", args[0])
			return err
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&d.Reason, "reason", "", "what you found, for the record")
	return cmd
}
