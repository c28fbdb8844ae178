package executor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

func TestResolvedEndToEnd(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(10 * time.Minute)
		s := h.only()
		if s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved {
			t.Fatalf("phase %s, ending %+v", s.Phase, s.Ending)
		}
		if n := h.world.count("apply"); n != 1 {
			t.Errorf("%d changes applied, want 1", n)
		}
		if f := h.e.Figures(); f.Open != 0 || f.InAir != 0 || len(f.Locks) != 0 || f.Levers != 1 {
			t.Errorf("figures after the run: %+v", f)
		}
		if err := h.stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestIneffectiveIsUndone(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.world.helps = func(v int) bool { return v == 9 }
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(11 * time.Minute)
		s := h.only()
		if h.world.object("a").value != 4 || h.world.count("undo") != 1 {
			t.Fatalf("value %d after the first lever failed, %d undone", h.world.object("a").value, h.world.count("undo"))
		}
		if s.Phase != machine.PhaseDeciding || s.Gate == nil {
			t.Fatalf("the second lever does not ask: %s in %s", s.Phase, s.Current)
		}
		approve := machine.Command{Kind: machine.CmdDecide, Decision: &machine.Decision{Approve: true, By: "user:eve"}}
		if err := h.e.Command(t.Context(), s.Start.Run, approve); !errors.Is(err, ErrForbidden) {
			t.Errorf("eve approved: %v", err)
		}
		approve.Decision.By = "user:ada"
		if err := h.e.Command(t.Context(), s.Start.Run, approve); err != nil {
			t.Fatal(err)
		}
		if err := h.e.Command(t.Context(), s.Start.Run, approve); !errors.Is(err, ErrConflict) {
			t.Errorf("approved twice: %v", err)
		}
		h.pass(10 * time.Minute)
		if s = h.only(); s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved || h.world.object("a").value != 9 {
			t.Fatalf("ending %+v, value %d", s.Ending, h.world.object("a").value)
		}
		if h.world.told("asks until") != 1 {
			t.Errorf("people were not told of the question: %q", h.world.notices)
		}
	})
}

// A second service wants the same lock: it waits its turn, also over a restart.
func TestLocksAreFIFO(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = func(o *Options) { o.Steps = sharedLock{h.world} }
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Second)
		h.post(alertOf("Slow", "b"))
		h.pass(time.Second)
		h.post(alertOf("Slow", "c"))
		h.pass(20 * time.Second)
		var phases []machine.Phase
		for _, s := range h.runs() {
			phases = append(phases, s.Phase)
		}
		if got := h.world.count("apply"); got != 1 || phases[1] != machine.PhaseWaiting || phases[2] != machine.PhaseWaiting {
			t.Fatalf("%d applied, phases %v", got, phases)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.pass(5 * time.Minute)
		runs := h.runs()
		if runs[1].Lever == nil || runs[1].Lever.AppliedAt.IsZero() || h.world.count("apply") != 2 {
			t.Fatalf("after the first run ended: %s, %s, %d applied", runs[1].Phase, runs[2].Phase, h.world.count("apply"))
		}
		h.pass(20 * time.Minute)
		for _, s := range h.runs() {
			if s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved {
				t.Errorf("%s: %+v", s.Start.Service.Name, s.Ending)
			}
		}
		if f := h.e.Figures(); len(f.Locks) != 0 || f.Waiting != 0 {
			t.Errorf("locks are left: %+v", f)
		}
	})
}

// sharedLock lets all services share one Git file.
type sharedLock struct{ *world }

func (s sharedLock) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	out := s.world.Do(ctx, e)
	if out.Plan != nil {
		out.Plan.Locks = append(out.Plan.Locks, "file:repo/values.yaml")
	}
	return out
}

func TestPauseSurvivesRestart(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(30 * time.Second) // in the air
		if err := h.e.Pause(t.Context(), Scope{}, "user:ada", "storm"); err != nil {
			t.Fatal(err)
		}
		h.post(alertOf("Slow", "b"))
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		if p := h.e.Pauses(); len(p) != 1 || p[0].By != "user:ada" || p[0].Reason != "storm" {
			t.Fatalf("pauses after the restart: %+v", p)
		}
		h.pass(10 * time.Minute)
		if s := h.only(); s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved {
			t.Errorf("what was in the air is %s", s.Phase)
		}
		if f := h.fates(); f[1] != "suppressed (everything is paused by user:ada: storm)" {
			t.Errorf("fates: %v", f)
		}
		if err := h.e.Unpause(t.Context(), Scope{Service: "a"}, "user:ada", ""); !errors.Is(err, ErrNotFound) {
			t.Errorf("lifted a pause that is not there: %v", err)
		}
		if err := h.e.Unpause(t.Context(), Scope{}, "user:ada", "over"); err != nil {
			t.Fatal(err)
		}
		b := alertOf("Slow", "b")
		b.StartsAt = b.StartsAt.Add(-10*time.Minute - 30*time.Second) // the repeat
		h.post(b)
		if len(h.runs()) != 2 {
			t.Errorf("the repeat after the pause starts no run: %v", h.fates())
		}
	})
}

func TestPauseStopsOpenRuns(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = loadSet(t, func(s string) string { return strings.Replace(s, "autonomy: auto", "autonomy: suggest", 1) })
		h.start()
		h.post(alertOf("Slow", "a"))
		if err := h.e.Pause(t.Context(), Scope{Playbook: "ladder"}, "user:ada", ""); err != nil {
			t.Fatal(err)
		}
		s := h.only()
		if s.Paused == "" {
			t.Fatal("the run does not know of the pause")
		}
		if err := h.e.Command(t.Context(), s.Start.Run, machine.Command{Kind: machine.CmdDecide, Decision: &machine.Decision{Approve: true, By: "user:ada"}}); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Minute)
		if h.world.count("apply") != 0 {
			t.Fatal("applied while paused")
		}
		if err := h.e.Unpause(t.Context(), Scope{Playbook: "ladder"}, "user:ada", ""); err != nil {
			t.Fatal(err)
		}
		h.pass(10 * time.Minute)
		if h.world.count("apply") != 1 || h.only().Ending == nil {
			t.Errorf("%d applied after the pause, %s", h.world.count("apply"), h.only().Phase)
		}
	})
}

// Canceled with a change in the air, then a restart: undone, and ended.
func TestCancelAcrossRestart(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(30 * time.Second)
		id := h.only().Start.Run
		cancel := machine.Command{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada", Reason: "wrong"}}
		if err := h.e.Command(t.Context(), id, cancel); err != nil {
			t.Fatal(err)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.pass(time.Minute)
		if s := h.only(); s.Ending == nil || s.Ending.Outcome != machine.OutcomeCanceled || h.world.object("a").value != 4 {
			t.Errorf("ending %+v, value %d", s.Ending, h.world.object("a").value)
		}
		if err := h.e.Command(t.Context(), "r-nobody", cancel); !errors.Is(err, ErrNotFound) {
			t.Errorf("canceled a run that is not there: %v", err)
		}
		if err := h.e.Command(t.Context(), id, cancel); !errors.Is(err, ErrConflict) {
			t.Errorf("canceled an ended run: %v", err)
		}
	})
}

// A run finishes with the playbook it started with, over a reload and restart.
func TestRunKeepsItsPlaybook(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = loadSet(t, func(s string) string { return strings.Replace(s, "autonomy: auto", "autonomy: suggest", 1) })
		old := h.set.ByName("ladder").Digest
		h.start()
		h.post(alertOf("Slow", "a"))
		h.set = loadSet(t, nil)
		h.post(alertOf("Slow", "b"))
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		runs := h.runs()
		if runs[0].Playbook.Digest != old || runs[1].Playbook.Digest == old {
			t.Fatalf("digests %s and %s, old is %s", runs[0].Playbook.Digest, runs[1].Playbook.Digest, old)
		}
		h.pass(time.Minute)
		if s := h.runs()[0]; s.Phase != machine.PhaseDeciding {
			t.Errorf("the old playbook suggests, the run is %s", s.Phase)
		}
	})
}

func TestDivertStartsTheOtherPlaybook(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.world.object("a").value = 6
		h.world.helps = func(v int) bool { return v == 7 }
		h.start()
		ask := alertOf("Ask", "a")
		h.post(ask)
		h.pass(10 * time.Minute)
		runs := h.runs()
		if len(runs) != 2 || runs[0].Ending.Outcome != machine.OutcomeDiverted || runs[1].Start.Playbook != "ladder" {
			t.Fatalf("%d runs: %v", len(runs), h.fates())
		}
		if runs[1].Start.DivertedFrom != runs[0].Start.Run || string(runs[1].Start.Evidence["look"]) != `{"bad":true,"value":6}` {
			t.Errorf("handed over: %+v", runs[1].Start)
		}
		if runs[1].Ending == nil || runs[1].Ending.Outcome != machine.OutcomeResolved {
			t.Errorf("the other run: %s", runs[1].Phase)
		}
		h.post(ask)
		if len(h.runs()) != 2 {
			t.Error("a repeat started a third run")
		}
	})
}

// A broken step, notification or catalog is quarantined and told; everything
// else goes on.
func TestPanicsAreSetAside(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.world.panics = func(e machine.Effect) bool { return e.Action == machine.ActionCheck && e.Service.Name == "b" }
		h.start()
		h.postRaw([]byte(`{"version":"4","alerts":[{"status":`))
		h.post(alertOf("Slow", "broken"))
		h.post(alertOf("Slow", "b"))
		h.post(alertOf("Slow", "a"))
		h.pass(10 * time.Minute)
		if err := h.e.Ready(); err != nil {
			t.Fatal(err)
		}
		f := h.fates()
		if !strings.HasPrefix(f[0], "notification.quarantined") || !strings.HasPrefix(f[1], "notification.quarantined (panic: the catalog") {
			t.Errorf("fates: %v", f)
		}
		if n := h.world.told("quarantined"); n != 2 {
			t.Errorf("people were told of %d notifications: %q", n, h.world.notices)
		}
		runs := h.runs()
		if runs[0].Ending.Outcome != machine.OutcomeEscalated || runs[1].Ending.Outcome != machine.OutcomeResolved {
			t.Errorf("endings: %+v, %+v", runs[0].Ending, runs[1].Ending)
		}
		if h.world.effects[machine.ActionCheck] != 2 {
			t.Errorf("a check that panicked was tried %d times", h.world.effects[machine.ActionCheck]-1)
		}
	})
}

func TestNoService(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		x := alertOf("Slow", "x")
		h.post(x)
		h.post(x)
		h.post(alertOf("Slow", "both"))
		h.pass(time.Minute)
		want := []string{
			"no-service (no service has label service=x)",
			"repeated (still no-service: no service has label service=x)",
			"no-service (a and b claim it)",
		}
		if got := h.fates(); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("fates: %q", got)
		}
		if h.world.told("starts no run") != 2 {
			t.Errorf("told: %q", h.world.notices)
		}
	})
}

// A run whose outcome cannot be found out waits for a person, who is told.
func TestHeldAndResolved(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.world.lie = func(e machine.Effect) string { return "lost" }
		h.world.blind = true
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(5 * time.Minute)
		s := h.only()
		if s.Phase != machine.PhaseHeld || h.world.told("a person has to say") != 1 || h.world.count("apply") != 1 {
			t.Fatalf("%s, told %q", s.Phase, h.world.notices)
		}
		if f := h.e.Figures(); f.Locks["service:a"] != s.Start.Run {
			t.Errorf("a held run keeps its lock: %+v", f)
		} else if f.Phases[Standing{s.Start.Playbook, machine.PhaseHeld}] != 1 || f.Holders[s.Start.Run] != s.Start.Playbook {
			t.Errorf("a held run is counted as such: %+v", f)
		}
		h.world.blind = false
		d := &machine.Decision{By: "user:ada", Approve: true, Reason: "kubectl get"}
		if err := h.e.Command(t.Context(), s.Start.Run, machine.Command{Kind: machine.CmdResolve, Decision: d}); err != nil {
			t.Fatal(err)
		}
		h.pass(10 * time.Minute)
		if s = h.only(); s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved {
			t.Errorf("%s %+v", s.Phase, s.Ending)
		}
	})
}

func TestSubscribe(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		ctx, end := context.WithCancel(t.Context())
		updates := h.e.Subscribe(ctx)
		h.post(alertOf("Slow", "a"))
		h.pass(10 * time.Minute) // nobody reads: nobody is held up
		s := h.only()
		var last machine.Event
		for n := uint64(0); n < s.Head; n++ {
			u := <-updates
			if u.Run != s.Start.Run {
				t.Fatalf("an event of %s", u.Run)
			}
			last = u.Event
		}
		if last.Kind != machine.RunEnded {
			t.Errorf("the last of %d events is %s", s.Head, last.Kind)
		}
		end()
		for range updates { // until it is closed
		}
	})
}

// Shutdown waits for a change under way, so that its outcome is known.
func TestStopWaitsForChanges(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.world.before = func(e machine.Effect) {
			if e.Action == machine.ActionApply {
				time.Sleep(10 * time.Second)
			}
		}
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Second)
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		s, ok := h.e.RunState(h.only().Start.Run)
		if !ok || s.Phase != machine.PhaseSettling {
			t.Errorf("after the stop the run is %s", s.Phase)
		}
		_ = playbook.Auto
	})
}
