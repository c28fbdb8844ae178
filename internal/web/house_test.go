package web

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/runview"
)

// house stands for journal and executor. It counts what is read of it.
type house struct {
	simulated func(at time.Time) string // nil: the house is real
	runs      []machine.State           // newest first
	changes   uint64                    // of them
	events    map[string][]machine.Event
	broken    error // what Events answers
	entries   []Entry
	note      string

	services   []playbook.Service
	doubt      error // services may be missing
	playbooks  []*playbook.Playbook
	pauses     []Pause
	health     []Health
	nodes      runview.NodePage
	applied    []Applied
	arming     runview.Arming
	tested     string // digest of a playbook
	budgets    []Budget
	fleet      []ServiceBudget
	fleetAsked int
	fleetRead  time.Time
	alerts     []api.ReceivedAlert // the most recently mentioned ones first

	asked int           // runs that a search may look at
	read  int           // entries
	bytes int           // of those
	hold  chan struct{} // reading entries waits for it; nil: it does not
	from  uint64

	verified int // how often Verify was called
	verify   func(ctx context.Context, progress func(done, total uint64)) (Verification, error)
}

func (h *house) Changes() uint64 { return h.changes }

func (h *house) Open() iter.Seq[*machine.State] {
	return func(yield func(*machine.State) bool) {
		for i := range h.runs {
			if s := &h.runs[i]; s.Phase != machine.PhaseEnded && !yield(s) {
				return
			}
		}
	}
}

func (h *house) Search(q Search) Found {
	h.asked = max(h.asked, q.Read)
	var out Found
	seen, last := q.Before == "", ""
	for _, s := range h.runs {
		id := s.Start.Run
		if !seen || !strings.Contains(strings.ToLower(id), strings.ToLower(q.Text)) {
			seen = seen || id == q.Before
			continue
		}
		if len(out.Runs) == q.Limit || out.Read == q.Read {
			out.Next = last
			break
		}
		out.Read, last = out.Read+1, id
		if q.Passes(s) {
			out.Runs = append(out.Runs, s)
		}
	}
	return out
}

func (h *house) Run(id string) (machine.State, bool) {
	for _, s := range h.runs {
		if s.Start.Run == id {
			return s, true
		}
	}
	return machine.State{}, false
}

func (h *house) Events(id string, from uint64) ([]machine.Event, error) {
	h.from = from
	all := h.events[id]
	return all[min(from, uint64(len(all))):], h.broken
}

// received selects alerts as the service does.
func (h *house) received(q AlertSearch) (list api.AlertList) {
	skip := q.Skip
	for _, a := range h.alerts {
		switch {
		case !strings.HasPrefix(a.Episode, q.Episode) || q.NoRun && len(a.Runs) > 0 || q.Firing != nil && *q.Firing != a.Firing:
		case skip > 0:
			skip--
		case len(list.Alerts) == q.Limit:
			list.More = true
		default:
			list.Alerts = append(list.Alerts, a)
		}
	}
	return list
}

func (h *house) Size() uint64 { return uint64(len(h.entries)) }

func (h *house) Entries(from uint64, _ func(string) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if h.hold != nil {
			<-h.hold
		}
		for _, e := range h.entries[min(from, h.Size()):] {
			h.bytes += e.Bytes
			if h.read++; !yield(e, nil) {
				return
			}
		}
	}
}

func (h *house) Stream(stream string, from uint64, _ func(string) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		all, _ := h.Positions(stream)
		for _, seq := range all[min(from, uint64(len(all))):] {
			if h.read++; !yield(h.entries[seq], nil) {
				return
			}
		}
	}
}

func (h *house) Positions(stream string) (out []uint64, err error) {
	for _, e := range h.entries {
		if e.Stream == stream {
			out = append(out, e.Seq)
		}
	}
	return out, nil
}

func (h *house) Leaf(seq uint64) (string, error) { return fmt.Sprintf("leaf-%d=", seq), nil }

func (h *house) Checkpoint() ([]byte, error) {
	if h.note == "" {
		return nil, errors.New("no key")
	}
	return []byte(h.note), nil
}

func (h *house) Verify(ctx context.Context, progress func(done, total uint64)) (Verification, error) {
	h.verified++
	if h.verify == nil {
		return Verification{}, errors.New("no key")
	}
	return h.verify(ctx, progress)
}

func (h *house) add(s machine.State, events ...machine.Event) {
	h.runs = append(h.runs, s)
	if h.events == nil {
		h.events = map[string][]machine.Event{}
	}
	h.events[s.Start.Run] = events
}

// now is some time after the recorded runs began.
var now = time.Date(2026, 11, 22, 0, 10, 0, 0, time.UTC)

func site(t testing.TB, h *house) *Site {
	t.Helper()
	set, err := playbook.NewSet(h.playbooks)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{
		Runs: h, Log: h, Simulated: h.simulated, Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler),
		Pauses: func() []Pause { return h.pauses }, Health: func() []Health { return h.health },
		Services: func() ([]playbook.Service, error) { return h.services, h.doubt }, Playbooks: func() *playbook.Set { return set },
		Nodes:  func(context.Context) runview.NodePage { return h.nodes },
		Alerts: h.received,
		Arming: func() func(playbook.Service) runview.Arming {
			return func(playbook.Service) runview.Arming { return h.arming }
		},
		Applies: func(playbook.Service) []Applied { return h.applied }, Budgets: func(context.Context, playbook.Service) []Budget { return h.budgets },
		FleetRead: func() time.Time { return h.fleetRead },
		Fleet:     func(context.Context) ([]ServiceBudget, error) { h.fleetAsked++; return h.fleet, h.doubt },
		Tests: func(digest string) (Tested, bool) {
			return Tested{Cases: 7, States: 5, Seen: 5, Edges: 9, Taken: 8, Worlds: 40}, digest != "" && digest == h.tested
		},
		Tables: []TablePage{
			{"ladder", "Ladder", func() (Table, error) {
				return Table{Table: &runview.Table{Columns: []runview.Column{{Head: "SERVICE"}}, Rows: [][]string{{"<b>chat</b>"}, {"r-00VHNCZB00N00H1NY9WZ9Q4QAJ"}}}, Notes: []string{"a note"}}, nil
			}},
			{"policy", "Policy", func() (Table, error) { return Table{Table: &runview.Table{Empty: "No policy is configured."}}, nil }},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// burning is a curve with a value a minute, of both windows, around the recorded runs.
func burning(values ...float64) Curve {
	from := now.Add(-20 * time.Minute)
	c := Curve{Objective: "ttft", Wanted: 0.99, From: from, To: now, Began: from.Add(3 * time.Minute), Every: time.Minute}
	for _, window := range []string{"5m", "1h"} {
		l := CurveLine{Window: window}
		for i, v := range values {
			l.Points = append(l.Points, CurvePoint{At: from.Add(time.Duration(i) * time.Minute), Burn: v})
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// Visitors of the tests.
var (
	ada    = Visitor{Name: "ada", Groups: []string{"ml-platform"}, Person: true, Lacks: nothing}
	eve    = Visitor{Name: "eve", Lacks: nothing}
	reader = Visitor{Name: "reader", Groups: []string{"ml-platform"}, Lacks: everything}
)

func nothing(rights.Right, playbook.Service) string { return "" }

func everything(right rights.Right, s playbook.Service) string {
	return "user:reader lacks the right " + string(right) + " on service " + s.Name
}

// look asks for a page and gives the answer; a page that is not there is 404.
func look(t testing.TB, s *Site, v Visitor, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, http.NoBody)
	w := httptest.NewRecorder()
	if err := s.Page(w, r, v); err != nil {
		if !errors.Is(err, ErrNotFound) || w.Body.Len() > 0 {
			t.Fatalf("%s %s: %v after %q", method, path, err, w.Body)
		}
		s.Problem(w, r, Problem{Status: http.StatusNotFound, Message: err.Error()})
	}
	return w
}

// recorded reads the events of a run that a simulated cluster had, as the API
// gives them.
func recorded(t testing.TB, name string) []machine.Event {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var out []machine.Event
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Kind machine.EventKind `json:"kind"`
			machine.Event
		}
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		e.Event.Kind = e.Kind
		out = append(out, e.Event)
	}
	return out
}

// upTo cuts a run off after the n-th event of a kind.
func upTo(t testing.TB, events []machine.Event, kind machine.EventKind, n int) []machine.Event {
	t.Helper()
	for i, e := range events {
		if e.Kind == kind {
			if n--; n == 0 {
				return events[: i+1 : i+1]
			}
		}
	}
	t.Fatalf("no such %s", kind)
	return nil
}

// fold makes the state that events come to, as the executor does.
func fold(events []machine.Event) machine.State {
	var s machine.State
	for _, e := range events {
		s = machine.Evolve(s, e)
	}
	return s
}
