package machine

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
)

// Limits of texts that steps return for people.
const (
	maxMessage = 2048
	maxFacts   = 64
)

// stored converts an outcome to the form it has after the log: compact JSON,
// valid UTF-8, finite numbers. A number that is NaN or infinite is missing, and
// missing is never good.
func stored(out Outcome) Outcome {
	out.Message = line(out.Message)
	out.Data = compact(out.Data)
	out.Facts = lines(out.Facts)
	out.Gathered = slices.Clone(out.Gathered)
	for i := range out.Gathered {
		g := &out.Gathered[i]
		g.Why, g.Data, g.Facts = line(g.Why), compact(g.Data), lines(g.Facts)
		if len(g.Data) > MaxEvidence {
			*g = Gathered{Name: g.Name, Step: g.Step, Reason: fault.Invalid, Why: fmt.Sprintf("its evidence exceeds %d bytes", MaxEvidence)}
		}
	}
	if out.Before != nil && !finite(*out.Before) {
		unknown := -1.0
		out.Before = &unknown
	}
	if out.Plan != nil {
		p := *out.Plan
		p.Payload, p.Back = compact(p.Payload), plainMap(p.Back)
		if p.Rehold != nil {
			again := *p.Rehold
			again.Back = plainMap(again.Back)
			p.Rehold = &again
		}
		out.Plan = &p
	}
	if out.Terms != nil {
		terms := *out.Terms
		terms.Needs, terms.Tiers, terms.BreakGlass = some(terms.Needs), some(terms.Tiers), some(terms.BreakGlass)
		out.Terms = &terms
	}
	if out.Sample != nil {
		s := *out.Sample
		s.At, s.HeldFrom = s.At.UTC().Round(0), s.HeldFrom.UTC().Round(0)
		s.Message = line(s.Message)
		s.Values = slices.Clone(s.Values)
		for i := range s.Values {
			r := &s.Values[i]
			if r.Value != nil && !finite(*r.Value) {
				r.Value, r.OK, r.Why = nil, false, fault.NotANumber
			}
			if !finite(r.Limit) {
				r.Limit, r.OK, r.Why = 0, false, fault.NotANumber
			}
		}
		out.Sample = &s
	}
	return out
}

// some returns nil for an empty list, which the log does not keep.
func some[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func line(s string) string {
	if len(s) > maxMessage {
		s = s[:maxMessage]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// lines bounds the facts of a step.
func lines(facts []string) []string {
	facts = slices.Clone(facts[:min(len(facts), maxFacts)])
	for i := range facts {
		facts[i] = line(facts[i])
	}
	return facts
}

// compact compacts raw JSON as encoding/json does. Invalid JSON stays, and its
// reader refuses it.
func compact(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	b, err := json.Marshal(raw)
	if err != nil {
		return raw
	}
	return b
}
