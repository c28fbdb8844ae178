package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// What a lever is up against, as the guard will journal it.
func TestEvaluate(t *testing.T) {
	s := rules(t,
		`{name: asks, when: 'plan.risk != "low"', require_approval: {quorum: 2, from: [service.owners, 'group:sre'], within: 30m, remind: 10m, escalate: [{after: 5m, to: a}, {after: 15m, to: [b]}], break_glass: ['group:leads', 'user:ada']}}`,
		`{name: asks-too, when: 'service.namespace == "prod"', require_approval: {from: ['user:bob', node.owners], within: 10m, strong: true, escalate: [{after: 5m, to: [b, a]}], break_glass: 'user:ada'}}`,
		`{name: slow, max_autonomy: suggest}`,
		`{name: slower, when: 'lever.kind in ["kube.rollout_undo"]', max_autonomy: observe}`,
	)
	in := harmless()
	in.Service.Namespace, in.State.Step, in.Plan.Risk = "prod", "kube.scale", machine.RiskHigh
	got := s.Evaluate(in)
	want := machine.Terms{
		Policy: s.Digest(), Within: 10 * time.Minute, Remind: 10 * time.Minute,
		Cap: &machine.Cap{Level: playbook.Suggest, Rule: "policy slow, policy.yaml:8"},
		Needs: []machine.Need{
			{Rule: "policy asks, policy.yaml:6", From: []string{"service.owners", "group:sre"}, Quorum: 2},
			{Rule: "policy asks-too, policy.yaml:7", From: []string{"user:bob", "node.owners"}, Quorum: 1, Strong: true},
		},
		Tiers:      []machine.Tier{{After: 5 * time.Minute, To: []string{"a", "b"}}, {After: 15 * time.Minute, To: []string{"b"}}},
		BreakGlass: []string{"user:ada"},
	}
	if diff := cmp.Diff(want, got.Terms); diff != "" {
		t.Errorf("terms, -want +got\n%s", diff)
	}
	verdict := machine.GuardVerdict{Guard: "policy", OK: true, Why: "none of 4 rules denies, 2 ask for approval: policy asks, policy.yaml:6, at most suggest: policy slow, policy.yaml:8"}
	if diff := cmp.Diff(verdict, got.Verdict); diff != "" {
		t.Errorf("verdict, -want +got\n%s", diff)
	}
	in.State.Step, in.Service.Namespace = "kube.rollout_undo", "dev"
	if got := s.Evaluate(in); got.Terms.Cap.Level != playbook.Observe || len(got.Terms.Needs) != 1 {
		t.Errorf("a second lever: %+v", got.Terms)
	}
}

// Not knowing is a denial, and the denial says what is not known and where the
// rule stands.
func TestUnknownIsDenied(t *testing.T) {
	tokens := 1200.0
	tests := map[string]struct {
		rule string
		set  func(*Input)
		want string // the whole verdict; empty: it passes
	}{
		"missing label": {
			`{name: team, when: 'run.alerts.exists(a, a.labels.team == "x")', max_autonomy: observe}`,
			func(in *Input) { in.Run.Alerts = []playbook.Alert{{Labels: map[string]string{"alertname": "A"}}} },
			"policy team, policy.yaml:6: when cannot be evaluated: no such key: team",
		},
		"unknown capacity in a condition": {
			`{name: few, when: 'plan.capacity.ready_now < 3', max_autonomy: suggest}`,
			func(in *Input) { in.Plan.Capacity = machine.Capacity{Unknown: true} },
			"policy few, policy.yaml:6: when cannot be evaluated: no field ready_now: guard it with has() if it may be missing",
		},
		"unknown capacity under a bound": {
			`{name: bound, blast_radius: {max_lost_ready: 5}}`,
			func(in *Input) { in.Plan.Capacity = machine.Capacity{Unknown: true} },
			"policy bound, policy.yaml:6: the effect on capacity is unknown: at most 5 ready lost",
		},
		"unknown tokens": {
			`{name: bound, blast_radius: {max_lost_tokens_per_second: 100}}`,
			func(in *Input) { in.Plan.Capacity.LowestReady = 2 },
			"policy bound, policy.yaml:6: tokens per second are unknown: at most 100 tokens per second lost",
		},
		"too many tokens": {
			`{name: bound, blast_radius: {max_lost_tokens_per_second: 100}}`,
			func(in *Input) { in.Plan.Capacity.LowestReady, in.Plan.Capacity.TokensPerSecond = 2, &tokens },
			"policy bound, policy.yaml:6: 400 of 1200 tokens per second would be lost, at most 100 tokens per second lost",
		},
		"no share is counted": {
			`{name: bound, blast_radius: {max_out_percent_of_namespace: 25}}`,
			func(in *Input) { in.Service.Namespace = "prod"; in.Plan.Capacity.LowestReady = 2 },
			"policy bound, policy.yaml:6: the replicas of namespace prod were not counted: at most 25 % of a namespace's replicas out",
		},
		"a share cannot be counted": {
			`{name: bound, blast_radius: {max_out_percent_of_namespace: 25}}`,
			func(in *Input) {
				in.Service.Namespace = "prod"
				in.Plan.Capacity.LowestReady, in.Plan.Shares = 2, []machine.Share{{Namespace: "prod", Lost: 1, Unknown: "no answer"}}
			},
			"policy bound, policy.yaml:6: the replicas of namespace prod are unknown: no answer, at most 25 % of a namespace's replicas out",
		},
		"too many out with those of others": {
			`{name: bound, blast_radius: {max_out_percent_of_namespace: 25, max_out_percent_of_cluster: 50}}`,
			func(in *Input) {
				in.Service.Namespace = "prod"
				in.Plan.Capacity.LowestReady, in.Plan.Shares = 2, []machine.Share{{Lost: 1, Wanted: 8, Missing: 1}, {Namespace: "prod", Lost: 1, Wanted: 8, Missing: 1}}
				in.Taken = func(string) int { return 1 }
			},
			"policy bound, policy.yaml:6: 3 of 8 replicas of namespace prod would be out (1 are not ready, other runs take 1), at most 25 % of a namespace's replicas out, at most 50 % of all services' replicas out",
		},
		"too many of all": {
			`{name: bound, blast_radius: {max_out_percent_of_cluster: 10}}`,
			func(in *Input) {
				in.Service.Namespace = "prod"
				in.Plan.Capacity.LowestReady, in.Plan.Shares = 2, []machine.Share{{Lost: 1, Wanted: 8}, {Namespace: "prod", Lost: 8, Wanted: 8}}
			},
			"policy bound, policy.yaml:6: 1 of 8 replicas of all services would be out (0 are not ready, other runs take 0), at most 10 % of all services' replicas out",
		},
		"as many out as may be": {
			`{name: bound, blast_radius: {max_out_percent_of_namespace: 25, max_lost_tokens_per_second: 1000}}`,
			func(in *Input) {
				in.Service.Namespace = "prod"
				in.Plan.Capacity.LowestReady, in.Plan.Capacity.TokensPerSecond = 2, &tokens
				in.Plan.Shares = []machine.Share{{Lost: 1, Wanted: 1}, {Namespace: "prod", Lost: 1, Wanted: 8, Missing: 1}}
			},
			"",
		},
		"no replica lost, tokens unknown": {`{name: bound, blast_radius: {max_lost_tokens_per_second: 100}}`, func(*Input) {}, ""},
		"no plan":                         {`{name: risky, when: 'plan.risk == "high"', deny: no}`, func(in *Input) { in.Plan = nil }, "policy risky, policy.yaml:6: when cannot be evaluated: no field risk: guard it with has() if it may be missing"},
		"nobody counts":                   {`{name: often, budget: {levers: 2, within: 1h}}`, func(in *Input) { in.Count = nil }, "policy often, policy.yaml:6: the number of past changes is unknown, at most 2 levers on one service within 1h"},
		"not counted that far": {
			`{name: often, budget: {runs: 2, per: all, within: 7d}}`,
			func(in *Input) { in.Count = func(Count) (int, bool) { return 0, false } },
			"policy often, policy.yaml:6: the number of past changes is unknown, at most 2 runs in all within 1w",
		},
		"repairing an outage": {
			`{name: bound, blast_radius: {min_ready: 3}}`,
			func(in *Input) { in.Plan.Capacity = machine.Capacity{ReadyNow: 1, LowestReady: 1, ReadyAfter: 4} }, "",
		},
		"making an outage worse": {
			`{name: bound, blast_radius: {min_ready: 3}}`,
			func(in *Input) { in.Plan.Capacity = machine.Capacity{ReadyNow: 2, LowestReady: 1, ReadyAfter: 4} },
			"policy bound, policy.yaml:6: 1 would stay ready of 2, at least 3 stay ready",
		},
		"namespace of the target": {
			`{name: system, protect: {namespaces: ['kube-*']}}`,
			func(in *Input) { in.Plan.Target.Namespace = "kube-system" },
			"policy system, policy.yaml:6: namespace kube-system is protected by kube-*",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := harmless()
			test.set(&in)
			got := rules(t, test.rule).Evaluate(in).Verdict
			if got.OK != (test.want == "") || test.want != "" && got.Why != test.want {
				t.Errorf("got %v %q, want %q", got.OK, got.Why, test.want)
			}
		})
	}
}

// A budget counts what its words say.
func TestBudgetCounts(t *testing.T) {
	s := rules(t, `{name: a, budget: {levers: 2, within: 1h}}`, `{name: b, budget: {runs: 3, per: playbook, within: 1d}}`, `{name: c, budget: {runs: 4, per: all, within: 5m}}`)
	in := harmless()
	in.Service.Name, in.Playbook.Name = "prod/chat", "slow"
	if s.Horizon() != 24*time.Hour {
		t.Errorf("horizon %s", s.Horizon())
	}
	var asked []Count
	in.Count = func(c Count) (int, bool) { asked = append(asked, c); return 1, true }
	if got := s.Evaluate(in); !got.Verdict.OK {
		t.Error(got.Verdict.Why)
	}
	want := []Count{
		{What: "levers", Service: "prod/chat", Since: in.Now.Add(-time.Hour)},
		{What: "runs", Playbook: "slow", Since: in.Now.Add(-24 * time.Hour)},
		{What: "runs", Since: in.Now.Add(-5 * time.Minute)},
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	in.Count = func(Count) (int, bool) { return 3, true }
	if got := s.Evaluate(in).Verdict; got.OK || got.Why != "policy a, policy.yaml:6: 3 already, at most 2 levers on one service within 1h (and 1 more)" {
		t.Error(got.Why)
	}
}

// Freezes hold on the clocks of their zone, over midnight, over the end of the
// week and over a change of the clocks.
func TestFreezes(t *testing.T) {
	tests := []struct {
		freeze string
		frozen []string
		free   []string
	}{
		{
			`{zone: Europe/Berlin, weekly: [{from: fri 16:00, to: mon 08:00}]}`,
			[]string{"2026-03-06T15:00:00Z", "2026-03-08T12:00:00Z", "2026-03-09T06:59:59Z", "2026-07-10T14:00:00Z"},
			[]string{"2026-03-06T14:59:59Z", "2026-03-09T07:00:00Z", "2026-07-10T13:59:59Z", "2026-03-11T12:00:00Z"},
		},
		{
			`{zone: UTC, weekly: [{days: [mon, tuesday], from: "22:00", to: "06:00"}]}`,
			[]string{"2026-03-09T22:00:00Z", "2026-03-10T05:59:00Z", "2026-03-11T05:59:00Z"},
			[]string{"2026-03-09T05:00:00Z", "2026-03-11T06:00:00Z", "2026-03-11T22:00:00Z"},
		},
		{
			`{zone: UTC, weekly: [{days: [sat], from: "00:00", to: "24:00"}]}`,
			[]string{"2026-03-07T00:00:00Z", "2026-03-07T23:59:59Z"},
			[]string{"2026-03-06T23:59:59Z", "2026-03-08T00:00:00Z"},
		},
		{
			`{zone: UTC, weekly: [{from: "12:00", to: "13:00"}]}`,
			[]string{"2026-03-07T12:30:00Z", "2026-03-08T12:00:00Z"},
			[]string{"2026-03-07T13:00:00Z"},
		},
		{
			`{dates: [{from: 2026-12-24T00:00:00+01:00, to: "2026-12-25T00:00:00+01:00"}]}`,
			[]string{"2026-12-23T23:00:00Z", "2026-12-24T22:59:59Z"},
			[]string{"2026-12-23T22:59:59Z", "2026-12-24T23:00:00Z"},
		},
	}
	for _, test := range tests {
		s := rules(t, "{name: f, freeze: "+test.freeze+"}")
		for i, moment := range append(test.frozen, test.free...) {
			in := harmless()
			at, err := time.Parse(time.RFC3339, moment)
			if err != nil {
				t.Fatal(err)
			}
			in.Now = at
			if got := s.Evaluate(in).Verdict; got.OK == (i < len(test.frozen)) {
				t.Errorf("%s at %s: %v %s", test.freeze, moment, got.OK, got.Why)
			}
		}
	}
}

// Every variable that the reference promises can be read.
func TestVariablesAreThere(t *testing.T) {
	in := harmless()
	in.With = map[string]any{"replicas": int64(3)}
	in.Run.Alerts = []playbook.Alert{{Status: playbook.Firing, Labels: map[string]string{"team": "chat"}, StartsAt: in.Now}}
	in.Actor = Actor{Name: "user:ada", Groups: []string{"sre"}, Channel: "cli"}
	in.Service = playbook.Service{Name: "prod/chat", Namespace: "prod", Owners: []string{"user:ada"}, SLOs: []playbook.SLO{{Name: "ttft"}}}
	in.Plan.Diff = []machine.FieldChange{{Path: "spec.replicas", From: "2", To: "3"}}
	var all []string
	for _, v := range declared([]string{"kube.scale"}) {
		for _, f := range v.fields {
			all = append(all, fmt.Sprintf("has(%s.%s)", v.name, f.Name))
			for _, sub := range f.Type.Fields {
				all = append(all, fmt.Sprintf("has(%s.%s.%s)", v.name, f.Name, sub.Name))
			}
		}
	}
	all = append(all, `lever.with.replicas == 3`, `run.alerts[0].labels.team == "chat"`, `plan.changes[0].to == "3"`, `"user:ada" in service.owners`,
		`time.zone("Europe/Berlin").hour == 13`, `time.zone("UTC").weekday == "wednesday"`, `time.zone("UTC").date == "2026-01-07"`, `time.zone("UTC").minute == 0`,
		`time.now < timestamp("2026-12-24T00:00:00Z")`, `run.age == duration("0s")`, `actor.name == "user:ada" && "sre" in actor.groups`)
	for _, condition := range all {
		s := rules(t, fmt.Sprintf("{name: x, when: '%s', deny: it holds}", condition))
		if got := s.Evaluate(in).Verdict; got.OK || !strings.HasSuffix(got.Why, "it holds") {
			t.Errorf("%s: %s", condition, got.Why)
		}
	}
}
