package webhook

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// from sends ada's password from an address.
func from(s *Server, address, name, password string, cookies []*http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, pathSignIn, strings.NewReader(url.Values{"name": {name}, "password": {password}}.Encode()))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = address + ":1"
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// Strangers who guess do not keep the person out: neither at another address, nor in a
// browser in which the person signed in before.
func TestStrangersKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withPassword(t, newHouse(), nil)
		known := from(s, "192.0.2.1", "ada", "correct horse", nil).Result().Cookies()
		for range limitOfPair.most {
			from(s, "192.0.2.1", "ada", "wrong horse", nil)
		}
		if w := from(s, "192.0.2.1", "ada", "correct horse", nil); w.Code != 429 {
			t.Errorf("guessing goes on: %d", w.Code)
		}
		if w := from(s, "192.0.2.2", "ada", "correct horse", nil); w.Code != 303 {
			t.Errorf("from another address: %d", w.Code)
		}
		for i := range limitOfAddress.most {
			from(s, "192.0.2.1", strings.Repeat("n", i+1), "wrong horse", nil)
		}
		if w := from(s, "192.0.2.1", "ada", "correct horse", known); w.Code != 303 {
			t.Errorf("in a known browser: %d", w.Code)
		}
		for range limitOfPair.most {
			from(s, "192.0.2.1", "ada", "wrong horse", known)
		}
		if w := from(s, "192.0.2.1", "ada", "correct horse", known); w.Code != 429 {
			t.Errorf("guessing in a known browser goes on: %d", w.Code)
		}
		if w := from(s, "192.0.2.9", "grace", "wrong horse", known); w.Code != 401 {
			t.Errorf("another name: %d", w.Code)
		}
		if w := from(s, "192.0.2.1", "feed", "of Alertmanager", known); w.Code != 429 {
			t.Errorf("another name from an exhausted address, in a browser that ada is known by: %d", w.Code)
		}
	})
}

// An answer of the issuer is taken once, also by a copy of the browser's cookie.
func TestAttemptsAreSpentOnce(t *testing.T) {
	_, _, surfers := withBrowserSignIn(t, newHouse(), "", nil)
	b := surfers().stops()
	at := b.back("/")
	u, err := url.Parse(b.base + pathCallback)
	if err != nil {
		t.Fatal(err)
	}
	kept := b.client.Jar.Cookies(u)
	for i, want := range []int{303, 400} {
		b.client.Jar.SetCookies(u, []*http.Cookie{{Name: kept[0].Name, Value: kept[0].Value, Path: "/", Secure: true}})
		if status, _, _ := b.get(at); status != want {
			t.Errorf("time %d: %d, want %d", i, status, want)
		}
	}
}

// Answers of the issuer are limited before they are remembered as taken, so that one
// address cannot fill that memory.
func TestAttemptsAreLimitedBeforeTheyAreSpent(t *testing.T) {
	s, i, surfers := withBrowserSignIn(t, newHouse(), "", nil)
	i.Deny("access_denied")
	b := surfers().stops()
	for n := range limitOfAddress.most {
		if status, _, _ := b.get(b.back("/")); status != 403 {
			t.Fatalf("failure %d: %d", n, status)
		}
	}
	at := b.back("/")
	state, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	if status, _, _ := b.get(at); status != 429 {
		t.Fatalf("one more: %d", status)
	}
	if err := s.auth.browsers.spent.Spend(state.Query().Get("state"), time.Now()); err != nil {
		t.Errorf("the limited attempt: %v", err)
	}
}

// Sign-ins that succeed are not limited; failures are, whatever the issuer says.
func TestOnlyFailuresAtTheIssuerCount(t *testing.T) {
	f, now := newFailures(), time.Now()
	for range 5 * limitOfAddress.most {
		good, ok := f.begin("192.0.2.1:1", "", now)
		if !ok {
			t.Fatal("a sign-in that succeeded counts")
		}
		good()
	}
	for range limitOfAddress.most {
		f.begin("192.0.2.1:1", "", now)
	}
	if _, ok := f.begin("192.0.2.1:1", "", now); ok {
		t.Error("failures do not count")
	}
	if _, ok := f.begin("192.0.2.1:1", "known", now); !ok {
		t.Error("a known browser is kept out")
	}
}

// Of two cookies of one name a neighboring host may have set one: neither counts.
func TestTwoCookiesOfOneNameAreNone(t *testing.T) {
	s := withPassword(t, newHouse(), nil)
	cookies := signedInCookies(t, s)
	own := &http.Cookie{Name: cookies[0].Name, Value: cookies[0].Value}
	if w := send(s, http.MethodGet, "/", nil, []*http.Cookie{own}); w.Code != 200 {
		t.Fatal(w.Code)
	}
	for _, both := range [][]*http.Cookie{{own, {Name: own.Name, Value: "x"}}, {{Name: own.Name, Value: "x"}, own}} {
		if w := send(s, http.MethodGet, "/", nil, both); w.Code != 401 {
			t.Errorf("%v: %d", both, w.Code)
		}
	}
}

// Signing out ends the session of each cookie of the name: one of them is the person's.
func TestSignOutOfTwoCookies(t *testing.T) {
	for _, path := range []string{pathSignOut, pathSignOutEverywhere} {
		s := withPassword(t, newHouse(), nil)
		one, two := signedInCookies(t, s)[0], signedInCookies(t, s)[0]
		planted := &http.Cookie{Name: one.Name, Value: "x"}
		if w := send(s, http.MethodPost, path, nil, []*http.Cookie{planted, one, two}); w.Code != 303 {
			t.Errorf("%s: %d", path, w.Code)
		}
		for _, c := range []*http.Cookie{one, two} {
			if w := send(s, http.MethodGet, "/", nil, []*http.Cookie{c}); w.Code != 401 {
				t.Errorf("%s: is signed in: %d", path, w.Code)
			}
		}
	}
}

// A stolen cookie that is used ends the session for both when the other one comes.
func TestStolenSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := options(t, newHouse())
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Auth.Users = []User{{Grant: Grant{Name: "ada", Scopes: deciding()}, PasswordFile: write(t, t.TempDir(), "pw", "correct horse\n")}}
		s := mustNew(t, o)
		owner := signedInCookies(t, s)
		time.Sleep(sessionRotates)
		thief := send(s, http.MethodGet, "/", nil, owner).Result().Cookies()
		send(s, http.MethodGet, "/", nil, thief)
		time.Sleep(2 * time.Minute)
		if w := send(s, http.MethodGet, "/", nil, owner); w.Code != 401 {
			t.Errorf("the owner: %d", w.Code)
		}
		if w := send(s, http.MethodGet, "/", nil, thief); w.Code != 401 {
			t.Errorf("the thief: %d", w.Code)
		}
		if n := strings.Count(log.String(), "level=WARN msg=\"a session was ended"); n != 1 {
			t.Errorf("logged %d times: %s", n, &log)
		}
	})
}

// A person ends their sessions in all browsers, and nobody else's.
func TestSignOutEverywhere(t *testing.T) {
	s := withPassword(t, newHouse(), nil)
	one, two := signedInCookies(t, s), signedInCookies(t, s)
	if w := send(s, http.MethodPost, pathSignOutEverywhere, nil, one, "Sec-Fetch-Site", "cross-site"); w.Code != 403 {
		t.Errorf("from another site: %d", w.Code)
	}
	if w := send(s, http.MethodPost, pathSignOutEverywhere, nil, nil); w.Code != 401 || send(s, http.MethodGet, "/", nil, two).Code != 200 {
		t.Errorf("by nobody: %d", w.Code)
	}
	if w := send(s, http.MethodPost, pathSignOutEverywhere, nil, one); w.Code != 303 || w.Header().Get("Location") != "./../signin?said=out" {
		t.Errorf("%d to %s", w.Code, w.Header().Get("Location"))
	}
	for _, c := range [][]*http.Cookie{one, two} {
		if w := send(s, http.MethodGet, "/", nil, c); w.Code != 401 {
			t.Errorf("is signed in: %d", w.Code)
		}
	}
}

// No part of a name is taken for a part of a secret.
func TestNamesWithColons(t *testing.T) {
	s := withPassword(t, newHouse(), func(a *Auth) {
		a.Tokens = append(a.Tokens, Token{Grant: Grant{Name: "v1", Scopes: deciding()}, File: write(t, t.TempDir(), "t", "v1:0123456789abcdef\n")})
		a.Users = append(a.Users, User{Grant: Grant{Name: "bob", Scopes: deciding()}, PasswordFile: write(t, t.TempDir(), "p", "colon:in the middle\n")})
	})
	for _, c := range [][2]string{{"v1", "0123456789abcdef"}, {"bob:colon", "in the middle"}, {":v1", "0123456789abcdef"}} {
		if w := signIn(s, c[0], c[1], "/"); w.Code != 401 {
			t.Errorf("%q: %d", c, w.Code)
		}
	}
	if w := signIn(s, "bob", "colon:in the middle", "/"); w.Code != 303 {
		t.Errorf("the right one: %d", w.Code)
	}
}

// Behind a proxy that speaks TLS, of which the configuration says nothing, the browser
// says that the cookie may go over https only.
func TestCookiesBehindAProxy(t *testing.T) {
	s := withPassword(t, newHouse(), nil)
	form := url.Values{"name": {"ada"}, "password": {"correct horse"}}
	cookies := send(s, http.MethodPost, pathSignIn, form, nil, "Origin", "https://example.com").Result().Cookies()
	if len(cookies) != 2 || cookies[0].Name != "__Host-responder" || !cookies[0].Secure {
		t.Fatalf("%v", cookies)
	}
	if w := send(s, http.MethodGet, "/", nil, cookies); w.Code != 200 {
		t.Errorf("the session: %d", w.Code)
	}
	if w := send(s, http.MethodPost, pathSignOut, url.Values{}, cookies, "Sec-Fetch-Site", "", "Origin", "http://example.com"); w.Code != 403 {
		t.Errorf("a page of the same host over http: %d", w.Code)
	}
	if w := send(s, http.MethodPost, pathSignOut, url.Values{}, cookies, "Sec-Fetch-Site", "", "Origin", "https://example.com"); w.Code != 303 {
		t.Errorf("an own page: %d", w.Code)
	}
}

// A remembered password does not hide who signed in on the page.
func TestSessionWinsOverRememberedPassword(t *testing.T) {
	s := withPassword(t, newHouse(), nil)
	cookies := signedInCookies(t, s)
	if w := send(s, http.MethodGet, "/", nil, cookies, "Authorization", basic("feed", "of Alertmanager")); w.Code != 200 {
		t.Errorf("a page: %d", w.Code)
	}
	if w := send(s, http.MethodGet, "/api/v1/runs", nil, cookies, "Authorization", basic("feed", "of Alertmanager")); w.Code != 403 {
		t.Errorf("the API: %d", w.Code)
	}
}

// A browser that goes to an address of the API opens no dialog for a password.
func TestNavigationsAreNotAskedForBasic(t *testing.T) {
	s := withPassword(t, newHouse(), nil)
	for _, c := range [][]string{{"Sec-Fetch-Mode", "navigate"}, {"Accept", "text/html,*/*"}, {"Accept", "application/json"}} {
		w := send(s, http.MethodGet, "/api/v1/runs", nil, nil, c...)
		if asks := strings.Contains(w.Header().Get("WWW-Authenticate"), "Basic"); w.Code != 401 || asks != (c[1] == "application/json") {
			t.Errorf("%q: %d, asks for Basic %v", c, w.Code, asks)
		}
	}
}
