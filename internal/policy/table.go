package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Table is a file of tests for a policy: levers, and the expected results.
// Omitted fields have harmless defaults; see [CompileTable].
type Table struct {
	Policy string // the policy file, relative to the table
	cases  []tableCase
}

// tableCase is one lever with the expected result.
type tableCase struct {
	name string
	line int
	in   Input
	want expectation
}

// expectation is the complete expected result of a case.
type expectation struct {
	deny     string // rule that denies first; empty: not denied
	why      string // part of the reason of the denial
	needs    []wantedNeed
	autonomy string // highest level; empty: no rule limits it
	merge    string // who merges; empty: no rule sets it
}

// wantedNeed is an expected need by its rule, and optionally its quorum and
// people.
type wantedNeed struct {
	rule   string
	quorum int
	from   []string
}

// CaseResult is the result of one case.
type CaseResult struct {
	Name string
	Line int
	OK   bool
	Got  string // the actual result, on one line
	Want string // of a failed case
}

// Report is the result of a table.
type Report struct {
	Cases []CaseResult
	Unhit []Rule // rules without effect in any case
}

// Failed returns the number of failed cases.
func (r Report) Failed() int {
	n := 0
	for _, c := range r.Cases {
		if !c.OK {
			n++
		}
	}
	return n
}

// Run evaluates the policy for every case. A case that expects a denial or need
// of an unknown rule fails.
func (t *Table) Run(s *Set) Report {
	var report Report
	hit := map[string]bool{}
	for _, c := range t.cases {
		result := s.Evaluate(c.in)
		report.Cases = append(report.Cases, c.judge(result))
		for _, cause := range result.Causes {
			hit[cause.Rule] = true
		}
	}
	for _, r := range s.Rules() {
		if !hit[r.Name] {
			report.Unhit = append(report.Unhit, r)
		}
	}
	return report
}

// judge compares a result with what the case expects.
func (c tableCase) judge(r Result) CaseResult {
	out := CaseResult{Name: c.name, Line: c.line, Got: inWords(r)}
	first, why := "", ""
	for _, cause := range r.Causes {
		if cause.Denies {
			first, why = cause.Rule, cause.Why
			break
		}
	}
	switch {
	case c.want.deny != "" || first != "":
		out.OK = c.want.deny == first && strings.Contains(why, c.want.why)
	default:
		out.OK = c.want.needed(r) && c.want.autonomy == capWord(r.Terms.Cap) && c.want.merge == mergeWord(r.Terms.Merge)
	}
	if !out.OK {
		out.Want = c.want.String()
	}
	return out
}

func capWord(c *machine.Cap) string {
	if c == nil {
		return ""
	}
	return c.Level.String()
}

func mergeWord(m *machine.Merger) string {
	if m == nil {
		return ""
	}
	return string(m.By)
}

// needed reports whether the result has exactly the expected needs, in order.
func (w expectation) needed(r Result) bool {
	var got []Cause
	for _, c := range r.Causes {
		if c.Need != nil {
			got = append(got, c)
		}
	}
	return slices.EqualFunc(w.needs, got, func(want wantedNeed, c Cause) bool {
		return want.rule == c.Rule && (want.quorum == 0 || want.quorum == c.Need.Quorum) &&
			(want.from == nil || slices.Equal(want.from, c.Need.From))
	})
}

func (w expectation) String() string {
	if w.deny != "" {
		if w.why != "" {
			return fmt.Sprintf("denied by %s: %s", w.deny, w.why)
		}
		return "denied by " + w.deny
	}
	var parts []string
	for _, n := range w.needs {
		text := "asks: " + n.rule
		if n.quorum > 0 {
			text += fmt.Sprintf(", %d", n.quorum)
		}
		if n.from != nil {
			text += " of " + strings.Join(n.from, ", ")
		}
		parts = append(parts, text)
	}
	if w.autonomy != "" {
		parts = append(parts, "at most "+w.autonomy)
	}
	if w.merge != "" {
		parts = append(parts, "merged by "+w.merge)
	}
	return cmp.Or(strings.Join(parts, "; "), "allowed")
}

// inWords describes a result on one line.
func inWords(r Result) string {
	var parts []string
	for _, c := range r.Causes {
		switch {
		case c.Denies:
			return fmt.Sprintf("denied by %s: %s", c.Rule, c.Why)
		case c.Need != nil:
			parts = append(parts, fmt.Sprintf("asks: %s, %d of %s", c.Rule, c.Need.Quorum, strings.Join(c.Need.From, ", ")))
		}
	}
	if r.Terms.Cap != nil {
		parts = append(parts, "at most "+r.Terms.Cap.Level.String())
	}
	if r.Terms.Merge != nil {
		parts = append(parts, "merged by "+string(r.Terms.Merge.By))
	}
	return cmp.Or(strings.Join(parts, "; "), "allowed")
}

// harmless returns the defaults of a case: Wednesday noon in UTC, level auto, a
// low-risk plan that costs no replicas, no past changes, no decision.
func harmless() Input {
	now := time.Date(2026, 1, 7, 12, 0, 0, 0, time.UTC)
	return Input{
		Now: now, Autonomy: playbook.Auto,
		Service:  playbook.Service{Autonomy: playbook.Auto},
		Playbook: &playbook.Playbook{Autonomy: playbook.Auto},
		State:    &playbook.State{Kind: playbook.StateLever},
		Plan:     &machine.Plan{Risk: machine.RiskLow, Capacity: machine.Capacity{ReadyNow: 3, LowestReady: 3, ReadyAfter: 3}},
		Run:      Run{Began: now},
		Count:    func(Count) (int, bool) { return 0, true },
	}
}

// CompileTable reads a table of tests: one document of kind PolicyTest. kinds
// are the known steps. The error is a [yamldoc.Problems].
func CompileTable(file string, data []byte, kinds []playbook.Kind) (*Table, error) {
	var problems yamldoc.Problems
	t := &Table{}
	docs := yamldoc.Documents(file, data, &problems)
	for _, d := range docs {
		(&tableReader{d: d, table: t, levers: leversOf(kinds)}).document()
	}
	if len(docs) != 1 && len(problems) == 0 {
		problems = append(problems, yamldoc.Problem{File: file, Message: fmt.Sprintf("%d documents, want one", len(docs))})
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return t, nil
}
