package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/expression"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Set holds the rules of one policy file, in order. It is immutable and safe
// for concurrent use; a nil Set has no rules.
type Set struct {
	rules    []*rule
	pins     []pinned // distinct fields that rules pin
	digest   string
	channels []Channel
}

// Rule describes one rule for people.
type Rule struct {
	Name  string
	Place string // policy NAME, FILE:LINE
	Kind  string // deny, require_approval, ...
	When  string // CEL; empty: always
	Says  string // the effect in a few words
	Line  int

	Quorum int      // distinct people who must approve; 0: the rule asks nobody
	From   []string // who counts among them, as the file names them

	// BreakGlass lists who may approve alone under this rule; empty: nobody.
	// Every other rule that asks must name them too.
	BreakGlass []string
}

// Channel is a channel that an escalation names, with its place. The caller
// knows the channels and checks that it exists.
type Channel struct {
	Name         string
	Line, Column int
	Path         string
}

// rule is a compiled rule.
type rule struct {
	Name, Place, Kind, When string
	Line                    int
	Effect                  effect

	when *expression.Expression // nil: always
	pins []pin
}

// pin is a comparison that must hold for the rule's condition to hold.
type pin struct {
	field int // of Set.pins
	words []string
}

// pinned is a text field that rules pin, and its value in one evaluation.
type pinned struct {
	variable, field string
	value           string
	known           bool
}

// Compile reads a policy file: one or several documents of kind Policy. file
// names it in problems; verdicts use its base name. kinds are the known steps,
// so that a rule about an unknown lever is a problem. The error is a
// [yamldoc.Problems] that lists every error with its place.
func Compile(file string, data []byte, kinds []playbook.Kind) (*Set, error) {
	sc, err := scope(kinds)
	if err != nil {
		return nil, yamldoc.Problems{{File: file, Message: err.Error()}}
	}
	var problems yamldoc.Problems
	sum := sha256.Sum256(data)
	r := &reader{scope: sc, base: filepath.Base(file), set: &Set{digest: "sha256:" + hex.EncodeToString(sum[:])}, lines: map[string]int{}}
	for _, d := range yamldoc.Documents(file, data, &problems) {
		r.document(d)
	}
	if r.documents == 0 && len(problems) == 0 {
		problems = append(problems, yamldoc.Problem{File: file, Message: "no policy in the file", Hint: "add a policy, or remove the file from the configuration"})
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return r.set, nil
}

// Digest returns the SHA-256 of the file, as "sha256:<hex>"; empty without a
// policy.
func (s *Set) Digest() string {
	if s == nil {
		return ""
	}
	return s.digest
}

// Rules returns the rules in the file's order.
func (s *Set) Rules() []Rule {
	if s == nil {
		return nil
	}
	out := make([]Rule, len(s.rules))
	for i, r := range s.rules {
		out[i] = Rule{Name: r.Name, Place: r.Place, Kind: r.Kind, When: r.When, Says: r.Effect.String(), Line: r.Line}
		if a, ok := r.Effect.(*approval); ok {
			out[i].BreakGlass, out[i].Quorum = slices.Clone(a.breakGlass), a.quorum
			out[i].From = slices.Clone(a.from)
		}
	}
	return out
}

// Channels returns the channels that escalations name, in the file's order.
func (s *Set) Channels() []Channel {
	if s == nil {
		return nil
	}
	return slices.Clone(s.channels)
}

// Horizon returns how far back the budgets count: [Input.Count] must cover that
// time. 0: there are no budgets.
func (s *Set) Horizon() time.Duration {
	if s == nil {
		return 0
	}
	var longest time.Duration
	for _, r := range s.rules {
		if b, ok := r.Effect.(budget); ok {
			longest = max(longest, b.within.d)
		}
	}
	return longest
}

// add adds a compiled rule.
func (s *Set) add(r *rule) {
	if r.when != nil {
		for _, p := range r.when.Pins() {
			i := slices.IndexFunc(s.pins, func(o pinned) bool { return o.variable == p.Variable && o.field == p.Field })
			if i < 0 {
				i = len(s.pins)
				s.pins = append(s.pins, pinned{variable: p.Variable, field: p.Field})
			}
			r.pins = append(r.pins, pin{field: i, words: p.Words})
		}
	}
	s.rules = append(s.rules, r)
}

// pinned looks up the pinned fields once for all rules. Fields of unknown
// variables stay unknown.
func (s *Set) pinned(v *values, unknown []string) []pinned {
	out := slices.Clone(s.pins)
	for i := range out {
		if !slices.Contains(unknown, out[i].variable) {
			out[i].value, out[i].known = v.text(out[i].variable, out[i].field)
		}
	}
	return out
}

// excluded reports whether a pin makes the condition false, so that it need not
// be evaluated.
func (r *rule) excluded(now []pinned) bool {
	for _, p := range r.pins {
		if now[p.field].known && !slices.Contains(p.words, now[p.field].value) {
			return true
		}
	}
	return false
}

// place names a rule as verdicts do.
func place(name, base string, line int) string {
	return fmt.Sprintf("policy %s, %s:%d", name, base, line)
}
