package policy

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
)

// gateInput is a gate state of a service in prod, asked about on a Wednesday.
func gateInput() Input {
	in := harmless()
	in.State = &playbook.State{Name: "question", Kind: playbook.StateGate}
	in.Service.Name, in.Service.Namespace = "prod/chat", "prod"
	in.Plan, in.With, in.Count = nil, nil, nil
	return in
}

// What is true of a gate state is as certain when it is explained as when it is
// opened: there is no plan to wait for.
func TestGateStates(t *testing.T) {
	for _, test := range []struct {
		name, rule string
		denied     string // part of the words; empty: it may be opened
		needs, cap bool
	}{
		{"deny", `{name: x, when: 'service.namespace == "prod"', deny: never here}`, "never here", false, false},
		{"approval", `{name: x, when: 'service.namespace == "prod"', require_approval: {quorum: 2, from: 'group:sre'}}`, "", true, false},
		{"level", `{name: x, max_autonomy: observe}`, "", false, true},
		{"about gates", `{name: x, when: 'state.kind == "gate"', deny: no questions}`, "no questions", false, false},
		{"about levers", `{name: x, when: 'state.kind == "lever"', deny: no levers}`, "", false, false},
		{"about a kind of lever", `{name: x, when: 'lever.kind == "kube.scale"', deny: no scaling}`, "", false, false},
		{"about its parameters", `{name: x, when: 'lever.kind == "kube.scale" && lever.with.replicas > 4', deny: too many}`, "", false, false},
		{"about risk", `{name: x, when: 'plan.risk == "high"', require_approval: {from: 'group:sre'}}`, "", false, false},
		{"about capacity", `{name: x, when: 'plan.capacity.ready_now < 2', deny: too few}`, "when cannot be evaluated", false, false},
		{"about capacity, where it is known", `{name: x, when: '!plan.capacity.unknown && plan.capacity.ready_now < 2', deny: too few}`, "", false, false},
		{"about a parameter of any lever", `{name: x, when: 'lever.with.replicas > 4', deny: too many}`, "when cannot be evaluated", false, false},
		{"freeze", `{name: x, freeze: {zone: UTC, weekly: [{from: "00:00", to: "24:00"}]}}`, "", false, false},
		{"budget", `{name: x, budget: {levers: 1, within: 1h}}`, "", false, false},
		{"protect", `{name: x, protect: {namespaces: [prod]}}`, "", false, false},
		{"merge", `{name: x, merge: responder}`, "", false, false},
		{"blast radius", `{name: x, blast_radius: {min_ready: 2}}`, "", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := rules(t, test.rule)
			for how, got := range map[string]Result{"decided": s.Evaluate(gateInput()), "explained": s.Explain(gateInput())} {
				if test.denied == "" != got.Verdict.OK || !strings.Contains(got.Verdict.Why, test.denied) {
					t.Errorf("%s: %+v, want a denial with %q", how, got.Verdict, test.denied)
				}
				if (len(got.Terms.Needs) > 0) != test.needs || (got.Terms.Cap != nil) != test.cap {
					t.Errorf("%s: terms %+v", how, got.Terms)
				}
			}
		})
	}
}

// Who may approve a run of their own alone is said by every rule that asks, or
// it is nobody.
func TestGlassOwn(t *testing.T) {
	own := `{name: own, require_approval: {from: 'user:ada', break_glass: 'group:leads', break_glass_own: true}}`
	plain := `{name: plain, require_approval: {from: 'user:bob', break_glass: 'group:leads'}}`
	for name, test := range map[string]struct {
		rules []string
		want  bool
	}{
		"one":          {[]string{own}, true},
		"plain":        {[]string{plain}, false},
		"own first":    {[]string{own, plain}, false},
		"plain first":  {[]string{plain, own}, false},
		"both say so":  {[]string{own, strings.Replace(own, "name: own", "name: too", 1)}, true},
		"another rule": {[]string{own, `{name: cap, max_autonomy: suggest}`}, true},
	} {
		if got := rules(t, test.rules...).Evaluate(gateInput()).Terms; got.GlassOwn != test.want {
			t.Errorf("%s: %v, want %v", name, got.GlassOwn, test.want)
		}
	}
	_, err := Compile("policy.yaml", document(`{name: a, require_approval: {from: 'user:ada', break_glass_own: true}}`), testKinds())
	if err == nil || !strings.Contains(err.Error(), "missing break_glass") {
		t.Errorf("nobody may break the glass, and their own too: %v", err)
	}
}

// Tables say what is asked about.
func TestTableOfGates(t *testing.T) {
	s := rules(t, `{name: x, when: 'state.kind == "gate" && run.by == "user:ada"', deny: not hers}`)
	table, err := CompileTable("policy_test.yaml", []byte(`apiVersion: responder/v1alpha1
kind: PolicyTest
policy: policy.yaml
cases:
  - {name: hers, given: {state: {kind: gate}, run: {by: 'user:ada'}}, want: {deny: x}}
  - {name: a lever, given: {run: {by: 'user:ada'}}, want: {}}
`), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	if r := table.Run(s); r.Failed() > 0 || len(r.Unhit) > 0 {
		t.Errorf("%+v", r)
	}
	_, err = CompileTable("policy_test.yaml", []byte("apiVersion: responder/v1alpha1\nkind: PolicyTest\npolicy: a\ncases: [{name: a, given: {state: {kind: check}}, want: {}}]\n"), testKinds())
	if err == nil || !strings.Contains(err.Error(), `rules do not apply to a state of kind "check"`) {
		t.Errorf("a case about a check: %v", err)
	}
}
