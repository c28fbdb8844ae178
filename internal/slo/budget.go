package slo

import (
	"context"
	"fmt"
	"math"
	"time"
)

const (
	budgetBurn  = time.Hour       // the burn is that of the last hour
	budgetFirst = 5 * time.Minute // at the beginning of the period there were requests for so long
)

// Budget is what is left of the error budget of an objective over its period, or of
// one value of its label.
type Budget struct {
	Value string  // of the label
	Left  float64 // share: 1 is all of it, negative is overspent; NaN: not known
	Burn  float64 // of the last hour, in multiples of what the objective allows; NaN: not known
	Why   string  // why Left is not known; empty: it is
}

// Budgets measures what is left of the error budget of an objective. Prometheus
// reads all samples of the period for it.
func Budgets(ctx context.Context, q Asker, service string, o Objective, at time.Time) ([]Budget, error) {
	if o.Period <= 0 {
		return []Budget{unknownBudget("", "the objective has no period")}, nil
	}
	m, err := Measure(ctx, q, Ask{Service: service, Objectives: []Objective{o}}, at,
		Span{Window: o.Period}, Span{Window: budgetBurn}, Span{Window: budgetFirst, Offset: o.Period * 9 / 10})
	if err != nil {
		return nil, err
	}
	var out []Budget
	for _, x := range m.Measured {
		out = append(out, budgetOf(x))
	}
	return out, nil
}

func unknownBudget(value, why string) Budget { return Budget{value, math.NaN(), math.NaN(), why} }

// budgetOf returns the budget of one measured objective. It is unknown if requests
// are known for a part of the period only, which would be taken for the whole.
func budgetOf(x Measured) Budget {
	switch {
	case x.Reason != "":
		return unknownBudget(x.Value, x.Detail)
	case len(x.Counts) != 3:
		return unknownBudget(x.Value, "its requests are not known")
	}
	out := unknownBudget(x.Value, "")
	if burn := BurnRate(x.Counts[1].Ratio(), x.Objective.Objective); burn >= 0 && !math.IsInf(burn, 0) {
		out.Burn = burn
	}
	spent := BurnRate(x.Counts[0].Ratio(), x.Objective.Objective)
	switch {
	case !(x.Counts[2].Total > 0):
		out.Why = noBeginning(x.Objective.Period)
	case !(spent >= 0) || math.IsInf(spent, 0):
		out.Why = "the bad share over its period is no number"
	default:
		out.Left = 1 - spent
	}
	return out
}

// noBeginning explains why the budget of a period is not known. Prometheus keeps 15 days
// unless it is told otherwise, fewer than the usual period.
func noBeginning(period time.Duration) string {
	return fmt.Sprintf("no requests are known of the beginning of its %s: Prometheus keeps less, or the service is younger", days(period))
}

// Lasts returns how long the budget of a period lasts at a burn rate; false: that is
// not known, or longer than the period.
func (b Budget) Lasts(burn float64, period time.Duration) (time.Duration, bool) {
	switch {
	case !(burn > b.Left) || math.IsInf(burn, 0):
		return 0, false
	case b.Left <= 0:
		return 0, true
	}
	return time.Duration(b.Left / burn * float64(period)), true
}

// days writes a period.
func days(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return d.String()
}

// Spending is what was spent of the error budget of an objective, or of one value of its
// label, in each of several stretches of time.
type Spending struct {
	Value  string    // of the label
	Counts []Counts  // one for each stretch, of requests that ended; NaN: not known
	Shares []float64 // of the budget of the whole period, likewise
	Why    string    // why nothing, or no share, is known; empty: they are, where they are no NaN
}

// Spent measures what each span before at spent of the error budget of an objective over
// its period. Prometheus reads all samples of the period for it.
func Spent(ctx context.Context, q Asker, service string, o Objective, at time.Time, spans ...Span) ([]Spending, error) {
	period := max(o.Period, budgetFirst) // without one, no share is known
	all := append([]Span{{Window: period}, {Window: budgetFirst, Offset: period * 9 / 10}}, spans...)
	m, err := Measure(ctx, q, Ask{Service: service, Objectives: []Objective{o}}, at, all...)
	if err != nil {
		return nil, err
	}
	var out []Spending
	for _, x := range m.Measured {
		out = append(out, spendingOf(x, len(spans)))
	}
	return out, nil
}

// spendingOf returns the spending of one measured objective in its last n spans. The first
// two are the period and its beginning.
func spendingOf(x Measured, n int) Spending {
	out := Spending{Value: x.Value, Why: x.Detail}
	if x.Reason != "" || len(x.Counts) != n+2 {
		for range n {
			out.Counts, out.Shares = append(out.Counts, Counts{math.NaN(), math.NaN()}), append(out.Shares, math.NaN())
		}
		return out
	}
	allowed := x.Counts[0].Total * (1 - x.Objective.Objective) // bad events in the whole period
	switch {
	case x.Objective.Period <= 0:
		allowed, out.Why = math.NaN(), "the objective has no period"
	case !(x.Counts[1].Total > 0):
		allowed, out.Why = math.NaN(), noBeginning(x.Objective.Period)
	case !(allowed > 0):
		allowed, out.Why = math.NaN(), "its budget is no number above 0"
	}
	for _, c := range x.Counts[2:] {
		switch {
		case c.Total == 0:
			c.Bad = math.NaN() // requests that hang are not counted: this may be an outage
		case !c.usable():
			c = Counts{math.NaN(), math.NaN()}
		default:
			c = c.bounded()
		}
		out.Counts, out.Shares = append(out.Counts, c), append(out.Shares, c.Bad/allowed)
	}
	return out
}
