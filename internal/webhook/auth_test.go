package webhook

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// untouchable is a body that must not be read.
type untouchable struct{ t *testing.T }

func (u untouchable) Read([]byte) (int, error) {
	u.t.Error("the body was read before its sender authenticated")
	return 0, io.EOF
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestCredentialsAndScopes(t *testing.T) {
	o := options(t, newHouse())
	o.Auth.Users = []User{{Grant: Grant{Name: "ada", Scopes: []Scope{ScopeDecide}}, PasswordFile: write(t, t.TempDir(), "pw", "correct horse:battery\n")}}
	s := mustNew(t, o)
	routes := scopesOfRoutes()
	for _, r := range s.echo.Routes() {
		if _, ok := routes[r.Method+" "+r.Path]; !ok && !strings.Contains(r.Path, ":id") && r.Path != "/healthz" && r.Path != "/readyz" && r.Path != "/metrics" {
			t.Errorf("%s %s: add it to this test", r.Method, r.Path)
		}
	}
	for header, may := range map[string][]Scope{
		"":                                    nil,
		"Bearer " + intakeToken:               {ScopeIntake},
		"bearer  " + intakeToken:              {ScopeIntake},
		"Bearer " + readToken:                 {ScopeRead},
		"Bearer " + decideToken:               {ScopeRead, ScopeDecide},
		"Bearer " + adminToken:                {ScopeRead, ScopeAdmin},
		"Bearer " + adminToken[:21]:           nil,
		"Bearer " + adminToken + "x":          nil,
		"Bearer ":                             nil,
		"Bearer":                              nil,
		intakeToken:                           nil,
		"Digest " + intakeToken:               nil,
		"Basic " + intakeToken:                nil,
		basic("ada", "correct horse:battery"): {ScopeRead, ScopeDecide},
		basic("ada", "correct horse"):         nil,
		basic("ADA", "correct horse:battery"): nil,
		basic("", intakeToken):                nil,
		basic("intake", intakeToken):          nil,
		"Bearer correct horse:battery":        nil,
		"Bearer ada:correct horse:battery":    nil,
	} {
		for route, scope := range routes {
			method, path, _ := strings.Cut(route, " ")
			allowed := strings.Contains(" "+join(may)+" ", " "+string(scope)+" ")
			var body io.Reader = strings.NewReader("")
			if !allowed {
				body = untouchable{t}
			}
			r := httptest.NewRequest(method, path, body)
			if header != "" {
				r.Header.Set("Authorization", header)
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			denied := w.Code == http.StatusUnauthorized || w.Code == http.StatusForbidden
			if denied == allowed {
				t.Errorf("%s with %q: %d %s", route, header, w.Code, w.Body)
			}
			if may == nil && (w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "") {
				t.Errorf("%s with %q: %d, want 401 that says how to authenticate", route, header, w.Code)
			}
			if denied && w.Header().Get("Connection") != "close" {
				t.Errorf("%s with %q: the unread body would be drained", route, header)
			}
		}
	}
}

// scopesOfRoutes says which scope each route asks for.
func scopesOfRoutes() map[string]Scope {
	return map[string]Scope{
		"POST /": ScopeIntake, "POST /api/v1/alertmanager": ScopeIntake,
		"GET /api/v1/runs": ScopeRead, "GET /api/v1/runs/r-1": ScopeRead, "GET /api/v1/runs/r-1/events": ScopeRead, "GET /api/v1/pauses": ScopeRead,
		"GET /api/v1/audit": ScopeRead, "GET /api/v1/audit/checkpoint": ScopeRead, "GET /api/v1/playbooks": ScopeRead,
		"GET /api/v1/services": ScopeRead, "GET /api/v1/version": ScopeRead,
		"POST /api/v1/runs/r-1/approve": ScopeDecide, "POST /api/v1/runs/r-1/deny": ScopeDecide, "POST /api/v1/runs/r-1/cancel": ScopeDecide,
		"POST /api/v1/runs/r-1/resolve": ScopeDecide, "POST /api/v1/pauses": ScopeDecide, "DELETE /api/v1/pauses": ScopeDecide,
		"GET /api/v1/audit/export": ScopeAdmin,
	}
}

func join(scopes []Scope) string {
	var b strings.Builder
	for _, s := range scopes {
		b.WriteString(string(s) + " ")
	}
	return b.String()
}

func TestTwoAuthorizationHeadersAreNoCredential(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	r := httptest.NewRequest(http.MethodPost, "/", untouchable{t})
	r.Header["Authorization"] = []string{"Bearer wrong-token-0123456789", "Bearer " + intakeToken}
	w := httptest.NewRecorder()
	if s.Handler().ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("%d", w.Code)
	}
}

func TestTokensAreRotatedWithoutRestart(t *testing.T) {
	o := options(t, newHouse())
	dir := t.TempDir()
	file := write(t, dir, "token", "first-token-0123456789\n")
	o.Auth.Tokens = []Token{{Grant: Grant{Name: "am", Scopes: []Scope{ScopeIntake}}, File: file}}
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := mustNew(t, o)
	const first, second = "first-token-0123456789", "second-token-0123456789"
	check := func(when string, wantFirst, wantSecond int) {
		t.Helper()
		for token, want := range map[string]int{first: wantFirst, second: wantSecond} {
			if w := ask(s, http.MethodPost, "/", token, strings.NewReader(notice(``, ``))); w.Code != want {
				t.Errorf("%s, %s: %d, want %d", when, token, w.Code, want)
			}
		}
	}
	check("at first", 200, 401)
	write(t, dir, "token", first+"\n\n  "+second+"  \n")
	check("while both are valid", 200, 200)
	write(t, dir, "token", second)
	check("after rotation", 401, 200)
	write(t, dir, "token", "short\n"+second)
	check("with a file that is not good", 401, 401)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("without the file", 401, 401)
	write(t, dir, "token", first)
	check("with the file again", 200, 401)
	if got := figure(t, s.metrics.authReload); got != 2 {
		t.Errorf("%v problems were counted, want one for each change", got)
	}
	if strings.Contains(log.String(), "second") || !strings.Contains(log.String(), "shorter than 16") {
		t.Errorf("log:\n%s", &log)
	}
	if found := (*s.auth.files.current.Load())[0]; bytes.Contains(found.hash[:], []byte("first")) {
		t.Error("the token itself is kept in memory")
	}
}

func TestNewRefusesWhatCannotBeSafe(t *testing.T) {
	dir := t.TempDir()
	grant := Grant{Name: "am", Scopes: []Scope{ScopeIntake}}
	good := write(t, dir, "good", intakeToken)
	for want, change := range map[string]func(*Options){
		"no intake":                         func(o *Options) { o.Intake = nil },
		"no logger":                         func(o *Options) { o.Logger = nil },
		"negative":                          func(o *Options) { o.MaxBody = -1 },
		"16777216 bytes in flight are less": func(o *Options) { o.MaxBody, o.InFlightBytes = 17<<20, 16<<20 },
		"alertname cannot be dropped":       func(o *Options) { o.DropLabels = []string{"alertname"} },
		"no such file":                      func(o *Options) { o.Auth.Tokens = []Token{{grant, filepath.Join(dir, "none")}} },
		"empty":                             func(o *Options) { o.Auth.Tokens = []Token{{grant, write(t, dir, "empty", "\n")}} },
		"short:2: shorter than 16":          func(o *Options) { o.Auth.Tokens = []Token{{grant, write(t, dir, "short", "\nhunter2")}} },
		"larger than 65536":                 func(o *Options) { o.Auth.Tokens = []Token{{grant, write(t, dir, "large", strings.Repeat("x", 65537))}} },
		"no scopes":                         func(o *Options) { o.Auth.Tokens = []Token{{Grant{Name: "am"}, good}} },
		`unknown scope "root"`:              func(o *Options) { o.Auth.Tokens = []Token{{Grant{Name: "am", Scopes: []Scope{"root"}}, good}} },
		"no name":                           func(o *Options) { o.Auth.Tokens = []Token{{Grant{Scopes: grant.Scopes}, good}} },
		"colon":                             func(o *Options) { o.Auth.Users = []User{{Grant{Name: "a:b", Scopes: grant.Scopes}, good}} },
		"both a certificate file and a key": func(o *Options) { o.TLS.CertFile = good },
		"both a file of authorities":        func(o *Options) { o.TLS = TLS{good, good, good} },
		"load certificate":                  func(o *Options) { o.TLS = TLS{CertFile: good, KeyFile: good} },
	} {
		o := options(t, newHouse())
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

// anyAddr is a listener others can reach.
type anyAddr struct{ net.Listener }

func (anyAddr) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 1} }

func TestServeRefusesToBeOpenToAll(t *testing.T) {
	o := options(t, newHouse())
	o.Auth = Auth{}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := mustNew(t, o).Serve(t.Context(), anyAddr{ln}); err == nil || !strings.Contains(err.Error(), "insecure: true") {
		t.Errorf("Serve: %v", err)
	}
	var log bytes.Buffer
	o.Registerer, o.Auth.Insecure, o.Logger = nil, true, slog.New(slog.NewTextHandler(&log, nil))
	if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := mustNew(t, o).Serve(ended, anyAddr{ln}); err != nil || !strings.Contains(log.String(), "level=WARN msg=\"authentication is off") {
		t.Errorf("Serve with insecure: %v, log %s", err, &log)
	}
}

func TestWithoutCredentialsOnlyThisMachineIsServed(t *testing.T) {
	o := options(t, newHouse())
	o.Auth = Auth{}
	s := mustNew(t, o)
	if w := ask(s, http.MethodGet, "/api/v1/runs", "", nil); w.Code != http.StatusUnauthorized {
		t.Errorf("before Serve has seen the listener: %d", w.Code)
	}
	url := serve(t, s)
	for _, c := range []struct {
		name, method, host string
		header             map[string]string
		want               int
	}{
		{"curl", "GET", "", nil, 200},
		{"by name", "GET", "localhost:80", nil, 200},
		{"a rebound name", "GET", "evil.example:80", nil, 403},
		{"another site's form", "POST", "", map[string]string{"Origin": "https://evil.example"}, 403},
		{"another site's fetch", "POST", "", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"a wrong credential", "GET", "", map[string]string{"Authorization": "Bearer x"}, 401},
	} {
		path := "/api/v1/runs"
		if c.method == "POST" {
			path = "/api/v1/runs/r-1/approve"
		}
		r, err := http.NewRequestWithContext(t.Context(), c.method, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", c.name, resp.StatusCode, c.want)
		}
	}
}

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

// issue gives a certificate and its key in PEM.
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
	o.Auth.Clients = []Client{{Grant{Name: "alertmanager.monitoring", Scopes: []Scope{ScopeIntake}}}}
	s := mustNew(t, o)
	s.tls.every = 0
	url := "https" + strings.TrimPrefix(serve(t, s), "http")
	roots := x509.NewCertPool()
	roots.AddCert(servers.cert)

	send := func(from *authority, template x509.Certificate, token string) (int, *x509.Certificate) {
		return sendOverTLS(t, url, roots, from, template, token)
	}
	named := x509.Certificate{Subject: pkix.Name{CommonName: "alertmanager.monitoring"}}
	bySAN := x509.Certificate{DNSNames: []string{"am-0", "alertmanager.monitoring"}}
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
	_, before := send(&clients, named, "")
	newCert()
	_, after := send(&clients, named, "")
	write(t, dir, "key", "half a rotation")
	status, still := send(&clients, named, "")
	if before.Equal(after) || status != 200 || !after.Equal(still) {
		t.Errorf("certificate not replaced when its file was, or given up for one that is not good (%d)", status)
	}
}
