package slo

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// BurnKind declares slo.burn.
func BurnKind() playbook.Kind {
	return playbook.Kind{
		Name: "slo.burn",
		Role: playbook.RoleCheck,
		Doc: `Measures the objectives that the catalog declares for the service, by the series of its engine. It takes no PromQL.

` + "`status`" + ` is ` + "`breached`" + ` when one objective is missed by more than chance over the short window, or a replica stands still; ` + "`met`" + ` when every
objective is met; else ` + "`unknown`" + `: too few requests, no series, or a threshold that no bucket of the histogram has. With too few requests in
the short window the long one decides. Requests on a replica that runs some and takes no step for two minutes count as bad, although no
histogram has them. Without ` + "`prometheus.url`" + ` it is ` + "`unknown`" + `, too, and ` + "`configured`" + ` is false. ` + "`ending`" + ` says that the breach already gets better by itself. Short outages of Prometheus are waited for.`,
		With: step.Fields[burnWith](),
		Out:  step.Fields[burnOut](),
	}
}

type burn struct {
	q       step.Querier
	budgets *budgets // nil: budgets are not asked for
}

// NewBurn returns the check slo.burn.
func NewBurn(d step.Deps) step.Check { return burn{d.Querier, &budgets{}} }

type burnWith struct {
	Short    step.Duration `json:"short" default:"5m" doc:"Window that decides."`
	Long     step.Duration `json:"long" default:"1h" doc:"Window that shows the past, and decides when the short one has too few requests."`
	Recent   step.Duration `json:"recent" default:"2m" doc:"Newest part of the short window, compared with the rest of it for the direction, and its halves with each other. A half should hold two scrapes."`
	Lookback step.Duration `json:"lookback" default:"6h" doc:"How far back the beginning of a breach is looked for."`
	Before   step.Duration "json:\"before\" default:\"30m\" doc:\"How much of the time before the breach belongs to `window`: a change takes a while to show.\""
	Factor   float64       "json:\"factor\" min:\"0\" doc:\"Burn factor of the alert, e.g. 14.4: half of it or more is a breach for certain. Unset: by the alert's label `long`, else 6.\""
}

type burnOut struct {
	Status        string         `json:"status" enum:"met,breached,unknown" doc:"How the service stands to its objectives."`
	Configured    bool           `json:"configured" doc:"A Prometheus is configured. If not, status stays unknown, and waiting does not help."`
	Worst         string         `json:"worst" doc:"Objective that burns most, else the first that is unknown; empty when all are met."`
	Ratio         *float64       `json:"ratio,omitempty" unit:"ratio" doc:"Bad share of the worst objective over the short window."`
	Burn          *float64       `json:"burn,omitempty" doc:"The same in multiples of what the objective allows."`
	Direction     string         `json:"direction" enum:"rising,falling,level" doc:"Where the bad share of the worst objective goes within the short window; level unless the difference is more than chance."`
	Ending        bool           `json:"ending" doc:"Every missed objective already gets better by itself: its share falls, over the recent part or its newer half, and is now within the objective or at most half of what it was."`
	Window        step.Duration  `json:"window" doc:"How far back to look for changes: from before the breach began until now."`
	Since         *time.Time     `json:"since,omitempty" doc:"When the breach began, as far as Prometheus tells; unset unless breached."`
	BudgetLeft    *float64       `json:"budget_left,omitempty" unit:"ratio" doc:"Share of the worst objective's error budget that is left over its period, as of the last ten minutes: 1 is all of it, negative is overspent. Unset unless breached, and without requests at the beginning of the period."`
	Exhausted     *step.Duration `json:"exhausted_in,omitempty" doc:"How long the budget lasts at the burn of the short window; unset if that is not known, or longer than the period."`
	StuckReplicas int            `json:"stuck_replicas" unit:"replicas" doc:"Replicas that run requests and take no step."`
	Stuck         []stuckOut     `json:"stuck" doc:"Which ones."`
	Hung          float64        `json:"hung" unit:"requests" doc:"Requests on other replicas that never finish: so many more are in flight than those that finish account for, beyond what is usual for the service."`
	HungKnown     bool           `json:"hung_known" doc:"Whether hung could be told: not while replicas are stuck, without an hour of history, or where a request takes longer than a minute. Then hung is 0."`
	Unfinished    float64        `json:"unfinished" unit:"requests" doc:"Requests on stuck replicas, at least as many as another replica finishes in the same time, and hung ones."`
	Objectives    []objectiveOut `json:"objectives" doc:"Every objective, and every value of its label where it has one."`
	Query         string         `json:"query" doc:"PromQL for the bad share of the objective that burns most over the short window, also when it is met; empty: nothing answers for it."`
	QueryLong     string         `json:"query_long" doc:"The same over the long window."`
	Note          string         `json:"note" doc:"Why not all stuck replicas are known, or what is not configured; empty: all are known."`
}

type stuckOut struct {
	Name     string  `json:"name" doc:"Pod, else instance."`
	InFlight float64 `json:"in_flight" unit:"requests" doc:"Requests that it runs and keeps waiting."`
}

type objectiveOut struct {
	Name         string   `json:"name" doc:"Its name, with the value of its label."`
	Indicator    string   `json:"indicator" doc:"What is measured: ttft, tpot, itl, e2e, errors, goodput."`
	Status       string   `json:"status" enum:"met,breached,unknown" doc:"How the service stands to it."`
	Objective    float64  `json:"objective" doc:"Share of good requests that is wanted."`
	Threshold    float64  `json:"threshold" unit:"seconds" doc:"Duration that counts as good; 0 for errors."`
	Series       string   `json:"series" doc:"What was counted; empty: nothing answered."`
	Ratio        *float64 `json:"ratio,omitempty" unit:"ratio" doc:"Bad share over the short window."`
	BurnShort    *float64 `json:"burn_short,omitempty" doc:"Bad share over the short window, in multiples of what is allowed."`
	BurnLong     *float64 `json:"burn_long,omitempty" doc:"The same over the long window."`
	Samples      float64  `json:"samples" unit:"requests" doc:"Requests of the short window."`
	Direction    string   `json:"direction" enum:"rising,falling,level" doc:"Where the share goes."`
	RatioEarlier *float64 `json:"ratio_earlier,omitempty" unit:"ratio" doc:"Bad share in the earlier part of the short window; of a breach that ends within the recent part, in its older half."`
	RatioRecent  *float64 `json:"ratio_recent,omitempty" unit:"ratio" doc:"Bad share in the recent part, or in its newer half."`
	Ending       bool     `json:"ending" doc:"It is missed, and already gets better by itself."`
	Why          string   `json:"why" doc:"Why it is unknown; empty otherwise."`
}

// The spans of a measurement, by their position.
const (
	spanShort = iota
	spanLong
	spanRecent
	spanEarlier
	spanLatest // the newer half of the recent part
	spanFormer // the older half of it
)

// Run implements [step.Check].
func (c burn) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[burnWith](BurnKind(), in.With)
	switch {
	case err != nil:
		return step.Finding{}, err
	case with.Recent <= 0 || with.Recent >= with.Short || with.Short >= with.Long:
		return step.Finding{}, step.Invalid("slo.burn: want recent < short < long, got %s, %s, %s",
			time.Duration(with.Recent), time.Duration(with.Short), time.Duration(with.Long))
	}
	out := burnOut{Status: string(slo.Unknown), Configured: c.q != nil, Direction: string(slo.Level), Window: with.Before, Stuck: []stuckOut{}, Objectives: []objectiveOut{}}
	if !out.Configured {
		out.Note = step.NotConfigured("Prometheus", "prometheus.url").Error()
		return step.Finding{Out: out, Facts: []string{out.Note}}, nil
	}
	if len(in.Service.SLOs) == 0 {
		out.Note = "the service has no objectives"
		return step.Finding{Out: out, Facts: []string{out.Note + ": declare slos in the catalog, or slo.defaults"}}, nil
	}
	short, long, recent := time.Duration(with.Short), time.Duration(with.Long), time.Duration(with.Recent)
	q := step.Patient(c.q)
	m, err := slo.Measure(ctx, q, step.Objectives(in.Service), in.Now,
		slo.Span{Window: short}, slo.Span{Window: long}, slo.Span{Window: recent}, slo.Span{Window: short - recent, Offset: recent},
		slo.Span{Window: recent / 2}, slo.Span{Window: recent / 2, Offset: recent / 2})
	if err != nil {
		return step.Finding{}, err
	}
	facts, worst := out.fill(m, with, in.Alert)
	out.Query, out.QueryLong = m.Measured[worst].RatioQuery(short), m.Measured[worst].RatioQuery(long)
	if out.Status == string(slo.Breached) {
		since, err := m.Measured[worst].Began(ctx, q, in.Now, short, time.Duration(with.Lookback))
		if err != nil {
			return step.Finding{}, err
		}
		at := since.UTC()
		out.Since = &at
		out.Window = step.Duration(in.Now.Sub(since).Round(time.Second)) + with.Before
		facts = append(facts, "burns since "+at.Format("15:04:05Z"))
		if x := m.Measured[worst]; x.Reason == "" && c.budgets != nil {
			left := c.budgets.of(ctx, c.q, in.Service.Selector, x, in.Now)
			facts = append(facts, out.budget(left, x.Objective, out.Objectives[worst]))
		}
	}
	return step.Finding{Out: out, Facts: facts}, nil
}

// fill judges all objectives and returns the lines for people, and the position
// of the worst objective.
func (out *burnOut) fill(m slo.Measurement, with burnWith, alert playbook.Alert) (facts []string, worst int) {
	for _, r := range m.Stuck {
		out.Stuck = append(out.Stuck, stuckOut(r))
	}
	out.HungKnown = m.HungKnown
	out.StuckReplicas, out.Hung, out.Unfinished, out.Note = len(m.Stuck), math.Round(m.Hung), math.Round(m.Unfinished), m.Note
	said := map[string]int{}
	ending := 0
	for i, x := range m.Measured {
		own := with
		if with.Factor == 0 {
			own.Factor = step.AlertFactor(alert, x.Objective.Period)
		}
		o, fact := judge(x, own, len(m.Stuck) > 0)
		out.Objectives, facts = append(out.Objectives, o), append(facts, fact)
		said[o.Status]++
		if o.Ending {
			ending++
		}
		if i > 0 && worse(o, out.Objectives[worst]) {
			worst = i
		}
	}
	switch {
	case said[string(slo.Breached)] > 0 || len(m.Stuck) > 0:
		out.Status = string(slo.Breached)
		out.Ending = ending > 0 && ending == said[string(slo.Breached)] && len(m.Stuck) == 0
	case said[string(slo.Unknown)] == 0:
		out.Status = string(slo.Met)
	}
	if w := out.Objectives[worst]; out.Status != string(slo.Met) {
		out.Worst, out.Ratio, out.Burn, out.Direction = w.Name, w.Ratio, w.BurnShort, w.Direction
	}
	if len(m.Stuck) > 0 {
		var names []string
		for _, r := range m.Stuck {
			names = append(names, fmt.Sprintf("%s (%.0f in flight)", r.Name, r.InFlight))
		}
		facts = append(facts, "runs requests and takes no step: "+strings.Join(names, ", "))
	}
	if m.Hung > 0 {
		facts = append(facts, step.HungText(m.Hung))
	}
	if m.Note != "" {
		facts = append(facts, m.Note)
	}
	return facts, worst
}

// worse orders objectives: missed before unknown before met, then by burn.
func worse(a, b objectiveOut) bool {
	rank := func(o objectiveOut) int {
		switch o.Status {
		case string(slo.Breached):
			return 2
		case string(slo.Unknown):
			return 1
		}
		return 0
	}
	if rank(a) != rank(b) {
		return rank(a) > rank(b)
	}
	return a.BurnShort != nil && (b.BurnShort == nil || *a.BurnShort > *b.BurnShort)
}

// judge returns the evidence of one objective and the line for people.
func judge(x slo.Measured, with burnWith, stuck bool) (objectiveOut, string) {
	o := objectiveOut{
		Name: x.Name(), Indicator: x.Objective.Indicator, Objective: x.Objective.Objective, Threshold: x.Objective.Threshold,
		Series: x.Series, Status: string(slo.Unknown), Direction: string(slo.Level), Why: x.Detail,
	}
	if x.Reason != "" {
		return o, o.Name + ": unknown: " + x.Detail
	}
	test := slo.Test{Objective: o.Objective, Factor: with.Factor, Now: x.Counts[spanShort], Bad: step.BadWord(o.Indicator)}
	stands, d := test.Stands()
	over := time.Duration(with.Short)
	o.Samples = math.Round(d.Total)
	o.Ratio, o.BurnShort = number(d.Ratio), number(d.Burn)
	long := x.Counts[spanLong]
	o.BurnLong = number(slo.BurnRate(long.Ratio(), o.Objective))
	if stands == slo.Unknown {
		test.Now = long
		stands, d = test.Stands()
		over = time.Duration(with.Long)
	}
	o.Status = string(stands)
	if stands == slo.Unknown {
		o.Why = d.Text
	}
	earlier, recent := x.Counts[spanEarlier], x.Counts[spanRecent]
	o.RatioEarlier, o.RatioRecent = number(earlier.Ratio()), number(recent.Ratio())
	fact := fmt.Sprintf("%s over %s: %s", o.Name, step.DurationText(over), d.Text)
	if stuck || o.RatioEarlier == nil || o.RatioRecent == nil {
		return o, fact // requests that do not finish have no earlier share to compare with
	}
	heads := slo.Heads(earlier, recent)
	o.Direction = string(heads)
	o.Ending = stands == slo.Breached && eases(test, earlier, recent)
	if former, latest := x.Counts[spanFormer], x.Counts[spanLatest]; stands == slo.Breached && !o.Ending && eases(test, former, latest) {
		// A breach younger than the recent part: only the newest part shows its end.
		o.Ending, o.Direction = true, string(slo.Falling)
		o.RatioEarlier, o.RatioRecent = number(former.Ratio()), number(latest.Ratio())
	}
	fact += fmt.Sprintf("; %s, %s to %s", o.Direction, slo.Percent(*o.RatioEarlier), slo.Percent(*o.RatioRecent))
	if o.Ending {
		fact += ": ends by itself"
	}
	return o, fact
}

// eases reports whether a missed objective already gets better by itself: the share
// falls from one window to the next, and is within the objective by then or at most
// half of what it was.
func eases(test slo.Test, earlier, later slo.Counts) bool {
	if slo.Heads(earlier, later) != slo.Falling {
		return false
	}
	test.Now = later
	now, _ := test.Stands()
	return now != slo.Breached || 2*later.Ratio() <= earlier.Ratio()
}

// number returns a pointer to a finite number, else nil.
func number(v float64) *float64 {
	if !step.IsFinite(v) {
		return nil
	}
	return &v
}
