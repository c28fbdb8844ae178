package playbook

import (
	"fmt"
	"slices"
	"strings"
)

// ends refuses paths on which a run ends well without proof: after a check that
// could not answer, or a lever that was not verified, without a check that
// answered, a lever that was verified, or a person who approved in between.
func (r *reader) ends() {
	for _, s := range r.p.States {
		if s.OnError != "" {
			if way := r.unproven(s.OnError, EndResolved, EndNoAction); way != nil {
				r.d.Report(r.nodes[s].Get("on_error"), r.pathOf(s)+".on_error",
					fmt.Sprintf("ends %s although check %s could not answer%s", r.endOf(way), s.Name, over(s, way)),
					"lead to people, or to another check or lever first; unknown is not resolved")
			}
		}
		if s.Kind != StateLever {
			continue
		}
		for i, e := range s.Next {
			if e.On == OnVerified || e.always() && !r.complete(s, i) {
				continue
			}
			if way := r.unproven(e.To, EndResolved); way != nil {
				r.d.Report(r.atEdge(e), fmt.Sprintf("%s.next[%d]", r.pathOf(s), i),
					fmt.Sprintf("ends resolved although lever %s was not verified%s", s.Name, over(s, way)), "lead there on verified only, or through another check")
			}
		}
	}
}

// unproven returns a path from a state to one of the ends on which nothing is
// proven; nil: there is none.
func (r *reader) unproven(from string, ends ...Outcome) []string {
	ways := [][]string{{from}}
	seen := map[string]bool{from: true}
	for len(ways) > 0 {
		way := ways[0]
		ways = ways[1:]
		s := r.p.byName[way[len(way)-1]]
		if s == nil {
			continue
		}
		if s.Kind == StateEnd && slices.Contains(ends, s.End) {
			return way
		}
		for _, to := range proofless(s) {
			if !seen[to] {
				seen[to] = true
				ways = append(ways, append(slices.Clone(way), to))
			}
		}
	}
	return nil
}

// proofless lists the states that a state leads to without proof. A gate proves
// something only by an approval: a denial may be an expiry.
func proofless(s *State) []string {
	var out []string
	for _, e := range s.Next {
		if s.Kind == StateNotify || s.Kind == StateLever && e.On != OnVerified || s.Kind == StateGate && e.On != OnApproved {
			out = append(out, e.To)
		}
	}
	if s.OnError != "" {
		out = append(out, s.OnError)
	}
	return out
}

// endOf returns the outcome at the end of a path.
func (r *reader) endOf(way []string) Outcome { return r.p.byName[way[len(way)-1]].End }

// over formats a path that has states before its end.
func over(from *State, way []string) string {
	if len(way) < 2 {
		return ""
	}
	return ": " + from.Name + " -> " + strings.Join(way, " -> ")
}
