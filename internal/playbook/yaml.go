package playbook

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// Problem is one thing that is wrong with a playbook document, with its place
// and, where there is one, the remedy.
type Problem = yamldoc.Problem

// Problems is everything that is wrong with one or more documents, in the
// order of their places. It is the error of [Parse].
type Problems = yamldoc.Problems

// ParseDuration reads a duration as playbooks and Prometheus write it: 30s,
// 5m, 1h30m, 2d. Negative durations do not exist in the language, fractions
// are written in the next smaller unit.
func ParseDuration(text string) (time.Duration, error) { return yamldoc.ParseDuration(text) }

// FormatDuration writes a duration as [ParseDuration] and PromQL read it,
// rounded down to milliseconds.
func FormatDuration(d time.Duration) string { return yamldoc.FormatDuration(d) }

// document is a YAML document that holds a playbook.
type document struct{ *yamldoc.Document }

// reportExpr adds the problems of an expression or text at their characters.
func (d document) reportExpr(n *yaml.Node, path string, errs []exprError) {
	for _, e := range errs {
		d.ReportAt(n, path, e.Offset, e.Message, e.Hint)
	}
}
