package playbook

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// Problem is an error in a playbook document, with its place and, if there is
// one, the remedy.
type Problem = yamldoc.Problem

// Problems are all errors in one or more documents, in the order of their
// places. [Parse] returns them as its error.
type Problems = yamldoc.Problems

// ParseDuration parses a duration as playbooks and Prometheus write it: 30s,
// 5m, 1h30m, 2d. Negative durations are errors. Fractions are written in the
// next smaller unit.
func ParseDuration(text string) (time.Duration, error) { return yamldoc.ParseDuration(text) }

// FormatDuration formats a duration for [ParseDuration] and PromQL, rounded
// down to milliseconds.
func FormatDuration(d time.Duration) string { return yamldoc.FormatDuration(d) }

// document is a YAML document that holds a playbook.
type document struct{ *yamldoc.Document }

// reportExpr adds the problems of an expression or text at their characters.
func (d document) reportExpr(n *yaml.Node, path string, errs []exprError) {
	for _, e := range errs {
		d.ReportAt(n, path, e.Offset, e.Message, e.Hint)
	}
}
