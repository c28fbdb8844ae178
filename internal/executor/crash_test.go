package executor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// scenario is an incident, how it must end whatever crashes, and what must have
// happened in the world by then.
type scenario struct {
	name    string
	helps   func(int) bool
	outcome machine.RunOutcome
	applied int
	undone  int
	value   int
}

func scenarios() []scenario {
	return []scenario{
		{"resolved", func(v int) bool { return v == 5 }, machine.OutcomeResolved, 1, 0, 5},
		{"undone", func(int) bool { return false }, machine.OutcomeEscalated, 1, 1, 4},
	}
}

// lies are what a change may do when its answer is lost, beside the truth.
func lies() []string { return []string{"", "lost", "none"} }

// TestCrashAtEveryBoundary stops the executor at every failpoint a run passes,
// with changes that happen, that happen and are reported lost, and that do not
// happen and are reported lost. After a restart nothing may have happened twice
// and nothing may be forgotten.
func TestCrashAtEveryBoundary(t *testing.T) {
	for _, sc := range scenarios() {
		for _, lie := range lies() {
			t.Run(sc.name+"/"+cmpOr(lie, "honest"), func(t *testing.T) {
				names := map[string]bool{}
				for k := 1; ; k++ {
					crashed := ""
					bubble(t, func(t *testing.T, h *rig) {
						crashed = h.crash(sc, lie, k)
						h.mustEnd(sc, fmt.Sprintf("crash %d at %s", k, crashed))
					})
					if crashed == "" {
						break
					}
					names[crashed] = true
				}
				for _, name := range Failpoints() {
					if !names[name] {
						t.Errorf("no run was stopped at %s", name)
					}
				}
			})
		}
	}
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// crash starts the incident and stops the executor at the k-th failpoint; then
// it starts another one. It gives the failpoint's name, empty when the run
// ended before.
func (h *rig) crash(sc scenario, lie string, k int) string {
	h.world.helps = sc.helps
	h.lieOnce(lie)
	h.intentFirst()
	stop := h.stopAt(k)
	h.start()
	h.post(alertOf("Slow", "a"))
	h.passUntil(func() bool { return stop.at() != "" })
	if stop.at() == "" {
		return ""
	}
	h.crashed()
	if err := h.e.Ready(); err == nil {
		h.t.Error("a crashed executor says it is ready")
	}
	h.end = nil
	h.options = nil
	h.start()
	h.pass(time.Hour)
	return stop.at()
}

// lieOnce lets the first attempt at each change lie.
func (h *rig) lieOnce(lie string) {
	lied := map[machine.Action]bool{}
	h.world.lie = func(e machine.Effect) string {
		if lied[e.Action] {
			return ""
		}
		lied[e.Action] = true
		return lie
	}
}

// intentFirst holds that no effect begins before its intent is in the journal.
func (h *rig) intentFirst() {
	h.world.before = func(e machine.Effect) {
		if e.Run == "" || e.Attempt == 0 || strings.Contains(e.Key, "/gate#") {
			return
		}
		events, err := h.e.RunEvents(e.Run)
		if err != nil {
			h.t.Errorf("%s begins and its run is not in the journal: %v", e.Key, err)
		}
		known := slices.ContainsFunc(events, func(ev machine.Event) bool {
			return ev.Kind == machine.EffectStarted && ev.Effect == e.Key
		})
		if !known {
			h.t.Errorf("%s begins and its intent is not in the journal", e.Key)
		}
	}
}

// mustEnd holds what must be true when the dust has settled.
func (h *rig) mustEnd(sc scenario, when string) {
	h.t.Helper()
	s := h.only()
	if s.Ending == nil || s.Ending.Outcome != sc.outcome {
		h.t.Fatalf("%s: the run is %s, ending %+v", when, s.Phase, s.Ending)
	}
	for what, n := range h.world.changes {
		if n != 1 {
			h.t.Errorf("%s: %s happened %d times", when, what, n)
		}
	}
	if a, u := h.world.count("apply"), h.world.count("undo"); a != sc.applied || u != sc.undone || h.world.object("a").value != sc.value {
		h.t.Errorf("%s: %d applied, %d undone, value %d", when, a, u, h.world.object("a").value)
	}
	matched := 0
	for _, f := range h.fates() {
		if f == "matched" {
			matched++
		}
	}
	if matched != 1 {
		h.t.Errorf("%s: fates %v", when, h.fates())
	}
	if f := h.e.Figures(); f.InAir != 0 || len(f.Locks) != 0 {
		h.t.Errorf("%s: figures %+v", when, f)
	}
	h.mustAgree(when)
}

// TestCrashesAnywhere crashes again and again, at random places, also while the
// run is being resumed.
func TestCrashesAnywhere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sc := rapid.SampledFrom(scenarios()).Draw(rt, "scenario")
		lie := rapid.SampledFrom(lies()).Draw(rt, "lie")
		gaps := rapid.SliceOfN(rapid.IntRange(1, 25), 1, 3).Draw(rt, "gaps") // of more, and always at one place, a run is quarantined: see crashGuard
		synctest.Test(t, func(t *testing.T) {
			h := newRig(t)
			h.world.helps = sc.helps
			h.lieOnce(lie)
			h.intentFirst()
			posted := false
			for _, gap := range append(gaps, 0) {
				h.stopAt(gap)
				h.start()
				if !posted {
					h.post(alertOf("Slow", "a"))
					posted = true
				}
				h.passUntil(func() bool { return h.e.Ready() != nil })
				if h.e.Ready() == nil {
					break
				}
				if err := <-h.ended; gap > 0 && !errors.Is(err, errCrash) {
					rt.Fatalf("ended with %v", err)
				}
				h.end = nil
			}
			if h.end == nil {
				rt.Fatal("the last executor crashed too")
			}
			h.mustEnd(sc, fmt.Sprintf("%s after crashes %v", lie, gaps))
		})
	})
}

// A control: a world without preconditions, whose observations lie, must be
// seen to fail. It shows that the tests above can fail.
func TestCrashControl(t *testing.T) {
	sc := scenarios()[0]
	twice := false
	for k := 1; k < 60 && !twice; k++ {
		bubble(t, func(t *testing.T, h *rig) {
			inner := h.world
			h.world.helps = sc.helps
			stop := h.stopAt(k)
			h.options = func(o *Options) { o.Steps, o.Failpoint = forgetful{inner}, stop.failpoint }
			h.start()
			h.post(alertOf("Slow", "a"))
			h.passUntil(func() bool { return h.e.Ready() != nil })
			if h.e.Ready() != nil {
				h.crashed()
				h.start()
				h.pass(time.Hour)
			}
			twice = twice || inner.count("apply") > 1
		})
	}
	if !twice {
		t.Error("a world that forgets and has no preconditions was never changed twice: the crash tests prove nothing")
	}
}
