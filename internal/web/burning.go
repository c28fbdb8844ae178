package web

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// ServiceBudget is what is left of the error budget of an objective of a service.
type ServiceBudget struct {
	Service string
	Read    time.Time // zero: it was not
	Budget
}

// maxBurning is how many error budgets the start page shows in each list.
const maxBurning = 10

// fleetBurn is which error budgets burn. Each is in one of the lists, or calm.
type fleetBurn struct {
	Burn    []ServiceBudget // faster than the objective allows, or spent; worst first
	Unknown []ServiceBudget // whether they burn
	Calm    int
	Doubt   string    // why services may be missing
	Read    time.Time // when the oldest of those that are known was read; zero: none is known
}

func burningOf(all []ServiceBudget, doubt error) (out fleetBurn) {
	if doubt != nil {
		out.Doubt = doubt.Error()
	}
	for _, b := range all {
		if !b.Read.IsZero() && (out.Read.IsZero() || b.Read.Before(out.Read)) {
			out.Read = b.Read
		}
		switch spent := b.Why == "" && b.Left <= 0; {
		case spent || b.Burn > 1:
			out.Burn = append(out.Burn, b)
		case math.IsNaN(b.Burn):
			out.Unknown = append(out.Unknown, b)
		default:
			out.Calm++
		}
	}
	slices.SortStableFunc(out.Burn, worse)
	return out
}

// worse puts a budget first that is spent, then that which lasts shortest at the rate of the
// last hour, then that which burns fastest.
func worse(a, b ServiceBudget) int {
	lasts := func(x ServiceBudget) time.Duration {
		switch {
		case x.Why == "" && x.Left <= 0:
			return -1
		case x.Lasts > 0:
			return x.Lasts
		}
		return math.MaxInt64 // longer than its period, or not known
	}
	rate := func(x ServiceBudget) float64 {
		if math.IsNaN(x.Burn) {
			return 0
		}
		return x.Burn
	}
	return cmp.Or(cmp.Compare(lasts(a), lasts(b)), cmp.Compare(rate(b), rate(a)), cmp.Compare(a.Service, b.Service))
}

// burningView renders the error budgets that burn, and of how many that is not known.
func burningView(p page, d fleetBurn) g.Node {
	calm := "No error budget burns faster than its objective allows."
	switch {
	case len(d.Burn)+len(d.Unknown)+d.Calm == 0 && d.Doubt != "":
		calm = "No service with an objective is known."
	case len(d.Burn)+len(d.Unknown)+d.Calm == 0:
		calm = "No service has an objective."
	case len(d.Burn)+d.Calm == 0:
		calm = "Of no error budget it is known whether it burns."
	case len(d.Unknown) > 0 || d.Doubt != "":
		calm = "No error budget of those that are known burns faster than its objective allows."
	}
	return g.Group{
		h.H2(g.Text(counted("Error budgets that burn", len(d.Burn)))),
		doubtView(d.Doubt),
		some(!d.Read.IsZero(), quiet(g.Text("As of "), clock(d.Read), g.Text(", "+span(max(0, p.Now.Sub(d.Read)))+" ago."))),
		some(len(d.Burn) == 0, quiet(g.Text(calm))),
		some(len(d.Burn) > 0, h.Ul(h.Class("runs"), g.Map(d.Burn[:min(len(d.Burn), maxBurning)], func(b ServiceBudget) g.Node { return burnRow(p, b) }))),
		some(len(d.Burn) > maxBurning, quiet(g.Text(strconv.Itoa(len(d.Burn)-maxBurning)+" more burn slower: "), h.A(h.Href(p.Root+"services"), g.Text("Services")), g.Text("."))),
		some(len(d.Unknown) > 0, folded("unknown-budgets", false, strconv.Itoa(len(d.Unknown))+" unknown", h.Ul(
			g.Map(d.Unknown[:min(len(d.Unknown), maxBurning)], func(b ServiceBudget) g.Node {
				return h.Li(budgetName(p, b), g.Text(": "), text(cmp.Or(b.Why, "no requests in the last hour")))
			}),
			some(len(d.Unknown) > maxBurning, h.Li(g.Text("and "+strconv.Itoa(len(d.Unknown)-maxBurning)+" more"))),
		))),
	}
}

func budgetName(p page, b ServiceBudget) g.Node {
	return g.Group{h.A(h.Class("run"), h.Href(serviceAddress(p, b.Service)), h.B(text(b.Service)), g.Text(" "), text(b.Objective), after(" of ", b.Value))}
}

func burnRow(p page, b ServiceBudget) g.Node {
	tone := toneWait
	left, lasts := "budget unknown: "+b.Why, ""
	if b.Why == "" {
		left = leftOf(b.Budget)
		switch {
		case b.Left <= 0:
			tone = toneBad
		case b.Lasts > 0:
			tone, lasts = toneBad, "gone in "+span(b.Lasts)+" at this rate"
		}
	}
	rate := "burn rate unknown"
	if !math.IsNaN(b.Burn) {
		rate = "burns at " + strconv.FormatFloat(b.Burn, 'f', 1, 64) + "× in the last hour"
	}
	return h.Li(h.Class(tone), budgetName(p, b), g.Text(" "), pill(tone, rate), some(lasts != "", g.Text(" "), h.B(g.Text(lasts))),
		h.P(text(left)))
}
