package agent

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestNamesOfCertificates: a certificate is let in by a name of the kind that is allowed,
// but not with several common names, of which readers take one or the other.
func TestNamesOfCertificates(t *testing.T) {
	names := func(all ...string) (out []pkix.AttributeTypeAndValue) {
		for _, n := range all {
			out = append(out, pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: n})
		}
		return out
	}
	spiffe := &url.URL{Scheme: "spiffe", Host: "x", Path: "/responder"}
	for name, c := range map[string]struct {
		allowed string
		cert    x509.Certificate
		want    bool
	}{
		"a common name":             {"responder", x509.Certificate{Subject: pkix.Name{CommonName: "responder", Names: names("responder")}}, true},
		"a common name by its kind": {"common_name:responder", x509.Certificate{Subject: pkix.Name{CommonName: "responder", Names: names("responder")}}, true},
		"a DNS name":                {"dns:responder", x509.Certificate{DNSNames: []string{"responder"}}, true},
		"an e-mail address":         {"email:me@x", x509.Certificate{EmailAddresses: []string{"me@x"}}, true},
		"a URI":                     {"uri:spiffe://x/responder", x509.Certificate{URIs: []*url.URL{spiffe}}, true},
		"another":                   {"responder", x509.Certificate{Subject: pkix.Name{CommonName: "mallory", Names: names("mallory")}}, false},
		"a DNS name as another":     {"responder", x509.Certificate{Subject: pkix.Name{CommonName: "mallory", Names: names("mallory")}, DNSNames: []string{"responder"}}, false},
		"a common name as another":  {"dns:responder", x509.Certificate{Subject: pkix.Name{CommonName: "responder", Names: names("responder")}}, false},
		"two common names":          {"responder", x509.Certificate{Subject: pkix.Name{CommonName: "responder", Names: names("mallory", "responder")}}, false},
		"two, and a DNS name":       {"dns:responder", x509.Certificate{Subject: pkix.Name{CommonName: "x", Names: names("mallory", "x")}, DNSNames: []string{"responder"}}, false},
	} {
		callers, err := newCallers(Options{ClientCAFile: "ca.crt", ClientNames: []string{c.allowed}})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{&c.cert}}}
		if got := callers.named(r); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
	for _, text := range []string{"spiffe://x/responder", "dns:", "", "host:x"} {
		if _, err := newCallers(Options{ClientCAFile: "ca.crt", ClientNames: []string{text}}); err == nil || !strings.Contains(err.Error(), "KIND:NAME") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
