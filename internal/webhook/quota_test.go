package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// A credential has one quota, whoever uses it: who has a copy of Alertmanager's keeps
// Alertmanager out.
func TestSharedCredentialSharesItsQuota(t *testing.T) {
	o := options(t, newHouse())
	o.Quota = Quota{Burst: 100, Rate: 10}
	s := mustNew(t, o)
	for _, code := range []int{200, 200, 503} {
		if w := ask(s, http.MethodPost, "/", intakeToken, strings.NewReader(many(40))); w.Code != code {
			t.Fatalf("the thief: %d, want %d", w.Code, code)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(many(40)))
	r.RemoteAddr = "10.0.0.7:1234" // Alertmanager, from elsewhere
	r.Header.Set("Authorization", "Bearer "+intakeToken)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("Alertmanager: %d %s", w.Code, w.Body)
	}
}

// many is a notification of n alerts.
func many(n int) string {
	alert := `{"status":"firing","startsAt":"2026-11-21T02:28:04.731Z","labels":{"alertname":"A"}}`
	return `{"version":"4","status":"firing","alerts":[` + strings.TrimSuffix(strings.Repeat(alert+",", n), ",") + `]}`
}

// What one credential delivers is bounded, by alerts and by bytes, and answered so that
// Alertmanager tries again. Another credential does not notice.
func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newHouse()
		o := options(t, h)
		dir := t.TempDir()
		o.Auth.Tokens = append(o.Auth.Tokens, Token{Grant: Grant{Name: "other", Scopes: []Scope{ScopeIntake}}, File: write(t, dir, "other", "other-token-0123456789")})
		o.Quota, o.Logger = Quota{Burst: 100, Rate: 10}, slog.New(slog.NewTextHandler(&log, nil))
		s := mustNew(t, o)
		deliver := func(token, body string, want int) {
			t.Helper()
			w := ask(s, http.MethodPost, "/", token, strings.NewReader(body))
			if w.Code != want {
				t.Fatalf("%d %s, want %d", w.Code, w.Body, want)
			}
			if want != http.StatusOK && problemIn(t, w).Code != "quota" {
				t.Errorf("refused: %s", w.Body)
			}
		}
		const other = "other-token-0123456789"
		deliver(intakeToken, many(40), 200) // 3 KiB
		deliver(intakeToken, many(40), 200)
		deliver(intakeToken, many(40), 503)
		deliver(other, many(40), 200)
		deliver(intakeToken, many(5), 200) // a smaller one still fits
		deliver(intakeToken, many(1)+strings.Repeat(" ", 64<<10), 503)
		if n := len(h.admitted); n != 4 {
			t.Errorf("%d admitted, want 4", n)
		}
		if n := figure(t, s.metrics.notifications.WithLabelValues("quota")); n != 2 {
			t.Errorf("%v counted", n)
		}
		time.Sleep(10 * time.Second)
		deliver(intakeToken, many(1000), 200) // more than a whole burst costs a whole burst
		if w := ask(s, http.MethodPost, "/", intakeToken, untouchable{t}); w.Code != http.StatusServiceUnavailable {
			t.Errorf("with nothing left: %d", w.Code)
		}
		time.Sleep(time.Minute)
		deliver(intakeToken, many(1), 200)
		if n := strings.Count(log.String(), "sender=intake"); n != 2 || strings.Contains(log.String(), "sender=other") {
			t.Errorf("the log was told %d times:\n%s", n, &log)
		}
	})
}

// held is a body that does not end before the test does.
type held struct {
	reading chan<- struct{}
	end     <-chan struct{}
}

func (h held) Read([]byte) (int, error) {
	h.reading <- struct{}{}
	<-h.end
	return 0, io.ErrUnexpectedEOF
}

// Bodies of one credential that do not end leave half of the bytes, and of the
// connections, to others. The log names the credential, once.
func TestUnfinishedBodiesOfOneSenderKeepNobodyOut(t *testing.T) {
	for name, c := range map[string]struct{ connections, hold int }{
		"bytes":       {2048, 16}, // 4 KiB each
		"connections": {8, 4},
	} {
		t.Run(name, func(t *testing.T) {
			var log lockedBuffer
			o := options(t, newHouse())
			o.MaxBody, o.InFlightBytes, o.MaxConns, o.Logger = 64<<10, 128<<10, c.connections, slog.New(slog.NewTextHandler(&log, nil))
			const other = "other-token-0123456789"
			o.Auth.Tokens = append(o.Auth.Tokens, Token{Grant: Grant{Name: "other", Scopes: []Scope{ScopeIntake}}, File: write(t, t.TempDir(), "other", other)})
			s := mustNew(t, o)
			reading, end := make(chan struct{}), make(chan struct{})
			answers := make(chan int)
			for range 2 * c.hold {
				go func() { answers <- ask(s, http.MethodPost, "/", intakeToken, held{reading, end}).Code }()
			}
			holding := 0
			for range 2 * c.hold {
				select {
				case <-reading:
					holding++
				case code := <-answers:
					if code != http.StatusServiceUnavailable {
						t.Errorf("refused with %d, want 503", code)
					}
				}
			}
			if holding != c.hold {
				t.Errorf("%d unfinished bodies are read, want %d", holding, c.hold)
			}
			if w := ask(s, http.MethodPost, "/", other, strings.NewReader(many(1))); w.Code != http.StatusOK {
				t.Errorf("another credential: %d %s", w.Code, w.Body)
			}
			close(end)
			for range holding {
				<-answers
			}
			if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "sender=intake") {
				t.Errorf("the log was told %d times:\n%s", n, log.String())
			}
			if held, senders := s.bodies.flying.held(), len(s.bodies.flying.senders); held != 0 || senders != 0 {
				t.Errorf("%d bytes of %d senders stay in flight", held, senders)
			}
			if w := ask(s, http.MethodPost, "/", intakeToken, strings.NewReader(many(1))); w.Code != http.StatusOK {
				t.Errorf("afterwards: %d %s", w.Code, w.Body)
			}
		})
	}
}

// A storm of a whole fleet, from a pair of Alertmanagers, and its resolution is within
// the default: 10,000 groups of 2.5 KB, or one body of 10,000 alerts and 10 MB.
func TestQuotaTakesAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, err := options(t, newHouse()).withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		q := newQuotas(o.Quota)
		now := time.Now()
		for range 2 * 2 { // a pair; firing and resolved
			for i := range 10_000 {
				if !q.take("alertmanager", 1, 2500, now) {
					t.Fatalf("notification %d of a storm is refused", i)
				}
			}
		}
		for range 2 {
			now = now.Add(time.Minute) // its group_interval
			if !q.take("alertmanager", 10_000, 10<<20, now) {
				t.Fatal("one body of 10,000 alerts is refused")
			}
		}
	})
}

func TestSendersAreBounded(t *testing.T) {
	q := newQuotas(Quota{Burst: 10, Rate: 1})
	now := time.Now()
	for i := range 2 * maxSenders {
		q.take(fmt.Sprint(i), 1, 0, now)
	}
	if len(q.senders) > maxSenders+1 || q.spent("0", -1, now) || !q.spent("new", -1, now) {
		t.Errorf("%d senders have a quota", len(q.senders))
	}
}

// With little memory or space left nothing is read, the answer is one that is tried
// again, and the service stays ready: people have to decide.
func TestNoRoom(t *testing.T) {
	h := newHouse()
	var short error
	var log bytes.Buffer
	o := options(t, h)
	o.Room = func() error { return short }
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := mustNew(t, o)
	for want, err := range map[string]error{
		"memory": fmt.Errorf("%w: 400 MiB are in use", ErrMemory),
		"disk":   fmt.Errorf("%w: 10 MiB are free", ErrDisk),
	} {
		short = err
		w := ask(s, http.MethodPost, "/", intakeToken, untouchable{t})
		if p := problemIn(t, w); w.Code != http.StatusServiceUnavailable || p.Code != want || p.Message != err.Error() {
			t.Errorf("%s: %d %+v", want, w.Code, p)
		}
		if n := figure(t, s.metrics.notifications.WithLabelValues(want)); n != 1 {
			t.Errorf("%s: counted %v", want, n)
		}
		w = ask(s, http.MethodGet, "/readyz", "", nil)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"refusing":"`+err.Error()) {
			t.Errorf("%s: /readyz answers %d %s", want, w.Code, w.Body)
		}
		if !strings.Contains(log.String(), "notifications are refused\" reason="+want) {
			t.Errorf("%s: log:\n%s", want, &log)
		}
	}
	short = nil
	s.o.Crowded = func() bool { return true }
	if w := ask(s, http.MethodGet, "/readyz", "", nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"refusing":"alerts start no runs`) {
		t.Errorf("with too many alerts: /readyz answers %d %s", w.Code, w.Body)
	}
	if w := post(s, notice(``, ``)); w.Code != http.StatusOK || !strings.Contains(log.String(), "accepted again") {
		t.Errorf("with room again: %d, log:\n%s", w.Code, &log)
	}
}

// Two bodies as large as can be are read at once, from two senders, where no more than two
// are allowed. A third sender is refused, and the log names it, and who holds most.
func TestTwoLargestBodiesFit(t *testing.T) {
	var log lockedBuffer
	h := newHouse()
	arrived, release := make(chan struct{}), make(chan struct{})
	h.admit = func(context.Context, playbook.Notification) error {
		arrived <- struct{}{}
		<-release
		return nil
	}
	o := options(t, h)
	o.MaxBody, o.InFlightBytes, o.Logger = 4000, 8000, slog.New(slog.NewTextHandler(&log, nil))
	tokens := []string{intakeToken}
	for _, name := range []string{"second", "third"} {
		token := name + "-token-0123456789"
		tokens = append(tokens, token)
		o.Auth.Tokens = append(o.Auth.Tokens, Token{Grant: Grant{Name: name, Scopes: []Scope{ScopeIntake}}, File: write(t, t.TempDir(), name, token)})
	}
	s := mustNew(t, o)
	largest := notice(``, ``)
	largest += strings.Repeat(" ", int(o.MaxBody)-len(largest))
	answers := make(chan int, 2)
	for _, token := range tokens[:2] {
		go func() { answers <- ask(s, http.MethodPost, "/", token, strings.NewReader(largest)).Code }()
		select {
		case <-arrived:
		case code := <-answers:
			t.Fatalf("a body of max_body is answered %d", code)
		}
	}
	if w := ask(s, http.MethodPost, "/", tokens[2], strings.NewReader(largest)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a third one: %d %s", w.Code, w.Body)
	}
	close(release)
	for range 2 {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("answered %d", code)
		}
	}
	if !strings.Contains(log.String(), "sender=third") || !strings.Contains(log.String(), "holds_most=") {
		t.Errorf("the log says %s", log.String())
	}
}
