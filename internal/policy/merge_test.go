package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Who merges is said by rules about changes that take a pull request, and where
// they differ, people do.
func TestMerge(t *testing.T) {
	ours, people := `{name: ours, when: 'plan.risk == "low" && plan.pull_request', merge: responder}`, `{name: theirs, merge: people}`
	for name, test := range map[string]struct {
		rules  []string
		risk   machine.Risk
		pushed bool
		want   machine.MergeBy
		rule   string
	}{
		"no rule":           {[]string{`{name: cap, max_autonomy: suggest}`}, machine.RiskLow, false, "", ""},
		"ours":              {[]string{ours}, machine.RiskLow, false, machine.MergeResponder, "policy ours"},
		"not of that risk":  {[]string{ours}, machine.RiskHigh, false, "", ""},
		"pushed":            {[]string{`{name: ours, merge: responder}`}, machine.RiskLow, true, "", ""},
		"ours, then theirs": {[]string{ours, people}, machine.RiskLow, false, machine.MergePeople, "policy theirs"},
		"theirs, then ours": {[]string{people, ours}, machine.RiskLow, false, machine.MergePeople, "policy theirs"},
	} {
		in := harmless()
		in.Plan.Risk, in.Plan.MergeWithin = test.risk, time.Hour
		if test.pushed {
			in.Plan.MergeWithin = 0
		}
		got := rules(t, test.rules...).Evaluate(in)
		m := got.Terms.Merge
		if m == nil {
			m = &machine.Merger{}
		}
		if !got.Verdict.OK || m.By != test.want || !strings.HasPrefix(m.Rule, test.rule) {
			t.Errorf("%s: %+v, %q", name, m, got.Verdict.Why)
		}
		if test.want != "" && !strings.Contains(got.Verdict.Why, "merged by "+string(test.want)) {
			t.Errorf("%s: the verdict says %q", name, got.Verdict.Why)
		}
	}
	told := rules(t, `{name: ours, merge: responder}`).Explain(harmless())
	if len(told.Causes) != 1 || !told.Causes[0].Depends || told.Causes[0].Why != "a pull request is merged by responder" {
		t.Errorf("explained: %+v", told.Causes)
	}
	if _, err := Compile("policy.yaml", document(`{name: a, merge: respond}`), testKinds()); err == nil || !strings.Contains(err.Error(), "responder") {
		t.Errorf("a word that is none: %v", err)
	}
}

// A table of tests says who merges, as it says everything else.
func TestMergeInTables(t *testing.T) {
	s := rules(t, `{name: ours, when: 'plan.risk == "low"', merge: responder}`)
	for want, ok := range map[string]bool{"{merge: responder}": true, "{merge: people}": false, "{}": false} {
		table, err := CompileTable("t.yaml", []byte(`apiVersion: responder/v1alpha1
kind: PolicyTest
policy: policy.yaml
cases:
  - name: a pull request
    given: {plan: {pull_request: true}}
    want: `+want+"\n"), testKinds())
		if err != nil {
			t.Fatal(err)
		}
		if c := table.Run(s).Cases[0]; c.OK != ok || c.Got != "merged by responder" {
			t.Errorf("%s: %+v", want, c)
		}
	}
}
