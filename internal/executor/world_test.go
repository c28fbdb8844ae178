package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// testKinds are the steps of testdata/playbooks.yaml.
func testKinds() []playbook.Kind {
	return []playbook.Kind{
		{
			Name: "test.look", Role: playbook.RoleCheck, Doc: "Looks.",
			With: []playbook.Field{{Name: "window", Type: playbook.Type{Name: playbook.Duration}, Doc: "Window."}},
			Out: []playbook.Field{
				{Name: "bad", Type: playbook.Type{Name: playbook.Bool}, Doc: "Bad."},
				{Name: "value", Type: playbook.Type{Name: playbook.Int}, Doc: "Value."},
			},
		},
		{
			Name: "test.turn", Role: playbook.RoleLever, Doc: "Turns.", Idempotent: true,
			With: []playbook.Field{{Name: "to", Type: playbook.Type{Name: playbook.Int}, Required: true, Doc: "To."}},
		},
	}
}

func loadSet(t testing.TB, edit func(string) string) *playbook.Set {
	t.Helper()
	data, err := os.ReadFile("testdata/playbooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if edit != nil {
		text = edit(text)
	}
	all, err := playbook.Parse("playbooks.yaml", []byte(text), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	set, err := playbook.NewSet(all)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// object is a thing in the world that levers turn, with a precondition on its
// generation, and a note of who changed it last, as Kubernetes objects have.
type object struct {
	value, generation int
	lastKey           string
}

// world is the outside: it counts what really happens.
type world struct {
	mu      sync.Mutex
	now     func() time.Time
	objects map[string]*object
	changes map[string]int // by action and key: how often it really happened
	notices []string
	effects map[machine.Action]int

	helps   func(value int) bool               // does the service recover with that value?
	before  func(machine.Effect)               // called before each effect
	lie     func(machine.Effect) (lies string) // "lost": happened, reported unknown; "none": did not happen, reported unknown
	blind   bool                               // observations fail
	panics  func(machine.Effect) bool
	settles time.Duration
	turned  map[string]time.Time
}

func newWorld(now func() time.Time) *world {
	return &world{
		now: now, objects: map[string]*object{}, changes: map[string]int{}, effects: map[machine.Action]int{},
		helps: func(v int) bool { return v == 5 }, settles: 20 * time.Second, turned: map[string]time.Time{},
	}
}

func (w *world) object(service string) *object {
	if w.objects[service] == nil {
		w.objects[service] = &object{value: 4, generation: 1}
	}
	return w.objects[service]
}

// Do implements Steps.
func (w *world) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	if w.before != nil {
		w.before(e)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.effects[e.Action]++
	if w.panics != nil && w.panics(e) {
		panic("the step is broken")
	}
	o := w.object(e.Service.Name)
	switch e.Action {
	case machine.ActionCheck:
		data := fmt.Sprintf(`{"bad":%v,"value":%d}`, !w.helps(o.value), o.value)
		return machine.Outcome{Status: machine.StatusOK, Data: json.RawMessage(data), Facts: []string{"looked"}}
	case machine.ActionPlan:
		return w.plan(e, o)
	case machine.ActionApply, machine.ActionUndo:
		return w.change(e, o)
	case machine.ActionSettle, machine.ActionUnwind:
		if w.now().Sub(w.turned[e.Service.Name]) < w.settles {
			return machine.Outcome{Status: machine.StatusPending, Message: "turning"}
		}
		return machine.Outcome{Status: machine.StatusOK}
	case machine.ActionVerify:
		return w.verify(e, o)
	case machine.ActionNotify:
		w.notices = append(w.notices, e.Text)
		return machine.Outcome{Status: machine.StatusOK}
	}
	return machine.Outcome{Status: machine.StatusFailed, Reason: machine.ReasonInvalid}
}

type turn struct{ From, To int }

func (w *world) plan(e machine.Effect, o *object) machine.Outcome {
	to, ok := e.With["to"].(int64)
	if !ok {
		return machine.Outcome{Status: machine.StatusRefused, Reason: machine.ReasonInvalid, Message: fmt.Sprintf("to is a %T", e.With["to"])}
	}
	if int(to) == o.value {
		return machine.Outcome{Status: machine.StatusRefused, Reason: machine.ReasonNothingToDo, Message: "is so already"}
	}
	payload := encode(turn{o.value, int(to)})
	return machine.Outcome{Status: machine.StatusOK, Plan: &machine.Plan{
		Step: e.Step, Summary: fmt.Sprintf("turn to %d", to), Payload: payload, Locks: []string{"service:" + e.Service.Name},
		Target: machine.Target{Kind: "Knob", Name: e.Service.Name, Generation: int64(o.generation)}, Risk: machine.RiskLow,
		Capacity: machine.Capacity{ReadyNow: 2, LowestReady: 2, ReadyAfter: 2},
	}}
}

// change applies, undoes, or looks what became of that.
func (w *world) change(e machine.Effect, o *object) machine.Outcome {
	var t turn
	if err := json.Unmarshal(e.Plan.Payload, &t); err != nil {
		return machine.Outcome{Status: machine.StatusFailed, Reason: machine.ReasonInvalid, Message: err.Error()}
	}
	generation, value := int(e.Plan.Target.Generation), t.To
	if e.Action == machine.ActionUndo {
		generation, value = generation+1, t.From
	}
	switch {
	case e.Observe && w.blind:
		return machine.Outcome{Status: machine.StatusUnknown, Reason: machine.ReasonUnreachable, Message: "the world is dark"}
	case o.generation == generation+1 && o.lastKey == e.Key:
		return machine.Outcome{Status: machine.StatusOK, Message: "it is so"} // by an earlier attempt
	case o.generation != generation:
		return machine.Outcome{Status: machine.StatusForeign, Reason: machine.ReasonForeignChange, Message: "someone else turned it"}
	case e.Observe:
		return machine.Outcome{Status: machine.StatusFailed, Reason: machine.ReasonInterrupted, Message: "it is not so"}
	}
	lies := ""
	if w.lie != nil {
		lies = w.lie(e)
	}
	if lies == "none" {
		return machine.Outcome{Status: machine.StatusUnknown, Reason: machine.ReasonTimeout, Message: "cut off"}
	}
	o.value, o.generation, o.lastKey = value, generation+1, e.Key
	w.changes[string(e.Action)+" "+e.Key]++
	w.turned[e.Service.Name] = w.now()
	if lies == "lost" {
		return machine.Outcome{Status: machine.StatusUnknown, Reason: machine.ReasonTimeout, Message: "cut off"}
	}
	rate := 10.0
	return machine.Outcome{Status: machine.StatusOK, Before: &rate, Data: json.RawMessage(fmt.Sprintf(`{"generation":%d}`, o.generation))}
}

func (w *world) verify(e machine.Effect, o *object) machine.Outcome {
	now := w.now()
	s := &machine.Sample{At: now, Verdict: machine.VerdictWatching, Message: "still slow"}
	if w.helps(o.value) {
		s.HeldFrom = e.Proof.HeldFrom
		if s.HeldFrom.IsZero() {
			s.HeldFrom = now
		}
		s.Verdict, s.Message = machine.VerdictRecovering, "holds"
		if now.Sub(s.HeldFrom) >= e.Proof.Spec.Hold {
			s.Verdict = machine.VerdictVerified
		}
	}
	return machine.Outcome{Status: machine.StatusOK, Sample: s}
}

func (w *world) count(prefix string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for what, times := range w.changes {
		if strings.HasPrefix(what, prefix) {
			n += times
		}
	}
	return n
}

func (w *world) told(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, t := range w.notices {
		if strings.Contains(t, text) {
			n++
		}
	}
	return n
}

// services is a catalog by the label service; "both" belongs to two.
type services map[string]playbook.Service

// Resolve implements Services.
func (s services) Resolve(a playbook.Alert) ([]playbook.Service, string, error) {
	switch name := a.Labels["service"]; name {
	case "both":
		return []playbook.Service{s["a"], s["b"]}, "a and b claim it", nil
	case "broken":
		panic("the catalog is broken")
	default:
		if svc, ok := s[name]; ok {
			return []playbook.Service{svc}, "", nil
		}
		if n, ok := strings.CutPrefix(name, "n"); ok {
			return []playbook.Service{{Name: "n" + n, Autonomy: playbook.Auto, Owners: []string{"user:ada"}}}, "", nil
		}
		return nil, "no service has label service=" + name, nil
	}
}

func testServices() services {
	out := services{}
	for _, name := range []string{"a", "b", "c"} {
		out[name] = playbook.Service{Name: name, Autonomy: playbook.Auto, Owners: []string{"user:ada"}}
	}
	return out
}

// TestMain keeps the journals of tests in memory where the system has a place
// for that: what is tested is not the disk.
func TestMain(m *testing.M) {
	const shm = "/dev/shm"
	dir, err := os.MkdirTemp(shm, "executor-test-")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	code := m.Run()
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "journals of tests lie in the usual place:", err)
	}
	os.Exit(code)
}

// house is an executor over a journal and a world, which can crash and start
// again. It lives in a synctest bubble: its time is virtual.
type house struct {
	t       testing.TB
	journal *audit.Journal
	world   *world
	set     *playbook.Set
	options func(*Options)

	e     *Executor
	end   context.CancelFunc
	ended chan error
}

var errCrash = errors.New("crash")

func newHouse(t testing.TB) *house {
	t.Helper()
	j, err := audit.OpenTemp()
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, journal: j, world: newWorld(time.Now), set: loadSet(t, nil)}
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Error(err)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// start starts an executor and waits until it has nothing to do at once.
func (h *house) start() {
	h.t.Helper()
	o := Options{
		Journal: h.journal, Playbooks: func() *playbook.Set { return h.set }, Kinds: testKinds(),
		Services: testServices(), Steps: h.world, Autonomy: playbook.Auto,
		Guards: GuardConfig{EvidenceAge: 10 * time.Minute},
		Log:    slog.New(slog.DiscardHandler),
	}
	if testing.Verbose() && os.Getenv("EXECUTOR_LOG") != "" {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if h.options != nil {
		h.options(&o)
	}
	e, err := New(o)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	h.e, h.end, h.ended = e, end, make(chan error, 1)
	go func() { h.ended <- e.Run(ctx) }()
	synctest.Wait()
}

// stop stops it in order.
func (h *house) stop() error {
	if h.end == nil {
		return nil
	}
	h.end()
	err := <-h.ended
	h.end = nil
	return err
}

// stopper stops an executor at the n-th failpoint it passes.
type stopper struct {
	mu   sync.Mutex
	left int
	name string // where it stopped
}

func (s *stopper) failpoint(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left == 0 {
		s.name = name
		return errCrash
	}
	return nil
}

func (s *stopper) at() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

// stopAt lets the next executor stop at its n-th failpoint.
func (h *house) stopAt(n int) *stopper {
	s := &stopper{left: n}
	h.options = func(o *Options) { o.Failpoint = s.failpoint }
	return s
}

// crashed waits for the end of an executor that was stopped at a failpoint.
func (h *house) crashed() {
	h.t.Helper()
	if err := <-h.ended; !errors.Is(err, errCrash) {
		h.t.Errorf("a crashed executor ends with %v", err)
	}
	h.end = nil
}

// passUntil lets time pass until something is so, at most an hour.
func (h *house) passUntil(so func() bool) {
	for range 720 {
		if so() {
			return
		}
		h.pass(5 * time.Second)
	}
}

// pass lets virtual time pass.
func (h *house) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func alertOf(name, service string) playbook.Alert {
	return playbook.Alert{
		Fingerprint: "f-" + name + "-" + service, Status: playbook.Firing, StartsAt: time.Now().Add(-time.Minute).UTC().Round(0),
		Labels: map[string]string{"alertname": name, "service": service},
	}
}

func resolvedOf(a playbook.Alert) playbook.Alert {
	a.Status, a.EndsAt = playbook.Resolved, time.Now().UTC().Round(0)
	return a
}

// post puts a notification into the journal, as the receiver does.
func (h *house) post(alerts ...playbook.Alert) { h.postTruncated(0, alerts...) }

func (h *house) postTruncated(truncated int, alerts ...playbook.Alert) {
	h.t.Helper()
	n := playbook.Notification{
		Receiver: "responder", Version: "4", Status: playbook.Firing, GroupKey: "{}", Alerts: alerts,
		TruncatedAlerts: truncated, ReceivedAt: time.Now().UTC(),
	}
	h.postRaw(n.AppendJSON(nil))
}

func (h *house) postRaw(data []byte) {
	h.t.Helper()
	_, err := h.journal.Append(context.Background(), audit.Append{
		Stream: streamIntake, After: audit.Any, Records: []audit.Record{{Kind: "notification", Data: data}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
}

// runs gives all runs, oldest first.
func (h *house) runs() []machine.State {
	all := h.e.Runs(Filter{Limit: 1000})
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// only gives the one run there is.
func (h *house) only() machine.State {
	h.t.Helper()
	all := h.runs()
	if len(all) != 1 {
		h.t.Fatalf("%d runs, want 1: %v", len(all), h.fates())
	}
	return all[0]
}

// fates gives what became of alerts, from the stream dispatch.
func (h *house) fates() []string {
	h.t.Helper()
	var out []string
	for rec, err := range h.journal.Stream(streamDispatch, 0) {
		if err != nil {
			h.t.Fatal(err)
		}
		d, err := decode[Dispatched](rec)
		if err != nil {
			h.t.Fatal(err)
		}
		line := strings.TrimPrefix(rec.Kind, "alert.")
		if d.Reason != "" {
			line += " (" + d.Reason + ")"
		}
		out = append(out, line)
	}
	return out
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, fn func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, newHouse(t)) })
}

// forgetful is a world whose objects have no precondition and which does not
// know what was done to it.
type forgetful struct{ *world }

// Do implements Steps.
func (f forgetful) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	if e.Action != machine.ActionApply {
		return f.world.Do(ctx, e)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Observe {
		return machine.Outcome{Status: machine.StatusFailed, Reason: machine.ReasonInterrupted}
	}
	f.changes["apply "+e.Key]++
	o := f.object(e.Service.Name)
	o.generation++
	return machine.Outcome{Status: machine.StatusOK}
}
