package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
)

// decision is a command that sends a person's decision to a run.
type decision struct {
	verb   string                                                       // of the API
	waits  string                                                       // status of the runs that wait for it; empty: any open one may
	needs  string                                                       // error for a missing reason; empty: it is optional
	reason string                                                       // what --reason is
	check  func() error                                                 // checks the other flags; nil: no check
	asks   func(ctx context.Context, c *client.Client, id string) error // asks the person at the terminal before it is sent; nil: asks nobody
	first  func(before api.Run) error                                   // checks the run before it is sent; nil: no check
	said   func(id string, after api.Run) string                        // returns the text that is printed after it was accepted
}

// command completes cmd, which has its texts and its own flags. d is sent.
func (o decision) command(p *command.Process, d *api.DecisionRequest, cmd *cobra.Command) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	cmd.Args = one(runArgument)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.check != nil {
			if err := o.check(); err != nil {
				return err
			}
		}
		if d.Reason == "" && o.needs != "" {
			return errors.New(o.needs)
		}
		id, err := c.RunNamed(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if o.first != nil {
			var before api.RunDetail
			if err := c.Get(cmd.Context(), client.RunPath(id), nil, &before); err != nil {
				return err
			}
			if err := o.first(before.Run); err != nil {
				return err
			}
		}
		if o.asks != nil {
			if err := o.asks(cmd.Context(), &c, id); err != nil {
				return err
			}
		}
		after, err := c.Decide(cmd.Context(), id, o.verb, *d)
		if err != nil {
			return o.again(cmd.Context(), &c, id, *d, err)
		}
		return out.Print(p.Stdout, after, func(w io.Writer) error {
			_, err := io.WriteString(w, o.said(id, after)+"\n")
			return err
		})
	}
	c.AddFlags(cmd)
	cmd.Flags().StringVar(&d.Reason, "reason", "", o.reason)
	out.AddFlag(cmd)
	completeRuns(cmd, &c, func(r api.RunSummary) bool { return o.waits == "" || r.Status == o.waits })
	return cmd
}

// again returns, in place of the refusal of a plan that is not asked about any more, which
// one is, and the command for it.
func (o decision) again(ctx context.Context, c *client.Client, id string, d api.DecisionRequest, err error) error {
	var now api.RunDetail
	var conflict *client.ConflictError
	if d.Digest == "" || !errors.As(err, &conflict) || !conflict.Stale || c.Get(ctx, client.RunPath(id), nil, &now) != nil {
		return err
	}
	g := now.Run.Gate
	if g == nil || g.Digest == "" || g.Digest == d.Digest {
		return err
	}
	line := fmt.Sprintf("responder %s %s --digest %s", o.verb, id, g.Digest)
	if d.BreakGlass {
		line += " --break-glass"
	}
	if d.As != "" {
		line += " --as " + d.As
	}
	if d.Reason != "" {
		line += " --reason '" + strings.ReplaceAll(d.Reason, "'", `'\''`) + "'"
	}
	return fmt.Errorf("nothing was decided: the open question is about %s, not about %s\nread it first: %s\n%-13s  %s",
		runview.Printable(g.Digest), runview.Printable(d.Digest), runview.ShowCommand(id), "then "+o.verb+":", runview.Printable(line))
}

// says is a decision.said that needs the run's id alone.
func says(format string) func(string, api.Run) string {
	return func(id string, _ api.Run) string { return fmt.Sprintf(format, id) }
}

// addQuestionFlags adds the flags that name the question and the plan.
func addQuestionFlags(cmd *cobra.Command, d *api.DecisionRequest) {
	cmd.Flags().StringVar(&d.Digest, "digest", "", "digest of the plan you saw; a different one is refused")
	cmd.Flags().StringVar(&d.Gate, "gate", "", "ID of the question you answer (default: the open one)")
}

// addAsFlag adds the flag that names another person as the one who decides.
func addAsFlag(cmd *cobra.Command, d *api.DecisionRequest) {
	cmd.Flags().Var((*personName)(&d.As), "as", "decide under this name, to try how several people decide; only a sandbox without authentication takes it")
}

// personName is the value of --as. Empty is refused: it would decide as the caller.
type personName string

// Set implements pflag.Value.
func (n *personName) Set(text string) error {
	if text == "" {
		return errors.New("want the name of a person; an empty one would decide as you")
	}
	*n = personName(text)
	return nil
}

// String implements pflag.Value.
func (n *personName) String() string { return string(*n) }

// Type implements pflag.Value.
func (n *personName) Type() string { return "string" }

func newApproveCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	var yes bool
	cmd := &cobra.Command{
		Use:   "approve RUN",
		Short: "Approve the plan that a run asks about",
		Long: `Approve the plan that a run asks about. The approval counts for this plan only: if
the cluster has changed since, the run plans again and asks again. --digest names
the plan you saw, as 'responder runs show RUN' prints it; another plan is then
refused. --gate names the question instead, which a question without a plan needs.
Without either the plan is shown and you are asked first, which needs a terminal.
--yes approves what is open without looking.

If more approvals are needed, yours counts and the run still asks the others.
--break-glass approves alone, if a rule of the policy allows you to. It needs
--reason and stands out in the log.

In a sandbox without authentication everybody is user:anonymous. --as NAME decides
as another person, who is in every group that is asked; the log shows the channel
sandbox. Every other service refuses --as.`,
		Example: `  responder approve r-01JDXYZ
  responder approve r-01JDXYZ --digest sha256:5f2c... --reason 'deploy is the cause'
  responder approve r-01JDXYZ --break-glass --reason 'nobody else answers, checkout is down'
  responder approve r-01JDXYZ --as ada   # in a sandbox`,
	}
	addQuestionFlags(cmd, &d)
	addAsFlag(cmd, &d)
	cmd.Flags().BoolVar(&d.BreakGlass, "break-glass", false, "approve alone, without the other approvals; needs --reason")
	cmd.Flags().BoolVar(&yes, "yes", false, "approve without being shown the plan")
	return decision{
		verb: "approve", waits: string(machine.PhaseDeciding), reason: "why; it is recorded",
		check: func() error {
			if d.BreakGlass && d.Reason == "" {
				return errors.New("missing --reason: --break-glass needs one")
			}
			return nil
		},
		asks: func(ctx context.Context, c *client.Client, id string) error {
			switch {
			case yes, d.Digest != "", d.Gate != "":
				return nil
			case !command.IsTerminal(p.Stdin):
				return fmt.Errorf("nobody can be shown the plan: the input is not a terminal; give --digest or --gate with the one you saw ('responder runs show %s' prints both), or --yes for whatever is asked", id)
			}
			return confirm(ctx, p, c, id, &d)
		},
		said: func(id string, after api.Run) string {
			if g := after.Gate; g != nil && len(g.Votes) > 0 {
				return fmt.Sprintf("your approval of %s counts; still needed:\n%s", id, strings.TrimSuffix(runview.Printable(runview.UnmetLines(*after.Machine().Gate)), "\n"))
			}
			return fmt.Sprintf("approved %s; follow it with: %s", id, runview.WatchCommand(id))
		},
	}.command(p, &d, cmd)
}

// confirm shows a person what a run asks, and binds the decision to that plan once
// they have said yes.
func confirm(ctx context.Context, p *command.Process, c *client.Client, id string, d *api.DecisionRequest) error {
	var detail api.RunDetail
	if err := c.Get(ctx, client.RunPath(id), nil, &detail); err != nil {
		return err
	}
	g := detail.Run.Gate
	if g == nil || d.Gate != "" && d.Gate != g.Gate {
		return nil // the service says what is asked instead
	}
	r := newRunRenderer(p.Stderr, p, detail.Now)
	run := detail.Run.Machine()
	r.Book, _ = parseDocument(run, detail.Document) // without it states are shown by name
	r.Brief = true
	r.Question(run)
	question := "Approve it?"
	if g.TakeBack {
		question = "Take that change back?"
	}
	r.Printf("\n%s y or n: ", question)
	if r.Err != nil {
		return r.Err
	}
	line, err := bufio.NewReader(p.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		d.Digest, d.Gate = g.Digest, g.Gate
		return nil
	}
	return fmt.Errorf("nothing was decided; deny it with: responder deny %s --reason TEXT", id)
}

func newDenyCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	cmd := &cobra.Command{
		Use:   "deny RUN --reason TEXT",
		Short: "Deny the plan that a run asks about",
		Example: `  responder deny r-01JDXYZ --reason 'load test, not an incident'
  responder deny r-01JDXYZ --as bob --reason 'not now'   # in a sandbox`,
	}
	addQuestionFlags(cmd, &d)
	addAsFlag(cmd, &d)
	return decision{
		verb: "deny", waits: string(machine.PhaseDeciding), reason: "why; it is recorded", needs: "missing --reason: a denial needs one",
		said: says("denied %s"),
	}.command(p, &d, cmd)
}

func newReplanCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	cmd := &cobra.Command{
		Use:   "replan RUN",
		Short: "Ask for a fresh plan instead of the one a run asks about",
		Long: `Ask for a fresh plan instead of the one a run asks about. The question and its
approvals become void. The lever is planned again, guards and policy are evaluated
again, and people decide about the new plan. Everyone who may decide may ask for
it, a few times for one lever.`,
		Example: "  responder replan r-01JDXYZ --reason 'the node is back'",
	}
	addQuestionFlags(cmd, &d)
	return decision{
		verb: "replan", waits: string(machine.PhaseDeciding), reason: "why; it is recorded",
		said: func(id string, _ api.Run) string {
			return id + " plans afresh; look at what it asks then with: " + runview.ShowCommand(id)
		},
	}.command(p, &d, cmd)
}

func newRunsCancelCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	cmd := &cobra.Command{
		Use:   "cancel RUN --reason TEXT",
		Short: "Stop a run; a change that is half done is finished or undone first",
		Long: `Stop a run. A change that is half done is finished or undone first; one that was
kept stays. A rollout that the run holds (rollout.hold) stays held until another
release replaces it: its loan watches on. To cancel the run of a loan is to keep the
loan, as 'responder loans keep' does.`,
		Example: "  responder runs cancel r-01JDXYZ --reason 'handled by hand'",
	}
	return decision{
		verb: "cancel", reason: "why; it is recorded", needs: "missing --reason: a cancellation needs one",
		said: func(id string, after api.Run) string {
			if after.LoanLever == runview.HoldLever {
				return fmt.Sprintf("asked %s to stop: %s", id, runview.HoldKept(after))
			}
			for _, l := range after.Loans {
				if l.Kind == runview.HoldLever {
					return fmt.Sprintf("asked %s to stop; the rollout that it holds stays held until another release replaces it: responder loans list", id)
				}
			}
			return fmt.Sprintf("asked %s to stop", id)
		},
	}.command(p, &d, cmd)
}

func newRunsProceedCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	cmd := &cobra.Command{
		Use:     "proceed RUN --reason TEXT",
		Short:   "End the wait that a run is in; guards and approvals hold as ever",
		Example: "  responder runs proceed r-01JDXYZ --reason 'the room is cool again'",
	}
	return decision{
		verb: "proceed", waits: string(machine.PhaseWatching), reason: "why; it is recorded", needs: "missing --reason: state why it need not wait",
		said: says("%s goes on"),
	}.command(p, &d, cmd)
}

func newRunsResolveCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	var applied, notApplied bool
	cmd := &cobra.Command{
		Use:   "resolve RUN --applied|--not-applied --reason TEXT",
		Short: "Tell a held run what became of its change",
		Long: `A run is held when it does not know whether its change was made. Check the target
yourself, then state which it is. The run continues from there.`,
		Example: `  responder runs resolve r-01JDXYZ --not-applied --reason 'generation is still 7'
  responder runs resolve r-01JDXYZ --applied --reason 'replicas are 5'`,
	}
	cmd.Flags().BoolVar(&applied, "applied", false, "the change was made")
	cmd.Flags().BoolVar(&notApplied, "not-applied", false, "the change was not made")
	d.Applied = &applied
	return decision{
		verb: "resolve", waits: string(machine.PhaseHeld), reason: "how you know; it is recorded", needs: "missing --reason: state how you know",
		check: func() error {
			if applied == notApplied {
				return errors.New("give either --applied or --not-applied")
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
		Short: "End a run that is quarantined",
		Long: `A run is quarantined when it cannot be processed: its record cannot be read, its
playbook no longer compiles, or the service crashed on it several times. What it
changed stays in place. It keeps its locks, so that no other run changes the same
target.

Check the target yourself and finish or undo what is half done. Then release the
run. It ends, its locks are free, and alerts that still fire start a new run with
the next notification.`,
		Example: "  responder runs release r-01JDXYZ --reason 'replicas are 4 as before, nothing is half done'",
	}
	return decision{
		verb: "release", waits: api.StatusQuarantined, reason: "what you found; it is recorded", needs: "missing --reason: state what you found",
		said: says("released %s"),
	}.command(p, &d, cmd)
}
