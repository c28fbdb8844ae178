package step

import (
	"github.com/inference-responder/responder/internal/playbook"
)

// prometheusQueryKind declares prometheus.query.
func prometheusQueryKind() playbook.Kind {
	return playbook.Kind{
		Name: "prometheus.query",
		Role: playbook.RoleCheck,
		Doc: `Evaluates PromQL now, or over a range when ` + "`range`" + ` is given.

` + "`status`" + ` says what the answer is worth: ` + "`ok`; `empty`" + ` (no series: missing is not zero); ` + "`stale`" + ` (the newest sample behind it is older than
` + "`max_age`" + `); ` + "`nan`" + ` (not a finite number, as 0/0 of an idle or hung engine gives). Only with ` + "`ok`" + ` are the numbers set; a condition that
reads an unset number is an error, never false or zero. ` + "`value`" + ` is set when exactly one series answers: aggregate in the query.`,
		With: []playbook.Field{
			{Name: "query", Type: scalar(playbook.Query), Required: true, Doc: "PromQL to evaluate. `${service.selector}` is the service's label matchers."},
			{Name: "range", Type: scalar(playbook.Duration), Doc: "Evaluate over this long up to now, instead of now only."},
			{Name: "step", Type: scalar(playbook.Duration), Doc: "Distance of the points of a range. Unset: a sixtieth of the range, at least 1s."},
			{Name: "max_age", Type: scalar(playbook.Duration), Default: "2m", Doc: "Oldest that the newest sample behind the answer may be."},
		},
		Out: []playbook.Field{
			{Name: "status", Type: scalar(playbook.String), Enum: []string{"ok", "empty", "stale", "nan"}, Doc: "What the answer is worth. Ask for it first."},
			{Name: "value", Type: scalar(playbook.Double), Doc: "The value of the one series; of a range, its last point."},
			{Name: "series", Type: listOf(object(
				playbook.Field{Name: "labels", Type: mapOf(scalar(playbook.String)), Doc: "Labels of the series."},
				playbook.Field{Name: "value", Type: scalar(playbook.Double), Doc: "Its value; unset when not a finite number."},
			)), Doc: "The series that answered, at most 50."},
			{Name: "min", Type: scalar(playbook.Double), Doc: "Lowest point of the range, over all series."},
			{Name: "max", Type: scalar(playbook.Double), Doc: "Highest point of the range, over all series."},
			{Name: "avg", Type: scalar(playbook.Double), Doc: "Mean of the points of the range, over all series."},
			{Name: "first", Type: scalar(playbook.Double), Doc: "First point of the range, when one series answers."},
			{Name: "last", Type: scalar(playbook.Double), Doc: "Last point of the range, when one series answers."},
			{Name: "at", Type: scalar(playbook.Timestamp), Doc: "When the newest sample behind the answer was taken, as far as known; else when the query was evaluated."},
		},
	}
}
