package webhook

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What the threat model says is not bounded, or is by something else: whoever changes that
// changes docs/explanation/security.md too.

// Several stolen credentials have a share each. It is one of what the others left, so that
// together they do not fill the volume in a day either.
func TestSharesOfSeveralSenders(t *testing.T) {
	const room, each = int64(4 << 30), 1 << 20
	q := newQuotas(Quota{Burst: 1, Rate: 1, Share: 25})
	now, taken := time.Now(), int64(0)
	for _, name := range []string{"a", "b", "c", "d"} {
		for ok, _ := q.fits(name, each, room-taken, now); ok; ok, _ = q.fits(name, each, room-taken, now) {
			q.store(name, 0, each, now)
			taken += each
		}
	}
	if part := taken * 100 / room; part <= 50 || part >= 75 {
		t.Errorf("four senders filled %d %%", part)
	}
	// A restart forgets what was stored.
	if ok, _ := newQuotas(q.Quota).fits("a", each, room-taken, now); !ok {
		t.Error("after a restart a sender has no share")
	}
}

// A copy of a session acts while its person does not come back, and no longer than the
// session lasts.
func TestCopyOfASessionEndsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withPassword(t, newHouse(), nil)
		stolen := signedInCookies(t, s)
		began := time.Now()
		for {
			w := send(s, http.MethodGet, "/", nil, stolen)
			if w.Code != http.StatusOK {
				break
			}
			if fresh := w.Result().Cookies(); len(fresh) > 0 {
				stolen = fresh
			}
			time.Sleep(30 * time.Minute)
		}
		if acted := time.Since(began); acted != 12*time.Hour {
			t.Errorf("the copy acted for %s", acted)
		}
	})
}

// A credential that reads, reads about every service, whatever its person owns.
func TestReadingIsOfAllServices(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	for _, token := range []string{readToken, decideToken} {
		w := ask(s, http.MethodGet, "/api/v1/runs", token, nil)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"chat"`) || !strings.Contains(w.Body.String(), `"code"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// The password of a sender is checked however many wrong ones came before it, because
// anything else would keep alerts out. So who guesses sees which one is right.
func TestGuessingOfSendersIsNotLimited(t *testing.T) {
	s := withPassword(t, newHouse(), nil)
	for range 3 * limitOfAddress.most {
		if w := fromBasic(s, "192.0.2.1", http.MethodPost, "/", "feed", "wrong", strings.NewReader(notice("", ""))); w.Code != http.StatusUnauthorized && w.Code != http.StatusTooManyRequests {
			t.Fatalf("a wrong password of a sender: %d %s", w.Code, w.Body)
		}
	}
	if w := fromBasic(s, "192.0.2.1", http.MethodPost, "/", "feed", "of Alertmanager", strings.NewReader(notice("", ""))); w.Code != http.StatusOK {
		t.Errorf("the right one: %d %s", w.Code, w.Body)
	}
}
