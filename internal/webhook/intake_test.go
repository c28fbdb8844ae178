package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/common/model"

	"github.com/inference-responder/responder/internal/playbook"
)

func TestIntakeTakesWhatAlertmanagerSends(t *testing.T) {
	for name, body := range fixtures(t) {
		for _, path := range []string{"/", "/api/v1/alertmanager"} {
			h := newHouse()
			s := mustNew(t, options(t, h))
			before := time.Now()
			if w := ask(s, http.MethodPost, path, intakeToken, strings.NewReader(body)); w.Code != http.StatusOK {
				t.Fatalf("%s to %s: %d %s", name, path, w.Code, w.Body)
			}
			want, err := playbook.DecodeNotification([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			want.Sender = "intake"
			if len(h.admitted) != 1 {
				t.Fatalf("%s: admitted %d notifications", name, len(h.admitted))
			}
			got := h.admitted[0]
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(got, "ReceivedAt")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if got.ReceivedAt.Before(before.Add(-time.Second)) || got.ReceivedAt.Location() != time.UTC {
				t.Errorf("%s: received at %v", name, got.ReceivedAt)
			}
		}
	}
}

// The fingerprint computed here has to be Alertmanager's own, or an alert
// without one would be another episode.
func TestFingerprintIsAlertmanagers(t *testing.T) {
	for name, body := range fixtures(t) {
		n, err := Decode([]byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		given := n.Alerts[0].Fingerprint
		n.Alerts[0].Fingerprint = "bad"
		if err := check(&n, nil); err != nil || n.Alerts[0].Fingerprint != given {
			t.Errorf("%s: computed %s, Alertmanager says %s (%v)", name, n.Alerts[0].Fingerprint, given, err)
		}
	}
}

func TestDroppedLabelsAreNotPartOfIdentity(t *testing.T) {
	h := newHouse()
	s := mustNew(t, options(t, h))
	for _, replica := range []string{"a", "b"} {
		if w := post(s, notice(`,"replica":"`+replica+`"`, `,"fingerprint":"00000000000000a`+replica+`"`)); w.Code != http.StatusOK {
			t.Fatal(w.Body)
		}
	}
	a, b := h.admitted[0].Alerts[0], h.admitted[1].Alerts[0]
	if a.Episode() != b.Episode() {
		t.Errorf("two replicas of one Prometheus are two episodes: %s and %s", a.Episode(), b.Episode())
	}
	want := model.LabelSet{"alertname": "A"}.Fingerprint().String()
	if a.Fingerprint != want || !cmp.Equal(a.Labels, map[string]string{"alertname": "A"}) {
		t.Errorf("fingerprint %s of %v, want %s", a.Fingerprint, a.Labels, want)
	}
	post(s, notice(``, `,"fingerprint":"00000000000000aa"`))
	if got := h.admitted[2].Alerts[0].Fingerprint; got != "00000000000000aa" {
		t.Errorf("fingerprint %s although nothing was dropped", got)
	}
}

func TestIntakeNamesWhatIsWrong(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	alert := `{"status":"firing","startsAt":"2026-11-21T02:28:04Z","labels":{"alertname":"A"}}`
	for _, c := range []struct{ body, want string }{
		{``, `want an object, not the end of the message (byte 0)`},
		{`{"text":"TTFT is high"}`, `version: missing; this is not the body Alertmanager sends`},
		{`{"version":"3"}`, `version: want "4"`},
		{`{"version":"4","version":"3"}`, `version: appears twice (byte 25)`},
		{`{"version":4}`, `version: want a string, not a number (byte 11)`},
		{`{"version":"4","alerts":[` + alert + `]}`, `status: want firing or resolved`},
		{`{"version":"4","status":"firing"}`, `alerts: missing or empty`},
		{`{"version":"4","status":"firing","alerts":[]}`, `alerts: missing or empty`},
		{`{"version":"4","status":"firing","alerts":[` + alert + `,` + alert + `,{}]}`, `alerts[2].status: missing`},
		{notice(``, ``) + `x`, `there is 'x' after the end of the message (byte 144)`},
		{strings.Replace(notice(``, ``), `"status":"firing","startsAt"`, `"status":"on","startsAt"`, 1), `alerts[0].status: want firing or resolved`},
		{strings.Replace(notice(``, ``), `"alertname"`, `"name"`, 1), `alerts[0].labels.alertname: missing`},
		{strings.Replace(notice(``, ``), `"startsAt"`, `"started"`, 1), `alerts[0].startsAt: missing or zero`},
		{strings.Replace(notice(``, ``), `2026-`, `0001-`, 1), ``}, // an odd but real time
		{strings.Replace(notice(``, ``), `2026-11-21T02:28:04.731Z`, `0001-01-01T00:00:00Z`, 1), `alerts[0].startsAt: missing or zero`},
		{strings.Replace(notice(``, ``), `2026-11-21T02:28:04.731Z`, `now`, 1), `alerts[0].startsAt: want a time like 2026-11-21T02:28:04.731Z (RFC 3339) (byte 88)`},
		{strings.Replace(notice(``, ``), `2026-`, `2999-`, 1), ``}, // a skewed clock is the executor's to judge
		{notice(`,"":"x"`, ``), `alerts[0].labels[""]: a name is empty (byte 142)`},
		{notice(`,"`+long(1025)+`":"x"`, ``), `alerts[0].labels["` + long(64) + `"...]: 1025 bytes long, at most 1024 are accepted (byte 142)`},
		{notice(`,"big":"`+long(10<<20)+`"`, ``), `alerts[0].labels.big: 10485760 bytes long, at most 65536 are accepted (byte 142)`},
		{notice(`,"ok":"`+long(65536)+`"`, ``), ``},
		{notice(`,"alertname":"B"`, ``), `alerts[0].labels.alertname: appears twice (byte 142)`},
		{notice(``, `,"annotations":{"summary":"`+long(65537)+`"}`), `alerts[0].annotations.summary: 65537 bytes long, at most 65536 are accepted (byte 158)`},
		{notice(``, `,"annotations":{"a":"`+"\xc3\x28"+`"}`), `alerts[0].annotations.a: invalid UTF-8 in a string (byte 162)`},
		{notice(``, `,"generatorURL":"`+long(65537)+`"`), `alerts[0].generatorURL: 65537 bytes long, at most 65536 are accepted (byte 158)`},
		{strings.Replace(notice(``, ``), `"receiver":"r"`, `"groupKey":"`+long(65537)+`"`, 1), `groupKey: 65537 bytes long, at most 65536 are accepted (byte 45)`},
		{strings.Replace(notice(``, ``), `"receiver":"r"`, `"x":`+strings.Repeat("[", 100000), 1), `nested deeper than 32 levels (byte 68)`},
		{strings.Replace(notice(``, ``), `"receiver":"r"`, `"truncatedAlerts":-2`, 1), `truncatedAlerts: want a whole number from 0 to 9223372036854775807 (byte 51)`},
	} {
		h := newHouse()
		w := post(mustNew(t, options(t, h)), c.body)
		if c.want == "" {
			if w.Code != http.StatusOK || len(h.admitted) != 1 {
				t.Errorf("%.80s: refused with %d %s", c.body, w.Code, w.Body)
			}
			continue
		}
		if p := problemIn(t, w); w.Code != http.StatusBadRequest || p.Message != c.want {
			t.Errorf("%.80s: %d\n got %s\nwant %s", c.body, w.Code, p.Message, c.want)
		} else if strings.HasPrefix(c.want, "version: ") != (p.Hint == payloadHint) && !strings.Contains(c.want, "appears twice") {
			t.Errorf("%.80s: hint %q", c.body, p.Hint)
		} else if strings.Contains(c.want, "appears twice") != strings.HasPrefix(p.Hint, "send each name once") {
			t.Errorf("%.80s: hint %q", c.body, p.Hint)
		}
		if len(h.admitted) != 0 {
			t.Errorf("%.80s: admitted", c.body)
		}
	}
}

func TestAnAnswerRepeatsNoValueOfTheBody(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	const secret = "hunter2hunter2"
	for _, bad := range []string{
		`{"version":"` + secret + `"}`, `{"version":"4","status":"` + secret + `"}`, `"` + secret + `"`, `{"version":"4" "` + secret,
		notice(`,"a":"`+secret+`","a":"`+secret+`"`, ``), notice(``, `,"startsAt":"`+secret+`"`), strings.Replace(notice(``, ``), "2026-", secret, 1),
		notice(`,"a":"`+strings.Repeat(secret, 10000)+`"`, ``), notice(``, `,"annotations":"`+secret+`"`),
	} {
		if w := post(s, bad); w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%.60s: %d %.300s", bad, w.Code, w.Body)
		}
	}
}

// What Alertmanager has to try again at once is 503, whatever the journal says.
func TestRefusalsOfTheJournalAreTriedAgain(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
	}{
		{ErrBusy, "busy"},
		{ErrPaused, "paused"},
		{ErrUnavailable, "unavailable"},
		{fmt.Errorf("append: %w", context.Canceled), "interrupted"},
		{errors.New("disk on fire"), "unavailable"},
		{fmt.Errorf("%w: stream moved", ErrConflict), "unavailable"},
		{&playbook.FieldError{Problem: "no"}, "unavailable"},
	} {
		h := newHouse()
		h.admit = func(context.Context, playbook.Notification) error { return c.err }
		s := mustNew(t, options(t, h))
		w := post(s, notice(``, ``))
		if p := problemIn(t, w); w.Code != http.StatusServiceUnavailable || p.Code != c.code || strings.Contains(p.Message, "fire") {
			t.Errorf("%v: %d %+v, want 503 %s", c.err, w.Code, p, c.code)
		}
		if n := figure(t, s.metrics.notifications.WithLabelValues("accepted")); n != 0 {
			t.Errorf("%v: counted as accepted", c.err)
		}
	}
}

func TestLimits(t *testing.T) {
	h := newHouse()
	o := options(t, h)
	o.MaxBody, o.InFlightBytes = 300, 600 // what is too large alone is said to be, however little may be in flight
	s := mustNew(t, o)
	small, large := notice(``, ``), notice(`,"a":"`+strings.Repeat("x", 300)+`"`, ``)
	for _, c := range []struct {
		name, body string
		chunked    bool
		want       int
	}{
		{"declared and small", small, false, 200},
		{"chunked and small", small, true, 200},
		{"exactly the limit", small + strings.Repeat(" ", 300-len(small)), true, 200},
		{"exactly the limit, declared", small + strings.Repeat(" ", 300-len(small)), false, 200},
		{"one more than the limit", small + strings.Repeat(" ", 301-len(small)), true, 413},
		{"declared and large", large, false, 413},
		{"chunked and large", large, true, 413},
	} {
		var from io.Reader = strings.NewReader(c.body)
		if c.chunked {
			from = io.MultiReader(from) // hides the length
		}
		w := ask(s, http.MethodPost, "/", intakeToken, from)
		if w.Code != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.want)
		}
		if c.want == 413 && w.Header().Get("Connection") != "close" {
			t.Errorf("%s: the rest of the body would be read", c.name)
		}
		if used := s.bodies.flying.held(); used != 0 {
			t.Fatalf("%s: %d bytes stay in flight", c.name, used)
		}
	}
}

func TestCompressedBodiesAndOddContentTypes(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	for header, want := range map[[2]string]int{
		{"Content-Encoding", "gzip"}:     http.StatusUnsupportedMediaType,
		{"Content-Encoding", "identity"}: http.StatusOK,
		{"Content-Type", "text/plain"}:   http.StatusOK,
		{"Content-Type", ""}:             http.StatusOK,
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(notice(``, ``)))
		r.Header.Set("Authorization", "Bearer "+intakeToken)
		r.Header.Set(header[0], header[1])
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d, want %d", header, w.Code, want)
		}
	}
}

func TestBytesInFlightOfOneSenderAreBounded(t *testing.T) {
	h := newHouse()
	arrived, release := make(chan struct{}), make(chan struct{})
	h.admit = func(context.Context, playbook.Notification) error {
		arrived <- struct{}{}
		<-release
		return nil
	}
	o := options(t, h)
	o.MaxBody, o.InFlightBytes = 2000, 8000
	s := mustNew(t, o)
	padded := notice(``, ``) + strings.Repeat(" ", 1500-len(notice(``, ``)))
	answers := make(chan int, 2)
	for range 2 {
		go func() { answers <- post(s, padded).Code }()
		<-arrived
	}
	w := post(s, padded)
	if p := problemIn(t, w); w.Code != http.StatusServiceUnavailable || p.Code != "busy" {
		t.Errorf("third of 1,500 bytes of one sender, with 4,000 for it: %d %+v, want 503 busy", w.Code, p)
	}
	if n := figure(t, s.metrics.notifications.WithLabelValues("busy")); n != 1 {
		t.Errorf("counted %v shed notifications", n)
	}
	close(release)
	for range 2 {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("admitted one answered %d", code)
		}
	}
	go func() { <-arrived }()
	if w := post(s, padded); w.Code != http.StatusOK {
		t.Errorf("after room was made: %d %s", w.Code, w.Body)
	}
	if used := s.bodies.flying.held(); used != 0 {
		t.Errorf("%d bytes stay in flight", used)
	}
}

func TestAPanicIsOneAnswer(t *testing.T) {
	h := newHouse()
	h.admit = func(context.Context, playbook.Notification) error { panic("poison") }
	s := mustNew(t, options(t, h))
	w := post(s, notice(``, ``))
	if p := problemIn(t, w); w.Code != http.StatusInternalServerError || strings.Contains(p.Message, "poison") {
		t.Errorf("%d %+v", w.Code, p)
	}
	if n := figure(t, s.metrics.panics); n != 1 {
		t.Errorf("counted %v panics", n)
	}
	if used := s.bodies.flying.held(); used != 0 {
		t.Errorf("%d bytes stay in flight", used)
	}
}

func TestMetricsOfAcceptedNotifications(t *testing.T) {
	s := mustNew(t, options(t, newHouse()))
	bodies := fixtures(t)
	post(s, bodies["am034-partially-resolved.json"])
	post(s, bodies["am034-truncated-STATUS-RESOLVED-while-2-firing.json"])
	post(s, `{`)
	for name, got := range map[string]float64{
		"accepted 2":  figure(t, s.metrics.notifications.WithLabelValues("accepted")),
		"invalid 1":   figure(t, s.metrics.notifications.WithLabelValues("invalid")),
		"firing 1":    figure(t, s.metrics.alerts.WithLabelValues("firing")),
		"resolved 2":  figure(t, s.metrics.alerts.WithLabelValues("resolved")),
		"truncated 2": figure(t, s.metrics.truncated),
	} {
		if !strings.HasSuffix(name, fmt.Sprintf(" %v", got)) {
			t.Errorf("want %s, got %v", name, got)
		}
	}
	if at := figure(t, s.metrics.lastSuccess); time.Since(time.Unix(int64(at), 0)) > time.Minute {
		t.Errorf("last success %v", at)
	}
}

// FuzzDecode holds that no body makes the receiver panic, that what it admits
// survives the journal unchanged, and that Alertmanager's own type reads the
// same from it.
func FuzzDecode(f *testing.F) {
	for _, b := range fixtures(f) {
		f.Add([]byte(b))
	}
	f.Add([]byte(notice(`,"replica":"a","é":"\u00e9\ud83d\ude00"`, `,"annotations":{"a":"\n"},"endsAt":"2026-11-21T02:28:04+01:00"`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := Decode(data, []string{"replica"})
		if err != nil {
			var field *playbook.FieldError
			if !errors.As(err, &field) || field.Problem == "" {
				t.Fatalf("an error that names nothing: %v", err)
			}
			return
		}
		back, err := playbook.DecodeNotification(n.AppendJSON(nil))
		if err != nil || !cmp.Equal(n, back) {
			t.Fatalf("after the journal (%v):\n%s", err, cmp.Diff(n, back))
		}
		var peer template.Data
		if err := json.Unmarshal(data, &peer); err != nil {
			t.Fatalf("admitted what Alertmanager's type refuses: %v", err)
		}
		if foldsNames(data) {
			return // encoding/json takes names in other case for fields
		}
		for i, a := range n.Alerts {
			p := peer.Alerts[i]
			delete(p.Labels, "replica")
			if !maps.Equal(a.Labels, p.Labels) || !maps.Equal(a.Annotations, p.Annotations) || !a.StartsAt.Equal(p.StartsAt) {
				t.Fatalf("alert %d: %+v, Alertmanager's type says %+v", i, a, p)
			}
		}
	})
}

func foldsNames(data []byte) bool {
	lower := bytes.ToLower(data)
	for _, name := range []string{"alerts", "labels", "annotations", "startsAt"} {
		quoted := `"` + name + `"`
		if bytes.Count(data, []byte(quoted)) != bytes.Count(lower, []byte(strings.ToLower(quoted))) {
			return true
		}
	}
	return bytes.Contains(data, []byte(`\u`)) || bytes.Contains(data, []byte("ſ"))
}
