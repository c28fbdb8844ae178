package config

import (
	"net/netip"
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
		"sign-in unsaid":   {"listen: :8080\nauth: {basic: [{name: ada, password_file: own, scopes: [read]}]}\n", []string{"listen: :8080", "external_url: people sign in on the page, and nothing says"}},
		"sign-in here":     {"external_url: http://localhost:8080\nauth: {basic: [{name: ada, password_file: own, scopes: [read]}]}\n", nil},
		"strangers":        {"external_url: https://r.example\nauth: {oidc: {issuer: 'https://idp.example', scopes: [read], sign_in: {client_id: c}}}\n", []string{`auth.oidc.sign_in: anybody whom "https://idp.example" signs in may read runs and evidence`}},
		"a group":          {"external_url: https://r.example\nauth: {oidc: {issuer: 'https://idp.example', scopes: [read], groups_claim: groups, allowed_groups: [sre], sign_in: {client_id: c}}}\n", nil},
		"people":           {"external_url: https://r.example\nauth: {oidc: {issuer: 'https://idp.example', scopes: [read], people_only: true, sign_in: {client_id: c}}}\n", nil},
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
		"['::ffff:10.96.0.0/108']":           "probes.networks[0]: ::ffff:10.96.0.0/108 wraps IPv4 addresses, which are compared as such: nothing is in it (write 10.96.0.0/12)",
		"['64:ff9b::a60:0/108']":             "(write 10.96.0.0/12)",
	} {
		c, err := Parse("c.yaml", []byte("auth: {insecure: true}\nprobes: {networks: "+doc+"}\n"))
		if want == "" && (err != nil || len(c.Probes.Prefixes()) != 2) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", doc, err, want)
		}
	}
}

// FuzzProbeNetworks: a network that is accepted is the one that is enforced, and has at
// least its first address in it, in the form in which addresses are compared.
func FuzzProbeNetworks(f *testing.F) {
	for _, n := range []string{"10.96.0.0/12", "fd00:10:96::/112", "::ffff:10.0.0.0/104", "64:ff9b::/96", "::/0", "0.0.0.0/0", "fe80::1%eth0/64", "10.0.0.1/8", "::1/128"} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n string) {
		p, refused := Probes{Networks: []string{n}}, 0
		p.check(func(string, string, string, ...any) { refused++ })
		all := p.Prefixes()
		if refused > 0 {
			return
		}
		if len(all) != 1 || !all[0].IsValid() || all[0] != all[0].Masked() {
			t.Fatalf("%q is accepted, and %v enforced", n, all)
		}
		first := all[0].Addr()
		if again, err := netip.ParsePrefix(all[0].String()); err != nil || again != all[0] || first.Zone() != "" {
			t.Errorf("%q is %s, which reads as %s, %v", n, all[0], again, err)
		}
		if b := first.As16(); first.Is4In6() && all[0].Bits() >= 96 || strings.HasPrefix(string(b[:]), "\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00") && first.Is6() && all[0].Bits() >= 96 {
			t.Errorf("nothing is in %s", all[0])
		}
	})
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
