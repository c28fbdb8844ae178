package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// drawRule makes a rule of any kind.
func drawRule(t *rapid.T, name string) string {
	who := func(label string) string {
		return strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"'user:ada'", "'user:bob'", "'group:sre'"}), 1, 3, rapid.ID).Draw(t, label), ", ")
	}
	when := rapid.SampledFrom([]string{
		"", `service.namespace == "prod"`, `lever.kind in ["kube.scale"]`, `plan.risk == "high" && service.namespace == "dev"`,
		`plan.capacity.ready_now < 4`, `run.alerts.exists(a, a.labels.team == "x")`, `time.zone("Europe/Berlin").hour < 9`,
	}).Draw(t, "when")
	if when != "" {
		when = fmt.Sprintf("when: '%s', ", when)
	}
	var glass string
	if rapid.Bool().Draw(t, "glass") {
		glass = ", break_glass: [" + who("breaks") + "]"
		if rapid.Bool().Draw(t, "own too") {
			glass += ", break_glass_own: true"
		}
	}
	minutes := func(label string) int { return rapid.IntRange(10, 50).Draw(t, label) }
	does := rapid.SampledFrom([]string{
		"deny: never", "max_autonomy: suggest", "max_autonomy: observe",
		fmt.Sprintf("require_approval: {from: [%s], within: %dm, escalate: [{after: %dm, to: [oncall]}]%s}", who("from"), minutes("within")+50, minutes("after"), glass),
		fmt.Sprintf("require_approval: {from: [%s], remind: %dm%s}", who("from too"), minutes("remind"), glass),
		"budget: {levers: 3, within: 1h}", "freeze: {zone: UTC, weekly: [{from: '22:00', to: '08:00'}]}",
		"protect: {namespaces: [p*]}", "blast_radius: {max_lost_ready: 1}", "blast_radius: {max_lost_tokens_per_second: 10}",
	}).Draw(t, "does")
	return fmt.Sprintf("{name: %s, %s%s}", name, when, does)
}

func drawInput(t *rapid.T) Input {
	in := harmless()
	in.Now = in.Now.Add(time.Duration(rapid.IntRange(0, 23).Draw(t, "hour")) * time.Hour)
	in.Service.Namespace = rapid.SampledFrom([]string{"prod", "dev"}).Draw(t, "namespace")
	in.State.Step = rapid.SampledFrom([]string{"kube.scale", "kube.rollout_undo"}).Draw(t, "lever")
	in.Plan.Risk = rapid.SampledFrom([]machine.Risk{machine.RiskLow, machine.RiskHigh}).Draw(t, "risk")
	in.Plan.Capacity = machine.Capacity{ReadyNow: 4, LowestReady: rapid.IntRange(0, 4).Draw(t, "lowest"), Unknown: rapid.Bool().Draw(t, "unknown")}
	if rapid.Bool().Draw(t, "alert") {
		in.Run.Alerts = []playbook.Alert{{Labels: map[string]string{"alertname": "A"}}}
	}
	if rapid.Bool().Draw(t, "plan") {
		in.Plan = nil
	}
	if rapid.IntRange(0, 3).Draw(t, "gate") == 0 {
		in.State, in.Plan = &playbook.State{Kind: playbook.StateGate}, nil
	}
	done := rapid.IntRange(0, 5).Draw(t, "done")
	in.Count = func(Count) (int, bool) { return done, done < 5 }
	return in
}

// A further rule, wherever it stands, never loosens what the others say.
func TestAddingARuleNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var before []string
		for i := range rapid.IntRange(0, 4).Draw(t, "rules") {
			before = append(before, drawRule(t, fmt.Sprintf("r%d", i)))
		}
		at := rapid.IntRange(0, len(before)).Draw(t, "at")
		after := slices.Insert(slices.Clone(before), at, drawRule(t, "another"))
		less, err := Compile("policy.yaml", document(before...), testKinds())
		if len(before) == 0 {
			less, err = nil, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		more, err := Compile("policy.yaml", document(after...), testKinds())
		if err != nil {
			t.Fatal(err)
		}
		in := drawInput(t)
		a, b := less.Evaluate(in), more.Evaluate(in)
		if why := loosened(a, b); why != "" {
			t.Fatalf("%s\nbefore %+v\nafter %+v", why, a, b)
		}
	})
}

// loosened reports in which way b allows more than a; empty when in none.
func loosened(a, b Result) string {
	s, t := a.Terms, b.Terms
	var kept []machine.Need
	for _, n := range t.Needs {
		if !strings.HasPrefix(n.Rule, "policy another,") {
			kept = append(kept, n)
		}
	}
	switch {
	case b.Verdict.OK && !a.Verdict.OK:
		return "the denial is gone"
	case len(kept) != len(s.Needs):
		return "a need is gone"
	case s.Cap != nil && (t.Cap == nil || t.Cap.Level > s.Cap.Level):
		return "the level is higher"
	case s.Within > 0 && (t.Within == 0 || t.Within > s.Within):
		return "people have longer"
	case s.Remind > 0 && (t.Remind == 0 || t.Remind > s.Remind):
		return "the reminder is later"
	case len(t.Tiers) < len(s.Tiers):
		return "a tier is gone"
	}
	if t.GlassOwn && !s.GlassOwn && len(s.Needs) > 0 {
		return "who started a run may break its glass"
	}
	for _, who := range t.BreakGlass {
		if len(s.Needs) > 0 && !slices.Contains(s.BreakGlass, who) {
			return who + " may break the glass"
		}
	}
	return ""
}

// What is left out because a comparison rules it out would have been false, or
// an error that does not matter: asking every rule gives the same answers.
func TestPinsChangeNothing(t *testing.T) {
	conditions := []string{
		`service.namespace == "prod"`, `"prod" == service.namespace && plan.capacity.ready_now > 1`, `lever.kind in ["kube.scale"] && plan.risk == "high"`,
		`plan.risk == "low" || service.namespace == "prod"`, `!(service.namespace == "prod")`, `service.namespace == "prod" && run.alerts[7].status == "firing"`,
		`plan.target.namespace == "prod"`, `plan.risk == "high" ? service.namespace == "prod" : service.namespace == "dev"`,
	}
	rapid.Check(t, func(t *rapid.T) {
		s, err := Compile("policy.yaml", document(fmt.Sprintf(`{name: a, when: '%s', deny: yes it is}`, rapid.SampledFrom(conditions).Draw(t, "when"))), testKinds())
		if err != nil {
			t.Fatal(err)
		}
		in := drawInput(t)
		with := s.Evaluate(in).Verdict
		s.rules[0].pins = nil
		if without := s.Evaluate(in).Verdict; with != without {
			t.Fatalf("%s: with pins %v, without %v", s.rules[0].When, with, without)
		}
	})
}

// Explaining knows less than deciding, so it never claims to know more: what it
// denies for certain is denied, and who it says must agree must.
func TestExplainClaimsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var some []string
		for i := range rapid.IntRange(1, 4).Draw(t, "rules") {
			some = append(some, drawRule(t, fmt.Sprintf("r%d", i)))
		}
		s, err := Compile("policy.yaml", document(some...), testKinds())
		if err != nil {
			t.Fatal(err)
		}
		in := drawInput(t)
		in.Plan = &machine.Plan{Risk: machine.RiskHigh, Capacity: machine.Capacity{ReadyNow: 4, LowestReady: 2}}
		explained, decided := s.Explain(in), s.Evaluate(in)
		if !explained.Verdict.OK && decided.Verdict.OK {
			t.Fatalf("explained as denied, %s, and it is not", explained.Verdict.Why)
		}
		if len(explained.Terms.Needs) > len(decided.Terms.Needs) {
			t.Fatalf("explained with needs %v, decided with %v", explained.Terms.Needs, decided.Terms.Needs)
		}
		for _, c := range decided.Causes {
			if !slices.ContainsFunc(explained.Causes, func(o Cause) bool { return o.Rule == c.Rule }) {
				t.Fatalf("%s made a difference and was not mentioned", c.Place)
			}
		}
	})
}

// FuzzCompile: whatever stands in a file gives rules or problems with places.
func FuzzCompile(f *testing.F) {
	f.Add(document(`{name: a, when: 'plan.risk == "high"', deny: no}`))
	f.Add(document(`{name: a, require_approval: {quorum: 2, from: [service.owners, 'group:a'], escalate: [{after: 5m, to: [b]}], break_glass: ['user:c']}}`))
	f.Add(document(`{name: a, freeze: {zone: UTC, weekly: [{from: fri 16:00, to: mon 08:00}], dates: [{from: 2026-12-24T00:00:00Z, to: 2026-12-25T00:00:00Z}]}}`))
	f.Add(document(`{name: a, budget: {runs: 2, per: all, within: 7d}}`, `{name: b, blast_radius: {max_lost_percent: 3.5}}`, `{name: c, protect: {namespaces: ['k*']}}`))
	f.Add([]byte("apiVersion: responder/v1alpha1\nkind: PolicyTest\npolicy: a\ncases: [{name: a, given: {plan: {capacity: {unknown: true}}}, want: {deny: a}}]\n"))
	kinds := testKinds()
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Compile("policy.yaml", data, kinds)
		if (s == nil) == (err == nil) {
			t.Fatal("neither a policy nor problems, or both")
		}
		s.Evaluate(harmless())
		s.Explain(harmless())
		table, err := CompileTable("policy_test.yaml", data, kinds)
		if (table == nil) == (err == nil) {
			t.Fatal("neither a table nor problems, or both")
		}
		if table != nil {
			table.Run(s)
		}
	})
}

// BenchmarkEvaluate200 asks 200 rules about one lever: those of a fleet, of
// which most are about another service, and the worst case, in which every
// condition has to be evaluated.
func BenchmarkEvaluate200(b *testing.B) {
	fleet := func(i int) string {
		switch i % 4 {
		case 0:
			return fmt.Sprintf(`{name: r%d, when: 'service.name == "team-%d/chat" && plan.risk == "high"', require_approval: {from: 'group:team-%d'}}`, i, i, i)
		case 1:
			return fmt.Sprintf(`{name: r%d, when: 'service.namespace in ["team-%d", "team-%d"] && time.zone("Europe/Berlin").hour < 6', deny: night}`, i, i, i+1)
		case 2:
			return fmt.Sprintf(`{name: r%d, when: 'service.namespace == "prod" && plan.capacity.lost_ready > %d', deny: too much}`, i, i)
		default:
			return fmt.Sprintf(`{name: r%d, protect: {namespaces: [system-%d-*]}}`, i, i)
		}
	}
	worst := func(i int) string {
		return fmt.Sprintf(`{name: r%d, when: '!(service.namespace == "team-%d") && plan.capacity.lost_ready > %d', deny: too much}`, i, i, i)
	}
	clocks := func(i int) string {
		return fmt.Sprintf(`{name: r%d, when: 'time.zone("Europe/Berlin").hour < 6 && plan.capacity.lost_ready >= %d', deny: night}`, i, i)
	}
	for name, rule := range map[string]func(int) string{"fleet": fleet, "worst": worst, "clocks": clocks} {
		b.Run(name, func(b *testing.B) {
			var all []string
			for i := range 200 {
				all = append(all, rule(i))
			}
			s := rules(b, all...)
			in := harmless()
			in.Service = playbook.Service{Name: "prod/chat", Namespace: "prod", Owners: []string{"group:sre"}}
			in.State.Step = "kube.scale"
			if got := s.Evaluate(in).Verdict; !got.OK {
				b.Fatal(got.Why)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Evaluate(in)
			}
		})
	}
}
