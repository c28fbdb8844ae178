package kinds_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/step"
)

// scripted is a check that does what its function does.
type scripted func(ctx context.Context, attempt int) (step.Finding, error)

// Run implements step.Check.
func (s scripted) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	n, _ := in.With["n"].(*int)
	*n++
	return s(ctx, *n)
}

// The checks of a gather run side by side, each for itself: one that fails,
// panics, hangs or cannot be asked leaves the others as they are.
func TestGather(t *testing.T) {
	found := step.Finding{Out: map[string]int{"value": 1}, Facts: []string{"one"}}
	away := &fault.Error{Reason: fault.Unreachable, Message: "connection refused"}
	checks := map[string]scripted{
		"ok":   func(context.Context, int) (step.Finding, error) { return found, nil },
		"slow": func(context.Context, int) (step.Finding, error) { time.Sleep(20 * time.Second); return found, nil },
		"no":   func(context.Context, int) (step.Finding, error) { return found, errors.New("500") },
		"later": func(_ context.Context, n int) (step.Finding, error) {
			if n < 3 {
				return step.Finding{}, away
			}
			return found, nil
		},
		"asks": func(context.Context, int) (step.Finding, error) {
			return step.Finding{}, &fault.Error{Reason: fault.NotFound, Message: "no such workload"}
		},
		"waits":  func(ctx context.Context, _ int) (step.Finding, error) { <-ctx.Done(); return step.Finding{}, ctx.Err() },
		"hangs":  func(context.Context, int) (step.Finding, error) { time.Sleep(time.Hour); return found, nil },
		"panics": func(context.Context, int) (step.Finding, error) { panic("nil map") },
	}
	synctest.Test(t, func(t *testing.T) {
		kinds := map[string]step.Kind{}
		e := machine.Effect{Action: machine.ActionCheck, Timeout: 30 * time.Second}
		attempts := map[string]*int{}
		for _, name := range []string{"ok", "slow", "no", "later", "asks", "waits", "hangs", "panics"} {
			kinds[name] = step.Kind{Check: func(step.Deps) step.Check { return checks[name] }}
			attempts[name] = new(int)
			e.Gather = append(e.Gather, machine.Asked{Name: name + "-evidence", Step: name, With: map[string]any{"n": attempts[name]}})
		}
		e.Gather = append(e.Gather, machine.Asked{Name: "unasked", Step: "ok", Why: "with.window: no such key: severity"})
		start := time.Now()
		o := step.NewSet(step.Deps{}, kinds).Do(t.Context(), e)
		if took := time.Since(start); o.Status != machine.StatusOK || took > 30*time.Second {
			t.Errorf("%s after %s", o.Status, took)
		}
		want := map[string]string{
			"ok": "", "slow": "", "later": "", "no": "500", "asks": "no such workload", "waits": "no answer in time",
			"hangs": "no answer within 30s", "panics": "panics panicked: nil map", "unasked": "severity",
		}
		for _, g := range o.Gathered {
			name := strings.TrimSuffix(g.Name, "-evidence")
			if why := want[name]; why == "" && (g.Unknown() || string(g.Data) != `{"value":1}` || len(g.Facts) != 1) || !strings.Contains(g.Why, why) || (why != "") != g.Unknown() {
				t.Errorf("%s: %+v", name, g)
			}
			delete(want, name)
		}
		if len(want) > 0 {
			t.Errorf("missing: %v", want)
		}
		for name, n := range map[string]int{"ok": 1, "no": 3, "later": 3, "asks": 1, "panics": 1} {
			if *attempts[name] != n {
				t.Errorf("%s was tried %d times, want %d", name, *attempts[name], n)
			}
		}
		time.Sleep(2 * time.Hour) // what hangs ends with the test
	})
}

// TestGatherWaitsForServers: a server that an upgrade takes away for a minute is waited
// for, one that stays away is told of, and one that only is slow is not asked again.
func TestGatherWaitsForServers(t *testing.T) {
	away := &fault.Error{Reason: fault.Unreachable, Message: "connection refused"}
	for _, c := range []struct {
		name  string
		check func(ctx context.Context, since time.Duration) error
		known bool
		took  time.Duration // at most
	}{
		{"away for a minute", func(_ context.Context, since time.Duration) error {
			if since < time.Minute {
				return away
			}
			return nil
		}, true, 70 * time.Second},
		{"gone", func(context.Context, time.Duration) error { return away }, false, machine.GatherWithin},
		{"slow", func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return ctx.Err() }, false, 30 * time.Second},
		{"busy", func(context.Context, time.Duration) error {
			return &fault.Error{Reason: fault.Throttled, Message: "429"}
		}, false, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			check := scripted(func(ctx context.Context, _ int) (step.Finding, error) {
				return step.Finding{Out: map[string]int{"value": 1}}, c.check(ctx, time.Since(start))
			})
			e := machine.Effect{Action: machine.ActionCheck, Timeout: machine.GatherWithin, Gather: []machine.Asked{{Name: "pods", Step: "pods", With: map[string]any{"n": new(int)}}}}
			o := step.NewSet(step.Deps{}, map[string]step.Kind{"pods": {Check: func(step.Deps) step.Check { return check }}}).Do(t.Context(), e)
			if took := time.Since(start); o.Gathered[0].Unknown() == c.known || took > c.took {
				t.Errorf("%s: %+v after %s", c.name, o.Gathered[0], took)
			}
		})
	}
}
