package slo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
)

func serve(t *testing.T, h http.HandlerFunc) (*Prometheus, *httptest.Server) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	p, err := NewPrometheus(Options{URL: srv.URL, Timeout: 2 * time.Second, MaxBody: 4096})
	if err != nil {
		t.Fatal(err)
	}
	return p, srv
}

func answer(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, body) // a client that went away is the test's own doing
	}
}

func TestInstant(t *testing.T) {
	p, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("query") != "up" || !strings.HasPrefix(r.FormValue("time"), "1777896000") {
			t.Errorf("asked %v", r.Form)
		}
		answer(200, `{"status":"success","warnings":["partial"],"data":{"resultType":"vector","result":[
			{"metric":{"pod":"a"},"value":[1777896000,"NaN"]},{"metric":{"pod":"b"},"value":[1777896000,"+Inf"]},{"metric":{},"value":[1777896000,"0.25"]}]}}`)(w, r)
	})
	v, err := p.Instant(t.Context(), "up", t0)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Samples) != 3 || !math.IsNaN(v.Samples[0].Value) || !math.IsInf(v.Samples[1].Value, 1) || v.Samples[2].Value != 0.25 {
		t.Errorf("samples %+v", v.Samples)
	}
	if v.Samples[0].Labels["pod"] != "a" || !v.Samples[0].At.Equal(t0) {
		t.Errorf("sample %+v", v.Samples[0])
	}
	if diff := cmp.Diff([]string{"partial"}, v.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestRange(t *testing.T) {
	p, _ := serve(t, answer(200, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"pod":"a"},"values":[[1777896000,"1"],[1777896015,"2"]]}]}}`))
	m, err := p.Range(t.Context(), "up", t0, t0.Add(15*time.Second), 15*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := []Series{{Labels: map[string]string{"pod": "a"}, Points: []Point{{t0, 1}, {t0.Add(15 * time.Second), 2}}}}
	if diff := cmp.Diff(want, m.Series, cmp.Comparer(time.Time.Equal)); diff != "" {
		t.Error(diff)
	}
}

// TestFailures: each kind of failure has its reason, since retries and the
// verdict depend on it, and names the place.
func TestFailures(t *testing.T) {
	vector := func(n int) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Repeat(`{"metric":{"pod":"aaaaaaaaaaaaaaa"},"value":[1,"1"]},`, n) + `{"metric":{},"value":[1,"1"]}]}}`
	}
	tests := []struct {
		name string
		h    http.HandlerFunc
		want fault.Reason
	}{
		{"bad expression", answer(400, `{"status":"error","errorType":"bad_data","error":"parse error"}`), fault.Invalid},
		{"cannot execute", answer(422, `{"status":"error","errorType":"execution","error":"many-to-many"}`), fault.Invalid},
		{"query timeout", answer(503, `{"status":"error","errorType":"timeout","error":"query timed out"}`), fault.Timeout},
		{"server", answer(500, `oops`), fault.ServerError},
		{"gateway timeout", answer(504, ``), fault.Timeout},
		{"throttled", answer(429, ``), fault.Throttled},
		{"unauthorised", answer(401, ``), fault.Forbidden},
		{"forbidden", answer(403, ``), fault.Forbidden},
		{"not there", answer(404, `404 page not found`), fault.NotFound},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		}, fault.NotFound},
		{"not json", answer(200, `<html>`), fault.ServerError},
		{"string answer", answer(200, `{"status":"success","data":{"resultType":"string","result":[1,"x"]}}`), fault.ServerError},
		{"histogram", answer(200, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"1","sum":"1","buckets":[]}]}]}}`), fault.Invalid},
		{"too large", answer(200, vector(200)), fault.Invalid},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = fmt.Fprint(w, `{"status":`)
		}, fault.Unreachable},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm() // only a read body lets the server notice that the client left
			<-r.Context().Done()
		}, fault.Timeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, srv := serve(t, tt.h)
			p.timeout = 300 * time.Millisecond
			_, err := p.Instant(t.Context(), "up", t0)
			var e *fault.Error
			if !errors.As(err, &e) || e.Reason != tt.want {
				t.Fatalf("got %v, want reason %s", err, tt.want)
			}
			if !strings.Contains(e.Error(), srv.URL) || !strings.Contains(e.Error(), "up") {
				t.Errorf("%q does not say what was asked and where", e)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	p, srv := serve(t, answer(200, ``))
	srv.Close()
	var e *fault.Error
	if _, err := p.Instant(context.Background(), "up", t0); !errors.As(err, &e) || e.Reason != fault.Unreachable {
		t.Errorf("got %v", err)
	}
}

// TestTokenRotates: a mounted token changes while the service runs.
// What Prometheus, or a proxy before it, writes into warnings and errors holds no
// credential, and never our own.
func TestTextsShowNoCredential(t *testing.T) {
	const begin = `could not read secret: permission denied; canary/own, https://u:canary@h/ password=canary`
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("canary/own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for sent, o := range map[string]Options{"Bearer canary/own": {BearerTokenFile: file}, "Basic bWU6Y2FuYXJ5L293bg==": {Username: "me", PasswordFile: file}} {
		echo := begin + " " + sent
		for name, handler := range map[string]http.HandlerFunc{
			"warnings":  answer(200, `{"status":"success","warnings":["`+echo+`"],"data":{"resultType":"scalar","result":[1,"1"]}}`),
			"500":       answer(500, echo),
			"500, long": answer(500, strings.Repeat("x", 195)+" "+echo),
			"422":       answer(422, `{"status":"error","errorType":"execution","error":"`+echo+`"}`),
			"text":      answer(200, echo),
		} {
			srv := httptest.NewServer(handler)
			o.URL = srv.URL
			p, err := NewPrometheus(o)
			if err != nil {
				t.Fatal(err)
			}
			v, err := p.Instant(t.Context(), "1", t0)
			m, err2 := p.Range(t.Context(), "1", t0, t0, time.Minute)
			srv.Close()
			got := fmt.Sprint(v.Warnings, err, m.Warnings, err2)
			if strings.Contains(got, "canary") || strings.Contains(got, "bWU6") || name != "500, long" && name != "text" && !strings.Contains(got, "could not read secret: permission denied") {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
}

// A token that was replaced, or whose file went, after it was sent is taken out of the answer all the same.
func TestTextsShowNoFormerToken(t *testing.T) {
	for name, change := range map[string]func(file string) error{
		"replaced": func(file string) error { return os.WriteFile(file, []byte("newer/own\n"), 0o600) },
		"gone":     os.Remove,
	} {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte("canary/own\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := change(file); err != nil {
				t.Error(err)
			}
			answer(500, "a proxy got "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))(w, r)
		}))
		p, err := NewPrometheus(Options{URL: srv.URL, BearerTokenFile: file})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Instant(t.Context(), "1", t0)
		srv.Close()
		if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "a proxy got") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokenRotates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		answer(200, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)(w, r)
	}))
	defer srv.Close()
	write("one")
	p, err := NewPrometheus(Options{URL: srv.URL, BearerTokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"one", "two"} {
		write(token)
		if _, err := p.Instant(t.Context(), "1", t0); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"Bearer one", "Bearer two"}, got); diff != "" {
		t.Error(diff)
	}
	write("")
	var e *fault.Error
	if _, err := p.Instant(t.Context(), "1", t0); !errors.As(err, &e) || e.Reason != fault.Forbidden || len(got) != 2 {
		t.Errorf("empty token: %v after %d requests", err, len(got))
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{URL: ""},
		{URL: "localhost:9090"},
		{URL: "ftp://x"},
		{URL: "http://user:secret@x"},
		{URL: "http://x", BearerTokenFile: "/does/not/exist"},
		{URL: "http://x", CAFile: "/does/not/exist"},
		{URL: "http://x", CertFile: "only"},
		{URL: "http://x", Username: "u", BearerTokenFile: "t"},
	} {
		if _, err := NewPrometheus(o); err == nil {
			t.Errorf("accepted %+v", o)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q repeats a password", err)
		}
	}
}
