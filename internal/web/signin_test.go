package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func signInPage(t *testing.T, path string, d SignIn) *httptest.ResponseRecorder {
	t.Helper()
	s := site(t, &house{})
	s.o.Pauses = func() []Pause { return []Pause{{Scope: "everything", By: "user:dan", Reason: "freeze"}} }
	w := httptest.NewRecorder()
	s.SignIn(w, httptest.NewRequest(http.MethodGet, path, http.NoBody), d)
	if w.Code != d.Status {
		t.Errorf("%s: %d", path, w.Code)
	}
	return w
}

// The page offers what is configured, says what went wrong, and shows nothing else to
// whom nobody knows.
func TestSignInPages(t *testing.T) {
	refused := SignIn{
		Status: 403, Next: "/runs/r-1", Issuer: "login.example.com", Groups: []string{"oncall", "ml platform"},
		Message: "Your ID token was refused: its email is a name of the configuration.", Hint: "The operator maps people under auth.people.",
	}
	for name, c := range map[string]struct {
		path       string
		d          SignIn
		has, lacks []string
	}{
		"signin": {
			"/runs/r-1",
			SignIn{Status: 401, Next: "/runs/r-1?a=b&c", Issuer: "login.example.com", Password: true, Others: []string{"Client certificate: import it."}},
			[]string{`href="../signin/oidc?next=%2Fruns%2Fr-1%3Fa%3Db%26c"`, `action="../signin"`, `name="next" value="/runs/r-1?a=b&amp;c"`, `type="password"`, "Client certificate"},
			[]string{"Paused", "./audit", "Sign out", `role="alert"`},
		},
		"signin_wrong": {
			"/signin",
			SignIn{Status: 401, Next: "/", Password: true, Message: "Wrong name or password."},
			[]string{`role="alert"><b>Wrong name or password.</b>`, `class="go">Sign in<`, `action="./signin"`},
			[]string{"signin/oidc", "or with a password"},
		},
		"signin_down": {"/", SignIn{Status: 401, Next: "/", Issuer: "login.example.com", Down: true}, []string{"login.example.com does not answer at present", "signin/oidc"}, []string{"<form"}},
		"signin_refused": {
			"/signin/callback", refused,
			[]string{"Groups seen: oncall, ml platform.", "auth.people", `href="../signin/oidc?next=%2Fruns%2Fr-1"`},
			[]string{"eyJ"},
		},
		"signin_out": {"/signin", SignIn{Status: 200, Next: "/", Issuer: "login.example.com", Left: true}, []string{"You are signed out.", "still be signed in at login.example.com"}, []string{"Sign out"}},
		"signin_person": {
			"/signin",
			SignIn{Status: 200, Next: "/runs/r-1", Issuer: "login.example.com", Name: "ada", Strong: true, Groups: []string{"sre"}, Rights: []string{"pause: all services"}},
			[]string{`href="./runs/r-1"`, "<b>ada</b>", "pause: all services", `action="./signout"`, "./audit", "Paused"},
			[]string{"You may read."},
		},
		"signin_reader": {"/signin", SignIn{Status: 200, Next: "/", Password: true, Name: "page"}, []string{"You may read.", "auth.rights"}, nil},
	} {
		body := signInPage(t, c.path, c.d).Body.String()
		for _, s := range c.has {
			if !strings.Contains(body, s) {
				t.Errorf("%s: lacks %q", name, s)
			}
		}
		for _, s := range c.lacks {
			if strings.Contains(ornament.ReplaceAllString(body, ""), s) {
				t.Errorf("%s: has %q", name, s)
			}
		}
		golden(t, name, body)
	}
}

// Nothing that a person, an issuer or an address says is markup.
func TestSignInInjection(t *testing.T) {
	for _, s := range evil {
		for _, d := range []SignIn{
			{Status: 403, Next: "/?" + strings.ReplaceAll(s, " ", "/"), Password: true, Issuer: s, Down: true, Others: []string{s}, Message: s, Hint: s, Groups: []string{s}, Left: true},
			{Status: 200, Next: "/?" + strings.ReplaceAll(s, " ", "/"), Name: s, Groups: []string{s}, Rights: []string{s}},
		} {
			body := ornament.ReplaceAllString(signInPage(t, "/signin", d).Body.String(), "")
			if active.MatchString(strings.ReplaceAll(body, "{{.Run}}", "")) {
				t.Errorf("%q: %q", s, active.FindString(body))
			}
		}
	}
}

// Who signed in on the page can sign out on every page; others did not sign in here.
func TestSignOut(t *testing.T) {
	v := ada
	v.SignedIn = true
	for path, action := range map[string]string{"/": "./signout", "/audit": "./signout"} {
		if body := look(t, site(t, &house{}), v, http.MethodGet, path).Body.String(); !strings.Contains(body, `action="`+action+`"`) || !strings.Contains(body, `id="ended"`) {
			t.Errorf("%s: nowhere to sign out", path)
		}
		if body := look(t, site(t, &house{}), ada, http.MethodGet, path).Body.String(); strings.Contains(body, "signout") {
			t.Errorf("%s: a credential of the browser's own is signed out", path)
		}
	}
}
