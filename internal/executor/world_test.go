package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
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
			With:  []playbook.Field{{Name: "to", Type: playbook.Type{Name: playbook.Int}, Required: true, Doc: "To."}},
			Steps: &playbook.Stepping{Param: "to"},
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
	class   playbook.Class // of its lever; empty: the kind's
	rehold  *machine.Rehold
	ends    string // why its lever only ends another change
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
		// Only now it is known which commit it is.
		return machine.Outcome{Status: machine.StatusOK, Data: json.RawMessage(fmt.Sprintf(`{"revision":"c%d"}`, o.generation))}
	case machine.ActionVerify:
		return w.verify(e, o)
	case machine.ActionNotify:
		w.notices = append(w.notices, e.Text)
		return machine.Outcome{Status: machine.StatusOK}
	}
	return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Invalid}
}

type turn struct{ From, To int }

func (w *world) plan(e machine.Effect, o *object) machine.Outcome {
	to, ok := e.With["to"].(int64)
	if !ok {
		return machine.Outcome{Status: machine.StatusRefused, Reason: fault.Invalid, Message: fmt.Sprintf("to is a %T", e.With["to"])}
	}
	if int(to) == o.value {
		return machine.Outcome{Status: machine.StatusRefused, Reason: fault.NothingToDo, Message: "is so already"}
	}
	payload := encode(turn{o.value, int(to)})
	return machine.Outcome{Status: machine.StatusOK, Plan: &machine.Plan{
		Step: e.Step, Summary: fmt.Sprintf("turn to %d", to), Payload: payload, Locks: []string{"service:" + e.Service.Name},
		Good:   []machine.Setting{{Name: "knob", Value: fmt.Sprint(to)}},
		Target: machine.Target{Kind: "Knob", Name: e.Service.Name, Generation: int64(o.generation)}, Risk: machine.RiskLow,
		Capacity: machine.Capacity{ReadyNow: 2, LowestReady: 2, ReadyAfter: 2},
		Class:    w.class, Ends: w.ends, Back: map[string]any{"to": o.value}, Rehold: w.rehold,
	}}
}

// change applies, undoes, or looks what became of that.
func (w *world) change(e machine.Effect, o *object) machine.Outcome {
	var t turn
	if err := json.Unmarshal(e.Plan.Payload, &t); err != nil {
		return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Invalid, Message: err.Error()}
	}
	generation, value := int(e.Plan.Target.Generation), t.To
	if e.Action == machine.ActionUndo {
		generation, value = generation+1, t.From
	}
	switch {
	case e.Observe && w.blind:
		return machine.Outcome{Status: machine.StatusUnknown, Reason: fault.Unreachable, Message: "the world is dark"}
	case o.generation == generation+1 && o.lastKey == e.Key:
		return machine.Outcome{Status: machine.StatusOK, Message: "it is so"} // by an earlier attempt
	case o.generation != generation:
		return machine.Outcome{Status: machine.StatusForeign, Reason: fault.ForeignChange, Message: "someone else turned it"}
	case e.Observe:
		return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Interrupted, Message: "it is not so"}
	}
	lies := ""
	if w.lie != nil {
		lies = w.lie(e)
	}
	if lies == "none" {
		return machine.Outcome{Status: machine.StatusUnknown, Reason: fault.Timeout, Message: "cut off"}
	}
	o.value, o.generation, o.lastKey = value, generation+1, e.Key
	w.changes[string(e.Action)+" "+e.Key]++
	w.turned[e.Service.Name] = w.now()
	if lies == "lost" {
		return machine.Outcome{Status: machine.StatusUnknown, Reason: fault.Timeout, Message: "cut off"}
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
			return []playbook.Service{{Name: "n" + n, Autonomy: playbook.Auto, Owners: []string{"user:ada", "group:sre"}, Selector: `service="x"`}}, "", nil
		}
		return nil, "no service has label service=" + name, nil
	}
}

func testServices() services {
	out := services{}
	for _, name := range []string{"a", "b", "c"} {
		out[name] = playbook.Service{Name: name, Autonomy: playbook.Auto, Owners: []string{"user:ada", "group:sre"}, Selector: `service="x"`}
	}
	return out
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
		return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Interrupted}
	}
	f.changes["apply "+e.Key]++
	o := f.object(e.Service.Name)
	o.generation++
	return machine.Outcome{Status: machine.StatusOK}
}
