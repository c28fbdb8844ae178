package webhook

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// submit sends a form as a browser does from the run's own page.
func submit(s *Server, token, path, form string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("User-Agent", "responder/1 (says a browser that lies)")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// A form is the same decision as the API's, through the door web, of who
// authenticated.
func TestForms(t *testing.T) {
	plan := machine.Decision{By: "user:decide", Groups: []string{"g-decide"}, Channel: "web"}
	for _, c := range []struct {
		verb, form string
		want       func(*machine.Decision)
		kind       machine.CommandKind
	}{
		{"approve", "gate=g&digest=d&reason=", func(d *machine.Decision) { d.Approve, d.Gate, d.Digest = true, "g", "d" }, machine.CmdDecide},
		{"approve", "gate=g&digest=d&reason=fire&breakGlass=true", func(d *machine.Decision) {
			d.Approve, d.Gate, d.Digest, d.Reason, d.BreakGlass = true, "g", "d", "fire", true
		}, machine.CmdDecide},
		{"deny", "gate=g&digest=d&reason=+two%0D%0Alines+", func(d *machine.Decision) { d.Gate, d.Digest, d.Reason = "g", "d", "two\nlines" }, machine.CmdDecide},
		{"deny", "gate=g&digest=&reason=no", func(d *machine.Decision) { d.Gate, d.Reason = "g", "no" }, machine.CmdDecide},
		{"replan", "gate=g&digest=d&reason=", func(d *machine.Decision) { d.Gate, d.Digest = "g", "d" }, machine.CmdReplan},
		{"cancel", "reason=no", func(d *machine.Decision) { d.Reason = "no" }, machine.CmdCancel},
		{"resolve", "reason=seen&applied=true", func(d *machine.Decision) { d.Reason, d.Approve = "seen", true }, machine.CmdResolve},
		{"resolve", "reason=seen&applied=false", func(d *machine.Decision) { d.Reason = "seen" }, machine.CmdResolve},
		{"release", "reason=seen", func(d *machine.Decision) { d.Reason = "seen" }, machine.CmdRelease},
	} {
		h := newHouse()
		w := submit(mustNew(t, options(t, h)), decideToken, "/runs/r-1/"+c.verb, c.form)
		if at := w.Header().Get("Location"); w.Code != http.StatusSeeOther || at != "../r-1?said="+c.verb || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: %d to %q %s", c.verb, c.form, w.Code, at, w.Body)
		}
		want := plan
		c.want(&want)
		if diff := cmp.Diff([]machine.Command{{Kind: c.kind, Decision: &want}}, h.commands, cmpopts.IgnoreFields(machine.Command{}, "Now")); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.verb, c.form, diff)
		}
	}
}

// What the run answers is a word in the address it sends back to; what is no
// answer of the run is a page with a status.
func TestFormsThatAreRefused(t *testing.T) {
	seen := "gate=g&digest=d&reason=x"
	for _, c := range []struct {
		path, form string
		refuse     error
		status     int
		says       string
	}{
		{"r-1/approve", seen, fmt.Errorf("%w: %w", ErrConflict, machine.ErrStale), 303, "../r-1?said=stale"},
		{"r-1/approve", seen, fmt.Errorf("%w: %w", ErrConflict, machine.ErrVoted), 303, "../r-1?said=again"},
		{"r-1/approve", seen, fmt.Errorf("%w: %w", ErrConflict, machine.ErrEnded), 303, "../r-1?said=ended"},
		{"r-1/approve", "gate=open&digest=sha256:1", fmt.Errorf("%w: %w", ErrConflict, machine.ErrNoGate), 303, "../r-1?said=late"},
		{"r-1/approve", seen, fmt.Errorf("%w: %w", ErrConflict, machine.ErrNoGate), 303, "../r-1?said=stale"},
		{"r-1/replan", seen, fmt.Errorf("%w: %w", ErrConflict, machine.ErrTooMany), 303, "../r-1?said=many"},
		{"r-1/approve", seen, fmt.Errorf("%w: %w", ErrForbidden, machine.ErrNotAllowed), 303, "../r-1?said=forbidden"},
		{"r-1/cancel", "reason=x", fmt.Errorf("%w: it is settling", ErrConflict), 303, "../r-1?said=conflict"},
		{"r-1/deny", "gate=g&digest=d&reason=++", nil, 303, "../r-1?said=reason"},
		{"r-1/approve", seen, ErrUnavailable, 503, "the journal cannot take it now"},
		{"r-1/approve", "digest=d", nil, 400, "does not name the plan"},
		{"r-1/approve", "gate=open", nil, 400, "does not name the plan"},
		{"r-1/deny", "reason=x", nil, 400, "does not name the plan"},
		{"r-1/cancel", "reason=", nil, 400, "reason: missing"},
		{"r-1/cancel", "reason=x&gate=g", nil, 400, "takes reason only"},
		{"r-1/resolve", "reason=x", nil, 400, "applied: missing"},
		{"r-1/resolve", "reason=x&applied=perhaps", nil, 400, "want true or false"},
		{"r-1/approve", seen + "&by=user:root", nil, 400, `unknown field`},
		{"r-1/approve", seen + "&gate=g", nil, 400, "a field is there twice"},
		{"r-1/approve", seen + "&%zz", nil, 400, "is not a form"},
		{"r-1/deny", "gate=g&digest=d&reason=%ff", nil, 400, "not UTF-8"},
		{"r-1/deny", "gate=g&digest=d&reason=%1b[2J", nil, 400, "control characters"},
		{"r-1/deny", "gate=g&digest=d&reason=" + strings.Repeat("x", 2001), nil, 400, "longer than 2000"},
		{"r-1/deny", "gate=g&digest=d&reason=" + strings.Repeat("x", 70000), nil, 413, "larger than 65536 bytes"},
		{"r-9/approve", seen, nil, 404, `no run`},
	} {
		h := newHouse()
		h.refuse = c.refuse
		run := h.runs["r-1"]
		run.Gate = &machine.Gate{ID: "open", Digest: "sha256:1"}
		h.runs["r-1"] = run
		w := submit(mustNew(t, options(t, h)), decideToken, "/runs/"+c.path, c.form)
		got := w.Body.String() + w.Header().Get("Location")
		if w.Code != c.status || !strings.Contains(got, c.says) || w.Code != 303 && !strings.HasPrefix(got, "<p>") {
			t.Errorf("%s %.60s: %d %q, want %d %q", c.path, c.form, w.Code, got, c.status, c.says)
		}
		if len(h.commands) != 0 {
			t.Errorf("%s %.60s: commanded", c.path, c.form)
		}
	}
}

// A body that no form has is refused before anything is decided, so that no
// page can post JSON as plain text.
func TestFormsAreForms(t *testing.T) {
	for _, media := range []string{"", "text/plain", "application/json", "multipart/form-data; boundary=x"} {
		h := newHouse()
		s := mustNew(t, options(t, h))
		r := httptest.NewRequest(http.MethodPost, "/runs/r-1/cancel", strings.NewReader("reason=x"))
		r.Header.Set("Authorization", "Bearer "+decideToken)
		r.Header.Set("Content-Type", media)
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != http.StatusUnsupportedMediaType || len(h.commands) > 0 {
			t.Errorf("%q: %d, %d commands", media, w.Code, len(h.commands))
		}
	}
}

// Page forms from other sites are refused like the API's requests, whatever
// the browser adds.
func TestPageFormsOfOtherSites(t *testing.T) {
	for name, add := range ambient {
		for _, page := range pages {
			h := newHouse()
			s := newAmbientServer(t, h)
			for _, verb := range verbs() {
				form := url.Values{"reason": {"x"}}
				switch verb {
				case verbApprove, verbDeny, verbReplan:
					form.Set("gate", "g")
				case verbResolve:
					form.Set("applied", "true")
				}
				r := httptest.NewRequest(http.MethodPost, "/runs/r-1/"+verb, strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				for k, v := range page.header {
					r.Header.Set(k, v)
				}
				add(r)
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, r)
				if want := map[bool]int{true: http.StatusForbidden, false: http.StatusSeeOther}[page.foreign]; w.Code != want {
					t.Errorf("%s with a %s from %s: %d, want %d", verb, name, page.name, w.Code, want)
				}
			}
			if want := map[bool]int{true: 0, false: len(verbs())}[page.foreign]; len(h.commands) != want {
				t.Errorf("%s with a %s: %d commands, want %d", page.name, name, len(h.commands), want)
			}
		}
	}
}

// Looking changes nothing, whatever the method and the address say.
func TestPagesOnlyShow(t *testing.T) {
	h := newHouse()
	s := mustNew(t, options(t, h))
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/", 200, "page / for decide, decides true"},
		{"GET", "/runs/r-1?said=approve", 200, "page /runs/r-1 for decide"},
		{"HEAD", "/runs/r-1", 200, ""},
		{"GET", "/audit", 200, "page /audit"},
		{"GET", "/runs/r-9", 404, "<p>404 not found: no such run"},
		{"GET", "/runs/r-1/approve", 405, "method_not_allowed"},
		{"HEAD", "/runs/r-1/approve", 405, ""},
		{"PUT", "/runs/r-1", 405, "method_not_allowed"},
		{"POST", "/runs/r-1", 405, "method_not_allowed"},
		{"DELETE", "/audit", 405, "method_not_allowed"},
		{"GET", "/nowhere", 404, `{"error"`},
	} {
		w := ask(s, c.method, c.path, decideToken, http.NoBody)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, w.Code, w.Body, c.status, c.body)
		}
	}
	if len(h.commands)+len(h.pauses) > 0 {
		t.Errorf("%d commands", len(h.commands))
	}
	w := ask(s, http.MethodGet, "/", readToken, http.NoBody)
	if !strings.Contains(w.Body.String(), "decides false") {
		t.Errorf("a credential that reads: %s", w.Body)
	}
}

// A browser that is lost gets a page; a program, and whoever asks the API, JSON.
func TestLostBrowsers(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	for path, page := range map[string]bool{"/nowhere": true, "/runs": true, "/api/v1/nowhere": false} {
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		r.Header.Set("Accept", "text/html,*/*")
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != 404 || strings.HasPrefix(w.Body.String(), "<p>") != page {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

// Without a credential the page is the sign-in page, which leads back. The browser's own
// dialog never opens, since nobody could sign out of it.
func TestPagesSayHowToGetIn(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	w := ask(s, http.MethodGet, "/runs/r-1?said=approve", "", http.NoBody)
	if body := w.Body.String(); w.Code != 401 || !strings.Contains(body, "next /runs/r-1?said=approve, password false, issuer false") || !strings.Contains(body, "Token:") {
		t.Errorf("%d %s", w.Code, body)
	}
	ambient := newAmbientServer(t, newHouse())
	w = ask(ambient, http.MethodGet, "/", "", http.NoBody)
	if challenge := w.Header().Values("WWW-Authenticate"); !slices.Equal(challenge, []string{`Bearer realm="responder"`}) || !strings.Contains(w.Body.String(), "next /, password true") {
		t.Errorf("%q %s", challenge, w.Body)
	}
	for path, want := range map[string]string{"/api/v1/runs": `{"error"`, "/runs/r-1/approve": "<p>sign in: next /runs/r-1"} {
		method := map[bool]string{true: http.MethodGet, false: http.MethodPost}[strings.HasPrefix(path, "/api")]
		if w = ask(ambient, method, path, "", http.NoBody); w.Code != 401 || !strings.HasPrefix(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	w = ask(s, http.MethodPost, "/runs/r-1/approve", readToken, strings.NewReader("gate=g"))
	if body := w.Body.String(); w.Code != 403 || !strings.HasPrefix(body, "<p>403 this credential lacks the scope approve") {
		t.Errorf("%d %s", w.Code, body)
	}
}

// A pause of a page is the API's, with who authenticated; without a reason, the scope or a
// form of this page nothing is paused.
func TestPauseForms(t *testing.T) {
	for _, c := range []struct {
		token, path, form string
		status            int
		says              string
		pause             Pause
	}{
		{decideToken, "/pause", "reason=two%0D%0Alines", 303, "./", Pause{By: "user:decide", Reason: "two\nlines"}},
		{decideToken, "/pause", "service=chat&reason=x", 303, "./", Pause{Service: "chat", By: "user:decide", Reason: "x"}},
		{decideToken, "/pause", "playbook=p&reason=x", 303, "./", Pause{Playbook: "p", By: "user:decide", Reason: "x"}},
		{decideToken, "/pause", "intake=true&reason=x", 303, "./", Pause{Intake: true, By: "user:decide", Reason: "x"}},
		{decideToken, "/pause", "reason=++", 400, "reason: missing", Pause{}},
		{decideToken, "/pause", "", 400, "reason: missing", Pause{}},
		{decideToken, "/pause", "intake=perhaps&reason=x", 400, "want true or false", Pause{}},
		{decideToken, "/pause", "intake=true&service=chat&reason=x", 400, "cannot be combined", Pause{}},
		{decideToken, "/pause", "reason=x&by=user:root", 400, "unknown field", Pause{}},
		{decideToken, "/pause", "reason=x&reason=y", 400, "a field is there twice", Pause{}},
		{decideToken, "/pause", "reason=%1b[2J", 400, "control characters", Pause{}},
		{readToken, "/pause", "reason=x", 403, "lacks the scope pause", Pause{}},
		{readToken, "/unpause", "reason=x", 403, "lacks the scope unpause", Pause{}},
		{"", "/pause", "reason=x", 401, "sign in: next /,", Pause{}},
	} {
		h := newHouse()
		w := submit(mustNew(t, options(t, h)), c.token, c.path, c.form)
		if got := w.Body.String() + w.Header().Get("Location"); w.Code != c.status || !strings.Contains(got, c.says) {
			t.Errorf("%s %s: %d %q, want %d %q", c.path, c.form, w.Code, got, c.status, c.says)
		}
		var want []Pause
		if c.pause != (Pause{}) {
			want = []Pause{c.pause}
		}
		if diff := cmp.Diff(want, h.pauses, cmpopts.IgnoreFields(Pause{}, "Since")); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.path, c.form, diff)
		}
	}
}

// Another site's form pauses nothing, whatever credential the browser adds.
func TestPauseFormsOfOtherSites(t *testing.T) {
	for name, add := range ambient {
		for _, page := range pages {
			h := newHouse()
			s := newAmbientServer(t, h)
			for _, path := range []string{"/pause", "/unpause"} {
				r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("reason=x"))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				for k, v := range page.header {
					r.Header.Set(k, v)
				}
				add(r)
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, r)
				if want := map[bool]int{true: http.StatusForbidden, false: http.StatusSeeOther}[page.foreign]; w.Code != want {
					t.Errorf("%s with a %s from %s: %d, want %d", path, name, page.name, w.Code, want)
				}
			}
			if page.foreign && len(h.pauses) > 0 {
				t.Errorf("%s with a %s: paused", page.name, name)
			}
		}
	}
}

// Who may read the log may have it verified, by the page's form and in no other way.
func TestVerifyForm(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	for _, c := range []struct {
		name, token, media, body string
		status                   int
	}{
		{"a reader", readToken, "application/x-www-form-urlencoded", "", 200},
		{"nobody", "", "application/x-www-form-urlencoded", "", 401},
		{"who may not read", intakeToken, "application/x-www-form-urlencoded", "", 403},
		{"another form", readToken, "application/x-www-form-urlencoded", "reason=x", 400},
		{"no form", readToken, "application/json", "{}", 415},
	} {
		r := httptest.NewRequest(http.MethodPost, "/audit/verify", strings.NewReader(c.body))
		r.Header.Set("Content-Type", c.media)
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != c.status || strings.Contains(w.Body.String(), "verified for") != (c.status == 200) {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.status)
		}
	}
}
