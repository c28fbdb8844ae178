package cli

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
)

func newLoansCommand(p *command.Process) *cobra.Command {
	cmd := group("loans", "Capacity and settings that were kept for an incident and are given back after it",
		newLoansListCommand(p), newLoansKeepCommand(p), newLoansReturnCommand(p))
	cmd.Long = `A change that was kept for an incident, such as added replicas, is a loan: it is
given back when the service has met its SLO for its recovery time, and its load
is one that it has carried without the loan. Each loan is a run of the playbook
loan-return, with the same guards and approvals as any other change; 'responder
runs show' tells where it stands.`
	return cmd
}

func newLoansListCommand(p *command.Process) *cobra.Command {
	c := client.Client{Process: p}
	var out command.Output
	var all bool
	var limit int
	var service string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what is on loan: what can still be returned first, then the newest first",
		Args:  none,
		Example: `  responder loans list
  responder loans list --all --service serving/chat -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > 1000 {
				return fmt.Errorf("--limit %d: must be between 1 and 1000", limit)
			}
			loans := []api.RunSummary{}
			for _, open := range []bool{true, false} { // those that can still be returned come first
				query := url.Values{"limit": {"1000"}, "playbook": {runview.LoanReturn}, "open": {strconv.FormatBool(open)}}
				if service != "" {
					query.Set("service", service)
				}
				var answer api.RunList
				if err := c.Get(cmd.Context(), client.RunsPath, query, &answer); err != nil {
					return err
				}
				loans = append(loans, slices.DeleteFunc(answer.Runs, func(r api.RunSummary) bool { // it ended in between
					return slices.ContainsFunc(loans, func(l api.RunSummary) bool { return l.Run == r.Run })
				})...)
			}
			if !all {
				loans = slices.DeleteFunc(loans, runview.LoanIsOver)
			}
			loans = loans[:min(len(loans), limit)]
			return out.PrintTable(p.Stdout, loans, runview.LoanTable(loans))
		},
	}
	c.AddFlags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "also those that were returned or kept")
	cmd.Flags().StringVar(&service, "service", "", "only loans of this service")
	completeServices(cmd, &c)
	cmd.Flags().IntVar(&limit, "limit", 100, "most loans, at most 1000")
	out.AddTableFlag(cmd)
	return cmd
}

// onlyLoans refuses a run that gives nothing back: to keep or return an incident's
// run would cancel it.
func onlyLoans(run api.Run) error {
	if run.Loan == "" {
		return fmt.Errorf("run %s gives nothing back: 'responder loans list' shows the loans", run.Run)
	}
	return nil
}

// returnable refuses a loan that is on its way back, or is none any more.
func returnable(run api.Run) error {
	if err := onlyLoans(run); err != nil {
		return err
	}
	switch machine.Phase(run.Status) {
	case machine.PhaseWatching:
		return nil
	case machine.PhaseDeciding:
		return fmt.Errorf("loan %s is on its way back and asks: answer with 'responder approve %s' or 'responder deny %s --reason TEXT'", run.Run, run.Run, run.Run)
	}
	return fmt.Errorf("loan %s does not wait: %s; 'responder runs show %s' tells more", run.Run, runview.LoanStatus(run.RunSummary), run.Run)
}

func newLoansKeepCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	cmd := &cobra.Command{
		Use:   "keep RUN --reason TEXT",
		Short: "Keep a loan for good; it is no longer given back",
		Long: `Keep a loan for good; it is no longer given back.

A hold that is kept (rollout.hold) keeps the Deployment paused: every rollout of it
waits, a fix too, until a person resumes it with 'kubectl rollout resume'.`,
		Example: "  responder loans keep r-01JDXYZ --reason 'traffic stays at this level'",
	}
	return decision{
		first: onlyLoans,
		verb:  "cancel", reason: "why; it is recorded", needs: "missing --reason: state why it stays",
		said: func(id string, after api.Run) string {
			if after.LoanLever == runview.HoldLever {
				return id + " is kept: " + runview.HoldKept(after)
			}
			return id + " is kept"
		},
	}.command(p, &d, cmd)
}

func newLoansReturnCommand(p *command.Process) *cobra.Command {
	var d api.DecisionRequest
	cmd := &cobra.Command{
		Use:   "return RUN --reason TEXT",
		Short: "Give a loan back now, without waiting for recovery",
		Long: `Give a loan back now, without waiting until the service has recovered. Guards,
policy and approvals hold as for any other change, and where the load does not fit
without the loan, people are asked first.

A hold (rollout.hold) is looked at now: its rollouts are resumed if the pod template
is another one than that of the release that is held. If it is the same, the hold
stays. Responder never lets that release go on; 'kubectl rollout resume' does.`,
		Example: "  responder loans return r-01JDXYZ --reason 'the nodes are needed elsewhere'",
	}
	return decision{
		first: returnable,
		verb:  "proceed", reason: "why; it is recorded", needs: "missing --reason: state why it is returned now",
		said: func(id string, after api.Run) string {
			if after.LoanLever == runview.HoldLever {
				return id + " looks now: " + runview.HoldReturned(after)
			}
			return id + " is being returned"
		},
	}.command(p, &d, cmd)
}
