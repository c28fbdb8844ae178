package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// flood is a notification of n alerts of about 1 KB.
func flood(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"status":"firing","startsAt":"2026-11-21T02:28:04.731Z","labels":{"alertname":"A","x":"%d"},"annotations":{"text":%q}}`, i, strings.Repeat("x", 900))
	}
	return `{"version":"4","status":"firing","alerts":[` + b.String()[1:] + `]}`
}

// A sender that floods within its rate fills its share of the journal's room, and then no
// more than that in a day. The others are served all the time, and so is the sender after
// a short time without a flood.
func TestShareOfTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, other = int64(200 << 20), "other-token-0123456789"
		var log bytes.Buffer
		h := newHouse()
		o := options(t, h)
		o.Auth.Tokens = append(o.Auth.Tokens, Token{Grant: Grant{Name: "other", Scopes: []Scope{ScopeIntake}}, File: write(t, t.TempDir(), "other", other)})
		stored := func() (n int64) {
			for i := range h.admitted {
				n += took(int64(len(h.admitted[i].Alerts)), int64(len(h.admitted[i].AppendJSON(nil))))
			}
			return n
		}
		taken := int64(0)
		o.Left = func() (int64, bool) { return room - taken, true }
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s := mustNew(t, o)
		body := flood(1000)
		floodFor := func(d time.Duration) (refused string) { // as fast as its rate allows
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Minute) {
				w := ask(s, http.MethodPost, "/", intakeToken, strings.NewReader(body))
				if w.Code != http.StatusOK {
					refused = w.Header().Get("Retry-After")
				}
				taken += stored()
				h.admitted = nil
			}
			return refused
		}
		deliver := func(token string, want int) {
			t.Helper()
			if w := ask(s, http.MethodPost, "/", token, strings.NewReader(notice(``, ``))); w.Code != want {
				t.Errorf("a notification: %d %s, want %d", w.Code, w.Body, want)
			}
		}
		retry := floodFor(24 * time.Hour)
		if taken > room*46/100 || taken < room*40/100 { // a quarter at once, and a quarter of what is left meanwhile
			t.Errorf("a flood of a day stored %d MiB of %d", taken>>20, room>>20)
		}
		if n, err := strconv.Atoi(retry); err != nil || n < 1 || n > 3600 {
			t.Errorf("Retry-After: %q", retry)
		}
		deliver(other, 200)
		if n := strings.Count(log.String(), "stored its share of the room"); n != 1 || strings.Contains(log.String(), "sender=other") {
			t.Errorf("the log was told %d times:\n%s", n, &log)
		}
		if w := ask(s, http.MethodPost, "/", intakeToken, strings.NewReader(body)); w.Code != 503 || problemIn(t, w).Code != "quota" {
			t.Errorf("the flood goes on: %d %s", w.Code, w.Body)
		}
		if w := ask(s, http.MethodGet, "/readyz", "", nil); w.Code != 200 || !strings.Contains(w.Body.String(), "senders whose notifications are refused") {
			t.Errorf("/readyz: %d %s", w.Code, w.Body)
		}
		deliver(intakeToken, 200) // a small one has room: an Alertmanager is slowed down, not shut out
		time.Sleep(calmFor)
		deliver(intakeToken, 200)
		if !strings.Contains(log.String(), "accepted again\" sender=intake") {
			t.Errorf("the log was not told of the end:\n%s", &log)
		}
	})
}

// A restart forgets no share: what the journal has of the last day counts as if the service
// had run on, and what is stored meanwhile in addition.
func TestSharesOverARestart(t *testing.T) {
	const room, each = int64(1 << 30), 1 << 20
	quota := Quota{Burst: 1, Rate: 1, Share: 25}
	q, now, taken := newQuotas(quota), time.Now(), int64(0)
	var all []Stored
	for range 12 {
		for ok, _ := q.fits("a", each, room-taken, now); ok; ok, _ = q.fits("a", each, room-taken, now) {
			q.store("a", 1, each, now)
			taken += took(1, each)
			all = append(all, Stored{"a", 1, each, now})
		}
		now = now.Add(time.Hour)
	}
	again := newQuotas(quota)
	again.store("b", 1, each, now)
	late := Stored{"b", 1, each, now} // stored after the start, and counted then
	if err := again.recall(func(yield func(Stored, error) bool) {
		for _, n := range append(all, late) {
			if !yield(n, nil) {
				return
			}
		}
	}, room-taken, now); err != nil {
		t.Fatal(err)
	}
	was, is := q.of("a").stored, again.of("a").stored
	was.leak(q.limitOf(was, room-taken), now)
	if is.bytes < was.bytes*0.9 || is.bytes > was.bytes*1.2 || int64(again.of("b").stored.bytes) != took(1, each) {
		t.Errorf("a sender stored %.0f MiB, after a restart %.0f; another %.0f KiB", was.bytes/(1<<20), is.bytes/(1<<20), again.of("b").stored.bytes/(1<<10))
	}
	broken := errors.New("broken")
	if err := again.recall(func(yield func(Stored, error) bool) { yield(Stored{}, broken) }, room, now); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// Day after day it is a share of what is left: a flood of two weeks leaves room on the
// volume that is shipped.
func TestShareOverDays(t *testing.T) {
	const room, each = int64(4 << 30), 1 << 20
	q := newQuotas(Quota{Burst: 1, Rate: 1, Share: 25})
	now, taken := time.Now(), int64(0)
	for range 14 * 24 * 4 {
		for ok, _ := q.fits("a", each, room-taken, now); ok; ok, _ = q.fits("a", each, room-taken, now) {
			q.store("a", 0, each, now)
			taken += each
		}
		now = now.Add(15 * time.Minute)
	}
	if left := room - taken; left < room/100 || left > room/20 {
		t.Errorf("%d MiB are left of %d", left>>20, room>>20)
	}
}

// What cannot be told refuses nobody, and a sender always has a little: a volume that is
// nearly full does not shut out its only Alertmanager before it has to.
func TestShareOfLittleRoom(t *testing.T) {
	q := newQuotas(Quota{Burst: 1, Rate: 1, Share: 25})
	now := time.Now()
	if ok, _ := q.fits("a", leastShare, 0, now); !ok {
		t.Error("the least share is refused")
	}
	q.store("a", 1, leastShare-decidedBytes-entryBytes, now)
	ok, wait := q.fits("a", 1, 0, now)
	if ok || wait <= 0 || wait > time.Minute {
		t.Errorf("beyond it: %v, wait %s", ok, wait)
	}
	if ok, _ := q.fits("a", 1, 0, now.Add(wait)); !ok {
		t.Error("it is refused after the time that it was told to wait")
	}
	o := options(t, newHouse())
	o.Left = func() (int64, bool) { return 0, false }
	s := mustNew(t, o)
	s.quotas.store("intake", 1, 1<<30, now)
	if w := post(s, notice(``, ``)); w.Code != http.StatusOK {
		t.Errorf("with room that is unknown: %d", w.Code)
	}
}

// Where the room is unknown at the start, the log says so, and what senders stored is read
// when it is known.
func TestSharesWaitForTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		asked, began := 0, time.Now()
		s := &Server{log: slog.New(slog.NewTextHandler(&log, nil)), quotas: newQuotas(Quota{Burst: 1, Rate: 1, Share: 25})}
		s.o.Left = func() (int64, bool) {
			asked++
			return 1 << 30, asked > 3
		}
		s.o.Earlier = func(context.Context, time.Time) iter.Seq2[Stored, error] {
			return func(yield func(Stored, error) bool) { yield(Stored{"a", 1, 1 << 20, began.Add(-time.Second)}, nil) }
		}
		s.recallShares(t.Context(), began)
		if got := int64(s.quotas.of("a").stored.bytes); got < 1<<19 || strings.Count(log.String(), "level=WARN") != 1 {
			t.Errorf("%d bytes are counted; the log: %s", got, log.String())
		}
	})
}
