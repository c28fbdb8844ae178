package policy

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

var update = flag.Bool("update", false, "write what is said of the bad policies into testdata")

// testKinds are the steps of the tests.
func testKinds() []playbook.Kind {
	return []playbook.Kind{
		{Name: "kube.scale", Role: playbook.RoleLever}, {Name: "kube.rollout_undo", Role: playbook.RoleLever}, {Name: "http.probe", Role: playbook.RoleCheck},
	}
}

// rules compiles a policy of these rules, each a flow mapping.
func rules(tb testing.TB, items ...string) *Set {
	tb.Helper()
	s, err := Compile("dir/policy.yaml", document(items...), testKinds())
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func document(items ...string) []byte {
	text := "apiVersion: responder/v1alpha1\nkind: Policy\nmetadata: {name: test}\nspec:\n  rules:\n"
	for _, item := range items {
		text += "    - " + item + "\n"
	}
	return []byte(text)
}

// TestRouted: where a live change becomes a commit, rules about either lever hold.
func TestRouted(t *testing.T) {
	kinds := append(testKinds(), playbook.Kind{Name: "gitops.revert", Role: playbook.RoleLever})
	for _, test := range []struct {
		rule string
		deny bool
	}{
		{`{name: x, when: 'lever.kind == "gitops.revert"', deny: no commits}`, true},
		{`{name: x, when: 'lever.kind == "kube.rollout_undo"', deny: no rollbacks}`, true},
		{`{name: x, when: 'lever.kind == "kube.scale"', deny: no scaling}`, false},
		{`{name: x, when: 'lever.kind in ["gitops.revert", "kube.scale"]', deny: neither}`, true},
	} {
		s, err := Compile("policy.yaml", document(test.rule), kinds)
		if err != nil {
			t.Fatal(err)
		}
		in := harmless()
		in.State = &playbook.State{Name: "back", Kind: playbook.StateLever, Step: "kube.rollout_undo"}
		in.Plan = &machine.Plan{Step: "gitops.revert"}
		if got := s.Evaluate(in); got.Verdict.OK == test.deny {
			t.Errorf("%s: %+v", test.rule, got.Verdict)
		}
	}
}

// The example that ships passes its own tests, and they touch every rule.
func TestShippedPolicy(t *testing.T) {
	dir := filepath.Join("..", "..", "deploy", "policy")
	data, err := os.ReadFile(filepath.Join(dir, "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	levers := append(testKinds(), playbook.Kind{Name: "service.rollback", Role: playbook.RoleLever})
	s, err := Compile("policy.yaml", data, levers)
	if err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile(filepath.Join(dir, "policy_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := CompileTable("policy_test.yaml", data, levers)
	if err != nil {
		t.Fatal(err)
	}
	report := table.Run(s)
	for _, c := range report.Cases {
		if !c.OK {
			t.Errorf("%s (line %d): got %s, want %s", c.Name, c.Line, c.Got, c.Want)
		}
	}
	if len(report.Unhit) > 0 {
		t.Errorf("rules that no case touches: %v", report.Unhit)
	}
	if got := s.Channels(); len(got) != 1 || got[0].Name != "oncall" || got[0].Line != 46 {
		t.Errorf("channels: %+v", got)
	}
}

// Every mistake is told at its place, with a remedy.
func TestBadPolicies(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "bad", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("only %d bad policies, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(filepath.Base(file), "table") {
				_, err = CompileTable(filepath.Base(file), data, testKinds())
			} else {
				_, err = Compile(filepath.Base(file), data, testKinds())
			}
			var problems yamldoc.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got %v, want problems", err)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			got := problems.Error() + "\n"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Explaining does not guess: what depends on the plan or on people is said to.
func TestExplain(t *testing.T) {
	s := rules(t,
		`{name: high, when: 'lever.kind == "kube.scale" && plan.risk == "high"', require_approval: {quorum: 2, from: 'group:sre'}}`,
		`{name: other-lever, when: 'lever.kind == "kube.rollout_undo" && plan.risk == "high"', deny: no}`,
		`{name: far, when: 'lever.with.replicas > 9', deny: too many}`,
		`{name: ada, when: 'actor.name == "user:ada"', deny: not her}`,
		`{name: first, when: 'run.levers > 0', max_autonomy: suggest}`,
		`{name: few, budget: {levers: 2, within: 1h}}`,
		`{name: bound, blast_radius: {min_ready: 2}}`,
		`{name: noon, when: 'time.zone("UTC").hour == 12', require_approval: {from: 'user:ada'}}`,
		`{name: night, when: 'time.zone("UTC").hour == 23', deny: night}`,
	)
	in := harmless()
	in.State.Step = "kube.scale"
	got := s.Explain(in)
	var lines []string
	for _, c := range got.Causes {
		lines = append(lines, fmt.Sprintf("%s depends=%v: %s", c.Rule, c.Depends, c.Why))
	}
	want := []string{
		`high depends=true: if lever.kind == "kube.scale" && plan.risk == "high": 2 of group:sre`,
		`far depends=true: if lever.with.replicas > 9: denied: too many`,
		`ada depends=true: if actor.name == "user:ada": denied: not her`,
		`first depends=true: if run.levers > 0: at most suggest`,
		`few depends=true: at most 2 levers on one service within 1h`,
		`bound depends=true: at least 2 stay ready`,
		`noon depends=false: 1 of user:ada`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !got.Verdict.OK || len(got.Terms.Needs) != 1 {
		t.Errorf("verdict %+v, terms %+v", got.Verdict, got.Terms)
	}
}

// One Set answers many runs at once.
func TestConcurrentUse(t *testing.T) {
	s := rules(t,
		`{name: night, when: 'time.zone("Europe/Berlin").hour < 6 || time.zone(service.model).hour == 3', deny: night}`,
		`{name: asks, when: 'plan.risk == "low"', require_approval: {from: 'user:ada', break_glass: ['group:a', 'group:b'], escalate: [{after: 5m, to: [a]}]}}`,
		`{name: asks-too, require_approval: {from: 'user:bob', break_glass: 'group:b', escalate: [{after: 5m, to: [b]}]}}`,
	)
	in := harmless()
	in.Service.Model = "UTC"
	decided, explained := s.Evaluate(in), s.Explain(in)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if diff := cmp.Diff(decided, s.Evaluate(in)); diff != "" {
					t.Errorf("-first +later\n%s", diff)
				}
				if diff := cmp.Diff(explained, s.Explain(in)); diff != "" {
					t.Errorf("-first +later\n%s", diff)
				}
			}
		})
	}
	wg.Wait()
}

// No policy is no obstacle.
func TestNoPolicy(t *testing.T) {
	var s *Set
	if got := s.Evaluate(harmless()); !got.Verdict.OK || s.Digest() != "" || s.Horizon() != 0 || s.Rules() != nil || s.Channels() != nil {
		t.Errorf("%+v", got)
	}
}
