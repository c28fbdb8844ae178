package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// pairs asks two people.
const pairs = `
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: pairs, runbook: docs/pairs.md}
spec:
  match: '{alertname="Pairs"}'
  autonomy: suggest
  start: look
  states:
    look: {check: slo.burn, next: [{when: 'out.status == "breached"', to: ask}, {to: people}]}
    ask:
      gate: Is it so?
      approve: {by: ['user:ada', 'user:bob'], quorum: 2, within: 15m}
      next: [{when: approved, to: people}, {to: people}]
    people: {end: escalated}
`

// TestQuorums: what asks more people than are declared among those whom it names is said,
// of rules and of playbooks, before an incident shows it.
func TestQuorums(t *testing.T) {
	all, err := playbook.Parse("pairs.yaml", []byte(pairs), kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	set, err := playbook.NewSet(all)
	if err != nil {
		t.Fatal(err)
	}
	rule := func(from ...string) policy.Rule { return policy.Rule{Place: "policy x", Quorum: 2, From: from} }
	two := config.Auth{People: []config.Person{{Name: "ada", Groups: []string{"sre"}}, {Name: "eve", Credentials: []string{"laptop"}}}}
	withToken := two
	withToken.Tokens = []config.Token{{Name: "laptop", Groups: []string{"sre"}}}
	atIssuer := two
	atIssuer.People = []config.Person{two.People[0], {Name: "eve", OIDC: "e"}}
	const count = "only declared people count where several approve"
	for name, tt := range map[string]struct {
		auth config.Auth
		set  *playbook.Set
		rule policy.Rule
		want []string
	}{
		"nobody is declared":         {config.Auth{}, nil, rule("group:sre"), []string{"policy x: needs 2 people, and auth.people declares 0: " + count}},
		"one of the group":           {two, nil, rule("group:sre"), []string{"policy x: needs 2 people of group:sre, and auth.people declares 1 of them: " + count}},
		"one by a credential":        {withToken, nil, rule("group:sre"), nil},
		"groups of an issuer":        {atIssuer, nil, rule("group:sre"), nil},
		"owners":                     {two, nil, rule("service.owners"), nil},
		"a person who is undeclared": {two, nil, rule("user:ada", "user:bob"), []string{"policy x: needs 2 people of user:ada, user:bob, and auth.people declares 1 of them: " + count}},
		"one is enough":              {config.Auth{}, nil, policy.Rule{Place: "policy x", Quorum: 1, From: []string{"group:sre"}}, nil},
		"a playbook":                 {two, set, policy.Rule{}, []string{"playbook pairs, state ask: needs 2 people of user:ada, user:bob, and auth.people declares 1 of them: " + count}},
	} {
		if tt.set == nil {
			tt.set = new(playbook.Set)
		}
		if diff := cmp.Diff(tt.want, quorums(tt.auth, tt.set, []policy.Rule{tt.rule})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
