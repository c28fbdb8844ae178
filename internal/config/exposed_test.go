package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Plain HTTP beyond this machine and credentials that every user can read are named, each
// with its field; an installation that has neither is not warned about.
func TestExposures(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"open": 0o644, "group": 0o640, "own": 0o600, "cert": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("hunter2"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	const tokens = "auth: {tokens: [{name: ada, file: FILE, scopes: [read]}]}\n"
	for name, tt := range map[string]struct {
		doc  string
		want []string
	}{
		"loopback":         {"listen: 127.0.0.1:8080\n" + strings.Replace(tokens, "FILE", "own", 1), nil},
		"loopback, IPv6":   {"listen: '[::1]:8080'\n" + strings.Replace(tokens, "FILE", "group", 1), nil},
		"by name":          {"listen: localhost:8080\n" + strings.Replace(tokens, "FILE", "own", 1), nil},
		"TLS":              {"listen: :8080\ntls: {cert_file: cert, key_file: own}\n" + strings.Replace(tokens, "FILE", "own", 1), nil},
		"all addresses":    {"listen: :8080\n" + strings.Replace(tokens, "FILE", "own", 1), []string{"listen: :8080 serves plain HTTP"}},
		"another address":  {"listen: 10.0.0.1:8080\n" + strings.Replace(tokens, "FILE", "own", 1), []string{"listen: 10.0.0.1:8080 serves plain HTTP"}},
		"readable token":   {strings.Replace(tokens, "FILE", "open", 1), []string{"auth.tokens[0].file: every user of this machine can read"}},
		"readable key":     {"tls: {cert_file: cert, key_file: open}\n" + strings.Replace(tokens, "FILE", "own", 1), []string{"tls.key_file: every user"}},
		"readable webhook": {"channels: [{name: a, default: true, webhook: {url: 'https://h.example', token_file: own, secret_file: open}}]\n" + strings.Replace(tokens, "FILE", "own", 1), []string{"channels[0].webhook.secret_file: every user"}},
		"sign-in in clear": {"external_url: http://r.example\nauth: {basic: [{name: ada, password_file: own, scopes: [read]}]}\n", []string{"external_url: people sign in on the page over plain HTTP"}},
		"sign-in here":     {"external_url: http://localhost:8080\nauth: {basic: [{name: ada, password_file: own, scopes: [read]}]}\n", nil},
		"missing":          {strings.Replace(tokens, "FILE", "none", 1), nil},
	} {
		c, err := Parse(filepath.Join(dir, "c.yaml"), []byte(tt.doc))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := c.Exposures()
		ok := len(got) == len(tt.want)
		for i := range tt.want {
			ok = ok && strings.HasPrefix(got[i], tt.want[i])
		}
		if !ok || strings.Contains(strings.Join(got, ""), "hunter2") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// Networks of probes are networks, written as such.
func TestProbeNetworks(t *testing.T) {
	for doc, want := range map[string]string{
		"[10.96.0.0/12, 'fd00:10:96::/112']": "",
		"[10.96.0.1/12]":                     "probes.networks[0]: 10.96.0.1/12 has bits beyond its length (write 10.96.0.0/12)",
		"[10.96.0.0/12, kube-system]":        `probes.networks[1]: "kube-system" is no network`,
	} {
		c, err := Parse("c.yaml", []byte("auth: {insecure: true}\nprobes: {networks: "+doc+"}\n"))
		if want == "" && (err != nil || len(c.Probes.Prefixes()) != 2) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", doc, err, want)
		}
	}
}

// Namespaces of discovery are names, each once.
func TestDiscoveryNamespaces(t *testing.T) {
	for doc, want := range map[string]string{
		"[serving, batch]":    "",
		"[serving, 'team-*']": `discovery.namespaces[1]: "team-*" is no namespace`,
		"['']":                `discovery.namespaces[0]: "" is no namespace`,
		"[serving, serving]":  `discovery.namespaces[1]: duplicate namespace "serving"`,
	} {
		_, err := Parse("c.yaml", []byte("auth: {insecure: true}\ndiscovery: {namespaces: "+doc+"}\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", doc, err, want)
		}
	}
}
