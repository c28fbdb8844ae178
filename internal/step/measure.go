package step

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/playbook"
)

// measureWindow is the window of rates that a proof asks for: it holds several
// scrapes, and less than the shortest useful hold.
const measureWindow = "2m"

// measured returns the PromQL of a query that names a measure of the service's
// engine, and any other query as it is.
func measured(query string, svc playbook.Service) (string, error) {
	name, ok := strings.CutPrefix(query, playbook.MeasurePrefix)
	if !ok {
		return query, nil
	}
	var terms []string
	e, _ := engine.Named(svc.Engine)
	for _, p := range e.Progress() {
		in := func(series string) string { return series + "{" + svc.Selector + "}" }
		switch name {
		case "running":
			terms = append(terms, fmt.Sprintf("sum(%s)", in(p.Running)))
		case "waiting":
			terms = append(terms, fmt.Sprintf("sum(%s)", in(p.Waiting)))
		case "kv_usage":
			for _, series := range p.Cache {
				terms = append(terms, fmt.Sprintf("max(%s)", in(series)))
			}
		case "preemptions_per_second":
			for _, series := range p.Preempted {
				terms = append(terms, fmt.Sprintf("sum(rate(%s[%s]))", in(series), measureWindow))
			}
		case "refused_per_second": // a status that was never answered has no series
			if r := p.Work.Refused; r.Name != "" {
				terms = append(terms, fmt.Sprintf("sum(rate(%s{%s,%s}[%s]))", r.Name, svc.Selector, r.Match, measureWindow),
					fmt.Sprintf("0 * sum(rate(%s[%s]))", in(r.Total), measureWindow))
			}
		}
	}
	if len(terms) == 0 {
		return "", Invalid("%s: the engine %s exports no series of it", query, OrNone(svc.Engine))
	}
	return strings.Join(terms, " or "), nil
}
