package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// release is a person's command to release a run.
func release(reason string) machine.Command {
	return machine.Command{Kind: machine.CmdRelease, Decision: &machine.Decision{By: "user:ada", Channel: "cli", Reason: reason}}
}

// quarantineNow quarantines the run as a panic of our own code would.
func (h *rig) quarantineNow(id string) {
	h.inLoop(func(*batch) error {
		h.e.quarantineRun(h.e.find(id), errors.New("panic: our own code is broken"))
		return nil
	})
	h.pass(time.Second)
}

// A run that was quarantined with a change in the air keeps others away, says so,
// and is released by a person: then everything it held is free, over restarts too.
func TestRelease(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = func(o *Options) { o.Steps = sharedLock{h.world} }
		h.start()
		slow := alertOf("Slow", "a")
		h.post(slow)
		h.pass(30 * time.Second) // in the air
		id := h.only().Start.Run
		if err := h.e.Command(t.Context(), id, release("healthy")); !errors.Is(err, ErrConflict) {
			t.Errorf("a run that is not quarantined was released: %v", err)
		}
		h.quarantineNow(id)
		h.post(alertOf("Slow", "b"))
		h.pass(time.Minute)
		h.restart()
		if s := h.runs()[0]; s.Quarantine == nil || !strings.Contains(s.Quarantine.Message, "our own code") || s.Quarantine.At.IsZero() {
			t.Fatalf("the run does not say that it is quarantined: %+v", s.Quarantine)
		}
		if f := h.e.Figures(); f.Locks["service:a"] != id || f.InAir != 1 || h.runs()[1].Phase != machine.PhaseWaiting {
			t.Fatalf("what it holds: %+v, the other run is %s", f, h.runs()[1].Phase)
		}
		h.mustRelease(id)
		h.pass(20 * time.Minute)
		for range 2 {
			all := h.runs()
			if s := all[0]; s.Ending == nil || s.Ending.Outcome != machine.OutcomeReleased || !strings.Contains(s.Ending.Message, "user:ada: looked") {
				t.Errorf("the run ended %+v", s.Ending)
			}
			if s := all[1]; s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved {
				t.Errorf("the run that waited for its lock is %s", s.Phase)
			}
			h.restart()
		}
		if rec := h.lastControl(KindRunReleased); !strings.Contains(rec, `"by":"user:ada","door":"cli","reason":"looked"`) {
			t.Errorf("the journal says %s", rec)
		}
		h.post(slow)
		h.pass(time.Minute)
		h.post(slow)
		if all := h.runs(); len(all) != 3 || all[2].Start.Service.Name != "a" {
			t.Errorf("%d runs after the alert came again, want one more: %v", len(all), h.fates())
		}
	})
}

// mustRelease releases a run; before that, nothing else reaches it.
func (h *rig) mustRelease(id string) {
	h.t.Helper()
	cancel := machine.Command{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada", Reason: "x"}}
	if err := h.e.Command(h.t.Context(), id, cancel); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "release it") {
		h.t.Errorf("cancel of a run that is quarantined: %v", err)
	}
	if err := h.e.Command(h.t.Context(), id, release("")); !errors.Is(err, ErrInvalid) {
		h.t.Errorf("released without a reason: %v", err)
	}
	if err := h.e.Command(h.t.Context(), id, release("looked")); err != nil {
		h.t.Fatal(err)
	}
	if err := h.e.Command(h.t.Context(), id, release("again")); !errors.Is(err, ErrConflict) {
		h.t.Errorf("released twice: %v", err)
	}
	if f := h.e.Figures(); f.Locks["service:a"] == id {
		h.t.Errorf("after the release: %+v", f)
	}
}

func (h *rig) restart() {
	h.t.Helper()
	if err := h.stop(); err != nil {
		h.t.Fatal(err)
	}
	h.start()
	h.pass(time.Second)
}

func (h *rig) lastControl(kind string) string {
	h.t.Helper()
	all := h.controls(kind)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// controls returns what is recorded of a kind beside the runs.
func (h *rig) controls(kind string) []string {
	h.t.Helper()
	var out []string
	for rec, err := range h.journal.Stream(streamControl, 0) {
		if err != nil {
			h.t.Fatal(err)
		}
		if rec.Kind == kind {
			out = append(out, string(rec.Data))
		}
	}
	return out
}

// appendTo appends a record to a run's stream.
func appendTo(h *rig, id, kind, data string) {
	h.t.Helper()
	head, err := h.journal.Head(streamOf(id))
	if err == nil {
		_, err = h.journal.Append(context.Background(), audit.Append{
			Stream: streamOf(id), After: head, Records: []audit.Record{{Kind: kind, Data: []byte(data)}},
		})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// unreadable makes the record of a run one that this program cannot fold.
func unreadable() map[string]func(h *rig, id string) {
	return map[string]func(h *rig, id string){
		"playbook no longer compiles": func(h *rig, _ string) {
			h.set = loadSet(h.t, func(s string) string { return strings.Replace(s, "within: 15m", "within: 16m", 1) })
			h.options = func(o *Options) { o.Kinds = nil }
		},
		"unknown event":   func(h *rig, id string) { appendTo(h, id, "lever.of-the-future", `{}`) },
		"impossible form": func(h *rig, id string) { appendTo(h, id, string(machine.Sampled), `{"at":7}`) },
	}
}

// A run that cannot be folded may have left a change half done: it keeps its
// service locked, blocks its target, is listed, and can be released.
func TestUnreadableRunHoldsItsService(t *testing.T) {
	for name, breaks := range unreadable() {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.start()
				h.post(alertOf("Slow", "a"))
				h.pass(30 * time.Second) // in the air
				id := h.only().Start.Run
				if err := h.stop(); err != nil {
					t.Fatal(err)
				}
				breaks(h, id)
				h.start()
				h.pass(time.Second)
				s := h.only()
				if s.Quarantine == nil || s.Start.Run != id || s.Start.Service.Name != "a" || s.Start.Playbook != "ladder" || s.Episodes.Len() != 1 || s.Current != "first" {
					t.Fatalf("listed as %+v", s)
				}
				if f := h.e.Figures(); f.Locks["service:a"] != id || f.InAir != 1 || f.Levers != 1 {
					t.Errorf("it holds nothing, or its lever does not count: %+v", f)
				}
				other := alertOf("Slow", "a")
				other.Fingerprint = "other"
				h.post(other)
				if f := h.fates(); !strings.Contains(f[len(f)-1], "is quarantined") {
					t.Errorf("another alert of its target: %v", f)
				}
				if h.world.told("runs release "+id) != 1 {
					t.Errorf("people were told %q", h.world.notices)
				}
				h.mustRelease(id)
				h.restart()
				s = h.runs()[0]
				if s.Ending == nil || s.Ending.Outcome != machine.OutcomeReleased {
					t.Errorf("after the release: %+v", s.Ending)
				}
				if _, err := h.e.RunEvents(id); err != nil {
					t.Errorf("what can be read of it is not shown: %v", err)
				}
				if s, events, err := h.e.RunHistory(id); err == nil && (uint64(len(events)) != s.Head || s.Phase != machine.PhaseEnded) {
					t.Errorf("its history is half of one: %d events, head %d", len(events), s.Head)
				}
				if all := h.runs(); len(all) != 2 || all[1].Start.Alert.Fingerprint != "other" {
					t.Errorf("%d runs, want one for the alert that waited: %v", len(all), h.fates())
				}
			})
		})
	}
}

// A run whose end cannot be read may have handed its alerts over or released them: it
// is quarantined, as long as its alerts are remembered, and a person releases it.
func TestUnreadableEnd(t *testing.T) {
	for name, data := range map[string]string{"impossible form": `{"at":7}`, "no outcome": `{}`} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.start()
				h.post(alertOf("Slow", "a"))
				h.pass(time.Hour)
				id := h.only().Start.Run
				if h.only().Ending == nil {
					t.Fatalf("the run is %s", h.only().Phase)
				}
				if err := h.stop(); err != nil {
					t.Fatal(err)
				}
				appendTo(h, id, string(machine.RunEnded), data)
				h.start()
				h.pass(time.Second)
				s := h.only()
				if s.Quarantine == nil || !strings.Contains(s.Quarantine.Message, "its end cannot be read, nor which alerts it handed over or released") {
					t.Fatalf("listed as %+v", s)
				}
				if h.world.told("runs release "+id) != 1 {
					t.Errorf("people were told %q", h.world.notices)
				}
				other := alertOf("Slow", "a")
				other.Fingerprint = "other"
				h.post(other)
				if f := h.fates(); !strings.Contains(f[len(f)-1], "is quarantined") {
					t.Errorf("another alert of its target: %v", f)
				}
				h.mustRelease(id)
				h.restart()
				if all := h.runs(); len(all) != 2 || all[0].Ending == nil || all[0].Ending.Outcome != machine.OutcomeReleased || all[1].Start.Alert.Fingerprint != "other" {
					t.Errorf("%d runs, want one for the alert that waited: %v", len(all), h.fates())
				}
			})
		})
	}
}

// An old run whose end cannot be read stands in nobody's way: its alerts are forgotten.
func TestUnreadableEndOfLongAgo(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Hour)
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		appendTo(h, h.only().Start.Run, string(machine.RunEnded), `{"at":7}`)
		time.Sleep(dispatch.EpisodesKept + time.Hour)
		h.start()
		h.pass(time.Second)
		if f := h.e.Figures(); len(f.Locks) != 0 || len(h.world.notices) != 0 {
			t.Errorf("it holds %v, and people were told %q", f.Locks, h.world.notices)
		}
	})
}

// Of a run of which not even the service can be read, nobody knows what it
// changed: nobody acts until a person has looked.
func TestRunWithoutServiceLocksEverything(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		_, err := h.journal.Append(t.Context(), audit.Append{
			Stream: "run/r-lost", Records: []audit.Record{{Kind: string(machine.RunStarted), Data: []byte(`{"start":7}`)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Minute)
		if n := h.world.count("apply"); n != 0 {
			t.Fatalf("%d applied while nobody knows what r-lost changed", n)
		}
		if err := h.e.Command(t.Context(), "r-lost", release("nothing is half done")); err != nil {
			t.Fatal(err)
		}
		h.pass(10 * time.Minute)
		if n := h.world.count("apply"); n != 1 {
			t.Errorf("%d applied after the release: %s", n, fmt.Sprint(h.e.Figures()))
		}
	})
}

// A run that was quarantined while it waited for a lock has nothing in the air:
// it does not keep those behind it waiting.
func TestSetAsideLeavesTheLine(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = func(o *Options) { o.Steps = sharedLock{h.world} }
		h.start()
		for _, name := range []string{"a", "b", "c"} {
			h.post(alertOf("Slow", name))
			h.pass(time.Second)
		}
		h.pass(20 * time.Second)
		h.quarantineNow(h.runs()[1].Start.Run)
		h.pass(15 * time.Minute)
		if s := h.runs()[2]; s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved {
			t.Errorf("the run behind it is %s: %+v", s.Phase, h.e.Figures())
		}
	})
}
