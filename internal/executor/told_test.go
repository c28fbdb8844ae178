package executor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// hotSet is a playbook whose runs share a cause.
func hotSet(t *testing.T) *playbook.Set {
	t.Helper()
	all, err := playbook.Parse("hot.yaml", []byte(`
apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: hot, runbook: docs/test.md}
spec:
  match: '{alertname="Hot"}'
  autonomy: auto
  start: look
  states:
    look: {check: test.look, on_error: people, next: [{when: out.bad, to: room}, {to: known}]}
    room: {notify: 'the room is hot', once: room, next: [{when: out.first, to: people}, {to: known, label: told by another run}]}
    known: {end: no-action}
    people: {end: escalated}
`), testKinds())
	if err != nil {
		t.Fatal(err)
	}
	set, err := playbook.NewSet(all)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// outcomes counts how runs ended.
func (h *rig) outcomes() map[machine.RunOutcome]int {
	out := map[machine.RunOutcome]int{}
	for _, s := range h.runs() {
		if s.Ending != nil {
			out[s.Ending.Outcome]++
		}
	}
	return out
}

// TestToldOnce: five services of one hot room are told once, also by a run that
// starts after a restart, and again after an hour.
func TestToldOnce(t *testing.T) {
	for _, together := range []bool{true, false} {
		t.Run(fmt.Sprintf("together=%v", together), func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.set = hotSet(t)
				h.world.helps = func(int) bool { return false }
				h.start()
				var alerts []playbook.Alert
				for i := range 5 {
					alerts = append(alerts, alertOf("Hot", fmt.Sprintf("n%d", i)))
				}
				if together {
					h.post(alerts...)
				} else {
					for _, a := range alerts {
						h.post(a)
						h.pass(time.Minute)
					}
				}
				h.pass(time.Minute)
				got := h.outcomes()
				if n := h.world.told("the room is hot"); n != 1 || got[machine.OutcomeEscalated] != 1 || got[machine.OutcomeNoAction] != 4 {
					t.Fatalf("told %d times: %v", n, got)
				}
				h.mustName()
				h.restart()
				h.post(alertOf("Hot", "n5"))
				h.pass(time.Minute)
				if n := h.world.told("the room is hot"); n != 1 || h.outcomes()[machine.OutcomeNoAction] != 5 {
					t.Errorf("after a restart: told %d times: %v", n, h.outcomes())
				}
				h.mustName()
				h.pass(time.Hour)
				h.post(alertOf("Hot", "n6"))
				h.pass(time.Minute)
				if n := h.world.told("the room is hot"); n != 2 {
					t.Errorf("after an hour: told %d times", n)
				}
				if n := h.world.count("apply"); n != 0 {
					t.Errorf("%d changes", n)
				}
			})
		})
	}
}

// TestToldOfTheNextIncident: once the alerts of the run that told people have all
// resolved, the same cause is told again within the hour, also after a restart.
func TestToldOfTheNextIncident(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = hotSet(t)
		h.world.helps = func(int) bool { return false }
		h.start()
		first, second := alertOf("Hot", "n0"), alertOf("Hot", "n1")
		h.post(first)
		h.pass(time.Minute)
		h.post(second)
		h.pass(time.Minute)
		h.post(resolvedOf(second))
		h.post(alertOf("Hot", "n2"))
		h.pass(time.Minute)
		if n := h.world.told("the room is hot"); n != 1 {
			t.Fatalf("told %d times while the first alert fires", n)
		}
		h.post(resolvedOf(first))
		h.pass(time.Minute)
		h.restart()
		for i := range 3 { // the first of them tells it for the others
			h.post(alertOf("Hot", fmt.Sprintf("n%d", i+5)))
			h.pass(time.Minute)
		}
		if n := h.world.told("the room is hot"); n != 2 || h.outcomes()[machine.OutcomeEscalated] != 2 {
			t.Errorf("told %d times of two incidents: %v", n, h.outcomes())
		}
	})
}

// mustName checks that every run that told nobody names the one that did.
func (h *rig) mustName() {
	h.t.Helper()
	teller := ""
	for _, s := range h.runs() {
		if len(s.Told) > 0 {
			teller = s.Start.Run
		}
	}
	for _, s := range h.runs() {
		if s.Ending == nil || s.Ending.Outcome != machine.OutcomeNoAction {
			continue
		}
		if e := s.Evidence["room"]; e == nil || teller == "" || !strings.Contains(string(e.Data), teller) {
			h.t.Errorf("run %s does not name %q: %+v", s.Start.Run, teller, e)
		}
	}
}

// TestToldAtEveryBoundary: wherever the process dies, people are told, and what a
// run left to another one that one told.
func TestToldAtEveryBoundary(t *testing.T) {
	for k := 1; ; k++ {
		crashed := ""
		bubble(t, func(t *testing.T, h *rig) {
			h.set = hotSet(t)
			h.world.helps = func(int) bool { return false }
			stop := h.stopAt(k)
			h.start()
			var alerts []playbook.Alert
			for i := range 3 {
				alerts = append(alerts, alertOf("Hot", fmt.Sprintf("n%d", i)))
			}
			h.post(alerts...)
			h.pass(time.Minute)
			if crashed = stop.at(); crashed != "" {
				h.crashed()
				h.options = nil
				h.start()
				h.pass(time.Minute)
			}
			got := h.outcomes()
			if n := h.world.told("the room is hot"); n < 1 || n > 2 || got[machine.OutcomeEscalated] != 1 || got[machine.OutcomeNoAction] != 2 {
				t.Errorf("crash %d at %s: told %d times: %v", k, crashed, n, got)
			}
			h.mustName()
		})
		if crashed == "" {
			return
		}
	}
}

// TestToldToNobody: the channel refuses the first run's message. It ends with
// people, and the next run tells them.
func TestToldToNobody(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		tries, until := 0, time.Now().Add(2*time.Minute)
		h.set = hotSet(t)
		h.world.helps = func(int) bool { return false }
		h.options = func(o *Options) { o.Steps = muted{h.world, until, fault.Forbidden, &tries} }
		h.start()
		h.post(alertOf("Hot", "a"))
		h.pass(3 * time.Minute)
		h.restart()
		h.post(alertOf("Hot", "b"))
		h.pass(time.Minute)
		if n := h.world.told("the room is hot"); n != 1 || tries == 0 {
			t.Errorf("told %d times after %d tries: %v", n, tries, h.outcomes())
		}
	})
}
