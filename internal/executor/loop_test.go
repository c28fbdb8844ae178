package executor

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// stopsWithin fails unless Run returns in time.
func (h *rig) stopsWithin(t *testing.T, d time.Duration, full *atomic.Bool) {
	t.Helper()
	h.end()
	select {
	case err := <-h.ended:
		t.Logf("ended: %v", err)
	case <-time.After(d):
		t.Errorf("Run has not returned %s after the stop", d)
		full.Store(false)
		t.Log(<-h.ended)
	}
	h.end = nil
}

// An executor that starts without space can be stopped.
func TestStopWhileStartingWithoutSpace(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		full := h.failing(t, syscall.ENOSPC)
		h.start()
		crash := make(chan struct{})
		h.world.before = func(e machine.Effect) {
			if e.Action == machine.ActionApply {
				select {
				case <-crash:
				default:
					close(crash)
					h.e.fail(errors.New("dies"))
				}
			}
		}
		h.post(alertOf("Slow", "a"))
		h.pass(time.Minute)
		t.Log(<-h.ended)
		h.end = nil
		full.Store(true)
		h.start()
		h.pass(time.Minute)
		h.stopsWithin(t, 10*time.Minute, full)
	})
}

// A command that reaches a run between its first append and its publication goes to
// that run, not to a copy of it: no effect goes out twice.
func TestCommandToARunThatIsStarting(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		var once atomic.Bool
		h.options = func(o *Options) {
			o.Failpoint = func(name string) error {
				if name == "dispatch-after-append" {
					var id string
					for info, err := range h.journal.Streams("run/") {
						if err != nil {
							return err
						}
						id = strings.TrimPrefix(info.Name, "run/")
					}
					if id != "" && once.CompareAndSwap(false, true) {
						go func() {
							err := h.e.Command(context.Background(), id, machine.Command{Kind: machine.CmdDecide, Decision: &machine.Decision{By: "user:ada", Gate: "g", Approve: true}})
							t.Log("answer:", err)
						}()
						time.Sleep(time.Second)
					}
				}
				return nil
			}
		}
		sent := map[string]int{}
		h.world.before = func(e machine.Effect) {
			h.world.mu.Lock()
			sent[placeOfEffect(e)]++
			h.world.mu.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(30 * time.Minute)
		for k, n := range sent {
			if n > 1 {
				t.Errorf("%s went out %d times", k, n)
			}
		}
		t.Log(h.only().Phase, h.only().Ending)
	})
}

// A run that cannot begin leaves nothing behind in the batch of the run that wanted to
// hand over to it.
func TestDivertToARunThatCannotBegin(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set.ByName("ladder").States[0].Kind = "broken"
		h.start()
		h.world.object("a").value = 7
		h.post(alertOf("Ask", "a"))
		h.pass(time.Minute)
		for _, s := range h.runs() {
			t.Logf("%q %q %s head %d %+v", s.Start.Run, s.Start.Playbook, s.Phase, s.Head, s.Ending)
			if s.Head == 0 {
				t.Error("a ghost")
			}
		}
		t.Logf("%+v", h.e.Figures())
	})
}

// A run that came into quarantine before its attempt went out sends nothing.
func TestRunInQuarantineSendsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = func(o *Options) {
			o.Failpoint = func(name string) error {
				if name == "effect-before" && h.e != nil {
					for _, r := range h.e.openRuns() {
						if s := r.view(); s.Phase == machine.PhaseApplying && s.Quarantine == nil {
							h.inLoop(func(*batch) error { h.e.quarantineRun(r, errors.New("panic")); return nil })
						}
					}
				}
				return nil
			}
		}
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(10 * time.Minute)
		if n := h.world.count("apply"); n != 0 {
			t.Errorf("%d changes by a run in quarantine: %s", n, h.only().Phase)
		}
	})
}

// slowCatalog tells when it is asked in the loop.
type reloading struct {
	services
	on func()
}

func (s reloading) Resolve(a playbook.Alert) ([]playbook.Service, string, error) {
	s.on()
	return s.services.Resolve(a)
}

// Services are asked outside the loop, also after the playbooks were reloaded in
// between: people do not wait for a slow catalog.
func TestLoopAsksTheCatalogNothing(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		n := 0
		var worst time.Duration
		h.options = func(o *Options) {
			o.Services = reloading{testServices(), func() { n++; time.Sleep(3 * time.Second) }}
		}
		none, err := playbook.NewSet(nil)
		if err != nil {
			t.Fatal(err)
		}
		ladder := h.set
		h.set = none
		gate := make(chan struct{})
		// reload while the loop is busy with something else
		h.start()
		busy := make(chan error, 1)
		go func() { busy <- h.e.do(context.Background(), &task{decide: func(*batch) error { <-gate; return nil }}) }()
		time.Sleep(time.Millisecond)
		var all []playbook.Alert
		for range 20 {
			a := alertOf("Slow", "a")
			a.Fingerprint += string(rune('a' + len(all)))
			all = append(all, a)
		}
		h.post(all...)
		h.set = ladder
		close(gate)
		time.Sleep(time.Second)
		asked := time.Now()
		if err := h.e.Command(t.Context(), "r-none", machine.Command{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada"}}); !errors.Is(err, ErrNotFound) {
			t.Errorf("a command to no run: %v", err)
		}
		if err := <-busy; err != nil {
			t.Error(err)
		}
		if worst = time.Since(asked); worst > time.Second {
			t.Errorf("a person waited %s for the loop, which asked the catalog %d times", worst, n)
		}
	})
}

// A gate that is opened after the journal was full for a while has its whole deadline.
func TestGateAfterAFullJournalIsNotExpired(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		full := h.failing(t, syscall.ENOSPC)
		h.set = loadSet(t, func(s string) string {
			s = strings.ReplaceAll(s, "within: 15m", "within: 5m")
			return strings.ReplaceAll(s, "autonomy: auto", "autonomy: suggest")
		})
		h.options = func(o *Options) {
			n := 0
			o.Failpoint = func(name string) error {
				if name == "effect-before" {
					if n++; n == 3 {
						full.Store(true)
					}
				}
				return nil
			}
		}
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(8 * time.Minute)
		t.Log(h.only().Phase)
		full.Store(false)
		h.pass(5 * time.Second)
		s := h.only()
		t.Logf("%s %+v %+v", s.Phase, s.Gate, s.Ending)
		evs, err := h.e.RunEvents(s.Start.Run)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range evs {
			t.Log(e.At.Format("15:04:05"), e.Kind, e.Action, e.Reason, e.Message)
		}
		if s.Phase != machine.PhaseDeciding {
			t.Errorf("people were never asked: %s %+v %+v", s.Phase, s.Ending, s.Closing)
		}
	})
}

type huge struct{ *world }

func (x huge) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	out := x.world.Do(ctx, e)
	if e.Action == machine.ActionPlan && out.Plan != nil {
		out.Plan.Summary = strings.Repeat("x", 25<<20)
	}
	return out
}

// A run whose outcome the journal can never take comes into quarantine, and people are
// told.
func TestOutcomeThatCannotBeRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = func(o *Options) { o.Steps = huge{h.world} }
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(3 * time.Hour)
		s := h.only()
		h.inLoop(func(*batch) error { t.Logf("flight %v", h.e.find(s.Start.Run).flight != nil); return nil })
		if s.Ending == nil && s.Quarantine == nil {
			t.Errorf("nobody knows that the run is stuck: %s, told %v", s.Phase, h.world.notices)
		}
	})
}
