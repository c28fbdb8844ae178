package webhook

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/api"
)

const sessionsPath = "/api/v1/sessions"

// Who may do so sees who is signed in, and ends the sessions of one person or of all. It is
// logged with who did it. A name that nobody is signed in with is an error: it may be a typo.
func TestSessionsAreListedAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		o := options(t, newHouse())
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		for _, name := range []string{"ada", "bob"} {
			o.Auth.Users = append(o.Auth.Users, User{Grant: Grant{Name: name, Scopes: deciding(), Groups: []string{"oncall"}}, PasswordFile: write(t, t.TempDir(), "pw", "correct horse\n")})
		}
		s := mustNew(t, o)
		began := time.Now().UTC()
		ada := signIn(s, "ada", "correct horse", "/").Result().Cookies()
		bob := signIn(s, "bob", "correct horse", "/").Result().Cookies()
		time.Sleep(time.Minute)
		send(s, http.MethodGet, "/", nil, ada)
		want := []api.Session{
			{Person: "user:ada", Method: "password", Groups: []string{"oncall"}, Began: began, Used: began.Add(time.Minute)},
			{Person: "user:bob", Method: "password", Groups: []string{"oncall"}, Began: began, Used: began},
		}
		listed := ask(s, http.MethodGet, sessionsPath, sessionsToken, http.NoBody)
		if diff := cmp.Diff(want, decoded[api.SessionList](t, listed).Sessions); diff != "" {
			t.Error(diff)
		}
		if strings.Contains(listed.Body.String(), ada[0].Value) {
			t.Error("the list shows the id of a session")
		}
		for _, c := range []struct {
			token, body string
			status      int
		}{
			{adminToken, `{"all":true}`, 403},
			{decideToken, `{"all":true}`, 403},
			{"", `{"all":true}`, 401},
			{sessionsToken, `{}`, 400},
			{sessionsToken, `{"person":"user:"}`, 400},
			{sessionsToken, `{"person":"ada","all":true}`, 400},
			{sessionsToken, `{"person":"adaa"}`, 404},
			{sessionsToken, `{"person":"ada","reason":"\u001b[2J"}`, 400},
		} {
			if w := ask(s, http.MethodDelete, sessionsPath, c.token, strings.NewReader(c.body)); w.Code != c.status {
				t.Errorf("%s: %d %s, want %d", c.body, w.Code, w.Body, c.status)
			}
		}
		if got := send(s, http.MethodGet, "/", nil, ada).Code; got != 200 {
			t.Fatalf("who was refused ended a session: %d", got)
		}
		answer := decoded[api.SessionList](t, ask(s, http.MethodDelete, sessionsPath, sessionsToken, strings.NewReader(`{"person":"user:ada","reason":"left the team"}`)))
		if answer.Ended != 1 || len(answer.Sessions) != 1 || answer.Sessions[0].Person != "user:bob" {
			t.Errorf("%+v", answer)
		}
		if a, b := send(s, http.MethodGet, "/", nil, ada).Code, send(s, http.MethodGet, "/", nil, bob).Code; a != 401 || b != 200 {
			t.Errorf("ada: %d, bob: %d", a, b)
		}
		if line := `level=INFO msg="sessions of the page were ended" by=user:sessions person=ada all=false sessions=1 reason="left the team"`; !strings.Contains(log.String(), line) {
			t.Errorf("the log lacks %s: %s", line, &log)
		}
		for _, want := range []int{1, 0} { // none is no error: nobody is signed in now, as was asked for
			if got := decoded[api.SessionList](t, ask(s, http.MethodDelete, sessionsPath, sessionsToken, strings.NewReader(`{"all":true}`))); got.Ended != want || len(got.Sessions) != 0 {
				t.Errorf("all: %+v", got)
			}
		}
	})
}
