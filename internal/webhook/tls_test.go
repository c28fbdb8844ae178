package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates for the test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue returns a certificate and its key in PEM.
func (a authority) issue(t *testing.T, template x509.Certificate) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, &private.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// sendOverTLS delivers a notification with a certificate of from, if any, and
// gives the status, 0 without an answer, and the server's certificate.
func sendOverTLS(t *testing.T, url string, roots *x509.CertPool, from *authority, template x509.Certificate, token string) (int, *x509.Certificate) {
	t.Helper()
	config := &tls.Config{RootCAs: roots}
	if from != nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		pair, err := tls.X509KeyPair(from.issue(t, template))
		if err != nil {
			t.Fatal(err)
		}
		// Show it even to a server that does not ask for its authority.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(notice(``, ``)))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.TLS.PeerCertificates[0]
}

func TestClientCertificates(t *testing.T) {
	servers, clients, strangers := newAuthority(t, "servers"), newAuthority(t, "clients"), newAuthority(t, "strangers")
	dir := t.TempDir()
	newCert := func() {
		cert, key := servers.issue(t, x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
		write(t, dir, "cert", string(cert))
		write(t, dir, "key", string(key))
	}
	newCert()
	o := options(t, newHouse())
	o.TLS = TLS{CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "key"), ClientCAFile: write(t, dir, "ca", string(clients.pem))}
	o.Auth.Clients = []Client{
		{Grant: Grant{Name: "alertmanager.monitoring", Scopes: []Scope{ScopeIntake}}},
		{Grant: Grant{Name: "am-0", Scopes: []Scope{ScopeIntake}}, Kind: DNSName},
	}
	var log lockedBuffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := mustNew(t, o)
	s.tls.Every = 0
	url := "https" + strings.TrimPrefix(serve(t, s), "http")
	roots := x509.NewCertPool()
	roots.AddCert(servers.cert)

	send := func(from *authority, template x509.Certificate, token string) (int, *x509.Certificate) {
		return sendOverTLS(t, url, roots, from, template, token)
	}
	named := x509.Certificate{Subject: pkix.Name{CommonName: "alertmanager.monitoring"}}
	bySAN := x509.Certificate{DNSNames: []string{"alertmanager-0", "am-0"}}
	two := x509.Certificate{Subject: pkix.Name{CommonName: "alertmanager.monitoring", ExtraNames: []pkix.AttributeTypeAndValue{
		{Type: []int{2, 5, 4, 3}, Value: "mallory"}, {Type: []int{2, 5, 4, 3}, Value: "alertmanager.monitoring"},
	}}, DNSNames: []string{"am-0"}}
	other := x509.Certificate{Subject: pkix.Name{CommonName: "mallory"}}
	for _, c := range []struct {
		name     string
		from     *authority
		template x509.Certificate
		token    string
		want     int
	}{
		{"common name", &clients, named, "", 200},
		{"DNS name", &clients, bySAN, "", 200},
		{"two common names", &clients, two, "", 401},
		{"a name not listed", &clients, other, "", 401},
		{"another authority", &strangers, named, "", 0},
		{"no certificate", nil, named, "", 401},
		{"a token instead", nil, named, intakeToken, 200},
		{"a wrong token beside it", &clients, named, "wrong-token-0123456789", 401},
	} {
		if got, _ := send(c.from, c.template, c.token); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	send(&clients, other, "")
	if said := log.String(); strings.Count(said, "a client certificate is refused") != 3 || !strings.Contains(said, "common_name=[mallory]") {
		t.Errorf("each certificate that is nobody's is logged once: %s", said) // issue makes another one each time
	}
	_, before := send(&clients, named, "")
	newCert()
	_, after := send(&clients, named, "")
	write(t, dir, "key", "half a rotation")
	status, still := send(&clients, named, "")
	if before.Equal(after) || status != 200 || !after.Equal(still) {
		t.Errorf("certificate not replaced when its file was, or given up for one that is not good (%d)", status)
	}
}
