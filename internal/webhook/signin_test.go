package webhook

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
)

// withPassword is a server on which ada signs in with a password.
func withPassword(t *testing.T, h *fakeHouse, change func(*Auth)) *Server {
	t.Helper()
	o := options(t, h)
	o.Auth.Users = []User{
		{Grant: Grant{Name: "ada", Scopes: deciding(), Groups: []string{"oncall"}}, PasswordFile: write(t, t.TempDir(), "pw", "correct horse\n")},
		{Grant: Grant{Name: "feed", Scopes: []Scope{ScopeIntake}}, PasswordFile: write(t, t.TempDir(), "pw", "of Alertmanager\n")},
	}
	if change != nil {
		change(&o.Auth)
	}
	return mustNew(t, o)
}

// send sends a request as a browser does from a page of this service.
func send(s *Server, method, path string, form url.Values, cookies []*http.Cookie, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func signIn(s *Server, name, password, next string) *httptest.ResponseRecorder {
	return send(s, http.MethodPost, pathSignIn, url.Values{"name": {name}, "password": {password}, "next": {next}}, nil)
}

// signedInCookies signs ada in.
func signedInCookies(t *testing.T, s *Server) []*http.Cookie {
	t.Helper()
	w := signIn(s, "ada", "correct horse", "/")
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Result().Cookies()
}

func TestPasswordSignsIn(t *testing.T) {
	h := newHouse()
	s := withPassword(t, h, nil)
	w := signIn(s, "ada", "correct horse", "/runs/r-1")
	if at := w.Header().Get("Location"); w.Code != 303 || at != "./runs/r-1" {
		t.Fatalf("%d to %s", w.Code, at)
	}
	cookies := w.Result().Cookies()
	if w = send(s, http.MethodGet, "/runs/r-1", nil, cookies); w.Code != 200 || w.Body.String() != "page /runs/r-1 for ada, decides true" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w = send(s, http.MethodGet, pathSignIn, nil, cookies); w.Code != 200 || !strings.Contains(w.Body.String(), "who ada") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w = send(s, http.MethodPost, "/runs/r-1/deny", url.Values{"gate": {"g"}, "digest": {"d"}, "reason": {"no"}}, cookies); w.Code != 303 || len(h.commands) != 1 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if d := h.commands[0].Decision; d.By != "user:ada" || d.Channel != "web" || d.Groups[0] != "oncall" || d.Strong {
		t.Errorf("%+v", d)
	}
	w = signIn(s, "feed", "of Alertmanager", "/")
	if body := w.Body.String(); w.Code != 403 || !strings.Contains(body, "You are feed, who may not read here.") || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("who may not read: %d %s", w.Code, body)
	}
}

// Wrong names and wrong passwords are told apart by nothing, and tokens are no passwords.
func TestWrongPasswords(t *testing.T) {
	s := withPassword(t, newHouse(), nil)
	var bodies []string
	for _, c := range [][2]string{
		{"ada", "wrong horse"},
		{"nobody", "correct horse"},
		{"", "correct horse"},
		{"ADA", "correct horse"},
		{"", readToken},
		{"read", readToken},
		{"ada", ""},
		{"ada", strings.Repeat("x", maxPassword+1)},
		{strings.Repeat("x", 500), "correct horse"},
	} {
		w := signIn(s, c[0], c[1], "/runs/r-1")
		if w.Code != 401 || w.Header().Get("Set-Cookie") != "" {
			t.Errorf("%.20q %.20q: %d", c[0], c[1], w.Code)
		}
		bodies = append(bodies, w.Body.String())
	}
	for _, body := range bodies {
		if body != bodies[0] || !strings.Contains(body, "Wrong name or password.") || !strings.Contains(body, "next /runs/r-1") {
			t.Errorf("answers differ: %s", body)
		}
	}
}

// Guessing is slow, for one name and from one address, and a name that does not exist
// is limited like one that does.
func TestGuessingIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, name := range []string{"ada", "nobody"} {
			s := withPassword(t, newHouse(), nil)
			for range limitOfPair.most {
				if w := signIn(s, name, "wrong horse", "/"); w.Code != 401 {
					t.Fatalf("%s: %d", name, w.Code)
				}
			}
			w := signIn(s, name, "correct horse", "/")
			if w.Code != 429 || w.Header().Get("Retry-After") != "15" || w.Header().Get("Set-Cookie") != "" {
				t.Errorf("%s: %d, retry after %q", name, w.Code, w.Header().Get("Retry-After"))
			}
			if w := signIn(s, "feed", "of Alertmanager", "/"); w.Code != 403 {
				t.Errorf("another name: %d", w.Code)
			}
			if w := from(s, "198.51.100.7", name, "wrong horse", nil); w.Code != 401 {
				t.Errorf("%s from another address: %d", name, w.Code)
			}
			time.Sleep(limitOfPair.every)
			if w := signIn(s, name, "correct horse", "/"); (w.Code == 303) != (name == "ada") {
				t.Errorf("%s after a while: %d", name, w.Code)
			}
		}
		s := withPassword(t, newHouse(), nil)
		for i := range limitOfAddress.most {
			signIn(s, strings.Repeat("n", i+1), "wrong", "/")
		}
		if w := signIn(s, "ada", "correct horse", "/"); w.Code != 429 {
			t.Errorf("after many names from one address: %d", w.Code)
		}
		s = withPassword(t, newHouse(), nil)
		for i := range limitOfName.most {
			if w := from(s, fmt.Sprintf("198.51.%d.%d", i/200, i%200), "ada", "wrong horse", nil); w.Code != 401 {
				t.Fatalf("address %d: %d", i, w.Code)
			}
		}
		if w := from(s, "203.0.113.1", "ada", "correct horse", nil); w.Code != 429 {
			t.Errorf("after many addresses for one name: %d", w.Code)
		}
		if w := from(s, "203.0.113.1", "feed", "of Alertmanager", nil); w.Code != 403 {
			t.Errorf("another name, after many addresses for one: %d", w.Code)
		}
	})
	for remote, want := range map[string]string{"192.0.2.1:7": "192.0.2.1", "[2001:db8::1:2]:7": "2001:db8::/64", "[::ffff:192.0.2.1]:7": "192.0.2.1", "@": "@"} {
		if got := network(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}

// A session ends when it is signed out, unused or old, when the password is replaced
// and when the service restarts.
func TestSessionsEnd(t *testing.T) {
	status := func(s *Server, cookies []*http.Cookie) int { return send(s, http.MethodGet, "/", nil, cookies).Code }
	synctest.Test(t, func(t *testing.T) {
		var file string
		s := withPassword(t, newHouse(), func(a *Auth) { file = a.Users[0].PasswordFile })
		cookies := signedInCookies(t, s)
		if w := send(s, http.MethodPost, pathSignOut, nil, cookies); w.Code != 303 || w.Header().Get("Location") != "./signin?said=out" || w.Result().Cookies()[0].MaxAge != -1 {
			t.Errorf("sign-out: %d to %s, %v", w.Code, w.Header().Get("Location"), w.Result().Cookies())
		}
		if w := send(s, http.MethodPost, pathSignOut, nil, cookies); w.Code != 401 || !strings.Contains(w.Body.String(), "You were not signed in") || status(s, cookies) != 401 {
			t.Errorf("signed out: %d %s", w.Code, w.Body)
		}

		cookies = signedInCookies(t, s)
		for range 59 { // as the script asks whether the page is outdated
			time.Sleep(time.Minute)
			send(s, http.MethodHead, "/", nil, cookies)
		}
		if got := status(s, cookies); got != 200 {
			t.Errorf("after 59 minutes: %d", got)
		}
		form := url.Values{"gate": {"g"}, "digest": {"d"}}
		for _, use := range []func(){ // whatever a person does is use
			func() { send(s, http.MethodGet, "/api/v1/runs", nil, cookies) },
			func() { send(s, http.MethodPost, "/runs/r-1/approve", form, cookies) },
		} {
			time.Sleep(59 * time.Minute)
			use()
		}
		time.Sleep(59 * time.Minute)
		send(s, http.MethodHead, "/", nil, cookies)
		time.Sleep(time.Minute)
		if w := send(s, http.MethodGet, "/", nil, cookies); w.Code != 401 || !strings.Contains(w.Body.String(), "Your session has ended.") {
			t.Errorf("unused for an hour: %d %s", w.Code, w.Body)
		}

		cookies = signedInCookies(t, s)
		for range 24 {
			time.Sleep(30 * time.Minute)
			w := send(s, http.MethodGet, "/", nil, cookies)
			if fresh := w.Result().Cookies(); len(fresh) > 0 {
				cookies = fresh
			}
		}
		if got := status(s, cookies); got != 401 {
			t.Errorf("after 12 hours: %d", got)
		}

		cookies = signedInCookies(t, s)
		if got := status(withPassword(t, newHouse(), nil), cookies); got != 401 {
			t.Errorf("after a restart: %d", got)
		}
		if err := os.WriteFile(file, []byte("another horse\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := status(s, cookies); got != 401 {
			t.Errorf("the password was replaced: %d", got)
		}
	})
}

// The id changes while a session is used, and with each sign-in; what somebody put
// into the cookie before is no session.
func TestSessionsRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withPassword(t, newHouse(), nil)
		planted := []*http.Cookie{{Name: sessionCookie, Value: "AAAAAAAAAAAAAAAAAAAAAAAAAA"}}
		form := url.Values{"name": {"ada"}, "password": {"correct horse"}}
		first := send(s, http.MethodPost, pathSignIn, form, planted).Result().Cookies()
		second := send(s, http.MethodPost, pathSignIn, form, first).Result().Cookies()
		if first[0].Value == planted[0].Value || first[0].Value == second[0].Value {
			t.Error("a sign-in keeps the id")
		}
		if w := send(s, http.MethodGet, "/", nil, first); w.Code != 401 {
			t.Errorf("the session before the sign-in: %d", w.Code)
		}
		time.Sleep(sessionRotates)
		third := send(s, http.MethodGet, "/", nil, second).Result().Cookies()
		if len(third) != 1 || third[0].Value == second[0].Value {
			t.Fatalf("not rotated: %v", third)
		}
		if w := send(s, http.MethodGet, "/", nil, third); w.Code != 200 {
			t.Errorf("the new id: %d", w.Code)
		}
		time.Sleep(time.Minute)
		if w := send(s, http.MethodGet, "/", nil, second); w.Code != 401 {
			t.Errorf("the old id: %d", w.Code)
		}
	})
}

// A login counts as strong for as long as a token of it would, not for the session.
func TestSessionsLoseStrength(t *testing.T) {
	s, _, surfers := withBrowserSignIn(t, newHouse(), "", nil)
	b := surfers()
	b.get(pathToIssuer)
	u, err := url.Parse(b.base)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, b.base+"/", http.NoBody)
	r.AddCookie(&http.Cookie{Name: hostPrefix + sessionCookie, Value: valueOf(b.client.Jar.Cookies(u), sessionCookie)})
	if id, ok := s.auth.signedIn(r); !ok || !id.Strong {
		t.Errorf("%+v, %v", id, ok)
	}
	who, _ := s.auth.browsers.sessions.Get(s.auth.browsers.idOf(r), time.Now(), false)
	past := jwt.NewNumericDate(time.Now().Add(-16 * time.Minute))
	who.proof.AuthTime = past
	r = httptest.NewRequest(http.MethodGet, b.base+"/", http.NoBody)
	r.AddCookie(&http.Cookie{Name: hostPrefix + sessionCookie, Value: s.auth.browsers.sessions.Open("ada", who, time.Now())})
	if id, ok := s.auth.signedIn(r); !ok || id.Strong {
		t.Errorf("a login 16 minutes ago: %+v, %v", id, ok)
	}
}

// A browser sends a session's cookie with requests that other sites cause, so those
// change nothing; neither does one that does not say where it is from.
func TestOtherSitesCannotUseASession(t *testing.T) {
	form := url.Values{"gate": {"g"}, "digest": {"d"}, "reason": {"x"}}
	for _, page := range append(pages[1:], pages[0]) {
		foreign := page.foreign || page.header == nil
		h := newHouse()
		s := withPassword(t, h, nil)
		cookies := signedInCookies(t, s)
		headers := []string{"Sec-Fetch-Site", page.header["Sec-Fetch-Site"], "Origin", page.header["Origin"]}
		want := map[bool]int{true: 403, false: 303}[foreign]
		if w := send(s, http.MethodPost, "/runs/r-1/approve", form, cookies, headers...); w.Code != want || len(h.commands) > 0 == foreign {
			t.Errorf("a form from %s: %d, %d commands", page.name, w.Code, len(h.commands))
		}
		if w := send(s, http.MethodPost, pathSignOut, url.Values{}, cookies, headers...); w.Code != want {
			t.Errorf("a sign-out from %s: %d", page.name, w.Code)
		}
		cookies = signedInCookies(t, s)
		if w := send(s, http.MethodPost, pathSignOutEverywhere, url.Values{}, cookies, headers...); w.Code != want {
			t.Errorf("a sign-out everywhere from %s: %d", page.name, w.Code)
		}
		if w := send(s, http.MethodPost, pathSignIn, url.Values{"name": {"ada"}, "password": {"correct horse"}}, nil, headers...); w.Code != want {
			t.Errorf("a sign-in from %s: %d", page.name, w.Code)
		}
	}
}

// The API takes no decision from a session: it reads, for the links of the page.
func TestSessionsOnlyReadTheAPI(t *testing.T) {
	h := newHouse()
	s := withPassword(t, h, nil)
	cookies := signedInCookies(t, s)
	for route, scope := range scopesOfRoutes() {
		method, path, _ := strings.Cut(route, " ")
		if !strings.HasPrefix(path, "/api/") && path != "/metrics" && route != "POST /" {
			continue
		}
		reads := scope == ScopeRead || scope == ScopeMetrics
		if w := send(s, method, path, nil, cookies); reads == (w.Code == 403) {
			t.Errorf("%s: %d %s", route, w.Code, w.Body)
		}
	}
	if len(h.commands)+len(h.started)+len(h.admitted)+len(h.pauses) > 0 {
		t.Error("something was done")
	}
}

// A sign-in leads to a page of this service, whatever the address says.
func TestSignInLeadsNowhereElse(t *testing.T) {
	s := withPassword(t, newHouse(), nil)
	for next, want := range map[string]string{
		"/runs/r-1?a=b": "./runs/r-1?a=b", "//evil.example": "./", `/\evil.example`: "./", "https://evil.example": "./", "javascript:alert(1)": "./",
		"/%2F/evil.example": "./", "/../..//evil.example": "./", "/signout": "./", "/\r\nSet-Cookie: a=b": "./", "": "./",
	} {
		if w := signIn(s, "ada", "correct horse", next); w.Code != 303 || w.Header().Get("Location") != want {
			t.Errorf("%q: %d to %q, want %q", next, w.Code, w.Header().Get("Location"), want)
		}
		w := send(s, http.MethodGet, pathSignIn+"?next="+url.QueryEscape(next), nil, nil)
		if page := "next /" + strings.TrimPrefix(want, "./") + ", "; !strings.Contains(w.Body.String(), page) {
			t.Errorf("%q: the page leads to %s", next, w.Body)
		}
	}
}

// The log has a line of each sign-in and of each failure, but not of what strangers cause
// as often as they like, and no name that was typed in.
func TestSignInsAreLogged(t *testing.T) {
	var log bytes.Buffer
	o := options(t, newHouse())
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	o.Auth.Users = []User{{Grant: Grant{Name: "ada", Scopes: deciding()}, PasswordFile: write(t, t.TempDir(), "pw", "correct horse\n")}}
	s := mustNew(t, o)
	log.Reset()
	from(s, "192.0.2.1", "ada", "correct horse", nil)
	if got := log.String(); !strings.Contains(got, "level=INFO msg=\"a person signed in on the page\" person=ada method=password") {
		t.Errorf("a sign-in: %s", got)
	}
	log.Reset()
	for range 2 * limitOfPair.most {
		from(s, "192.0.2.1", "hunter2", "hunter2", nil)
	}
	got := log.String()
	if n := strings.Count(got, "level=INFO msg=\"a sign-in on the page failed\" method=password result=wrong"); n != limitOfPair.most || strings.Count(got, "\n") != n || !strings.Contains(got, "address=192.0.2.1") {
		t.Errorf("%d failures: %s", n, got)
	}
	if strings.Contains(got, "hunter2") {
		t.Errorf("what was typed in is logged: %s", got)
	}
}
