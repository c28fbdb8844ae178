package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// changing lists the routes that change something, from the routes themselves,
// so that a new one is tested too. Slack's is left out: it takes nothing that a
// browser adds by itself for a credential. So are those of the sign-in, which ask for
// more: TestOtherSitesCannotUseASession.
func changing(t *testing.T, s *Server) [][2]string {
	t.Helper()
	var found [][2]string
	for _, r := range s.echo.Routes() {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Path != slackPath && r.Path != pathSignIn && !strings.HasPrefix(r.Path, pathSignOut) {
			found = append(found, [2]string{r.Method, strings.ReplaceAll(r.Path, ":id", "r-1")})
		}
	}
	if len(found) < 8 {
		t.Fatalf("only %d routes change something: %v", len(found), found)
	}
	return found
}

// pages are what browsers say of the page a request comes from.
var pages = []struct {
	name    string
	header  map[string]string
	foreign bool
}{
	{"no browser", nil, false},
	{"an own page", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://example.com"}, false},
	{"an own page in an old browser", map[string]string{"Origin": "http://example.com"}, false},
	{"another site", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, true},
	{"another site in an old browser", map[string]string{"Origin": "https://evil.example"}, true},
	{"a sibling of the same site", map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://wiki.example.com"}, true},
	{"a sandboxed frame", map[string]string{"Origin": "null"}, true}, // StackStorm CVE-2019-9580
	{"a name that starts alike", map[string]string{"Origin": "http://example.com.evil.example"}, true},
}

// ambient is what a browser adds to requests of any page by itself.
var ambient = map[string]func(*http.Request){
	"password": func(r *http.Request) { r.Header.Set("Authorization", basic("ada", "correct horse")) },
	"certificate": func(r *http.Request) {
		cert := &x509.Certificate{Subject: pkix.Name{CommonName: "grace"}}
		r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{cert}}}
	},
}

// TestOtherSitesCannotDecide: a page of another site must not be able to
// approve by a form that the browser sends with the person's credential.
func TestOtherSitesCannotDecide(t *testing.T) {
	for name, add := range ambient {
		for _, page := range pages {
			h := newHouse()
			s := newAmbientServer(t, h)
			for _, route := range changing(t, s) {
				var body io.Reader = strings.NewReader(`{"reason":"because"}`)
				if page.foreign {
					body = untouchable{t}
				}
				r := httptest.NewRequest(route[0], route[1], body)
				r.Header.Set("Content-Type", "text/plain") // what a form may send without a preflight
				for k, v := range page.header {
					r.Header.Set(k, v)
				}
				add(r)
				w := httptest.NewRecorder()
				if s.Handler().ServeHTTP(w, r); (w.Code == http.StatusForbidden) != page.foreign {
					t.Errorf("%s %s with a %s from %s: %d %s", route[0], route[1], name, page.name, w.Code, w.Body)
				}
			}
			if did := len(h.commands)+len(h.pauses) > 0; did == page.foreign {
				t.Errorf("%s with a %s: %d commands", page.name, name, len(h.commands))
			}
		}
	}
}

// newAmbientServer lets ada in by password and grace by certificate, to do
// everything.
func newAmbientServer(t *testing.T, h *fakeHouse) *Server {
	t.Helper()
	all := Scopes()
	o := options(t, h)
	o.Auth.Users = []User{{Grant: Grant{Name: "ada", Scopes: all}, PasswordFile: write(t, t.TempDir(), "pw", "correct horse\n")}}
	s := mustNew(t, o)
	s.auth.clients = []Client{{Grant: Grant{Name: "grace", Scopes: all}}} // without the TLS listener that New wants for them
	return s
}

// TestNoOtherOriginMayRead: without CORS headers a browser keeps every answer
// from other sites' scripts, and sends nothing after its preflight.
func TestNoOtherOriginMayRead(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	for route := range scopesOfRoutes() {
		method, path, _ := strings.Cut(route, " ")
		for _, m := range []string{method, http.MethodOptions} {
			for _, origin := range []string{"https://evil.example", "null", "http://example.com"} {
				r := httptest.NewRequest(m, path, http.NoBody)
				r.Header.Set("Authorization", "Bearer "+adminToken)
				r.Header.Set("Origin", origin)
				r.Header.Set("Access-Control-Request-Method", method)
				r.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, r)
				for name := range w.Header() {
					if strings.HasPrefix(name, "Access-Control-") || name == "Set-Cookie" {
						t.Errorf("%s %s from %s: answered %s: %s", m, path, origin, name, w.Header().Get(name))
					}
				}
			}
		}
	}
}

// TestCookiesAreNoCredential: only headers that a page cannot set for another
// site carry one; neither do query parameters, which end up in logs.
func TestCookiesAreNoCredential(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	for _, path := range []string{"/api/v1/runs", "/api/v1/runs?access_token=" + readToken, "/api/v1/runs?token=" + readToken} {
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		for _, name := range []string{"Authorization", "token", "access_token", "session"} {
			r.AddCookie(&http.Cookie{Name: name, Value: readToken})
		}
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
