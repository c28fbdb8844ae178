package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
)

// fakeHouse stands for journal and executor.
type fakeHouse struct {
	mu       sync.Mutex
	admitted []playbook.Notification
	admit    func(context.Context, playbook.Notification) error // nil: take it

	commands []machine.Command
	runs     map[string]machine.State
	events   map[string][]machine.Event
	refuse   error // what Command, Pause and Unpause answer
	pauses   []Pause
	levers   []api.TrackRecord
	good     []api.LastGood
	entries  []api.Entry
	cutShort bool // Snapshot fails half-way
	changes  chan struct{}

	started []StartRequest
}

func (h *fakeHouse) Start(_ context.Context, r StartRequest) (string, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return "", false, h.refuse
	}
	h.started = append(h.started, r)
	return "r-1", len(h.started) > 1, nil
}

func (h *fakeHouse) Admit(ctx context.Context, n playbook.Notification) (int, error) {
	if h.admit != nil {
		return 0, h.admit(ctx, n)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.admitted = append(h.admitted, n)
	return len(n.AppendJSON(nil)), nil
}

func (h *fakeHouse) Command(_ context.Context, run string, c machine.Command) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return h.refuse
	}
	h.commands = append(h.commands, c)
	s := h.runs[run]
	s.Head++
	h.runs[run] = s
	return nil
}

func (h *fakeHouse) Pauses() []Pause { return h.pauses }

func (h *fakeHouse) Pause(_ context.Context, _ rights.Actor, p Pause) error {
	if h.refuse != nil {
		return h.refuse
	}
	h.pauses = append(h.pauses, p)
	return nil
}

func (h *fakeHouse) Unpause(_ context.Context, _ rights.Actor, p Pause) error {
	for i, q := range h.pauses {
		if q.Service == p.Service && q.Playbook == p.Playbook {
			h.pauses = append(h.pauses[:i:i], h.pauses[i+1:]...)
			return nil
		}
	}
	return fmt.Errorf("%w: nothing is paused there", ErrNotFound)
}

func (h *fakeHouse) Levers(service, playbook string) []api.TrackRecord {
	var found []api.TrackRecord
	for _, l := range h.levers {
		if (service == "" || service == l.Service) && (playbook == "" || playbook == l.Playbook) {
			found = append(found, l)
		}
	}
	return found
}

func (h *fakeHouse) Good(service string) []api.LastGood {
	var found []api.LastGood
	for _, g := range h.good {
		if service == "" || service == g.Service {
			found = append(found, g)
		}
	}
	return found
}

func (h *fakeHouse) Promote(_ context.Context, p Promotion) error {
	if h.refuse != nil {
		return h.refuse
	}
	for i := range h.levers {
		l := &h.levers[i]
		if l.Service == p.Service && l.Playbook == p.Playbook && l.Lever == p.Lever {
			l.Demoted, l.Why = false, p.Who.By+": "+p.Reason
		}
	}
	return nil
}

func (h *fakeHouse) Runs(f RunFilter) []machine.State {
	var found []machine.State
	for _, id := range []string{"r-2", "r-1"} {
		s, ok := h.runs[id]
		if ok && strings.HasPrefix(id, f.Begins) && (f.Service == "" || f.Service == s.Start.Service.Name) && (f.Open == nil || *f.Open == (s.Phase != machine.PhaseEnded)) {
			found = append(found, s)
		}
	}
	return found
}

func (h *fakeHouse) Run(id string) (machine.State, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.runs[id]
	return s, ok
}

func (h *fakeHouse) Events(id string, from uint64) ([]machine.Event, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := h.events[id]
	return events[min(from, uint64(len(events))):], nil
}

func (h *fakeHouse) happen(id string, phase machine.Phase, kinds ...machine.EventKind) {
	h.mu.Lock()
	for _, k := range kinds {
		h.events[id] = append(h.events[id], machine.Event{Kind: k, State: "s"})
	}
	s := h.runs[id]
	s.Phase = phase
	h.runs[id] = s
	h.mu.Unlock()
	select {
	case h.changes <- struct{}{}:
	default:
	}
}

func (h *fakeHouse) Watch() (<-chan struct{}, func()) { return h.changes, func() {} }

// fakeLog is the house's journal.
type fakeLog struct{ *fakeHouse }

func (h fakeLog) Entries(from uint64) iter.Seq2[api.Entry, error] {
	return func(yield func(api.Entry, error) bool) {
		for _, e := range h.entries {
			if e.Seq >= from && !yield(e, nil) {
				return
			}
		}
	}
}

func (h fakeLog) Checkpoint() ([]byte, error) { return []byte("responder\n2\nHASH\n\n— sig\n"), nil }

func (h fakeLog) Snapshot(w io.Writer) error {
	if _, err := io.WriteString(w, "half"); err != nil || h.cutShort {
		return errors.Join(err, errors.New("disk"))
	}
	_, err := io.WriteString(w, " whole")
	return err
}

// fakeJournal answers with what it was asked, or fails.
type fakeJournal struct{ err error }

func (j fakeJournal) Status() (api.JournalStatus, error) {
	return api.JournalStatus{Entries: 7}, j.err
}

func (j fakeJournal) Archive(_ context.Context, q api.JournalArchiveRequest) (api.JournalArchive, error) {
	return api.JournalArchive{Waits: fmt.Sprint(q.DryRun, q.From)}, j.err
}

// fakePages reports what it was asked to show.
type fakePages struct{}

func (fakePages) Page(w http.ResponseWriter, r *http.Request, who Identity) error {
	if r.URL.Path == "/runs/r-9" {
		return fmt.Errorf("%w: no such run", ErrNotFound)
	}
	_, err := fmt.Fprintf(w, "page %s for %s, decides %v", r.URL.Path, who.Name, who.Can(Scope(rights.Approve)))
	return err
}

func (fakePages) Verify(w http.ResponseWriter, _ *http.Request, who Identity) {
	fmt.Fprintf(w, "verified for %s", who.Name)
}

func (fakePages) Problem(w http.ResponseWriter, _ *http.Request, p *Problem) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(p.Status())
	fmt.Fprintf(w, "<p>%d %s", p.Status(), p.Message)
}

func (fakePages) SignIn(w http.ResponseWriter, _ *http.Request, p SignIn) {
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(p.Status)
	who := "nobody"
	if p.Who != nil {
		who = p.Who.Name
	}
	fmt.Fprintf(w, "<p>sign in: next %s, password %v, issuer %v, down %v, others %q, who %s, %s|%s|%q, left %v",
		p.Next, p.Password, p.Issuer != "", p.Down, p.Others, who, p.Message, p.Hint, p.Groups, p.Left)
}

func newHouse() *fakeHouse {
	return &fakeHouse{
		runs: map[string]machine.State{
			"r-1": {Start: machine.Start{Run: "r-1", Service: playbook.Service{Name: "chat"}}, Phase: machine.PhaseDeciding, Evidence: map[string]*machine.Evidence{"c": {}}},
			"r-2": {Start: machine.Start{Run: "r-2", Service: playbook.Service{Name: "code"}}, Phase: machine.PhaseEnded},
		},
		events:  map[string][]machine.Event{"r-1": {{Kind: machine.RunStarted}, {Kind: machine.StateEntered, State: "triage"}}},
		changes: make(chan struct{}, 1),
	}
}

// Tokens of the test server, by name.
const (
	intakeToken  = "intake-token-0123456789"
	metricsToken = "metrics-token-0123456789"
	readToken    = "read-token-0123456789"
	decideToken  = "decide-token-0123456789"
	adminToken   = "admin-token-0123456789"

	sessionsToken = "sessions-token-0123456789"
)

// deciding is every right, as scopes of a credential.
func deciding() []Scope {
	var all []Scope
	for _, r := range rights.All() {
		all = append(all, Scope(r))
	}
	return all
}

func options(t testing.TB, h *fakeHouse) Options {
	t.Helper()
	loaded, err := playbook.NewSet([]*playbook.Playbook{{Name: "p", Autonomy: playbook.Suggest}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var a Auth
	for name, token := range map[string]string{"intake": intakeToken, "metrics": metricsToken, "read": readToken, "decide": decideToken, "admin": adminToken, "sessions": sessionsToken} {
		file := write(t, dir, name, token+"\n")
		scopes := []Scope{Scope(name)}
		if name == "decide" {
			scopes = deciding()
		}
		a.Tokens = append(a.Tokens, Token{Grant: Grant{Name: name, Scopes: scopes, Groups: []string{"g-" + name}}, File: file})
	}
	return Options{
		Intake: h, Control: h, Starter: h, Pauses: h, Views: h, Ladder: h, Log: fakeLog{h}, Journal: fakeJournal{}, Watch: h.Watch,
		Playbooks: func() *playbook.Set { return loaded },
		Services:  func() []playbook.Service { return nil },
		Version:   map[string]string{"version": "v1"},
		Pages:     fakePages{},
		Metrics:   http.NotFoundHandler(),
		Auth:      a, DropLabels: []string{"replica"},
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func mustNew(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.auth.files.every = 0
	return s
}

// serve serves s on loopback until the test ends and gives its URL.
func serve(t testing.TB, s *Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return "http://" + ln.Addr().String()
}

// ask sends one request to the handler.
func ask(s *Server, method, path, token string, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, body)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// problemIn reads the error of an answer.
func problemIn(t testing.TB, w *httptest.ResponseRecorder) Problem {
	t.Helper()
	var answer struct{ Error *Problem }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Error == nil || answer.Error.Code == "" {
		t.Fatalf("status %d, want a problem: %q", w.Code, w.Body)
	}
	return *answer.Error
}

func fixtures(t testing.TB) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/alertmanager/*.json")
	if err != nil || len(paths) != 6 {
		t.Fatalf("%d fixtures, %v", len(paths), err)
	}
	bodies := make(map[string]string)
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		bodies[filepath.Base(p)] = string(b)
	}
	return bodies
}

// notice is a valid notification with one alert that has these labels and more fields.
func notice(labels, more string) string {
	return `{"version":"4","status":"firing","receiver":"r","alerts":[{"status":"firing","startsAt":"2026-11-21T02:28:04.731Z","labels":{"alertname":"A"` +
		labels + `}` + more + `}]}`
}

func post(s *Server, body string) *httptest.ResponseRecorder {
	return ask(s, http.MethodPost, "/api/v1/alertmanager", intakeToken, strings.NewReader(body))
}

// figure reads a counter or gauge.
func figure(t testing.TB, m prometheus.Metric) float64 {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

func shut(t testing.TB, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
