package approvals

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
	"github.com/inference-responder/responder/internal/playbook"
)

const (
	oncall = "C0ONCALL01"
	ada    = "U0ADA00001"
	bob    = "U0BOB00001"
	eve    = "U0EVE00001"
)

// document is the playbook of these tests. Its runs ask at once.
const document = `apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: ladder, runbook: docs/test.md}
spec:
  match: ['{alertname="Slow"}']
  autonomy: auto
  start: look
  states:
    look:
      title: Is it slow?
      check: test.look
      next: [{when: 'out.bad', to: turn}, {to: fine}]
    turn:
      title: Turn it
      lever: test.turn
      approve: {by: [user:ada, user:bob], within: 15m, on_expiry: escalate, always: true}
      verify:
        within: 10m
        hold: 2m
        until: {query: 'slow_ratio{${service.selector}}', op: <, value: 0.01}
        traffic: {query: 'sum(rate(requests_total{${service.selector}}[1m]))', min_rate: 0.1}
      next: [{on: verified, to: resolved}, {to: people}]
    resolved: {end: resolved}
    fine: {end: no-action}
    people: {end: escalated}
`

func kinds() []playbook.Kind {
	return []playbook.Kind{
		{Name: "test.look", Role: playbook.RoleCheck, Doc: "Looks.", Out: []playbook.Field{{Name: "bad", Type: playbook.Type{Name: playbook.Bool}, Doc: "Bad."}}},
		{Name: "test.turn", Role: playbook.RoleLever, Doc: "Turns.", Idempotent: true},
	}
}

// harness is a journal with runs of the real machine.
type harness struct {
	t testing.TB

	mu      sync.Mutex // guards the fields below
	runs    map[string]machine.State
	events  map[string][]machine.Event
	watch   []chan string
	stored  []Record
	appends int
	forgot  uint64             // records before this index are not folded
	folded  int                // number of folded records, in all
	reads   int                // number of times a run was read
	crash   func(Record) error // stops the service over a record, before it is stored
	terms   *machine.Terms     // set by the policy
	now     time.Time
	skew    time.Duration              // by which the clock of the service is ahead
	channel string                     // in which runs are shown; empty: oncall
	place   func(machine.State) string // the same for each run; nil: channel
	broken  map[string]bool            // runs that cannot be read
	book    *playbook.Playbook
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	all, err := playbook.Parse("test.yaml", []byte(document), kinds())
	if err != nil {
		t.Fatal(err)
	}
	return &harness{
		t: t, runs: map[string]machine.State{}, events: map[string][]machine.Event{},
		now: time.Now().UTC().Truncate(time.Second), book: all[0],
	}
}

// clock is the time of the runs and of the service.
func (h *harness) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *harness) advance(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// later returns the time of the service, which advances.
func (h *harness) later() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.skew)
}

// do sends a command to the machine, as the executor would.
func (h *harness) do(run string, c machine.Command) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.Now = h.now
	s := h.runs[run]
	events, err := machine.Decide(s, c)
	if c.Kind == machine.CmdStart {
		s.Playbook = c.Playbook
	}
	for _, e := range events {
		s = machine.Evolve(s, e)
	}
	h.runs[run], h.events[run] = s, append(slices.Clip(h.events[run]), events...)
	if len(events) > 0 {
		for _, w := range h.watch {
			w <- run
		}
	}
	return err
}

// outcome answers the pending effect of a run.
func (h *harness) outcome(run string, out machine.Outcome) {
	h.t.Helper()
	h.mu.Lock()
	eff, ok := machine.Pending(h.runs[run])
	h.mu.Unlock()
	if !ok {
		h.t.Fatalf("run %s owes nothing", run)
	}
	if err := h.do(run, machine.Command{Kind: machine.CmdOutcome, Effect: eff.Key, Outcome: &out}); err != nil {
		h.t.Fatal(err)
	}
}

// asking starts a run and advances it to its question.
func (h *harness) asking(run string) {
	h.t.Helper()
	start := &machine.Start{
		Run: run, Playbook: h.book.Name, Digest: h.book.Digest, Autonomy: playbook.Auto,
		Service: playbook.Service{Name: "serving/" + run, Namespace: "serving", Autonomy: playbook.Auto, Owners: []string{"user:ada", "user:bob"}, Selector: `service="serving/` + run + `"`},
		Alert: playbook.Alert{
			Fingerprint: "f-" + run, Status: playbook.Firing, StartsAt: h.clock().Add(-5 * time.Minute),
			Labels: map[string]string{"alertname": "Slow"},
		},
	}
	if err := h.do(run, machine.Command{Kind: machine.CmdStart, Start: start, Playbook: h.book}); err != nil {
		h.t.Fatal(err)
	}
	h.outcome(run, machine.Outcome{Status: machine.StatusOK, Data: json.RawMessage(`{"bad":true}`), Facts: []string{"p99 is 4.2 s, target 2 s"}})
	h.planned(run, "6")
}

// planned answers the pending plan and guards of a run.
func (h *harness) planned(run, to string) {
	h.t.Helper()
	p := &machine.Plan{
		Step: "test.turn", Target: machine.Target{Kind: "Deployment", Namespace: "serving", Name: run, UID: "u", Generation: 1},
		Summary: "turn " + run + " to " + to, Diff: []machine.FieldChange{{Path: "spec.replicas", From: "4", To: to}}, Undo: "put 4 back",
		Risk: machine.RiskLow, Capacity: machine.Capacity{ReadyNow: 4, LowestReady: 4, ReadyAfter: 6},
	}
	h.outcome(run, machine.Outcome{Status: machine.StatusOK, Plan: p})
	h.mu.Lock()
	terms := h.terms
	h.mu.Unlock()
	h.outcome(run, machine.Outcome{Status: machine.StatusOK, Terms: terms, Guards: []machine.GuardVerdict{{Guard: "cooldown", OK: true, Why: "none"}}})
}

// applied advances an approved run to its end.
func (h *harness) applied(run string) {
	h.t.Helper()
	h.planned(run, "6")
	h.outcome(run, machine.Outcome{Status: machine.StatusOK})
	h.outcome(run, machine.Outcome{Status: machine.StatusOK, Message: "6 of 6 ready"})
	h.outcome(run, machine.Outcome{Status: machine.StatusOK, Sample: &machine.Sample{Verdict: machine.VerdictVerified, At: h.clock()}})
}

func (h *harness) phase(run string) machine.Phase {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[run].Phase
}

// state returns the state of a run.
func (h *harness) state(run string) machine.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[run]
}

func (h *harness) count(run string, kind machine.EventKind) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, e := range h.events[run] {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// harness implements Runs, Control, Memory and Names.

func (h *harness) Changes(ctx context.Context) <-chan string {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan string, 100_000)
	h.watch = append(h.watch, c)
	return c
}

func (h *harness) Open() []machine.State {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []machine.State
	for _, s := range h.runs {
		if s.Phase != machine.PhaseEnded {
			out = append(out, s)
		}
	}
	return out
}

func (h *harness) Run(id string) (machine.State, []machine.Event, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	s, ok := h.runs[id]
	return s, h.events[id], ok && !h.broken[id]
}

func (h *harness) Command(_ context.Context, run string, c machine.Command) error {
	return h.do(run, c)
}

func (h *harness) Fold(f func(Record)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, r := range h.stored[h.forgot:] {
		r.Index = h.forgot + uint64(i)
		h.folded++
		f(r)
	}
	return nil
}

func (h *harness) Append(_ context.Context, records ...Record) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range records {
		if h.crash != nil {
			if err := h.crash(r); err != nil {
				return 0, err
			}
		}
	}
	first := uint64(len(h.stored))
	h.stored = append(h.stored, records...)
	h.appends++
	return first, nil
}

func (h *harness) Forget(before uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgot = before
	return nil
}

func (h *harness) records(kind string) []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.stored), func(r Record) bool { return r.Kind != kind })
}

func (h *harness) Person(_ context.Context, userID string) (Person, error) {
	names := map[string]Person{ada: {Name: "ada", Groups: []string{"sre"}, Declared: true}, bob: {Name: "bob", Declared: true}, eve: {Name: "eve", Declared: true}}
	if p, ok := names[userID]; ok {
		return p, nil
	}
	return Person{}, fmt.Errorf("nobody is known by %s", userID)
}

// workspace starts a Slack with a channel and three people.
func workspace(t testing.TB) *slacktest.Server {
	t.Helper()
	s := slacktest.Start(t, slacktest.Options{})
	s.AddChannel(slacktest.Conversation{ID: oncall, Name: "oncall", Member: true})
	for _, u := range []string{ada, bob, eve} {
		s.AddUser(slacktest.User{ID: u})
	}
	return s
}

// running is a running service.
type running struct {
	*Approvals
	stop func() error // ends it, as a kill would, and returns why it had ended before
}

// open runs the service over the harness, with clicks over Socket Mode.
func (h *harness) open(t testing.TB, s *slacktest.Server) running {
	t.Helper()
	client, err := slack.New(slack.Options{
		Secrets: slack.Secrets{Token: slack.NewSecret(slacktest.Token), AppToken: slack.NewSecret(slacktest.AppToken)}, APIURL: s.APIURL(), Timeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{
		Runs: h, Control: h, Memory: h, Slack: client, Names: h, Pace: time.Millisecond, Now: h.later,
		Channel: func(s machine.State) string {
			if h.place != nil {
				return h.place(s)
			}
			return cmp.Or(h.channel, oncall)
		},
		Link: func(run string) string { return "https://responder.example/runs/" + run },
	})
	if err != nil {
		t.Fatal(err)
	}
	receiver, err := slack.NewReceiver(client, slack.ReceiverOptions{Consume: d.Click})
	if err != nil {
		t.Fatal(err)
	}
	connected := s.Opened()
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 3)
	go func() { errs <- d.Run(ctx) }()
	go func() { errs <- receiver.Run(ctx) }()
	go func() { errs <- receiver.RunSocket(ctx, nil) }()
	if !s.Wait(time.Minute, func() bool { return s.Opened() > connected }) {
		t.Fatal("no connection")
	}
	stop := sync.OnceValue(func() error {
		cancel()
		var why error
		for range 3 {
			if err := <-errs; !errors.Is(err, context.Canceled) {
				why = err
			}
		}
		return why
	})
	t.Cleanup(func() { _ = stop() })
	return running{d, stop}
}

// until waits for Slack, or the records, to show something. Slack signals its
// changes; the records are polled.
func until(t testing.TB, s *slacktest.Server, what string, holds func() bool) {
	t.Helper()
	for range 3000 {
		if s.Wait(20*time.Millisecond, holds) {
			return
		}
	}
	t.Fatalf("never seen: %s; messages %s", what, dump(s))
}

func dump(s *slacktest.Server) string {
	out := ""
	for _, m := range s.Messages(oncall) {
		out += fmt.Sprintf("\n%s (thread %s, %d edits): %q", m.TS, m.ThreadTS, m.Edits, slacktest.Texts(m.Blocks))
	}
	for _, m := range s.Ephemerals() {
		out += fmt.Sprintf("\nto %s: %q", m.User, slacktest.Texts(m.Blocks))
	}
	return out
}

// posts returns the channel's own messages, without threads.
func posts(s *slacktest.Server) []slacktest.Message {
	return slices.DeleteFunc(s.Messages(oncall), func(m slacktest.Message) bool { return m.ThreadTS != "" && m.ThreadTS != m.TS })
}

func threads(s *slacktest.Server) []slacktest.Message {
	return slices.DeleteFunc(s.Messages(oncall), func(m slacktest.Message) bool { return m.ThreadTS == "" || m.ThreadTS == m.TS })
}
