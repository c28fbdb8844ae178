package executor

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// simWorld is the outside world of a simulation: it answers late, loses
// answers, applies changes after they were looked for, refuses, throttles and
// panics. What it does depends on the seed, the effect and the virtual time
// only, not on the order in which goroutines run.
type simWorld struct {
	sim  *simulation
	seed uint64

	mu      sync.Mutex // guards everything below
	calm    bool       // no more faults
	late    bool       // changes may be applied after they were looked for
	helps   map[string]int
	objects map[string]*object
	landed  []landing
	flying  map[string]int             // changes under way by run
	holders map[string]map[string]bool // lock to the runs that went out with it
	told    []string                   // delivered messages
}

// landing is one change of the world.
type landing struct {
	run, service, key string
	action            machine.Action
	late              bool
	at                time.Time
}

func newSimWorld(s *simulation, seed uint64, rnd *rand.Rand) *simWorld {
	w := &simWorld{
		sim: s, seed: seed, late: rnd.IntN(4) == 0, helps: map[string]int{}, objects: map[string]*object{},
		flying: map[string]int{}, holders: map[string]map[string]bool{},
	}
	for _, name := range simServices {
		w.helps[name] = []int{5, 5, 9, 100}[rnd.IntN(4)]
		w.objects[name] = &object{value: 4, generation: 1}
	}
	return w
}

// dice returns the random numbers of one attempt at one effect.
func (w *simWorld) dice(e machine.Effect) *rand.Rand {
	h := fnv.New64a()
	_, key, _ := strings.Cut(e.Key, "/") // the run's id differs in each replay
	fmt.Fprint(h, w.seed, e.Service.Name, key, e.Attempt, e.Observe, w.sim.elapsed())
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// Do implements Steps.
func (w *simWorld) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	d := w.dice(e)
	w.mu.Lock()
	calm := w.calm
	w.mu.Unlock()
	if e.Action == machine.ActionApply && !e.Observe {
		w.sim.goesOut(e)
	}
	if e.Action.Mutates() && !e.Observe {
		if n := w.sim.crashAtChange.Swap(0); n > 0 {
			w.sim.crashIn.Store(n)
		}
		w.mu.Lock()
		w.flying[e.Run]++
		if n := w.flying[e.Run]; n > 1 {
			w.sim.violated("one-change", "%d changes of run %s are under way", n, e.Run)
		}
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			w.flying[e.Run]--
			w.mu.Unlock()
		}()
	}
	if !calm {
		if out, failed := w.fault(ctx, d, e); failed {
			return out
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[e.Service.Name]
	switch e.Action {
	case machine.ActionCheck:
		data := fmt.Appendf(nil, `{"bad":%v,"value":%d}`, o.value < w.helps[e.Service.Name], o.value)
		return machine.Outcome{Status: machine.StatusOK, Data: data}
	case machine.ActionPlan:
		return w.plan(e, o)
	case machine.ActionApply, machine.ActionUndo:
		return w.change(e, o, false)
	case machine.ActionSettle, machine.ActionUnwind:
		return machine.Outcome{Status: machine.StatusOK}
	case machine.ActionVerify:
		w := world{now: w.sim.rules.now, helps: func(v int) bool { return v >= w.helps[e.Service.Name] }}
		out := w.verify(e, o)
		verdicts := []machine.Verdict{"", machine.VerdictImproved, machine.VerdictNoEffect, machine.VerdictWorse, machine.VerdictInconclusive}
		out.Sample.Ends = verdicts[hashed(e.Key)%uint32(len(verdicts))]
		return out
	case machine.ActionNotify:
		w.told = append(w.told, e.Text)
		return machine.Outcome{Status: machine.StatusOK}
	}
	return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Invalid}
}

// fault lets an effect take its time, and reports the outcome if it goes wrong.
func (w *simWorld) fault(ctx context.Context, d *rand.Rand, e machine.Effect) (machine.Outcome, bool) {
	latency := time.Duration(d.IntN(2000)) * time.Millisecond
	if d.IntN(20) == 0 {
		latency = time.Duration(d.IntN(60)) * time.Second
	}
	timeout := machine.Outcome{Status: machine.StatusFailed, Reason: fault.Timeout, Message: "no answer in time"}
	if e.Action.Mutates() && !e.Observe {
		timeout.Status = machine.StatusUnknown
	}
	if !sleepFor(ctx, min(latency, e.Timeout)) || latency > e.Timeout {
		if e.Action.Mutates() && !e.Observe && d.IntN(2) == 0 {
			w.lands(e, false)
		}
		return timeout, true
	}
	if d.IntN(200) == 0 && e.Action != machine.ActionNotify {
		panic("the step is broken")
	}
	if e.Action.Mutates() && !e.Observe {
		return w.changeFault(d, e)
	}
	if d.IntN(12) != 0 {
		return machine.Outcome{}, false
	}
	reasons := []fault.Reason{fault.Throttled, fault.Unreachable, fault.ServerError}
	return machine.Outcome{Status: machine.StatusFailed, Reason: reasons[d.IntN(3)], Message: "not now"}, true
}

// changeFault is what may go wrong with a change beside the latency.
func (w *simWorld) changeFault(d *rand.Rand, e machine.Effect) (machine.Outcome, bool) {
	unknown := machine.Outcome{Status: machine.StatusUnknown, Reason: fault.Timeout, Message: "cut off"}
	switch d.IntN(14) {
	case 0: // applied, and the answer is lost
		w.lands(e, false)
		return unknown, true
	case 1: // not applied, and the answer is lost
		return unknown, true
	case 2:
		return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Throttled, Message: "not now"}, true
	case 3:
		return machine.Outcome{Status: machine.StatusRefused, Reason: fault.Forbidden, Message: "may not"}, true
	case 4:
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.late {
			time.AfterFunc(time.Duration(1+d.IntN(59))*time.Second, func() { w.lands(e, true) })
			return unknown, true
		}
	}
	return machine.Outcome{}, false
}

func sleepFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *simWorld) lands(e machine.Effect, late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.change(e, w.objects[e.Service.Name], late)
}

// change applies, undoes, or looks for what became of that, as world does.
func (w *simWorld) change(e machine.Effect, o *object, late bool) machine.Outcome {
	one := world{now: w.sim.rules.now, changes: map[string]int{}, turned: map[string]time.Time{}}
	out := one.change(e, o)
	if len(one.changes) > 0 {
		w.landed = append(w.landed, landing{e.Run, e.Service.Name, e.Key, e.Action, late, time.Now()})
	}
	return out
}

// plan is the world's; services a and b share a lock.
func (w *simWorld) plan(e machine.Effect, o *object) machine.Outcome {
	one := world{now: w.sim.rules.now}
	out := one.plan(e, o)
	if out.Plan != nil && (e.Service.Name == "a" || e.Service.Name == "b") {
		out.Plan.Locks = append(out.Plan.Locks, "file:repo/values.yaml")
	}
	if out.Plan != nil {
		classes := []playbook.Class{playbook.ClassSetting, playbook.ClassCapacity, playbook.ClassRollback, playbook.ClassHardware}
		out.Plan.Class = classes[hashed(e.Run+e.State)%uint32(len(classes))] // of one visit: a new plan is of the same kind
		if e.Playbook == LoanReturn {
			out.Plan.Class = playbook.ClassReturn
		}
	}
	return out
}

// hashed draws a number from a text, the same in each replay.
func hashed(text string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()
}

// landedIn reports whether the change of that key happened.
func (w *simWorld) landedIn(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.landed, func(l landing) bool { return l.key == key })
}

// foreign is a change by somebody else.
func (w *simWorld) foreign(service string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.objects[service]
	o.generation, o.lastKey = o.generation+1, "kubectl"
}

func (w *simWorld) setCalm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
}
