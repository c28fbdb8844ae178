package policy

import (
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Input describes a lever that is about to be applied, or a gate state that is
// about to be opened or approved.
type Input struct {
	Now      time.Time
	Service  playbook.Service
	Playbook *playbook.Playbook // required
	State    *playbook.State    // required: the lever's, or the gate itself
	Autonomy playbook.Autonomy  // effective level without policy: the lowest of configuration, service, playbook and state

	With  map[string]any // the lever's parameters, evaluated
	Plan  *machine.Plan  // what the lever would change; nil: not planned, and rules about it deny. A gate has none
	Run   Run
	Actor Actor

	Others []Other // what else the lever touches: every rule is evaluated for each of them too

	Count func(Count) (int, bool)    // past changes; nil, or false: unknown
	Taken func(namespace string) int // ready replicas that other runs under way cost, empty: in all; nil: none

	ofNoService bool // the service is a namespace with pods of no service
}

// Other is another service that a lever touches, or a namespace with pods of no
// service.
type Other struct {
	Name     string             // for people
	Service  playbook.Service   // of pods of no service there is only the namespace
	Autonomy playbook.Autonomy  // as of Input
	Capacity []machine.Capacity // of its replicas, by workload; none: it loses none
}

// inputs returns the input for the other service, one for each of its workloads:
// the same lever, judged as one on that service.
func (o Other) inputs(in *Input) []*Input {
	costs := o.Capacity
	if len(costs) == 0 {
		costs = []machine.Capacity{{}}
	}
	var out []*Input
	for _, c := range costs {
		x := *in
		x.Service, x.Autonomy, x.Others, x.ofNoService = o.Service, o.Autonomy, nil, o.Service.Name == ""
		if in.Plan != nil {
			plan := *in.Plan
			plan.Capacity, x.Plan = c, &plan
		}
		out = append(out, &x)
	}
	return out
}

// Run is the part of a run that rules can read.
type Run struct {
	ID     string
	By     string // user:ada, who started it; empty: an alert
	Began  time.Time
	Levers int // applied so far
	Kept   int // of those, verified and kept
	Asked  int // questions put to people so far
	Alerts []playbook.Alert
}

// Actor is the person whose decision applies the lever. The zero value is
// Responder itself: nobody has decided.
type Actor struct {
	Name    string   // user:ada
	Groups  []string // without the prefix group:
	Channel string   // api, slack, web
}

// Count selects past changes.
type Count struct {
	What     string    // levers (applied, whatever the outcome), runs (other runs that applied one)
	Service  string    // only on this service; empty: on all
	Playbook string    // only by this playbook; empty: by all
	Since    time.Time // inclusive
}

// gate reports whether the input is about a gate state, which changes nothing.
func (in *Input) gate() bool { return in.State.Kind == playbook.StateGate }

// routed returns the input for the lever that carries the change out, if that
// is not the state's lever: a live change that became a commit. Rules about
// either apply. Nil: it is the same lever.
func (in *Input) routed() *Input {
	if in.gate() || in.Plan == nil || in.Plan.Step == "" || in.Plan.Step == in.State.Step {
		return nil
	}
	out, state := *in, *in.State
	state.Step = in.Plan.Step
	out.State = &state
	return &out
}

// values provides CEL with the variables of an input. Each is built on first
// use, so the cost of a Set follows the rules it evaluates. It is for one
// evaluation in one goroutine.
type values struct {
	in   *Input
	made [numVariables]any
}

// ResolveName implements CEL's activation.
func (v *values) ResolveName(name string) (any, bool) {
	i := variableIndex(name)
	if i < 0 {
		return nil, false
	}
	if v.made[i] == nil {
		v.made[i] = valueOf(i, v.in)
	}
	return v.made[i], true
}

// Parent implements CEL's activation.
func (v *values) Parent() activation { return nil }

// text returns a text field of a variable; ok is false if it is absent.
func (v *values) text(variable, field string) (string, bool) {
	made, _ := v.ResolveName(variable)
	object, _ := made.(map[string]any)
	text, ok := object[field].(string)
	return text, ok
}

func playbookValue(in *Input) any {
	p := in.Playbook
	return map[string]any{"name": p.Name, "title": p.Title, "runbook": p.Runbook, "digest": p.Digest, "autonomy": p.Autonomy.String()}
}

func stateValue(in *Input) any {
	return map[string]any{
		"name": in.State.Name, "title": in.State.Title, "kind": string(in.State.Kind), "autonomy": in.Autonomy.String(),
		"always_asks": in.State.Approve != nil && in.State.Approve.Always,
	}
}

func leverValue(in *Input) any {
	v := map[string]any{"kind": in.State.Step}
	if in.With != nil && !in.gate() {
		v["with"] = in.With
	}
	return v
}

// planValue omits unknown values, so that reading them is an error.
func planValue(in *Input) any {
	p := in.Plan
	if in.gate() {
		p = &machine.Plan{Capacity: machine.Capacity{Unknown: true}} // known to have no content
	}
	if p == nil {
		return map[string]any{}
	}
	changes := make([]any, len(p.Diff))
	for i, c := range p.Diff {
		changes[i] = map[string]any{"path": c.Path, "from": c.From, "to": c.To}
	}
	capacity := map[string]any{"unknown": p.Capacity.Unknown}
	if c := p.Capacity; !c.Unknown {
		capacity["ready_now"], capacity["lowest_ready"], capacity["ready_after"] = int64(c.ReadyNow), int64(c.LowestReady), int64(c.ReadyAfter)
		capacity["lost_ready"], capacity["lost_percent"] = int64(c.Lost()), lostPercent(c)
	}
	return map[string]any{
		"summary": p.Summary, "risk": string(p.Risk), "why": p.Why, "undo": p.Undo,
		"target": map[string]any{
			"api_version": p.Target.APIVersion, "kind": p.Target.Kind, "namespace": p.Target.Namespace, "name": p.Target.Name,
		},
		"changes": changes, "locks": texts(p.Locks), "unrepeatable": p.Unrepeatable, "pull_request": p.MergeWithin > 0, "capacity": capacity,
	}
}

func runValue(in *Input) any {
	r := in.Run
	alerts := make([]any, len(r.Alerts))
	for i, a := range r.Alerts {
		labels := make(map[string]any, len(a.Labels))
		for k, text := range a.Labels {
			labels[k] = text
		}
		alerts[i] = map[string]any{"status": string(a.Status), "labels": labels, "starts_at": a.StartsAt}
	}
	v := map[string]any{"id": r.ID, "by": r.By, "levers": int64(r.Levers), "kept": int64(r.Kept), "asked": int64(r.Asked), "alerts": alerts}
	if !r.Began.IsZero() {
		v["began"], v["age"] = r.Began, in.Now.Sub(r.Began)
	}
	return v
}

func actorValue(in *Input) any {
	return map[string]any{"name": in.Actor.Name, "groups": texts(in.Actor.Groups), "door": in.Actor.Channel}
}

func texts(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}

// lostPercent returns the lost replicas as a percentage of the ready ones; 0 if
// none is ready.
func lostPercent(c machine.Capacity) float64 {
	if c.ReadyNow <= 0 {
		return 0
	}
	return 100 * float64(c.Lost()) / float64(c.ReadyNow)
}
