package config

import (
	"reflect"
	"strings"
	"testing"
)

// sendingSecrets is a configuration that sends every secret it can to WHERE,
// with WORD beside each.
const sendingSecrets = `auth: {insecure: true}
prometheus: {url: 'WHERE/a', token_file: t WORD}
journal: {checkpoints: {url: 'WHERE/a', token_file: t WORD}}
silence: {enabled: true, alertmanager_url: 'WHERE/a', token_file: t WORD}
gpu: {repairs: {url: 'WHERE/a', token_file: t WORD}}
slack: {token_file: t, app_token_file: t, channel: C0123, api_url: 'WHERE/a'}
channels:
  - {name: a, default: true, webhook: {url: 'WHERE/a', token_file: t WORD}}
  - {name: b, pagerduty: {routing_key_file: t, url: 'WHERE/a'}}
gitops:
  author: {name: a, email: a@example}
  argocd: {server: a, token_file: t}
  repositories:
    - {url: 'WHERE/a', auth: {token_file: t WORD}, way: auto, forge: {kind: gitea, api: 'WHERE/a', token_file: t WORD}}
`

// TestCredentialsInTheClear: no secret goes over plain http to another machine,
// unless its plaintext says so; public services have no such word.
func TestCredentialsInTheClear(t *testing.T) {
	all := []string{
		"prometheus.token_file", "journal.checkpoints.token_file", "silence.token_file", "gpu.repairs.token_file", "slack.token_file", "channels[0].webhook.token_file",
		"channels[1].pagerduty.routing_key_file", "gitops.repositories[0].auth.token_file", "gitops.repositories[0].forge.token_file",
	}
	public := []string{"slack.token_file", "channels[1].pagerduty.routing_key_file"}
	for _, tt := range []struct {
		where, word string
		refused     []string
	}{
		{"http://canary.example", "", all},
		{"HTTP://10.1.2.3:80", "", all},
		{"http://localhost.example", "", all},
		{"http://[2001:db8::1]", "", all},
		{"http://canary.example", ", plaintext: true", public},
		{"http://canary.example", ", plaintext: false", all},
		{"https://canary.example", "", nil},
		{"http://localhost:1", "", nil},
		{"http://127.0.0.9:1", "", nil},
		{"http://[::1]:1", "", nil},
	} {
		in := strings.NewReplacer("WHERE", tt.where, " WORD", tt.word).Replace(sendingSecrets)
		_, err := Parse("r.yaml", []byte(in))
		var said string
		if err != nil {
			said = err.Error()
		}
		for _, path := range all {
			want := strings.Contains(strings.Join(tt.refused, " "), path)
			if got := strings.Contains(said, path+": "); got != want {
				t.Errorf("%s%s: %s refused %t, want %t:\n%s", tt.where, tt.word, path, got, want, said)
			}
		}
		if strings.Contains(said, "canary") || len(tt.refused) == 0 && err != nil {
			t.Errorf("%s%s: %v", tt.where, tt.word, err)
		}
	}
}

// TestCredentialWithoutASecret: plain http by itself is no mistake.
func TestCredentialWithoutASecret(t *testing.T) {
	const in = "auth: {insecure: true}\nprometheus: {url: 'http://prometheus.monitoring:9090'}\n" +
		"channels: [{name: a, default: true, webhook: {url: 'http://hooks.example/a'}}]\n"
	if _, err := Parse("r.yaml", []byte(in)); err != nil {
		t.Error(err)
	}
}

// TestEveryTokenIsLookedAt: a new setting with a token has to be refused in the
// clear, too.
func TestEveryTokenIsLookedAt(t *testing.T) {
	sent := func(where string) (Config, error) {
		return Parse("r.yaml", []byte(strings.NewReplacer("WHERE", where, " WORD", "").Replace(sendingSecrets)))
	}
	c, err := sent("https://a.example")
	if err != nil {
		t.Fatal(err)
	}
	_, refused := sent("http://a.example")
	known := map[string]bool{
		"gitops.argocd.token_file": true, // plaintext of its own
		"gpu.agents.token_file":    true, // TLS always
	}
	found := 0
	eachText(reflect.ValueOf(c), "", func(path, name string, _ reflect.Value) {
		if name != "token_file" && name != "routing_key_file" {
			return
		}
		if found++; !known[path] && !strings.Contains(refused.Error(), path+": ") {
			t.Errorf("%s is not looked at", path)
		}
	})
	if found < 10 {
		t.Errorf("%d settings were found", found)
	}
}

// A scope of an older configuration is refused with what replaces it, wherever scopes are.
func TestScopeDecideIsReplaced(t *testing.T) {
	for at, doc := range map[string]string{
		"auth.tokens[0].scopes[1]":       "auth: {tokens: [{name: ada, file: t, scopes: [read, decide]}]}",
		"auth.basic[0].scopes[0]":        "auth: {basic: [{name: ada, password_file: t, scopes: [decide]}]}",
		"auth.mtls.clients[0].scopes[0]": "auth: {mtls: {ca_file: c, clients: [{name: ada, scopes: [decide]}]}}\ntls: {cert_file: c, key_file: k}",
		"auth.oidc.scopes[0]":            "auth: {oidc: {issuer: 'https://idp.example', audience: r, scopes: [decide]}}",
	} {
		_, err := Parse("c.yaml", []byte(doc+"\n"))
		if err == nil || !strings.Contains(err.Error(), at+": must be one of") || !strings.Contains(err.Error(), "decide became one scope for each right: write those of approve, cancel,") {
			t.Errorf("%s: %v", doc, err)
		}
	}
	if _, err := Parse("c.yaml", []byte("auth: {insecure: true}\nlog: {level: decide}\n")); err == nil || strings.Contains(err.Error(), "became") {
		t.Errorf("a level of the log: %v", err)
	}
}

// TestUndeclared: a credential that may approve or start, and that auth.people gives to
// nobody, may be what several people share: it is named. Others are not.
func TestUndeclared(t *testing.T) {
	const tokens = `auth:
  tokens:
    - {name: team, file: a, scopes: [approve]}
    - {name: robot, file: b, scopes: [start, read]}
    - {name: laptop, file: c, scopes: [approve]}
    - {name: reader, file: d, scopes: [read]}
  people: [{name: ada, credentials: [laptop]}]
`
	const slack = "slack: {token_file: t, app_token_file: t, channel: C0123}\n"
	const oidc = "  oidc: {issuer: 'https://login.example.com', audience: responder, scopes: [approve]}\n"
	for doc, want := range map[string][]string{
		tokens:         {"auth.tokens[0]: team is nobody's under auth.people", "auth.tokens[1]: robot is nobody's"},
		tokens + slack: {"auth.tokens[0]: team", "auth.tokens[1]: robot", "slack: auth.people lists nobody in Slack"},
		tokens + oidc:  {"auth.tokens[0]: team", "auth.tokens[1]: robot", "auth.oidc: auth.people lists nobody of the issuer"},
	} {
		c, err := Parse("c.yaml", []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		got := c.Undeclared()
		ok := len(got) == len(want)
		for i := range min(len(got), len(want)) {
			ok = ok && strings.HasPrefix(got[i], want[i])
		}
		if !ok {
			t.Errorf("%q, want %q, of\n%s", got, want, doc)
		}
	}
}
