package webhook

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/webhook/oidctest"
	"github.com/inference-responder/responder/internal/webhook/session"
)

const clientID = "responder-page"

// surfer is a person with a browser, which keeps cookies and follows redirects.
type surfer struct {
	t      *testing.T
	base   string
	client *http.Client
}

// newSurfers serves s, which makes a server for the address that it is given, over TLS
// and returns a maker of browsers.
func newSurfers(t *testing.T, make func(external string) *Server) (*Server, func() surfer) {
	t.Helper()
	var s *Server
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Handler().ServeHTTP(w, r) }))
	server.StartTLS()
	t.Cleanup(server.Close)
	s = make(server.URL)
	return s, func() surfer {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		client := *server.Client() // it trusts every server of httptest
		client.Jar = jar
		return surfer{t, server.URL, &client}
	}
}

// withBrowserSignIn is an issuer, and a server on which its people sign in.
func withBrowserSignIn(t *testing.T, h *fakeHouse, secret string, change func(*Auth)) (*Server, *oidctest.Issuer, func() surfer) {
	t.Helper()
	i := oidctest.New(t)
	s, surfers := newSurfers(t, func(external string) *Server {
		i.Register(oidctest.Client{ID: clientID, Secret: secret, Redirect: external + pathCallback})
		return withIssuer(t, h, i, func(a *Auth) {
			a.ExternalURL = external
			a.OIDC.Browser = &OIDCBrowser{ClientID: clientID, Scopes: []string{"profile", "openid", "email"}}
			if secret != "" {
				a.OIDC.Browser.ClientSecretFile = write(t, t.TempDir(), "secret", secret+"\n")
			}
			if change != nil {
				change(a)
			}
		})
	})
	s.auth.oidc.glance = time.Minute
	return s, i, surfers
}

func (b surfer) do(r *http.Request) (status int, at, body string) {
	b.t.Helper()
	w, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer shut(b.t, w.Body)
	text, err := io.ReadAll(w.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return w.StatusCode, strings.TrimPrefix(w.Request.URL.String(), b.base), string(text)
}

func (b surfer) get(path string) (status int, at, body string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.base+path, http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.do(r)
}

func (b surfer) post(path string, form url.Values) (status int, at, body string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(r)
}

// stops makes the browser show redirects in place of following them.
func (b surfer) stops() surfer {
	client := *b.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return surfer{b.t, b.base, &client}
}

// back returns the address to which the issuer sends a browser that began to sign in.
func (b surfer) back(next string) string {
	b.t.Helper()
	client := *b.client
	var at string
	client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if at = r.URL.String(); strings.HasPrefix(at, b.base) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	surfer{b.t, b.base, &client}.get(pathToIssuer + "?next=" + url.QueryEscape(next))
	return strings.TrimPrefix(at, b.base)
}

// A person whom the issuer knows gets to the page that they wanted, and decides there
// as with a bearer token. Public clients, and clients with either form of a secret, do.
func TestIssuerSignsIn(t *testing.T) {
	for name, c := range map[string]struct {
		secret string
		change func(*oidctest.Issuer)
	}{
		"public": {"", nil},
		"basic":  {"a secret:of %", nil},
		"in the form": {"secret", func(i *oidctest.Issuer) {
			i.Discover("token_endpoint_auth_methods_supported", []string{"client_secret_post"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse()
			s, i, surfers := withBrowserSignIn(t, h, c.secret, nil)
			if c.change != nil {
				c.change(i)
			}
			b := surfers()
			if status, _, body := b.get("/runs/r-1"); status != 401 || !strings.Contains(body, "next /runs/r-1, password false, issuer true, down false") {
				t.Fatalf("%d %s", status, body)
			}
			status, at, body := b.get(pathToIssuer + "?next=/runs/r-1")
			if status != 200 || at != "/runs/r-1" || body != "page /runs/r-1 for ada@example.com, decides true" {
				t.Fatalf("%d at %s: %s", status, at, body)
			}
			asked := i.AskedFor()
			for parameter, want := range map[string]string{"scope": "openid profile email", "max_age": "900", "acr_values": "urn:phishing-resistant"} {
				if got := asked.Get(parameter); got != want {
					t.Errorf("%s: %q, want %q", parameter, got, want)
				}
			}
			if status, at, _ := b.stops().post("/runs/r-1/approve", url.Values{"gate": {"g"}, "digest": {"d"}}); status != 303 || len(h.commands) != 1 {
				t.Fatalf("approve: %d at %s", status, at)
			}
			d := h.commands[0].Decision
			if d.By != "user:ada@example.com" || d.Channel != "web" || !d.Strong || !cmp.Equal(d.Groups, []string{"oncall", "ml platform"}) {
				t.Errorf("decided %+v", d)
			}
			if n := figure(t, s.metrics.signIns.WithLabelValues(methodOIDC, signedInOK)); n != 1 {
				t.Errorf("%v sign-ins are counted", n)
			}
		})
	}
}

// The cookies of a sign-in and of a session go over https only, to this host, and to no
// script; to no neighbor.
func TestCookies(t *testing.T) {
	s, _, surfers := withBrowserSignIn(t, newHouse(), "", nil)
	b := surfers().stops()
	at := b.back("/")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+at, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	w, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, w.Body)
	var got []string
	for _, c := range w.Cookies() {
		if c.Value != "" {
			c.Value = "VALUE"
		}
		got = append(got, c.String())
	}
	want := []string{
		"__Host-responder-signin=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax",
		"__Host-responder=VALUE; Path=/; HttpOnly; Secure; SameSite=Lax",
		"__Host-responder-device=VALUE; Path=/; Max-Age=7776000; HttpOnly; Secure; SameSite=Lax",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	session := w.Cookies()[1].Value
	for name, want := range map[string]int{hostPrefix + sessionCookie: 200, sessionCookie: 401} { // which a neighbor, or a page over http, can plant
		r := httptest.NewRequest(http.MethodGet, b.base+"/", http.NoBody)
		r.AddCookie(&http.Cookie{Name: name, Value: session})
		answer := httptest.NewRecorder()
		if s.Handler().ServeHTTP(answer, r); answer.Code != want {
			t.Errorf("%s over https: %d, want %d", name, answer.Code, want)
		}
	}
	plain := &browsers{}
	request := httptest.NewRequest(http.MethodGet, "http://localhost:8080/", http.NoBody)
	if c := plain.cookie(request, sessionCookie, "x", 0).String(); c != "responder=x; Path=/; HttpOnly; SameSite=Lax" {
		t.Error(c)
	}
}

// What the issuer answers signs nobody in unless this browser asked for it, just now,
// and once, and unless it is for this client and this person may read.
func TestIssuerAnswersThatAreNotGood(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*oidctest.Issuer, *Server)
		person  map[string]any // changes of the claims
		visit   func(b, other surfer) (int, string, string)
		status  int
		says    string
	}{
		"another state": {visit: func(b, _ surfer) (int, string, string) {
			return b.get(strings.Replace(b.back("/"), "state=", "state=x", 1))
		}, status: 400, says: "not begun in this browser"},
		"no state": {visit: func(b, _ surfer) (int, string, string) {
			b.back("/")
			return b.get(pathCallback + "?code=x")
		}, status: 400, says: "not begun in this browser"},
		"of another browser": {visit: func(b, other surfer) (int, string, string) {
			b.back("/")
			return b.get(other.back("/"))
		}, status: 400, says: "not begun in this browser"},
		"never begun": {visit: func(b, other surfer) (int, string, string) {
			return b.get(other.back("/"))
		}, status: 400, says: "not begun in this browser"},
		"twice": {visit: func(b, _ surfer) (int, string, string) {
			at := b.back("/")
			if status, _, _ := b.get(at); status != 200 {
				b.t.Errorf("the first time: %d", status)
			}
			b.post(pathSignOut, nil)
			return b.get(at)
		}, status: 400, says: "not begun in this browser"},
		"a code that was used": {visit: func(b, other surfer) (int, string, string) {
			at, err := url.Parse(other.back("/"))
			if err != nil {
				b.t.Fatal(err)
			}
			other.get(at.String())
			return b.get(withCode(b.t, b.back("/"), at.Query().Get("code")))
		}, status: 403, says: "did not sign you in: invalid_grant (it is refused)"},
		"the code of another browser": {visit: func(b, other surfer) (int, string, string) { // PKCE
			at, err := url.Parse(other.back("/"))
			if err != nil {
				b.t.Fatal(err)
			}
			return b.get(withCode(b.t, b.back("/"), at.Query().Get("code")))
		}, status: 403, says: "did not sign you in: invalid_grant"},
		"no code": {visit: func(b, _ surfer) (int, string, string) {
			return b.get(withCode(b.t, b.back("/"), ""))
		}, status: 403, says: "did not sign you in: invalid_grant"},
		"of another issuer": {visit: func(b, _ surfer) (int, string, string) {
			return b.get(strings.Replace(b.back("/"), "iss=https", "iss=http", 1))
		}, status: 403, says: "another issuer sent it"},
		"denied":             {prepare: func(i *oidctest.Issuer, _ *Server) { i.Deny("access_denied") }, status: 403, says: "did not sign you in: access_denied (ask the help desk).|Ask whoever runs"},
		"wrong nonce":        {person: map[string]any{"nonce": "x"}, status: 403, says: "it answers another sign-in"},
		"no nonce":           {person: map[string]any{"nonce": nil}, status: 403, says: "it answers another sign-in"},
		"for another client": {person: map[string]any{"aud": "other"}, status: 403, says: "it is for another audience"},
		"for bearers":        {person: map[string]any{"aud": oidctest.Audience}, status: 403, says: "it is for another audience"},
		"by another client":  {person: map[string]any{"azp": "other"}, status: 403, says: "it was issued to another client"},
		"by a number":        {person: map[string]any{"azp": 7}, status: 403, says: "its claims are not of the types they should be"},
		"by several":         {person: map[string]any{"azp": []string{clientID, "other"}}, status: 403, says: "its claims are not of the types they should be"},
		"expired":            {person: map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}, status: 403, says: "it expired"},
		"e-mail unverified":  {person: map[string]any{"email_verified": false}, status: 403, says: `did not verify its e-mail address.|Verify it there, or set auth.oidc.username_claim to a claim people cannot change.|["oncall" "ml platform"]`},
		"a name that is taken": {
			person: map[string]any{"email": "Decide"}, status: 403,
			says: `its email is a name of the configuration.|The operator maps people under auth.people.|["oncall" "ml platform"]`,
		},
		"may not read": {
			prepare: func(_ *oidctest.Issuer, s *Server) { s.auth.oidc.o.Scopes = []Scope{ScopeIntake} }, status: 403,
			says: `You are ada@example.com, who may not read here.|Ask whoever runs Responder`,
		},
		"token endpoint down": {
			prepare: func(i *oidctest.Issuer, _ *Server) { i.Discover("token_endpoint", "https://127.0.0.1:1/token") },
			status:  503, says: "cannot be reached to sign you in",
		},
		"endpoints in the clear": {
			prepare: func(i *oidctest.Issuer, _ *Server) { i.Discover("authorization_endpoint", "http://login.example.com/") },
			status:  503, says: "cannot be reached to sign you in",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, i, surfers := withBrowserSignIn(t, newHouse(), "", nil)
			if c.prepare != nil {
				c.prepare(i, s)
			}
			i.Person(c.person)
			b := surfers()
			visit := c.visit
			if visit == nil {
				visit = func(b, _ surfer) (int, string, string) { return b.get(pathToIssuer) }
			}
			status, _, body := visit(b, surfers())
			if status != c.status || !strings.Contains(body, c.says) || strings.Contains(body, "eyJ") {
				t.Errorf("%d %s\nwant %d %s", status, body, c.status, c.says)
			}
			if status, _, _ := b.get("/"); status != 401 {
				t.Errorf("and then is signed in: %d", status)
			}
		})
	}
}

func withCode(t *testing.T, at, code string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("code", code)
	u.RawQuery = q.Encode()
	return u.String()
}

func valueOf(cookies []*http.Cookie, name string) string {
	for _, c := range cookies {
		if c.Name == hostPrefix+name || c.Name == name {
			return c.Value
		}
	}
	return ""
}

// Who takes longer than ten minutes at the issuer begins again.
func TestSlowSignIn(t *testing.T) {
	s, _, surfers := withBrowserSignIn(t, newHouse(), "", nil)
	b := surfers()
	at := b.back("/")
	u, err := url.Parse(b.base + pathCallback)
	if err != nil {
		t.Fatal(err)
	}
	kept := b.client.Jar.Cookies(u)
	a, err := s.auth.browsers.sealer.Open(valueOf(kept, attemptCookie), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a.Began = a.Began.Add(-session.MaxAttempt)
	sealed, err := s.auth.browsers.sealer.Seal(a)
	if err != nil {
		t.Fatal(err)
	}
	b.client.Jar.SetCookies(u, []*http.Cookie{{Name: hostPrefix + attemptCookie, Value: sealed, Path: "/", Secure: true}})
	if status, _, body := b.get(at); status != 400 || !strings.Contains(body, "took too long") {
		t.Errorf("%d %s", status, body)
	}
}

// While the issuer is down, the page says so and the service serves; when it is back,
// it signs in.
func TestIssuerIsDownAtTheStart(t *testing.T) {
	s, i, surfers := withBrowserSignIn(t, newHouse(), "", nil)
	i.Fail(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	s.auth.oidc.issuer.refreshes.SetLimit(1e6)
	b := surfers()
	if status, _, body := b.get("/"); status != 401 || !strings.Contains(body, "issuer true, down true") {
		t.Errorf("%d %s", status, body)
	}
	if status, _, body := b.get(pathToIssuer); status != 503 || !strings.Contains(body, "cannot be reached to sign you in") {
		t.Errorf("%d %s", status, body)
	}
	if w := ask(s, http.MethodGet, "/", readToken, http.NoBody); w.Code != 200 {
		t.Errorf("others are not served: %d", w.Code)
	}
	i.Fail(nil)
	if status, at, _ := b.get(pathToIssuer); status != 200 || at != "/" {
		t.Errorf("the issuer is back: %d at %s", status, at)
	}
}

// A person is the same one, with the same groups, by a bearer token and on the page,
// so that nobody counts twice.
func TestSamePersonByTokenAndPage(t *testing.T) {
	h := newHouse()
	s, i, surfers := withBrowserSignIn(t, h, "", func(a *Auth) {
		a.People = []Person{{Name: "ada", OIDC: "ada@example.com", Groups: []string{"owners"}}}
	})
	b := surfers()
	b.get(pathToIssuer)
	b.stops().post("/runs/r-1/approve", url.Values{"gate": {"g"}, "digest": {"d"}})
	ask(s, http.MethodPost, "/api/v1/runs/r-1/approve", i.Token(t, nil), strings.NewReader(`{"gate":"g","digest":"d"}`))
	if len(h.commands) != 2 {
		t.Fatalf("%d decisions", len(h.commands))
	}
	page, token := *h.commands[0].Decision, *h.commands[1].Decision
	if page.By != "user:ada" || !page.Person || page.Channel != "web" {
		t.Errorf("%+v", page)
	}
	page.Channel = token.Channel
	if diff := cmp.Diff(token, page); diff != "" {
		t.Error(diff)
	}
}
