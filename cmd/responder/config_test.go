package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/executor"
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
	c, err := parseConfig("responder.yaml", []byte(manifest.Data["responder.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	if c.Autonomy != playbook.Observe || c.Auth.Insecure {
		t.Errorf("a fresh install observes and authenticates: autonomy %s, insecure %v", c.Autonomy, c.Auth.Insecure)
	}
}

// A configuration that says nothing is as safe as can be.
func TestDefaultsAreSafe(t *testing.T) {
	_, err := parseConfig("f.yaml", nil)
	if err == nil || !strings.Contains(err.Error(), "auth: nobody could talk to the service") {
		t.Errorf("no authentication: %v", err)
	}
	c, err := parseConfig("f.yaml", []byte("auth: {insecure: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Autonomy != playbook.Observe || !strings.HasPrefix(c.Listen, "127.0.0.1:") {
		t.Errorf("defaults: autonomy %s, listen %s", c.Autonomy, c.Listen)
	}
	if diff := cmp.Diff(executor.DefaultGuards(), c.Guards.executor()); diff != "" {
		t.Errorf("guards differ from the executor's own, -executor +configuration:\n%s", diff)
	}
}

func TestCrossChecks(t *testing.T) {
	for in, want := range map[string]string{
		"auth: {tokens: [{name: ada, file: a, scopes: [read]}, {name: 'user:ada', file: b, scopes: [decide]}]}": `auth.tokens[1].name: "ada" is also the name of auth.tokens[0]`,
		"listen: here":                                         "listen: \"here\" is not an address; write it like 127.0.0.1:8080 or :8080",
		"tls: {cert_file: a}":                                  "tls: cert_file and key_file go together",
		"auth: {mtls: {clients: []}}":                          "auth.mtls: client certificates need HTTPS",
		"auth: {tokens: [{name: a, file: b}]}":                 "auth.tokens[0].scopes: may do nothing",
		"auth: {tokens: [{file: b, scopes: [read]}]}":          "auth.tokens[0].name: must not be empty",
		"prometheus: {url: prometheus}":                        "prometheus.url: \"prometheus\" is not a URL",
		"kubernetes: {in_cluster: true, kubeconfig: k}":        "kubernetes: in_cluster and kubeconfig exclude each other",
		"discovery: {enabled: true}":                           "discovery.enabled: there is no cluster to look in",
		"receiver: {max_body: 32MiB}":                          "receiver.max_in_flight: must be at least receiver.max_body",
		"guards: {min_ready: -1}":                              "guards.min_ready: must not be negative",
		"auth: {tokens: [{name: a, file: b, scopes: [root]}]}": "auth.tokens[0].scopes[0]: \"root\" is not a value of it",
	} {
		if !strings.Contains(in, "auth:") {
			in += "\nauth: {insecure: true}"
		}
		if _, err := parseConfig("f.yaml", []byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", in, err, want)
		}
	}
}

// Who may do what reaches the receiver unchanged, however names are written.
func TestAuthConversion(t *testing.T) {
	c, err := parseConfig("/etc/responder/f.yaml", []byte(`
tls: {cert_file: tls.crt, key_file: /abs/tls.key}
auth:
  tokens: [{name: 'user:ada', file: ada, scopes: [decide], groups: ['group:oncall', ml]}]
  basic: [{name: bob, password_file: bob, scopes: [read]}]
  mtls: {ca_file: ca.pem, clients: [{name: am.example, scopes: [intake]}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := webhook.Auth{
		Tokens:  []webhook.Token{{Grant: webhook.Grant{Name: "ada", Scopes: []webhook.Scope{"decide"}, Groups: []string{"oncall", "ml"}}, File: "/etc/responder/ada"}},
		Users:   []webhook.User{{Grant: webhook.Grant{Name: "bob", Scopes: []webhook.Scope{"read"}}, PasswordFile: "/etc/responder/bob"}},
		Clients: []webhook.Client{{Grant: webhook.Grant{Name: "am.example", Scopes: []webhook.Scope{"intake"}}}},
	}
	if diff := cmp.Diff(want, c.Auth.receiver()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(webhook.TLS{CertFile: "/etc/responder/tls.crt", KeyFile: "/abs/tls.key", ClientCAFile: "/etc/responder/ca.pem"}, c.tls()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
