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
	return report.New(report.Options{
		Reports: s.reports, Ledger: reportLedger{s.executor}, Compose: s.summaries().compose, Now: s.world.Now, Log: s.log,
	}).Run(ctx)
}

func (s *Service) summaries() summaries {
	return summaries{
		reports: reports{s.executor, s.received(), s.world.Now}, services: s.world.Services, inForce: s.library.set,
		budgets: newBudgets(s.world.Deps.Querier, s.world.Now, s.log).of,
	}
}

// previews answers what people ask about reports.
type previews struct {
	reports
	from       summaries
	configured []report.Config
	slot       chan struct{} // of capacity 1: a preview reads all runs of its period
}

func (s *Service) previews() previews {
	from := s.summaries()
	return previews{reports: from.reports, from: from, configured: s.reports, slot: make(chan struct{}, 1)}
}

// Preview implements [webhook.Reports].
func (p previews) Preview(ctx context.Context, name string, since time.Time) (api.ReportPreview, error) {
	i := slices.IndexFunc(p.configured, func(c report.Config) bool { return c.Name == name })
	if i < 0 {
		return api.ReportPreview{}, p.unknown(name)
	}
	if err := p.executor.Ready(); err != nil {
		return api.ReportPreview{}, refusalOf(err) // until when the last one was made is not known yet
	}
	select {
	case p.slot <- struct{}{}:
		defer func() { <-p.slot }()
	case <-ctx.Done():
		return api.ReportPreview{}, ctx.Err()
	}
	c, now := p.configured[i], p.now()
	next := c.Coming(now, p.executor.Reported()[name])
	switch {
	case since.IsZero():
		since = next.Since
	case !since.Before(next.Due):
		return api.ReportPreview{}, &refused{as: webhook.ErrInvalid, message: fmt.Sprintf("since %s is not before %s, when report %s is due; give an earlier time", since.UTC().Format(time.RFC3339), next.Due.UTC().Format(time.RFC3339), name)}
	case next.Due.Sub(since) > report.MostPeriod:
		return api.ReportPreview{}, &refused{as: webhook.ErrInvalid, message: fmt.Sprintf("since %s is more than 31 days before %s, when report %s is due, and no report covers more; give a later time", since.UTC().Format(time.RFC3339), next.Due.UTC().Format(time.RFC3339), name)}
	}
	text, err := p.from.compose(ctx, c, since, next.Due)
	if err != nil {
		return api.ReportPreview{}, err
	}
	return api.ReportPreview{Name: name, To: c.To, Since: since.UTC(), Until: next.Due.UTC(), Now: now.UTC(), Text: text}, nil
}

// unknown refuses a name that no report has.
func (p previews) unknown(name string) error {
	if len(p.configured) == 0 {
		return &refused{as: webhook.ErrNotFound, message: "the configuration has no reports; add one to its block reports, as docs/reference/config.md describes it"}
	}
	var known []string
	for _, c := range p.configured {
		known = append(known, c.Name)
	}
	return &refused{as: webhook.ErrNotFound, message: fmt.Sprintf("no report is named %.60q; the configuration has %s", name, strings.Join(known, ", "))}
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
