package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Window is what stands in a query for the window that is looked at, as in
// Sloth's documents.
const Window = "{{.window}}"

// Objective is one service-level objective, ready to become rules.
type Objective struct {
	ID     string // unique in a Prometheus; the label slo_id of the recorded series
	Name   string // for people; the label slo
	Source string // file:line where it is declared, for messages

	Alert string // what names of alerts begin with, e.g. InferenceTTFT
	Named bool   // all alerts are named Alert, as in Sloth's documents

	Target float64       // share of good events, between 0 and 1
	Period time.Duration // over which the budget is counted
	Bad    string        // what Ratio is a share of, for people: requests over the TTFT target

	Ratio    string // PromQL: the share of bad events over [Window]
	Requests string // PromQL: requests a second over [Window], which an alert needs some of; empty: an alert needs none

	Labels       map[string]string // of the recorded series, and so of the alerts
	Page, Ticket Alert
}

// Alert is what a document says about one severity of alerts.
type Alert struct {
	Disabled            bool
	Labels, Annotations map[string]string
}

// pair is a short and a long window. An alert needs a high burn rate in both:
// the long one shows that it matters, the short one that it goes on.
type pair struct {
	burn        string // how names of its alerts end
	short, long time.Duration
	page        bool
}

// pairs are those of the SRE workbook, as Sloth has them: two page, two are
// tickets.
var pairs = []pair{
	{"FastBurn", 5 * time.Minute, time.Hour, true},
	{"SlowBurn", 30 * time.Minute, 6 * time.Hour, true},
	{"BudgetBurn", 2 * time.Hour, 24 * time.Hour, false},
	{"BudgetBurn", 6 * time.Hour, 72 * time.Hour, false},
}

const (
	// leastFactor is the least burn rate that an alert may have. At 1 the budget
	// lasts exactly for the period; 28 days give 0.93 in the longest window.
	leastFactor = 0.9
	// leastRequests is the rate of requests below which a share says little: one
	// slow request of one.
	leastRequests = "0.1"
)

// Group returns the rules of an objective. notes tells which alerts it leaves
// out, and why; it is an error if none is left.
func (o Objective) Group() (g Group, notes []string, err error) {
	g.Name = "slo-" + o.ID
	for _, w := range windows() {
		g.Rules = append(g.Rules, Rule{Record: ratioName(w), Expr: over(o.Ratio, w), Labels: o.labels()})
	}
	if o.Requests != "" {
		g.Rules = append(g.Rules, Rule{Record: requestsName, Expr: over(o.Requests, 5*time.Minute), Labels: o.labels()})
	}
	wanted := 0
	for _, p := range pairs {
		if p.of(o).Disabled {
			continue
		}
		wanted++
		if why := p.useless(o); why != "" {
			notes = append(notes, fmt.Sprintf("no alert for %s and %s: %s", window(p.short), window(p.long), why))
			continue
		}
		g.Rules = append(g.Rules, p.alert(o))
	}
	if wanted > 0 && wanted == len(notes) {
		return Group{}, nil, fmt.Errorf("no alert can be made of it; %s", strings.Join(notes, "; "))
	}
	return g, notes, nil
}

// windows returns the windows of all pairs, shortest first.
func windows() []time.Duration {
	var out []time.Duration
	for _, p := range pairs {
		out = append(out, p.short, p.long)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (o Objective) labels() map[string]string {
	out := map[string]string{"slo": o.Name}
	maps.Copy(out, o.Labels)
	out["slo_id"] = o.ID
	return out
}

// budget returns the share of events that may be bad. It is rounded where
// floating point begins to show: 1 - 0.999 is 0.001.
func (o Objective) budget() float64 {
	b, _ := strconv.ParseFloat(number(1-o.Target), 64)
	return b
}

// of returns what the objective says about alerts of the pair's severity.
func (p pair) of(o Objective) Alert {
	if p.page {
		return o.Page
	}
	return o.Ticket
}

// useless returns why an alert would never fire, or while the objective is met;
// empty: it is of use.
func (p pair) useless(o Objective) string {
	factor := slo.AlertFactor(p.long, o.Period)
	switch limit := factor * o.budget(); {
	case limit >= 1:
		return fmt.Sprintf("at a burn rate of %s it would need more than all events to be bad (%s x %s)", number(factor), number(factor), number(o.budget()))
	case factor < leastFactor:
		return fmt.Sprintf("with a period of %s its burn rate is %s, at which the objective is met", days(o.Period), number(factor))
	}
	return ""
}

// alert returns the rule of a pair.
func (p pair) alert(o Objective) Rule {
	id := fmt.Sprintf("{slo_id=%s}", strconv.Quote(o.ID))
	limit := fmt.Sprintf("(%s * %s)", number(slo.AlertFactor(p.long, o.Period)), number(o.budget()))
	expr := fmt.Sprintf("%s%s > %s\nand %s%s > %s", ratioName(p.short), id, limit, ratioName(p.long), id, limit)
	if o.Requests != "" {
		expr += fmt.Sprintf("\nand %s%s > %s", requestsName, id, leastRequests)
	}
	// The series have the label slo_id anyway; here it tells promtool that the rules differ.
	r := Rule{Alert: o.Alert, Expr: expr, Labels: map[string]string{"severity": "warning", "slo_id": o.ID}, Annotations: map[string]string{}}
	if p.page {
		r.Labels["severity"] = "critical"
	}
	if !o.Named {
		r.Alert += p.burn
	}
	share := slo.AlertFactor(p.long, p.long) // of the budget, in the long window
	r.Annotations["summary"] = fmt.Sprintf("%s: {{ $value | humanizePercentage }} of %s; at this rate %s%% of the budget of %s is gone in %s",
		o.target(), o.Bad, number(100*share), days(o.Period), window(p.long))
	maps.Copy(r.Labels, p.of(o).Labels)
	r.Labels["short"], r.Labels["long"] = window(p.short), window(p.long)
	maps.Copy(r.Annotations, p.of(o).Annotations)
	return r
}

// target names whom an alert is about, by the labels that the series have.
func (o Objective) target() string {
	if o.Labels["namespace"] != "" && o.Labels["service"] != "" {
		return "{{ $labels.namespace }}/{{ $labels.service }}"
	}
	return o.ID
}

const requestsName = "slo:sli_requests:rate5m"

// ratioName returns the name of the series of bad shares over a window.
func ratioName(w time.Duration) string { return "slo:sli_error:ratio_rate" + window(w) }

// over fills a window into a query.
func over(query string, w time.Duration) string { return strings.ReplaceAll(query, Window, window(w)) }

// window writes a window as Prometheus does: 1d, not 24h.
func window(w time.Duration) string { return yamldoc.FormatDuration(w) }

// days writes a period in days where it is a whole number of them.
func days(d time.Duration) string {
	if n := d / (24 * time.Hour); d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", n)
	}
	return window(d)
}

// number writes a number without what floating point adds to it.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }
