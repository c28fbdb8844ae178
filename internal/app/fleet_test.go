package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/web"
)

// TestFleet: Prometheus is asked once a minute, whoever looks. Where it cannot answer for
// all in the time of a page, those that are left come first the next time, and what was read
// long ago is unknown.
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var services []playbook.Service
		for i := range 30 {
			services = append(services, playbook.Service{Name: fmt.Sprintf("chat-%02d", i), SLOs: []playbook.SLO{{Name: "ttft"}}})
		}
		var asked atomic.Int64
		down := false
		f := newFleet(func() ([]playbook.Service, error) { return services, nil }, func(ctx context.Context, svc playbook.Service) []web.Budget {
			asked.Add(1)
			select {
			case <-time.After(1100 * time.Millisecond):
			case <-ctx.Done():
			}
			if down {
				return unknownBudgets(svc, "no answer")
			}
			return []web.Budget{{Objective: "ttft", Left: 0.5, Burn: 2}}
		}, time.Now)
		known := func() (n int) {
			all := f.all(t.Context())
			if len(all) != len(services) {
				t.Fatalf("%d budgets", len(all))
			}
			for _, b := range all {
				if b.Why == "" {
					n++
				}
			}
			return n
		}
		began := time.Now()
		if n := known(); n != fleetAtOnce || time.Since(began) > answerTimeout {
			t.Errorf("%d are known after %s", n, time.Since(began))
		}
		first := asked.Load()
		for range 100 {
			known()
		}
		if asked.Load() != first {
			t.Errorf("%d more were asked for within a minute", asked.Load()-first)
		}
		for i := range 3 {
			time.Sleep(budgetFresh)
			if n, want := known(), min(len(services), (i+2)*fleetAtOnce); n != want {
				t.Errorf("%d are known in minute %d, want %d", n, i+2, want)
			}
		}
		down = true
		time.Sleep(fleetStale)
		if n := known(); n != 0 {
			t.Errorf("%d are known of which nothing was read for %s", n, fleetStale)
		}
	})
}
