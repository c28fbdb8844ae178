package app

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/notify/report"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/runview/review"
	"github.com/inference-responder/responder/internal/web"
	"github.com/inference-responder/responder/internal/webhook"
)

// summaries writes the reports that the service sends, from the figures of the report that
// people ask for.
type summaries struct {
	reports  reports
	services func() []playbook.Service
	inForce  func() *playbook.Set
	budgets  func(context.Context, playbook.Service) []web.Budget
}

// runsAtOnce is how many runs are read between two looks at whether the service ends.
const runsAtOnce = 200

// budgetServices bounds the services whose error budget a report asks Prometheus for.
const budgetServices = 4

// sendReports sends the configured reports, once the runs are loaded. Only the service that
// has the journal open gets here: a standby waits for the journal, and sends none.
func (s *Service) sendReports(ctx context.Context) error {
	if !s.library.await(ctx) {
		return nil
	}
	from := summaries{
		reports: reports{s.executor, s.received(), s.world.Now}, services: s.world.Services, inForce: s.library.set,
		budgets: newBudgets(s.world.Deps.Querier, s.world.Now, s.log).of,
	}
	return report.New(report.Options{
		Reports: s.reports, Ledger: reportLedger{s.executor}, Compose: from.compose, Now: s.world.Now, Log: s.log,
	}).Run(ctx)
}

// reportLedger keeps reports in the executor's stream of the journal.
type reportLedger struct{ *executor.Executor }

// Record implements [report.Ledger].
func (l reportLedger) Record(ctx context.Context, m report.Made) error {
	return l.RecordReport(ctx, executor.Report{Reported: executor.Reported{Name: m.Name, Until: m.Until}, Text: m.Text, To: m.To})
}

// compose writes a report. It is empty for a period without runs, where the configuration
// wants none then.
func (s summaries) compose(ctx context.Context, c report.Config, since, until time.Time) (string, error) {
	r, err := s.period(ctx, c.Services, since, until)
	if err != nil {
		return "", err
	}
	now := s.today(ctx, c.Services, r)
	if c.SkipEmpty && r.Runs.Total+r.Archived+len(r.Unreadable)+len(now.Notes) == 0 {
		return "", nil
	}
	return review.Brief(c.Name, c.Location(), r, now), nil
}

// period adds up the runs of the services, or of all.
func (s summaries) period(ctx context.Context, services []string, since, until time.Time) (api.PeriodReport, error) {
	var all review.Period
	q := webhook.PeriodQuery{Since: since, Until: until, Limit: runsAtOnce}
	for {
		page, err := s.reports.Period(ctx, q)
		if err != nil {
			return api.PeriodReport{}, err
		}
		if len(services) > 0 {
			page.Alerts = nil // which services those without a run belong to is not known
			page.Runs = slices.DeleteFunc(page.Runs, func(d api.RunDigest) bool { return !slices.Contains(services, d.Service) })
		}
		all.Add(page)
		if q.Before = page.Next; page.Next == "" {
			return all.Report(), nil
		}
	}
}

// today returns what holds now.
func (s summaries) today(ctx context.Context, services []string, r api.PeriodReport) review.Today {
	var now review.Today
	of := func(name string) bool { return len(services) == 0 || slices.Contains(services, name) }
	for _, l := range loansOut(s.reports.executor) {
		if of(l.Service) {
			now.Loans = append(now.Loans, l)
		}
	}
	proven := map[string]bool{}
	for _, l := range s.reports.executor.Ladder(executor.Filter{}) {
		if of(l.Service) && l.Verified > 0 {
			proven[l.Playbook] = true
		}
	}
	for _, p := range s.inForce().All() {
		changes := slices.ContainsFunc(p.States, func(st *playbook.State) bool { return st.Kind == playbook.StateLever })
		if changes && !proven[p.Name] && p.Name != executor.LoanReturn {
			now.Unproven = append(now.Unproven, p.Name)
		}
	}
	known := map[string]playbook.Service{}
	for _, svc := range s.services() {
		known[svc.Name] = svc
	}
	for _, name := range services {
		if _, ok := known[name]; !ok {
			now.Notes = append(now.Notes, fmt.Sprintf("The catalog has no service %s now.", name))
		}
	}
	for _, g := range r.Services[:min(len(r.Services), budgetServices)] {
		if svc, ok := known[g.Name]; ok && len(svc.SLOs) > 0 {
			now.Budgets = append(now.Budgets, budgetText(svc, s.budgets(ctx, svc)))
		}
	}
	return now
}

// budgetText is what is left of a service's error budgets: of each objective the least, and
// unknown where anything of it is.
func budgetText(svc playbook.Service, all []web.Budget) string {
	var each []string
	for _, o := range svc.SLOs {
		least, known := math.Inf(1), false
		for _, b := range all {
			if b.Objective != o.Name {
				continue
			}
			known = true
			if b.Why != "" || math.IsNaN(b.Left) {
				known = false
				break
			}
			least = min(least, b.Left)
		}
		left := "unknown"
		if known {
			left = strconv.FormatFloat(100*least, 'f', 0, 64) + " %"
		}
		each = append(each, o.Name+" "+left)
	}
	return runview.Cut(svc.Name, 48) + " " + strings.Join(each, ", ")
}
