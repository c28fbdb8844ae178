package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// verifies sends the form as a browser does, and returns the page that it comes to.
func verifies(ctx context.Context, t *testing.T, s *Site, v Visitor) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.Verify(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/audit/verify", http.NoBody), v)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "../audit#verify" {
		t.Errorf("%d to %q", w.Code, w.Header().Get("Location"))
	}
	return look(t, s, v, http.MethodGet, "/audit").Body.String()
}

func TestVerifyOnThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := logged(30)
		s := site(t, h)
		for _, c := range []struct {
			name string
			v    Verification
			err  error
		}{
			{"verified", Verification{Standing: "intact", Intact: true, Facts: [][2]string{{"entries", "30 in 2 streams"}, {"checkpoints", "1, the last over 30 entries"}, {"root", "qUeR="}}}, nil},
			{"edited", Verification{Standing: "NOT INTACT", Wrong: "entry 12 (run/r-1 <i> at 2026-11-22T00:00:00Z): edited: it does not match its leaf hash"}, nil},
			{"broken", Verification{}, errors.New("secret")},
		} {
			h.verify = func(context.Context, func(done, total uint64)) (Verification, error) {
				time.Sleep(1234 * time.Millisecond)
				return c.v, c.err
			}
			body := verifies(t.Context(), t, s, reader)
			golden(t, "audit_"+c.name, body)
			if strings.Contains(body, "secret") {
				t.Error("the page shows the text of an error")
			}
			time.Sleep(restShare * 2 * time.Second) // as long as none may begin
		}
	})
}

// One verification runs at a time, and none right after another, whoever asks how often.
func TestVerifyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := logged(30)
		s := site(t, h)
		goOn := make(chan struct{})
		h.verify = func(_ context.Context, progress func(done, total uint64)) (Verification, error) {
			progress(10, 30)
			<-goOn
			return Verification{Standing: "intact", Intact: true}, nil
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			verifies(t.Context(), t, s, ada)
		}()
		synctest.Wait()
		body := verifies(t.Context(), t, s, eve)
		if want := "being verified for ada"; !strings.Contains(body, want) || !strings.Contains(body, "10 of 30 entries") || strings.Contains(body, "Verify the log") {
			t.Errorf("lacks %q, or offers another one", want)
		}
		time.Sleep(time.Minute)
		close(goOn)
		<-ended
		if body := verifies(t.Context(), t, s, eve); !strings.Contains(body, "verified for ada in 1m0s") || !strings.Contains(body, "The next one can begin in 9m") {
			t.Errorf("who asks right afterwards is not told of the result:\n%s", body)
		}
		if h.verified != 1 {
			t.Errorf("the log was verified %d times, want once", h.verified)
		}
		time.Sleep(9 * time.Minute)
		if body := verifies(t.Context(), t, s, eve); h.verified != 2 || !strings.Contains(body, "verified for eve") {
			t.Errorf("it was verified %d times, want another time after the rest", h.verified)
		}
	})
}

// Who leaves the page stops the work, and keeps nobody from beginning it again.
func TestVerifyIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := logged(30)
		s := site(t, h)
		h.verify = func(ctx context.Context, _ func(done, total uint64)) (Verification, error) {
			<-ctx.Done()
			return Verification{}, ctx.Err()
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		go func() { time.Sleep(500 * time.Millisecond); leave() }()
		if body := verifies(ctx, t, s, ada); !strings.Contains(body, "it was cancelled") {
			t.Errorf("the page does not say that it was cancelled:\n%s", body)
		}
		time.Sleep(restLeast)
		h.verify = func(context.Context, func(done, total uint64)) (Verification, error) {
			return Verification{Standing: "intact", Intact: true}, nil
		}
		if body := verifies(t.Context(), t, s, ada); !strings.Contains(body, "<b>intact</b>") {
			t.Errorf("it cannot begin again:\n%s", body)
		}
	})
}
