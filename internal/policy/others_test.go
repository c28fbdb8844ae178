package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// drain is a lever of service prod/chat on a node with pods of batch/embed, which loses
// its only replica, and of no service in kube-system.
func drain() Input {
	in := harmless()
	in.Service = playbook.Service{Name: "prod/chat", Namespace: "prod", Owners: []string{"group:chat"}}
	in.Plan = &machine.Plan{
		Capacity: machine.Capacity{ReadyNow: 4, LowestReady: 3, ReadyAfter: 3},
		Shares:   []machine.Share{{Lost: 2, Wanted: 5}, {Namespace: "batch", Lost: 1, Wanted: 1}, {Namespace: "prod", Lost: 1, Wanted: 4}},
	}
	in.Others = []Other{
		{
			Name: "service batch/embed, with pods on the node", Autonomy: playbook.Auto,
			Service:  playbook.Service{Name: "batch/embed", Namespace: "batch", Owners: []string{"group:embed"}},
			Capacity: []machine.Capacity{{ReadyNow: 1}},
		},
		{Name: "pods of no service in namespace kube-system", Autonomy: playbook.Auto, Service: playbook.Service{Namespace: "kube-system"}, Capacity: []machine.Capacity{{ReadyNow: 1}}},
	}
	return in
}

// Rules are evaluated for each service that a lever touches, and each namespace: the
// strictest answer counts, and says for whom.
func TestRulesJudgeAllThatIsTouched(t *testing.T) {
	const embed, system = "service batch/embed, with pods on the node", "pods of no service in namespace kube-system"
	for _, tt := range []struct {
		name, rule, denied string
		terms              machine.Terms
	}{
		{"protected namespace", `{name: x, protect: {namespaces: [kube-system]}}`, system + ": namespace kube-system is protected", machine.Terms{}},
		{"denied for another", `{name: x, when: 'service.name == "batch/embed"', deny: not that one}`, embed + ": not that one", machine.Terms{}},
		{"its replicas", `{name: x, blast_radius: {min_ready: 1}}`, embed + ": 0 would stay ready of 1", machine.Terms{}},
		{"the share of its namespace", `{name: x, blast_radius: {max_out_percent_of_namespace: 50}}`, embed + ": 1 of 1 replicas of namespace batch would be out", machine.Terms{}},
		{"no share of its namespace", `{name: x, when: 'service.namespace != "batch"', blast_radius: {max_out_percent_of_namespace: 50}}`, "", machine.Terms{}},
		{"its budget", `{name: x, when: 'service.name == "batch/embed"', budget: {levers: 1, within: 1h}}`, embed + ": 1 already", machine.Terms{}},
		{"its level", `{name: x, when: 'service.namespace == "batch"', max_autonomy: observe}`, "", machine.Terms{
			Cap: &machine.Cap{Level: playbook.Observe, Rule: "policy x, policy.yaml:6, for " + embed, Touched: true},
		}},
		{"its owners", `{name: x, require_approval: {from: service.owners, quorum: 2}}`, "", machine.Terms{Needs: []machine.Need{
			{Rule: "policy x, policy.yaml:6", From: []string{"service.owners"}, Quorum: 2, For: []string{"prod/chat"}},
			{Rule: "policy x, policy.yaml:6", From: []string{"group:embed"}, As: "owners of " + embed, Quorum: 2, For: []string{"batch/embed"}},
		}}},
		{"one group once", `{name: x, require_approval: {from: 'group:sre', quorum: 2}}`, "", machine.Terms{Needs: []machine.Need{
			{Rule: "policy x, policy.yaml:6", From: []string{"group:sre"}, Quorum: 2, For: []string{"prod/chat", "batch/embed"}},
		}}},
		{"nobody for all", `{name: x, when: 'service.namespace == "prod"', allow_approvers: ['group:sre']}`, "", machine.Terms{}},
		{"somebody for all", `{name: x, when: 'service.namespace in ["prod", "batch"]', allow_approvers: ['group:sre']}`, "", machine.Terms{Approvers: []string{"group:sre"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Compile("policy.yaml", document(tt.rule), testKinds())
			if err != nil {
				t.Fatal(err)
			}
			in := drain()
			in.Count = func(c Count) (int, bool) { return map[string]int{"batch/embed": 1}[c.Service], true }
			got := s.Evaluate(in)
			if got.Verdict.OK != (tt.denied == "") || !strings.Contains(got.Verdict.Why, tt.denied) {
				t.Errorf("verdict: %+v, want %q", got.Verdict, tt.denied)
			}
			got.Terms.Policy = ""
			if len(got.Terms.Approvers) == 0 {
				got.Terms.Approvers = nil
			}
			if diff := cmp.Diff(tt.terms, got.Terms); diff != "" {
				t.Errorf("terms (-want +got):\n%s", diff)
			}
		})
	}
}
