package agent

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestNamesOfCertificates: a certificate is let in by any of its names, but not with
// several common names, of which readers take one or the other.
func TestNamesOfCertificates(t *testing.T) {
	names := func(all ...string) (out []pkix.AttributeTypeAndValue) {
		for _, n := range all {
			out = append(out, pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: n})
		}
		return out
	}
	for name, c := range map[string]struct {
		cert x509.Certificate
		want bool
	}{
		"a common name":         {x509.Certificate{Subject: pkix.Name{CommonName: "responder", Names: names("responder")}}, true},
		"a DNS name":            {x509.Certificate{DNSNames: []string{"responder"}}, true},
		"another":               {x509.Certificate{Subject: pkix.Name{CommonName: "mallory", Names: names("mallory")}}, false},
		"two common names":      {x509.Certificate{Subject: pkix.Name{CommonName: "responder", Names: names("mallory", "responder")}}, false},
		"two, and one of a DNS": {x509.Certificate{Subject: pkix.Name{CommonName: "x", Names: names("mallory", "x")}, DNSNames: []string{"responder"}}, false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{&c.cert}}}
		if got := (&callers{names: []string{"responder"}}).named(r); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
