package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	proto "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// receiver is an OTLP receiver: it decodes what it is posted.
type receiver struct {
	*httptest.Server
	answer func(w http.ResponseWriter, r *http.Request) bool // true: it has answered instead; nil: it takes all

	mu       sync.Mutex // guards what follows
	requests []*proto.TracesData
	headers  http.Header
}

func startReceiver(t *testing.T, start func(http.Handler) *httptest.Server) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = start(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements [http.Handler].
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	data := &proto.TracesData{}
	if err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" || protobuf.Unmarshal(body, data) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	if r.answer != nil && r.answer(w, req) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests, r.headers = append(r.requests, data), req.Header.Clone()
}

// traces returns the spans that were taken, by trace, and how often each root was.
func (r *receiver) traces() (spans map[string][]*proto.Span, roots map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	spans, roots = map[string][]*proto.Span{}, map[string]int{}
	for _, data := range r.requests {
		for _, rs := range data.GetResourceSpans() {
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					id := fmt.Sprintf("%x", s.GetTraceId())
					spans[id] = append(spans[id], s)
					if len(s.GetParentSpanId()) == 0 {
						roots[id]++
					}
				}
			}
		}
	}
	return spans, roots
}

// rig is an exporter with its journal and its receiver.
type rig struct {
	*Exporter
	journal *audit.Journal
	sent    int
	dropped map[string]int
	log     bytes.Buffer

	mu   sync.Mutex // guards runs
	runs map[string]*life
}

// RunHistory implements [Runs].
func (r *rig) RunHistory(id string) (machine.State, []machine.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.runs[id]
	if l == nil {
		return machine.State{}, nil, errors.New("its playbook is unknown")
	}
	return l.state, l.events, nil
}

func open(t *testing.T, c Config) *rig {
	t.Helper()
	journal, err := audit.OpenTemp(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = journal.Close() })
	r := &rig{journal: journal, runs: map[string]*life{}}
	r.restart(t, c)
	return r
}

// restart begins with what the journal has of the position.
func (r *rig) restart(t *testing.T, c Config) {
	t.Helper()
	r.sent, r.dropped = 0, map[string]int{}
	r.log.Reset()
	x, err := New(Options{
		Config: c, Journal: r.journal, Runs: r, Log: slog.New(slog.NewTextHandler(&r.log, nil)),
		Sent: func() { r.sent++ }, Dropped: func(reason string) { r.dropped[reason]++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.begin(); err != nil {
		t.Fatal(err)
	}
	r.Exporter = x
}

// end puts a run into the journal.
func (r *rig) end(t *testing.T, l *life) {
	t.Helper()
	run := l.state.Start.Run
	r.mu.Lock()
	r.runs[run] = l
	r.mu.Unlock()
	a := audit.Append{Stream: "run/" + run, After: audit.Any}
	for _, e := range l.events {
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		a.Records = append(a.Records, audit.Record{Kind: string(e.Kind), Time: e.At, Data: data})
	}
	if _, err := r.journal.Append(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

// endedRun is a short run that has ended.
func endedRun(t *testing.T, run string) *life {
	t.Helper()
	l := begin(loadPlaybooks(t), run, "slow", 0)
	l.answer(machine.Outcome{Status: machine.StatusOK, Data: json.RawMessage(`{"bad":false,"value":1}`)})
	if l.state.Phase != machine.PhaseEnded {
		t.Fatal("it has not ended")
	}
	return l
}

func configured(url string) Config {
	c := DefaultConfig()
	c.Endpoint = url + "/v1/traces"
	return c
}

// TestExport: the traces of runs with every outcome arrive, each once, and are what
// fold returns. A run that ended while the service was down is sent after it starts.
func TestExport(t *testing.T) {
	r := startReceiver(t, httptest.NewServer)
	c := configured(r.URL)
	c.Attributes = map[string]string{"deployment.environment.name": "test"}
	c.HeadersFile = filepath.Join(t.TempDir(), "headers")
	writeFile(t, c.HeadersFile, "# a tenant\nX-Scope-OrgID: sre\nAuthorization: Bearer s3cret\n")
	x := open(t, c)
	x.end(t, endedRun(t, "r-0")) // an end in the first moment is sent
	all := lives(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	for _, l := range all {
		x.end(t, l)
	}
	await(t, "the traces", func() bool { _, roots := r.traces(); return len(roots) == len(all)+1 })
	await(t, "the position", func() bool {
		raw, err := x.journal.Meta(cell)
		return err == nil && string(raw) == fmt.Sprint(x.journal.Size())
	})
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	x.end(t, endedRun(t, "r-late"))
	x.restart(t, c)
	x.follow()
	if wait := x.attempt(t.Context(), 0); wait != 0 || len(x.waiting) != 0 {
		t.Fatalf("after a restart it waits %s for %d runs", wait, len(x.waiting))
	}
	spans, roots := r.traces()
	for id, n := range roots {
		if n != 1 {
			t.Errorf("trace %s was sent %d times", id, n)
		}
	}
	for run, l := range x.runs {
		sameTrace(t, run, fold(l.state.Playbook, l.events), spans[ID(run)])
	}
	if r.headers.Get("X-Scope-OrgID") != "sre" || r.headers.Get("Authorization") != "Bearer s3cret" {
		t.Errorf("the receiver got the headers %v", r.headers)
	}
	if got := r.requests[0].GetResourceSpans()[0].GetResource().String(); !strings.Contains(got, "deployment.environment.name") || !strings.Contains(got, "responder") {
		t.Errorf("the resource is %s", got)
	}
}

// sameTrace compares what arrived with what was folded.
func sameTrace(t *testing.T, run string, want []span, got []*proto.Span) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d spans arrived, want %d", run, len(got), len(want))
		return
	}
	for i, w := range want {
		if !protobuf.Equal(w.Span, got[i]) {
			t.Errorf("%s: span %d is %v, want %v", run, i, got[i], w)
		}
	}
}

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// await waits for something another goroutine brings about.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// echoing answers with a status, a header and the secret that it was sent.
func echoing(code int, name, value string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set(name, value)
		w.WriteHeader(code)
		fmt.Fprintf(w, "no: %s", r.Header.Get("Authorization"))
		return true
	}
}

// openSecret is open with a secret in the headers.
func openSecret(t *testing.T, url string) (*rig, Config) {
	t.Helper()
	c := configured(url)
	c.HeadersFile = filepath.Join(t.TempDir(), "headers")
	writeFile(t, c.HeadersFile, "Authorization: Bearer "+secret)
	return open(t, c), c
}

// TestReceiverFails: while the receiver fails or refuses our credential, the trace waits
// and one warning without a secret is logged. It is sent when the receiver takes it.
func TestReceiverFails(t *testing.T) {
	elsewhere := startReceiver(t, httptest.NewServer)
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request) bool
		least  time.Duration
		warns  string
	}{
		"throttled": {echoing(429, "Retry-After", "120"), 100 * time.Second, "429"},
		"broken":    {echoing(500, "X", ""), time.Second, "500"},
		"forbidden": {echoing(401, "X", ""), time.Second, "401"},
		"not there": {echoing(404, "X", ""), time.Second, "404"},
		"redirects": {echoing(307, "Location", elsewhere.URL+"/v1/traces"), time.Second, "redirects are not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startReceiver(t, httptest.NewServer)
			r.answer = test.answer
			x, c := openSecret(t, r.URL)
			x.end(t, endedRun(t, "r-1"))
			x.follow()
			wait := x.attempt(t.Context(), 0)
			again := x.attempt(t.Context(), wait)
			if wait < test.least || again <= wait/2 || len(x.waiting) != 1 || len(x.dropped) != 0 {
				t.Errorf("waits %s and then %s for %d runs, dropped %v", wait, again, len(x.waiting), x.dropped)
			}
			if log := x.log.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, test.warns) || strings.Contains(log, secret) {
				t.Errorf("logged:\n%s", log)
			}
			if _, roots := elsewhere.traces(); len(roots) != 0 {
				t.Error("spans and headers went where a redirect points")
			}
			r.answer = nil
			x.restart(t, c) // also forgets the time that the receiver asked for
			x.follow()
			if wait := x.attempt(t.Context(), 0); wait != 0 || x.sent != 1 {
				t.Errorf("the receiver is well again: waits %s, sent %d: %s", wait, x.sent, x.log.String())
			}
		})
	}
}

// TestReceiverRefuses: a trace that the receiver refuses for what it is holds up no other
// one. It is counted, and one warning without a secret is logged.
func TestReceiverRefuses(t *testing.T) {
	partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 3)
	partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), "too large")
	partial = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request) bool
		warns  string
	}{
		"invalid":   {echoing(400, "X", ""), "400"},
		"too large": {echoing(413, "X", ""), "413"},
		"in part":   {func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write(partial); return true }, "refused 3 spans"},
	} {
		t.Run(name, func(t *testing.T) {
			r := startReceiver(t, httptest.NewServer)
			r.answer = test.answer
			x, _ := openSecret(t, r.URL)
			for _, run := range []string{"r-1", "r-2", "r-3"} {
				x.end(t, endedRun(t, run))
			}
			x.follow()
			for range 2 {
				if wait := x.attempt(t.Context(), 0); wait != 0 {
					t.Errorf("waits %s: %s", wait, x.log.String())
				}
			}
			r.answer = nil
			if wait := x.attempt(t.Context(), 0); wait != 0 || x.sent != 1 || x.dropped[droppedRefused] != 2 || len(x.waiting) != 0 {
				t.Errorf("waits %s, sent %d, dropped %v", wait, x.sent, x.dropped)
			}
			if log := x.log.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, test.warns) || strings.Contains(log, secret) {
				t.Errorf("logged:\n%s", log)
			}
		})
	}
}

// A receiver that is away, and one that does not answer.
func TestReceiverAway(t *testing.T) {
	r := startReceiver(t, httptest.NewServer)
	x := open(t, configured(r.URL))
	x.end(t, endedRun(t, "r-1"))
	x.follow()
	r.answer = func(_ http.ResponseWriter, req *http.Request) bool { <-req.Context().Done(); return true }
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if wait := x.attempt(ctx, 0); wait == 0 || len(x.waiting) != 1 {
		t.Error("a trace that was not taken is gone")
	}
	r.Close()
	if wait := x.attempt(t.Context(), 0); wait != first || len(x.waiting) != 1 || !strings.Contains(x.log.String(), "cannot be reached") {
		t.Errorf("waits %s: %s", wait, x.log.String())
	}
	x.waiting[0].at = time.Now().Add(-longest) // it was tried for long
	if wait := x.attempt(t.Context(), most); wait != most || x.dropped[droppedGivenUp] != 1 || len(x.waiting) != 0 {
		t.Errorf("waits %s, dropped %v", wait, x.dropped)
	}
	if n := strings.Count(x.log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings of one outage:\n%s", n, x.log.String())
	}
}

// TestCA: a receiver is asked only if the configured authority vouches for it.
func TestCA(t *testing.T) {
	r := startReceiver(t, httptest.NewTLSServer)
	c := configured(r.URL)
	x := open(t, c)
	x.end(t, endedRun(t, "r-1"))
	x.follow()
	if wait := x.attempt(t.Context(), 0); wait == 0 || !strings.Contains(x.log.String(), "certificate that is not trusted") {
		t.Errorf("waits %s: %s", wait, x.log.String())
	}
	c.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, c.CAFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})))
	x.restart(t, c)
	x.follow()
	if wait := x.attempt(t.Context(), 0); wait != 0 || x.sent != 1 {
		t.Errorf("waits %s: %s", wait, x.log.String())
	}
}

// TestOverflow: while the receiver is away, the newest runs wait, the others are
// counted, and one warning tells of it.
func TestOverflow(t *testing.T) {
	r := startReceiver(t, httptest.NewServer)
	r.answer = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true }
	x := open(t, configured(r.URL))
	const more = 10
	for i := range mostWaiting + more {
		x.end(t, endedRun(t, fmt.Sprintf("r-%03d", i)))
		if i == 0 {
			x.follow()
			x.attempt(t.Context(), 0)
		}
	}
	x.follow()
	if len(x.waiting) != mostWaiting || x.dropped[droppedOverflow] != more || x.waiting[0].run != fmt.Sprintf("r-%03d", more) {
		t.Errorf("%d wait from %s, dropped %v", len(x.waiting), x.waiting[0].run, x.dropped)
	}
	if n := strings.Count(x.log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, x.log.String())
	}
	r.answer = nil
	for len(x.waiting) > 0 {
		if wait := x.attempt(t.Context(), 0); wait != 0 {
			t.Fatalf("waits %s: %s", wait, x.log.String())
		}
	}
	if x.sent != mostWaiting || !strings.Contains(x.log.String(), "taken again") {
		t.Errorf("sent %d: %s", x.sent, x.log.String())
	}
}

// A run that this program cannot read holds up no other one.
func TestUnreadable(t *testing.T) {
	r := startReceiver(t, httptest.NewServer)
	x := open(t, configured(r.URL))
	x.end(t, endedRun(t, "r-1"))
	x.end(t, endedRun(t, "r-2"))
	delete(x.runs, "r-1")
	x.follow()
	for range 2 {
		if wait := x.attempt(t.Context(), 0); wait != 0 {
			t.Fatalf("waits %s: %s", wait, x.log.String())
		}
	}
	if x.dropped[droppedUnreadable] != 1 || x.sent != 1 || !strings.Contains(x.log.String(), "its playbook is unknown") {
		t.Errorf("dropped %v, sent %d: %s", x.dropped, x.sent, x.log.String())
	}
}

// Where tracing was off, what ended meanwhile is not sent.
func TestForget(t *testing.T) {
	r := startReceiver(t, httptest.NewServer)
	x := open(t, configured(r.URL))
	if err := Forget(x.journal); err != nil {
		t.Fatal(err)
	}
	x.end(t, endedRun(t, "r-1"))
	x.restart(t, configured(r.URL))
	x.follow()
	if len(x.waiting) != 0 {
		t.Errorf("%d runs wait", len(x.waiting))
	}
}
