package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/runview/review"
)

type reportFlags struct {
	client            client.Client
	since, until      string
	service, playbook string
	period            bool // one of the flags since, until, service and playbook is given
	untilGiven        bool
	out               command.Output
}

const reportLong = `Write what happened in a run, for the review of an incident: what burned, the
cause with its evidence, what was changed and by whose decision, what proved it, where
the time went and what waiting for people cost, what is known of the error budget, and
the timeline.

With --since write one report over all runs that began in a period, for the weekly
review: what became of alerts, runs and changes, the verdicts on each lever, the time
to repair, what approvals cost and what they protected from, the branches that were
taken, alerts that no playbook matches, and the runs that people should look at. What
is not known is left out and named.

-o html writes one file that needs nothing from outside.`

func newReportCommand(p *command.Process) *cobra.Command {
	f := reportFlags{client: client.Client{Process: p}}
	cmd := &cobra.Command{
		Use:   "report RUN | --since T [--until T]",
		Short: "Write what happened in a run or a period, as Markdown or HTML",
		Long:  reportLong,
		Args:  atMostOne,
		Example: `  responder report r-01JDXYZ > incident.md
  responder report r-01JDXYZ -o html > incident.html
  responder report --since 7d > week.md
  responder report --since 2026-11-01 --until 2026-12-01 --service serving/chat -o html > november.html
  responder report --since 7d -o json
  responder report preview weekly`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.untilGiven = cmd.Flags().Changed("until")
			f.period = slices.ContainsFunc([]string{"since", "until", "service", "playbook"}, cmd.Flags().Changed)
			data, doc, err := f.report(cmd.Context(), args)
			if err != nil {
				return err
			}
			return f.out.PrintDocument(p.Stdout, data, doc)
		},
	}
	f.client.AddFlags(cmd)
	cmd.Flags().StringVar(&f.since, "since", "", "runs that began at this time or later: 7d for seven days ago, 2026-11-01 for its midnight on this machine's clock, or 2026-11-01T12:00:00Z")
	cmd.Flags().StringVar(&f.until, "until", "", "with --since: and before this time (default now)")
	cmd.Flags().StringVar(&f.service, "service", "", "with --since: only runs on this service")
	cmd.Flags().StringVar(&f.playbook, "playbook", "", "with --since: only runs of this playbook")
	f.out.AddDocumentFlag(cmd)
	completeRuns(cmd, &f.client, nil)
	completeServices(cmd, &f.client)
	cmd.AddCommand(newReportPreviewCommand(p))
	return cmd
}

// report returns the report that was asked for, as data and as a document.
func (f *reportFlags) report(ctx context.Context, args []string) (any, review.Document, error) {
	switch {
	case f.period && len(args) > 0:
		return nil, review.Document{}, errors.New("RUN is one run; leave out --since, --until, --service and --playbook, which select the runs of a period")
	case f.period && f.since == "":
		return nil, review.Document{}, errors.New("missing --since: --until, --service and --playbook select the runs of a period; write, for example, --since 7d")
	case f.period:
		r, err := f.fetchPeriod(ctx, time.Now())
		return r, review.OfPeriod(r), err
	case len(args) == 0 || args[0] == "":
		return nil, review.Document{}, missing("RUN, or --since for a report over a period; 'responder runs list' lists runs")
	}
	id, err := f.client.RunNamed(ctx, args[0])
	if err != nil {
		return nil, review.Document{}, err
	}
	run, shown, err := fetchRun(ctx, &f.client, id)
	if err != nil {
		return nil, review.Document{}, err
	}
	var events []machine.Event
	for _, e := range run.Events {
		events = append(events, e.Machine())
	}
	state := run.Run.Machine()
	state.Playbook, _ = parseDocument(state, shown.document) // without it no cause is known
	incident := runview.IncidentOf(state, events)
	var budget api.RunBudget
	err = f.client.Get(ctx, client.RunPath(id)+"/budget", nil, &budget)
	switch {
	case ctx.Err() != nil:
		return nil, review.Document{}, cmp.Or(err, ctx.Err())
	case err != nil: // the report says that it is unknown
		fmt.Fprintf(f.client.Process.Stderr, "what the run spent of the error budget is not known: %v\n", err)
	}
	incident.Spent = budget.Spent
	return incident, review.OfIncident(incident), nil
}

// fetchPeriod fetches every page of a period. Without --until the period ends now by the
// clock of the service.
func (f *reportFlags) fetchPeriod(ctx context.Context, now time.Time) (api.PeriodReport, error) {
	since, err := moment("--since", f.since, now)
	if err != nil {
		return api.PeriodReport{}, err
	}
	if since.After(now) {
		return api.PeriodReport{}, fmt.Errorf("--since %s is in the future, where no run began; write an earlier time", since.Format(time.RFC3339))
	}
	query := url.Values{"since": {since.UTC().Format(time.RFC3339)}}
	if f.untilGiven {
		until, err := moment("--until", f.until, now)
		if err != nil {
			return api.PeriodReport{}, err
		}
		if !since.Before(until) {
			return api.PeriodReport{}, fmt.Errorf("--since %s is not before --until %s: no run can have begun in between; write an earlier --since or a later --until", since.Format(time.RFC3339), until.Format(time.RFC3339))
		}
		query.Set("until", until.UTC().Format(time.RFC3339))
	}
	if f.service != "" {
		query.Set("service", f.service)
	}
	if f.playbook != "" {
		query.Set("playbook", f.playbook)
	}
	var all review.Period
	for {
		var page api.DigestPage
		if err := f.client.Get(ctx, client.ReportPath, query, &page); err != nil {
			return api.PeriodReport{}, err
		}
		all.Add(page)
		if page.Next == "" {
			return all.Report(), nil
		}
		query.Set("before", page.Next)
		query.Set("until", page.Until.UTC().Format(time.RFC3339Nano))
	}
}
