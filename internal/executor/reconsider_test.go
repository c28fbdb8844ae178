package executor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// What a pause has suppressed and still fires starts its run when the pause is
// lifted, not hours later with the next repeat; once, and with a record.
func TestLiftedPauseDispatchesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		for _, s := range []Scope{{}, {Service: "c"}} {
			if err := h.e.Pause(t.Context(), s, "user:ada", "storm"); err != nil {
				t.Fatal(err)
			}
		}
		a, b, c := alertOf("Slow", "a"), alertOf("Slow", "b"), alertOf("Slow", "c")
		h.post(a, b, c)
		h.post(resolvedOf(b))
		h.post(a)
		h.restart()
		if n := len(h.runs()); n != 0 {
			t.Fatalf("%d runs while everything is paused", n)
		}
		if err := h.e.Unpause(t.Context(), Scope{}, "user:ada", "over"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := h.only(); s.Start.Service.Name != "a" || s.Start.Notification != 3 {
			t.Errorf("a run on %s, of notification %d; %v", s.Start.Service.Name, s.Start.Notification, h.fates())
		}
		f := h.fates()
		if f[len(f)-2] != "matched" || f[len(f)-1] != "suppressed (service c is paused by user:ada: storm)" {
			t.Errorf("the journal says %v", f)
		}
		h.restart() // the cursor is where it was
		h.post(a)
		h.pass(10 * time.Minute)
		if s := h.only(); s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved || len(h.fates()) != len(f)+1 {
			t.Errorf("%s; %v", s.Phase, h.fates())
		}
		if err := h.e.Unpause(t.Context(), Scope{Service: "c"}, "user:ada", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if runs := h.runs(); len(runs) != 2 || runs[1].Start.Service.Name != "c" {
			t.Errorf("%d runs after the second pause: %v", len(runs), h.fates())
		}
	})
}

// The process dies anywhere between the lift of a pause and what follows: the
// alert has its run after the next start, and only one.
func TestLiftedPauseSurvivesCrashes(t *testing.T) {
	for k := 1; ; k++ {
		crashed := ""
		bubble(t, func(t *testing.T, h *rig) {
			h.set = waitingSet(t)
			h.start()
			if err := h.e.Pause(t.Context(), Scope{}, "user:ada", "storm"); err != nil {
				t.Fatal(err)
			}
			h.post(alertOf("Slow", "a"))
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			stop := h.stopAt(k)
			h.start()
			lifted := h.e.Unpause(t.Context(), Scope{}, "user:ada", "over")
			h.pass(time.Minute)
			if crashed = stop.at(); crashed != "" {
				h.crashed()
				h.options = nil
				h.start()
				h.pass(time.Minute)
				if len(h.e.Pauses()) > 0 {
					return // it died before the lift was recorded
				}
			} else if lifted != nil {
				t.Fatal(lifted)
			}
			if n := len(h.runs()); n != 1 {
				t.Errorf("crash %d at %s: %d runs: %v", k, crashed, n, h.fates())
			}
		})
		if crashed == "" {
			return
		}
	}
}

// An alert that nobody has mentioned for a day is not believed to fire still,
// and one that cannot be processed any more is quarantined, not the service.
func TestWhatIsNotDispatchedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		broken := false
		h.options = func(o *Options) {
			o.Services = resolverFunc(func(a playbook.Alert) ([]playbook.Service, string, error) {
				if broken && a.Labels["service"] == "a" {
					panic("the catalog is broken")
				}
				return testServices().Resolve(a)
			})
		}
		h.start()
		lift := func(paused time.Duration, service string) {
			if err := h.e.Pause(t.Context(), Scope{}, "user:ada", ""); err != nil {
				t.Fatal(err)
			}
			h.post(alertOf("Slow", service))
			h.pass(paused)
			broken = service == "a"
			if err := h.e.Unpause(t.Context(), Scope{}, "user:ada", ""); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		lift(25*time.Hour, "b")
		lift(time.Hour, "a")
		if n := len(h.runs()); n != 0 || h.world.told("were quarantined") != 1 || h.e.Ready() != nil {
			t.Errorf("%d runs, ready: %v, people were told %q", n, h.e.Ready(), h.world.notices)
		}
		h.restart()
		if f := h.fates(); !strings.Contains(f[len(f)-1], "catalog is broken") || h.world.told("were quarantined") != 1 {
			t.Errorf("after a restart: %v, %q", f, h.world.notices)
		}
		lift(time.Hour, "c")
		if n := len(h.runs()); n != 1 {
			t.Errorf("%d runs, want the one on c: %v", n, h.fates())
		}
	})
}

// resolverFunc is a function as a catalog.
type resolverFunc func(playbook.Alert) ([]playbook.Service, string, error)

// Resolve implements Services.
func (f resolverFunc) Resolve(a playbook.Alert) ([]playbook.Service, string, error) { return f(a) }

// A message that is due is sent after a crash, with the same words, until it is
// recorded what became of it; one that cannot be delivered is tried again.
func TestNoticesSurviveCrashes(t *testing.T) {
	for _, c := range []struct{ name, service, raw, want string }{
		{"no service", "who", "", "alert Slow starts no run: no service has label service=who"},
		{"quarantined", "", `{"alerts":7}`, "cannot be processed and was quarantined"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.options = func(o *Options) {
					o.Failpoint = func(name string) error {
						if name == "dispatch-after-append" {
							return errCrash
						}
						return nil
					}
				}
				h.start()
				if c.raw != "" {
					h.postRaw([]byte(c.raw))
				} else {
					h.post(alertOf("Slow", c.service), alertOf("Slow", "a"))
				}
				h.pass(time.Second)
				h.crashed()
				if h.world.told(c.want) != 0 {
					t.Fatal("told before the crash: nothing is tested")
				}
				h.options = func(o *Options) { o.Steps = &deaf{world: h.world, times: 2} }
				h.start()
				h.pass(10 * time.Minute)
				h.restart()
				h.pass(10 * time.Minute)
				if n := h.world.told(c.want); n != 1 {
					t.Errorf("told %d times: %q", n, h.world.notices)
				}
				if s := h.lastControl(KindNotice); strings.Contains(s, "error") {
					t.Errorf("the journal says %s", s)
				}
			})
		})
	}
}

// What nobody could be told during a long outage is told when it is over, and
// given up, on record, after a day.
func TestNoticesOutlastAnOutage(t *testing.T) {
	for _, c := range []struct {
		name  string
		times int
		told  int
	}{{"five hours", 60, 1}, {"for ever", 1 << 30, 0}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.options = func(o *Options) { o.Steps = &deaf{world: h.world, times: c.times} }
				h.start()
				h.post(alertOf("Slow", "who"))
				h.pass(4 * time.Hour)
				if n := h.world.told("starts no run"); n != 0 {
					t.Fatal("told during the outage: nothing is tested")
				}
				h.pass(21 * time.Hour)
				if n := h.world.told("starts no run"); n != c.told {
					t.Errorf("told %d times, want %d", n, c.told)
				}
				if s := h.lastControl(KindNotice); strings.Contains(s, "nobody answers") != (c.told == 0) {
					t.Errorf("the journal says %s", s)
				}
			})
		})
	}
}

// deaf is a world whose people cannot be reached at first.
type deaf struct {
	*world
	times int
}

// Do implements Steps.
func (d *deaf) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	if e.Action == machine.ActionNotify && d.times > 0 {
		d.times--
		return machine.Outcome{Status: machine.StatusFailed, Reason: fault.Unreachable, Message: "nobody answers"}
	}
	return d.world.Do(ctx, e)
}

// A burst of alerts without a service is one message.
func TestNoServiceBurst(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.start()
		var alerts []playbook.Alert
		for i := range 100 {
			a := alertOf("Slow", "who")
			a.Fingerprint = fmt.Sprint(i)
			alerts = append(alerts, a)
		}
		h.post(alerts...)
		h.pass(time.Second)
		if len(h.world.notices) != 1 || h.world.told("alert Slow and 99 more start no run") != 1 {
			t.Errorf("people were told %q", h.world.notices)
		}
	})
}
