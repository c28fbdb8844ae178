package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fromBasic sends a request with a password by Authorization: Basic from an address.
func fromBasic(s *Server, address, method, path, name, password string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, body)
	r.RemoteAddr = address + ":1"
	r.Header.Set("Authorization", basic(name, password))
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// Guessing by Authorization: Basic is slow, on every route. After too many wrong passwords a
// right one is answered like a wrong one, so that nobody sees which it is. Alerts still come
// in, and other addresses, credentials and the form are not affected.
func TestGuessingByBasicIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse()
		s := withPassword(t, h, nil)
		alerts := func(password string) int {
			return fromBasic(s, "192.0.2.1", http.MethodPost, "/api/v1/alertmanager", "feed", password, strings.NewReader(notice("", ""))).Code
		}
		runs := func(address, name, password string) *httptest.ResponseRecorder {
			return fromBasic(s, address, http.MethodGet, "/api/v1/runs", name, password, http.NoBody)
		}
		for range 3 * limitOfAddress.most { // they count for nothing
			runs("192.0.2.1", "ada", "correct horse")
			alerts("of Alertmanager")
		}
		for i := range limitOfAddress.most {
			if w := runs("192.0.2.1", strings.Repeat("n", i+1), "wrong horse"); w.Code != 401 {
				t.Fatalf("guess %d: %d", i, w.Code)
			}
		}
		wrong, right := runs("192.0.2.1", "ada", "wrong horse"), runs("192.0.2.1", "ada", "correct horse")
		if wrong.Code != 429 || right.Code != 429 || wrong.Body.String() != right.Body.String() {
			t.Errorf("a wrong password: %d %s\na right one: %d %s", wrong.Code, wrong.Body, right.Code, right.Body)
		}
		if w := fromBasic(s, "192.0.2.1", http.MethodPost, "/api/v1/alertmanager", "ada", "correct horse", untouchable{t}); w.Code != 429 {
			t.Errorf("the password of a person where alerts come in: %d", w.Code)
		}
		if got := alerts("of Alertmanager"); got != 200 {
			t.Errorf("alerts are kept out: %d", got)
		}
		if got := alerts("wrong"); got != 429 {
			t.Errorf("a wrong password of a sender: %d", got)
		}
		if w := runs("192.0.2.2", "ada", "correct horse"); w.Code != 200 {
			t.Errorf("another address: %d", w.Code)
		}
		if w := from(s, "192.0.2.1", "ada", "correct horse", nil); w.Code != 303 {
			t.Errorf("the form: %d", w.Code)
		}
		r := httptest.NewRequest(http.MethodGet, "/api/v1/runs", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+readToken)
		r.RemoteAddr = "192.0.2.1:1"
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("a token: %d", w.Code)
		}
		time.Sleep(limitOfAddress.every)
		if w := runs("192.0.2.1", "ada", "correct horse"); w.Code != 200 {
			t.Errorf("after a while: %d", w.Code)
		}
	})
}
