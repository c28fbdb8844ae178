package webhook

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/rights"
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
	o.Auth.Users = []User{{Grant: Grant{Name: "ada", Scopes: deciding()}, PasswordFile: write(t, t.TempDir(), "pw", "correct horse:battery\n")}}
	s := mustNew(t, o)
	routes := scopesOfRoutes()
	for _, r := range s.echo.Routes() {
		path := strings.ReplaceAll(r.Path, ":id", "r-1")
		open := []string{"/healthz", "/readyz", slackPath, pathSignIn, pathSignOut, pathSignOutEverywhere}
		if _, ok := routes[r.Method+" "+path]; !ok && !slices.Contains(open, r.Path) {
			t.Errorf("%s %s: add it to this test", r.Method, r.Path)
		}
	}
	asked := 0
	for header, may := range map[string][]Scope{
		"":                                    nil,
		"Bearer " + intakeToken:               {ScopeIntake},
		"bearer  " + intakeToken:              {ScopeIntake},
		"Bearer " + metricsToken:              {ScopeMetrics},
		"Bearer " + readToken:                 {ScopeMetrics, ScopeRead},
		"Bearer " + decideToken:               append(deciding(), ScopeMetrics, ScopeRead),
		"Bearer " + adminToken:                {ScopeMetrics, ScopeRead, ScopeAdmin},
		"Bearer " + sessionsToken:             {ScopeMetrics, ScopeRead, ScopeSessions},
		"Bearer " + adminToken[:21]:           nil,
		"Bearer " + adminToken + "x":          nil,
		"Bearer ":                             nil,
		"Bearer":                              nil,
		intakeToken:                           nil,
		"Digest " + intakeToken:               nil,
		"Basic " + intakeToken:                nil,
		basic("ada", "correct horse:battery"): append(deciding(), ScopeMetrics, ScopeRead),
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
			asked++
			r.RemoteAddr = fmt.Sprintf("198.51.%d.%d:1", asked/200, asked%200) // wrong passwords are limited by address
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

// A credential may be used for the rights that it lists, and for no other. What it is
// refused is recorded once, with who tried what.
func TestEachRightIsAScopeOfItsOwn(t *testing.T) {
	for _, own := range rights.All() {
		o := options(t, newHouse())
		const token = "a-token-of-one-right-0123456789"
		o.Auth.Tokens = []Token{{Grant: Grant{Name: "ada", Scopes: []Scope{Scope(own)}}, File: write(t, t.TempDir(), "token", token)}}
		var refused []string
		o.Refused = func(who rights.Actor, right rights.Right, why string) {
			refused = append(refused, who.By+" "+string(right)+": "+why)
		}
		s := mustNew(t, o)
		for route, scope := range scopesOfRoutes() {
			refused = nil
			method, path, _ := strings.Cut(route, " ")
			w := ask(s, method, path, token, http.NoBody)
			if may := scope == Scope(own) || scope == ScopeRead || scope == ScopeMetrics; may == (w.Code == http.StatusForbidden) {
				t.Errorf("%s with %s: %d", route, own, w.Code)
			}
			var want []string
			if scope != Scope(own) && slices.Contains(deciding(), scope) {
				want = []string{fmt.Sprintf("user:ada %s: this credential lacks the scope %s", scope, scope)}
			}
			if !slices.Equal(refused, want) {
				t.Errorf("%s with %s: recorded is %q", route, own, refused)
			}
		}
	}
}

// slackPath is authenticated by Slack's signature alone, which the handler
// behind it checks.
const slackPath = "/api/v1/slack/interactivity"

// TestSlackIsNotAskedForACredential: no credential opens the endpoint, and none is
// needed.
func TestSlackIsNotAskedForACredential(t *testing.T) {
	o := options(t, newHouse())
	var got []string
	o.Slack = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, r.Method+" "+string(body))
		w.WriteHeader(http.StatusUnauthorized)
	})
	s := mustNew(t, o)
	for _, token := range []string{"", adminToken, "wrong"} {
		if w := ask(s, http.MethodPost, slackPath, token, strings.NewReader("payload="+token)); w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("%q: %d %s", token, w.Code, w.Body)
		}
	}
	if want := []string{"POST payload=", "POST payload=" + adminToken, "POST payload=wrong"}; !cmp.Equal(want, got) {
		t.Errorf("handed over: %q", got)
	}
	none := mustNew(t, options(t, newHouse()))
	if w := ask(none, http.MethodPost, slackPath, adminToken, untouchable{t}); w.Code != http.StatusNotFound {
		t.Errorf("without Slack: %d", w.Code)
	}
}

// scopesOfRoutes reports which scope each route asks for.
func scopesOfRoutes() map[string]Scope {
	routes := map[string]Scope{
		"POST /": ScopeIntake, "POST /api/v1/alertmanager": ScopeIntake,
		"GET /api/v1/runs": ScopeRead, "GET /api/v1/runs/r-1": ScopeRead, "GET /api/v1/runs/r-1/events": ScopeRead, "GET /api/v1/alerts": ScopeRead, "GET /api/v1/pauses": ScopeRead,
		"GET /api/v1/audit": ScopeRead, "GET /api/v1/audit/checkpoint": ScopeRead, "GET /api/v1/playbooks": ScopeRead,
		"GET /api/v1/services": ScopeRead, "GET /api/v1/nodes": ScopeRead, "GET /api/v1/version": ScopeRead, "GET /api/v1/ladder": ScopeRead, "GET /api/v1/report": ScopeRead, "GET /api/v1/runs/r-1/budget": ScopeRead, "GET /api/v1/report/preview": ScopeRead, "GET /api/v1/last-good": ScopeRead, "GET /api/v1/sandbox": ScopeRead,
		"POST /api/v1/runs/r-1/approve": "approve", "POST /api/v1/runs/r-1/deny": "approve", "POST /api/v1/runs/r-1/replan": "approve", "POST /api/v1/runs/r-1/cancel": "cancel", "POST /api/v1/runs/r-1/proceed": "release",
		"POST /api/v1/runs/r-1/resolve": "resolve", "POST /api/v1/runs/r-1/release": "release", "POST /api/v1/pauses": "pause", "DELETE /api/v1/pauses": "unpause",
		"POST /api/v1/ladder/promote": "promote", "POST /api/v1/runs": "start", "POST /api/v1/sandbox/fire": "start", "GET /api/v1/audit/export": ScopeAdmin,
		"GET /metrics": ScopeMetrics, "GET /api/v1/sessions": ScopeSessions, "DELETE /api/v1/sessions": ScopeSessions, "GET /api/v1/journal": ScopeRead, "POST /api/v1/journal/archive": ScopeAdmin,
	}
	for _, page := range []string{"/", "/history", "/services", "/nodes", "/playbooks", "/runs/r-1", "/audit", "/alerts", "/loans", "/ladder", "/policy"} {
		routes["GET "+page], routes["HEAD "+page] = ScopeRead, ScopeRead
	}
	routes["POST /pause"], routes["POST /unpause"], routes["POST /audit/verify"] = "pause", "unpause", ScopeRead
	for _, verb := range []string{"approve", "deny", "replan", "cancel", "proceed", "resolve", "release"} {
		routes["POST /runs/r-1/"+verb] = routes["POST /api/v1/runs/r-1/"+verb]
	}
	return routes
}

// The document of the API has each route, with the scope that it asks for, and no other.
func TestOpenAPIHasTheRoutes(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]struct{ Security []map[string][]Scope }
	}
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	told := map[string]Scope{}
	for path, operations := range document.Paths {
		for method, o := range operations {
			var scope Scope
			for _, need := range o.Security {
				for _, scopes := range need {
					scope = scopes[0]
				}
			}
			told[strings.ToUpper(method)+" "+strings.ReplaceAll(path, "{run}", "r-1")] = scope
		}
	}
	o := options(t, newHouse())
	o.Pages = nil
	asked, routes := scopesOfRoutes(), map[string]Scope{}
	for _, r := range mustNew(t, o).echo.Routes() {
		route := r.Method + " " + strings.ReplaceAll(r.Path, ":id", "r-1")
		routes[route] = asked[route]
	}
	if diff := cmp.Diff(routes, told); diff != "" {
		t.Errorf("docs/reference/openapi.json: -routes +document; see endpoints in internal/cli, then run make generate\n%s", diff)
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
		"16777216 bytes in flight are less": func(o *Options) { o.MaxBody, o.InFlightBytes = 9<<20, 16<<20 },
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

// Without credentials, and with insecure, which lets everyone in who can reach the
// address: no page in a browser on this machine is among them.
func TestWithoutCredentialsOnlyThisMachineIsServed(t *testing.T) {
	for name, insecure := range map[string]bool{"no credentials": false, "insecure": true} {
		t.Run(name, func(t *testing.T) { testOnlyThisMachine(t, insecure) })
	}
}

func testOnlyThisMachine(t *testing.T, insecure bool) {
	o := options(t, newHouse())
	o.Auth = Auth{Insecure: insecure}
	s := mustNew(t, o)
	if w := ask(s, http.MethodGet, "/api/v1/runs", "", nil); w.Code != http.StatusUnauthorized && !insecure {
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
