package playbook

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// MeasurePrefix begins a query that names a measure of the service's engine in place
// of PromQL: engine.waiting. The adapter of the engine knows the series.
const MeasurePrefix = "engine."

// Measures are the measures of an engine that a proof may name, with what they mean.
var Measures = []struct{ Name, Doc string }{
	{"preemptions_per_second", "requests per second that lose their place in the KV cache"},
	{"refused_per_second", "requests per second that the engine's server answers with 4xx, such as those too long for it"},
	{"running", "requests that are computed"},
	{"waiting", "requests in the queue"},
	{"kv_usage", "share of the KV cache in use, of the replica that uses most"},
}

// measure reads an expectation such as "engine.waiting < 1".
func (r *reader) measure(n *yaml.Node, path string, at place) (Expectation, bool) {
	words := threeWords(n.Value)
	var names []string
	for _, m := range Measures {
		names = append(names, MeasurePrefix+m.Name)
	}
	const form = "e.g. engine.preemptions_per_second == 0, or {query: ..., op: <, value: 1}"
	switch {
	case len(words) != 3:
		r.d.Report(n, path, fmt.Sprintf("want a measure of the engine, an operator and a number, got %q", yamldoc.Clip(n.Value)), form)
		return Expectation{}, false
	case !slices.Contains(names, words[0]):
		r.d.Report(n, path, fmt.Sprintf("unknown measure %q", yamldoc.Clip(words[0])), yamldoc.DidYouMean(words[0], names))
		return Expectation{}, false
	case !slices.Contains(ops(), words[1]):
		r.d.Report(n, path, fmt.Sprintf("unknown operator %q", yamldoc.Clip(words[1])), "one of "+strings.Join(ops(), " "))
		return Expectation{}, false
	}
	var limit *Value
	if strings.Contains(words[2], "${") {
		limit = r.templateAt(n, path, words[2], numberField(numberLimit), at)
	} else {
		number := *n
		number.Tag, number.Style, number.Value = "!!float", 0, words[2]
		limit = r.number(&number, path, numberLimit, at)
	}
	if limit != nil {
		if limit, ok := limit.Constant(); ok {
			if told := foregone(words[0], words[1], limit); told != "" {
				r.d.Report(n, path, fmt.Sprintf("%q %s: it proves nothing", yamldoc.Clip(n.Value), told), "ask for what the change has to improve, "+form)
				return Expectation{}, false
			}
		}
	}
	return Expectation{Query: &Value{source: words[0], field: Field{Name: "query", Type: Type{Name: String}}, constant: words[0]}, Op: words[1], Value: limit}, limit != nil
}

// foregone returns how the answer to a comparison is known without a measurement; empty:
// it is not. No measure is negative, and a share is at most 1.
func foregone(measure, op string, limit float64) string {
	most := math.Inf(1)
	if measure == MeasurePrefix+"kv_usage" {
		most = 1
	}
	always := map[string]bool{"<": limit > most, "<=": limit >= most, ">": limit < 0, ">=": limit <= 0}
	never := map[string]bool{"<": limit <= 0, "<=": limit < 0, ">": limit >= most, ">=": limit > most, "==": limit < 0 || limit > most}
	switch {
	case always[op]:
		return "holds always"
	case never[op]:
		return "can never hold"
	}
	return ""
}

// threeWords splits a text at the white space after its first two words.
func threeWords(text string) []string {
	var words []string
	rest := strings.TrimSpace(text)
	for len(words) < 2 && rest != "" {
		i := strings.IndexFunc(rest, unicode.IsSpace)
		if i < 0 {
			break
		}
		words, rest = append(words, rest[:i]), strings.TrimSpace(rest[i:])
	}
	if rest != "" {
		words = append(words, rest)
	}
	return words
}
