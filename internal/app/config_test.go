package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/webhook"
)

// What deploy/ ships must start.
func TestDeployedConfiguration(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Data map[string]string `yaml:"data"`
	}
	if err := yaml.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("responder.yaml", []byte(manifest.Data["responder.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if c.Autonomy != playbook.Observe || c.Auth.Insecure {
		t.Errorf("a fresh install observes and authenticates: autonomy %s, insecure %v", c.Autonomy, c.Auth.Insecure)
	}
}

// A configuration that says nothing is as safe as can be.
func TestDefaultsAreSafe(t *testing.T) {
	_, err := config.Parse("f.yaml", nil)
	if err == nil || !strings.Contains(err.Error(), "auth: no credential is accepted") {
		t.Errorf("no authentication: %v", err)
	}
	c, err := config.Parse("f.yaml", []byte("auth: {insecure: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Autonomy != playbook.Observe || !strings.HasPrefix(c.Listen, "127.0.0.1:") {
		t.Errorf("defaults: autonomy %s, listen %s", c.Autonomy, c.Listen)
	}
	if diff := cmp.Diff(guard.Defaults(), c.Guards.ExecutorOptions()); diff != "" {
		t.Errorf("guards differ from the executor's own, -executor +configuration:\n%s", diff)
	}
}

func TestCrossChecks(t *testing.T) {
	for in, want := range map[string]string{
		"auth: {tokens: [{name: ada, file: a, scopes: [read]}, {name: 'user:ada', file: b, scopes: [approve]}]}": `auth.tokens[1].name: "ada" is also the name of auth.tokens[0]`,
		"listen: here":                "listen: \"here\" is not an address (write it like 127.0.0.1:8080 or :8080)",
		"tls: {cert_file: a}":         "tls: cert_file and key_file go together",
		"auth: {mtls: {clients: []}}": "auth.mtls: client certificates need HTTPS",
		"auth: {oidc: {issuer: 'http://idp', audience: a, scopes: [read]}}":                                                          `auth.oidc.issuer: "http://idp" is not an https URL`,
		"auth: {oidc: {issuer: 'https://idp', scopes: [read]}}":                                                                      "auth.oidc.audience: must not be empty",
		"auth: {oidc: {issuer: 'https://idp', scopes: [read], sign_in: {client_id: c}}}":                                             "f.yaml:1:54: auth.oidc.sign_in: needs external_url",
		"{external_url: 'https://r', auth: {oidc: {issuer: 'https://idp', scopes: [read], sign_in: {}}}}":                            "auth.oidc.sign_in.client_id: must not be empty",
		"{external_url: 'https://r', auth: {oidc: {issuer: 'https://idp', scopes: [read], sign_in: {client_id: c, scopes: [a b]}}}}": "auth.oidc.sign_in.scopes: a scope is empty or has spaces",
		"{external_url: 'https://r?x', auth: {oidc: {issuer: 'https://idp', scopes: [read], sign_in: {client_id: c}}}}":              "external_url: with auth.oidc.sign_in it must have no query",
		"auth: {oidc: {issuer: 'https://idp', audience: a, scopes: [read], allowed_groups: [sre]}}":                                  "auth.oidc.groups_claim: must not be empty with allowed_groups",
		"auth: {oidc: {issuer: 'https://idp', audience: a, scopes: [read], groups_claim: g, allowed_groups: ['group:']}}":            "auth.oidc.allowed_groups: a group is empty",
		"auth: {insecure: true, sessions: {lifetime: 1m}}":                                                                           "auth.sessions.lifetime: 1m is not between 5m and 168h",
		"auth: {insecure: true, sessions: {lifetime: 1h, idle: 2h}}":                                                                 "auth.sessions.idle: 2h is not between 1m and auth.sessions.lifetime",
		"auth: {oidc: {issuer: 'https://idp', audience: a}}":                                                                         "auth.oidc.scopes: may do nothing",
		"auth: {oidc: {issuer: 'https://idp', audience: a, scopes: [read], strong: {max_age: 1h}}}":                                  "auth.oidc.strong: no token could prove it",
		"auth: {insecure: true, people: [{name: ada, slack: U1}, {name: grace, slack: U1}]}":                                         `auth.people[1].slack: "U1" is also in auth.people[0].slack, of ada (one person, one entry)`,
		"auth: {insecure: true, people: [{name: ada, oidc: ada@example.com}, {name: grace}, {name: g, email: ADA@example.com}]}":     `auth.people[2].email: "ADA@example.com" is also in auth.people[0].oidc, of ada`,
		"auth: {insecure: true, people: [{name: ada}, {name: 'user:Ada'}]}":                                                          `auth.people[1].name: "Ada" is also in auth.people[0].name`,
		"auth: {insecure: true, people: [{name: Ada Lovelace}]}":                                                                     `"Ada Lovelace" has spaces`,
		"auth: {insecure: true, people: [{email: a@b}]}":                                                                             `auth.people[0].name: must not be empty`,
		"auth: {tokens: [{name: a, file: b}]}":                                                                                       "auth.tokens[0].scopes: may do nothing",
		"auth: {tokens: [{file: b, scopes: [read]}]}":                                                                                "auth.tokens[0].name: must not be empty",
		"prometheus: {url: prometheus}":                                                                                              "prometheus.url: \"prometheus\" is not a URL",
		"receiver: {drop_labels: [replica, alertname]}":                                                                              "receiver.drop_labels[1]: alertname cannot be dropped",
		"kubernetes: {in_cluster: true, kubeconfig: k}":                                                                              "kubernetes: in_cluster and kubeconfig exclude each other",
		"kubernetes: {qps: 0}":        "kubernetes.qps: must be between 1 and 10000",
		"discovery: {enabled: true}":  "discovery.enabled: there is no cluster to look in",
		"receiver: {max_body: 32MiB}": "receiver.max_in_flight: must be at least twice receiver.max_body",
		"guards: {min_ready: -1}":     "guards.min_ready: must not be negative",
		"auth: {tokens: [{name: a, file: b, scopes: [read]}], people: [{name: ada, credentials: [b]}]}":                `auth.people[0].credentials[0]: "b" is no entry of auth.tokens, auth.basic or auth.mtls.clients`,
		"auth: {insecure: true, people: [{name: ada, credentials: [x]}, {name: bob, credentials: [x]}]}":               `"x" is also in auth.people[0].credentials[0], of ada`,
		"auth: {insecure: true, rights: [{to: [ada], may: [start], services: ['*']}]}":                                 `auth.rights[0]: "ada" names nobody`,
		"auth: {insecure: true, rights: [{to: ['group:sre'], may: [start]}]}":                                          `auth.rights[0]: services is missing for group:sre`,
		"auth: {insecure: true, rights: [{to: ['group:sre'], may: [decide], services: ['*']}]}":                        `auth.rights[0].may[0]: must be one of approve, cancel,`,
		"auth: {insecure: true, mtls: {ca_file: c, clients: [{name: a, kind: dns, scopes: [approve], strong: true}]}}": `auth.mtls.clients[0].strong: a DNS name names a machine`,
		"auth: {tokens: [{name: a, file: b, scopes: [root]}]}":                                                         "auth.tokens[0].scopes[0]: must be one of intake, metrics, read, admin, sessions, approve, cancel, pause, unpause, resolve, release, promote, start, not \"root\"",
	} {
		if !strings.Contains(in, "auth:") {
			in += "\nauth: {insecure: true}"
		}
		if _, err := config.Parse("f.yaml", []byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", in, err, want)
		}
	}
}

// What is wrong between fields is shown where the field, or what lacks it, is.
func TestCrossChecksHavePlaces(t *testing.T) {
	in := `listen: here
auth:
  tokens:
    - {name: ada, file: a, scopes: [read]}
    - name: bob
      scopes: []
guards:
  budget:
    window: 0s
discovery: {enabled: true}
`
	want := `f.yaml:1:9: listen: "here" is not an address (write it like 127.0.0.1:8080 or :8080)
f.yaml:5:7: auth.tokens[1].file: must name a file
f.yaml:6:7: auth.tokens[1].scopes: may do nothing (add intake for Alertmanager; read and approve for people)
f.yaml:9:13: guards.budget.window: must be more than 0
f.yaml:10:22: discovery.enabled: there is no cluster to look in (set kubernetes.in_cluster or kubernetes.kubeconfig)`
	_, err := config.Parse("f.yaml", []byte(in))
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if _, err := config.Parse("f.yaml", nil); err == nil || !strings.HasPrefix(err.Error(), "f.yaml:1:1: auth: no credential is accepted") {
		t.Errorf("an empty file: %v", err)
	}
}

// Who may do what reaches the receiver unchanged, however names are written.
func TestAuthConversion(t *testing.T) {
	c, err := config.Parse("/etc/responder/f.yaml", []byte(`
external_url: https://r.example/responder
tls: {cert_file: tls.crt, key_file: /abs/tls.key}
auth:
  sessions: {lifetime: 8h}
  tokens: [{name: 'user:ada', file: ada, scopes: [approve], groups: ['group:oncall', ml]}]
  basic: [{name: bob, password_file: bob, scopes: [read]}]
  mtls: {ca_file: ca.pem, clients: [{name: am.example, kind: dns, scopes: [intake]}, {name: grace, scopes: [approve], strong: true}]}
  oidc: {issuer: 'https://idp.example', audience: responder, ca_file: idp.pem, scopes: [approve], groups_claim: groups, allowed_groups: ['group:oncall'], people_only: true, strong: {amr: [mfa]}, sign_in: {client_id: page, client_secret_file: secret}}
  people: [{name: 'user:ada', credentials: ['user:bob'], oidc: ada@example.com, slack: U1, email: ada@example.com, groups: ['group:owners']}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := webhook.Auth{
		Tokens:  []webhook.Token{{Grant: webhook.Grant{Name: "ada", Scopes: []webhook.Scope{"approve"}, Groups: []string{"oncall", "ml"}}, File: "/etc/responder/ada"}},
		Users:   []webhook.User{{Grant: webhook.Grant{Name: "bob", Scopes: []webhook.Scope{"read"}}, PasswordFile: "/etc/responder/bob"}},
		Clients: []webhook.Client{{Grant: webhook.Grant{Name: "am.example", Scopes: []webhook.Scope{"intake"}}, Kind: "dns"}, {Grant: webhook.Grant{Name: "grace", Scopes: []webhook.Scope{"approve"}}, Strong: true}},
		OIDC: &webhook.OIDC{
			Issuer: "https://idp.example", Audience: "responder", CAFile: "/etc/responder/idp.pem", GroupsClaim: "groups",
			AllowedGroups: []string{"oncall"}, PeopleOnly: true,
			Scopes: []webhook.Scope{"approve"}, Strong: &webhook.Strong{AMR: []string{"mfa"}, MaxAge: 15 * time.Minute},
			Browser: &webhook.OIDCBrowser{ClientID: "page", ClientSecretFile: "/etc/responder/secret", Scopes: []string{"profile", "email"}},
		},
		Sessions: webhook.Sessions{Lifetime: 8 * time.Hour, Idle: time.Hour}, ExternalURL: "https://r.example/responder",
		People: []webhook.Person{{Name: "ada", Credentials: []string{"bob"}, OIDC: "ada@example.com", Email: "ada@example.com", Groups: []string{"owners"}}},
	}
	if diff := cmp.Diff(want, c.ReceiverAuth()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(webhook.TLS{CertFile: "/etc/responder/tls.crt", KeyFile: "/abs/tls.key", ClientCAFile: "/etc/responder/ca.pem"}, c.ServerTLS()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
