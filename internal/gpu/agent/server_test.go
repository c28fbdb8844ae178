package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/gpu"
)

type source struct{ s gpu.Snapshot }

func (s source) Snapshot() gpu.Snapshot {
	s.s.TakenAt = time.Now().UTC()
	return s.s
}

func sample() gpu.Snapshot {
	g := gpu.GPU{UUID: "GPU-1", TakenAt: time.Now().UTC()}
	g.Clocks.Reasons = gpu.Known(gpu.HWThermalSlowdown)
	g.Temperature.GPUC = gpu.Known[int64](91)
	g.Pods = gpu.Known([]gpu.Pod{{Namespace: "serving", Name: "chat-1", Container: "engine", Instance: "MIG-1"}, {UID: "u"}})
	g.Events = []gpu.Event{{At: time.Now().UTC(), Type: gpu.EventXID, Data: 79}}
	return gpu.Snapshot{Format: gpu.Format, Node: "gpu-17", Source: "nvml", PeriodMS: 1000, GPUs: []gpu.GPU{g}}
}

// reviewer knows one token and counts questions.
type reviewer struct {
	asked int
	err   error
}

func (r *reviewer) ReviewToken(_ context.Context, token string) (string, error) {
	r.asked++
	if token != "good" {
		return "", r.err
	}
	return "system:serviceaccount:responder:responder", r.err
}

func options() Options {
	return Options{Source: source{sample()}, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}
}

func serverOf(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(s *Server, path, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	s.mux.ServeHTTP(w, r)
	return w
}

func TestHealth(t *testing.T) {
	o := options()
	o.IdentityFile = filepath.Join(t.TempDir(), "identity")
	if err := os.WriteFile(o.IdentityFile, []byte("own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serverOf(t, o)
	w := get(s, "/v1/health", "")
	got, err := gpu.Decode(w.Body.Bytes())
	if err != nil || got.Node != "gpu-17" || got.GPUs[0].Events[0].Data != 79 || w.Header().Get(IdentityHeader) != "own" {
		t.Errorf("%d, %v, %+v, %q", w.Code, err, got, w.Header().Get(IdentityHeader))
	}
	if err := os.Remove(o.IdentityFile); err != nil {
		t.Fatal(err)
	}
	if w := get(s, "/v1/health", ""); w.Code != http.StatusInternalServerError {
		t.Errorf("without its own token: %d", w.Code)
	}
	if w := get(s, "/v1/other", ""); w.Code != http.StatusNotFound {
		t.Errorf("another path: %d", w.Code)
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/health", strings.NewReader("x"))
	post := httptest.NewRecorder()
	s.mux.ServeHTTP(post, r)
	if post.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", post.Code)
	}
	// Two GPUs with one UUID cannot be: nobody gets half a truth.
	o = options()
	broken := sample()
	broken.GPUs = append(broken.GPUs, broken.GPUs[0])
	o.Source = source{broken}
	if w := get(serverOf(t, o), "/v1/health", ""); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "never share one") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestHistory: as many minutes as were asked for, ten unless that is said.
func TestHistory(t *testing.T) {
	o := options()
	long := sample()
	for i := range gpu.MaxMinutes {
		long.GPUs[0].Minutes = append(long.GPUs[0].Minutes, gpu.Minute{Start: time.Now().UTC().Add(time.Duration(i-gpu.MaxMinutes) * time.Minute), Samples: 60})
	}
	o.Source = source{long}
	s := serverOf(t, o)
	for query, want := range map[string]int{"": 10, "?minutes=1": 1, "?minutes=32": 32} {
		got, err := gpu.Decode(get(s, "/v1/health"+query, "").Body.Bytes())
		if err != nil || len(got.GPUs[0].Minutes) != want || !got.GPUs[0].Minutes[want-1].Start.Equal(long.GPUs[0].Minutes[gpu.MaxMinutes-1].Start) {
			t.Errorf("%q: %v, %+v, want the last %d minutes", query, err, got.GPUs, want)
		}
	}
	for _, query := range []string{"?minutes=", "?minutes=0", "?minutes=33", "?minutes=-1", "?minutes=ten"} {
		if w := get(s, "/v1/health"+query, ""); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "from 1 to 32") {
			t.Errorf("%q: %d %s", query, w.Code, w.Body)
		}
	}
}

func TestTokens(t *testing.T) {
	r := &reviewer{}
	o := options()
	o.Accounts, o.Reviewer = []string{"responder/responder"}, r
	s := serverOf(t, o)
	for range 3 {
		if w := get(s, "/v1/health", "good"); w.Code != http.StatusOK {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if r.asked != 1 {
		t.Errorf("%d questions about one token", r.asked)
	}
	for token, code := range map[string]int{"": http.StatusUnauthorized, "bad": http.StatusUnauthorized, strings.Repeat("x", maxToken+1): http.StatusUnauthorized} {
		w := get(s, "/v1/health", token)
		if w.Code != code || w.Header().Get("WWW-Authenticate") == "" || len(token) > 3 && strings.Contains(w.Body.String(), token) {
			t.Errorf("token of %d bytes: %d %s", len(token), w.Code, w.Body)
		}
	}
	o = options()
	o.Accounts, o.Reviewer = []string{"other/account"}, r
	if w := get(serverOf(t, o), "/v1/health", "good"); w.Code != http.StatusForbidden {
		t.Errorf("an account that is not allowed: %d", w.Code)
	}
	r.err = errors.New("away")
	o = options()
	o.Accounts, o.Reviewer = []string{"responder/responder"}, r
	if w := get(serverOf(t, o), "/v1/health", "good"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("nobody knows whose token it is: %d", w.Code)
	}
}

// A flood of tokens that nobody knows is no flood at the API server, and what
// is remembered of them is bounded.
func TestFloods(t *testing.T) {
	r := &reviewer{}
	o := options()
	o.Accounts, o.Reviewer = []string{"responder/responder"}, r
	s := serverOf(t, o)
	busy := 0
	for i := range 500 {
		if get(s, "/v1/health", strings.Repeat("a", i+1)).Code == http.StatusTooManyRequests {
			busy++
		}
	}
	if r.asked > 100 || busy < 400 || len(s.callers.bad) > maxKept {
		t.Errorf("%d questions, %d refused, %d kept", r.asked, busy, len(s.callers.bad))
	}
	s = serverOf(t, options())
	busy = 0
	for range 500 {
		if get(s, "/v1/health", "").Code == http.StatusTooManyRequests {
			busy++
		}
	}
	if busy < 300 {
		t.Errorf("%d of 500 questions refused", busy)
	}
}

// Made-up tokens use up neither the responder's reviews nor what is remembered of its
// token: before it was seen, while it is remembered, and when it is asked about again.
func TestMadeUpTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.Accounts, o.Reviewer = []string{"responder/responder"}, &reviewer{}
		s := serverOf(t, o)
		flood := func() {
			for i := range 500 {
				get(s, "/v1/health", fmt.Sprintf("made-up-%d", i))
			}
		}
		ask := func(when string) {
			t.Helper()
			r := httptest.NewRequest(http.MethodGet, "/v1/health", nil)
			r.RemoteAddr = "198.51.100.7:40000"
			r.Header.Set("Authorization", "Bearer good")
			w := httptest.NewRecorder()
			if s.mux.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("%s: the responder's token is answered %d %s", when, w.Code, w.Body)
			}
		}
		flood()
		ask("before its token was seen")
		for range 90 {
			flood()
			ask("meanwhile")
			time.Sleep(time.Second)
		}
		if len(s.callers.good) != 1 || len(s.callers.bad) > maxKept {
			t.Errorf("%d good and %d bad answers are kept", len(s.callers.good), len(s.callers.bad))
		}
		// Nor do ten made-up tokens from as many addresses.
		for i := range 10 * maxAddresses {
			s.callers.limiter(fmt.Sprint(i))
		}
		if n := len(s.callers.addresses); n > maxAddresses {
			t.Errorf("%d addresses are kept", n)
		}
	})
}

func TestAliveAndMetrics(t *testing.T) {
	o := options()
	var dead error
	o.Alive = func() error { return dead }
	s := serverOf(t, o)
	if w := get(s, "/healthz", ""); w.Code != http.StatusOK {
		t.Errorf("%d", w.Code)
	}
	dead = errors.New("the driver was upgraded")
	if w := get(s, "/healthz", ""); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "upgraded") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	get(s, "/v1/health", "")
	text := get(s, "/metrics", "").Body.String()
	for _, want := range []string{
		`responder_agent_driver_up{node="gpu-17"} 1`, `responder_agent_gpu_temperature_celsius{gpu="0",node="gpu-17",uuid="GPU-1"} 91`, `verdict="failing"} 1`,
		`responder_agent_gpu_clocks_event_reason{gpu="0",node="gpu-17",reason="hardware thermal slowdown",uuid="GPU-1"} 1`,
		`responder_agent_gpu_pod{container="engine",gpu="0",mig_instance="MIG-1",namespace="serving",node="gpu-17",pod="chat-1",uuid="GPU-1"} 1`,
		`responder_agent_gpu_xids_kept{gpu="0",node="gpu-17",uuid="GPU-1"} 1`, `responder_agent_requests_total{result="ok"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if strings.Contains(text, "responder_agent_gpu_power_watts{") {
		t.Error("a reading that is unknown has a sample")
	}
}

func TestServeBounds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	all, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := serverOf(t, options()).Serve(ctx, all); err == nil || !strings.Contains(err.Error(), "without TLS") {
		t.Errorf("%v", err)
	}
	local, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serverOf(t, options()).Serve(ctx, local) }()
	resp, err := http.Get("http://" + local.Addr().String() + "/v1/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%d %v", resp.StatusCode, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for text, change := range map[string]func(*Options){
		"both a certificate file": func(o *Options) { o.CertFile = "x" },
		"need TLS":                func(o *Options) { o.ClientCAFile, o.ClientNames = "x", []string{"y"} },
		"list of names":           func(o *Options) { o.ClientCAFile = "x" },
		"NAMESPACE/NAME":          func(o *Options) { o.Accounts, o.Reviewer = []string{"responder"}, &reviewer{} },
		"API server":              func(o *Options) { o.Accounts = []string{"a/b"} },
		"no such file":            func(o *Options) { o.CertFile, o.KeyFile = "nowhere", "nowhere" },
	} {
		o := options()
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
}

// Connections of senders who do not authenticate, as many as there may be, keep out
// neither the responder nor the kubelet.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Accounts, o.Reviewer = []string{"responder/responder"}, &reviewer{}
	done := make(chan error, 1)
	go func() { done <- serverOf(t, o).Serve(ctx, ln) }()
	for range 4 * maxConns {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			break // it was cut off already
		}
	}
	client := http.Client{Timeout: 3 * time.Second}
	for path, keeps := range map[string]bool{"/healthz": false, "/v1/health": true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer good")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK || resp.Close == keeps {
			t.Errorf("%s: %d, %v, closes: %v", path, resp.StatusCode, err, resp.Close)
		}
	}
	client.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// apiServer answers TokenReviews as the real one does, from a function.
func apiServer(t *testing.T, answer func(tokenReview) (int, tokenReview)) APIServer {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q tokenReview
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Header.Get("Authorization") != "Bearer agent" || r.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" {
			t.Errorf("%s with %q: %v", r.URL, r.Header.Get("Authorization"), err)
		}
		code, a := answer(q)
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(a)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	o := APIServer{URL: server.URL, CAFile: filepath.Join(dir, "ca"), TokenFile: filepath.Join(dir, "token"), Audience: "responder-agent"}
	if err := errors.Join(os.WriteFile(o.TokenFile, []byte("agent\n"), 0o600), os.WriteFile(o.CAFile, pemOf(server.Certificate()), 0o600)); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestReview(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	o := apiServer(t, func(q tokenReview) (int, tokenReview) {
		a := q
		switch q.Spec.Token {
		case "good":
			a.Status.Authenticated, a.Status.Audiences = true, q.Spec.Audiences
			a.Status.User.Username = "system:serviceaccount:a:b"
		case "elsewhere": // an API server that knows no audiences
			a.Status.Authenticated, a.Status.Audiences = true, []string{"https://kubernetes.default.svc"}
			a.Status.User.Username = "system:serviceaccount:a:b"
		case "forbidden":
			return http.StatusForbidden, a
		}
		return http.StatusCreated, a
	})
	r, err := NewReviewer(o, os.Getenv, log)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{"good": "system:serviceaccount:a:b", "elsewhere": "", "bad": ""} {
		if user, err := r.ReviewToken(t.Context(), token); err != nil || user != want {
			t.Errorf("%s: %q, %v", token, user, err)
		}
	}
	if _, err := r.ReviewToken(t.Context(), "forbidden"); err == nil || !strings.Contains(err.Error(), "ClusterRole responder-token-review") {
		t.Errorf("forbidden: %v", err)
	}
	for text, change := range map[string]func(*APIServer){
		"not running in a pod": func(o *APIServer) { o.URL = "" },
		"https URL":            func(o *APIServer) { o.URL = "http://x" },
		"missing audience":     func(o *APIServer) { o.Audience = "" },
		"no such file":         func(o *APIServer) { o.TokenFile = "nowhere" },
		"authorities":          func(o *APIServer) { o.CAFile = "nowhere" },
	} {
		bad := o
		change(&bad)
		if _, err := NewReviewer(bad, func(string) string { return "" }, log); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
}
