package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/web"
)

// TestFleet: however many people look, each service is asked for once in five minutes, three
// at a time, and no page waits for them. What was read long ago is unknown, and services that
// do not answer in time keep nobody from being asked for.
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var services []playbook.Service
		for i := range 30 {
			services = append(services, playbook.Service{Name: fmt.Sprintf("chat-%02d", i), SLOs: []playbook.SLO{{Name: "ttft"}}})
		}
		var asked, busy atomic.Int64
		missing, takes := errors.New("discovery is not done yet"), map[string]time.Duration{"chat-00": time.Hour, "chat-01": time.Hour, "chat-02": time.Hour}
		var down atomic.Bool
		f := newFleet(func() ([]playbook.Service, error) { return services, missing }, func(ctx context.Context, svc playbook.Service) []web.Budget {
			asked.Add(1)
			if n := busy.Add(1); n > 3 {
				t.Errorf("%d queries at a time", n)
			}
			defer busy.Add(-1)
			late := takes[svc.Name]
			if down.Load() {
				late = time.Hour
			}
			select {
			case <-time.After(max(late, 2*time.Second)):
				return []web.Budget{{Objective: "ttft", Left: 0.5, Burn: 2}}
			case <-ctx.Done():
				return unknownBudgets(svc, "no answer")
			}
		}, time.Now)
		known := func() (n int) {
			began := time.Now()
			all, err := f.all(t.Context())
			if len(all) != len(services) || !errors.Is(err, missing) || time.Since(began) > time.Second {
				t.Fatalf("%d budgets (%v) after %s", len(all), err, time.Since(began))
			}
			for _, b := range all {
				if b.Why == "" {
					n++
				}
			}
			return n
		}
		look := func(minutes int) {
			for range 2 * minutes {
				known()
				time.Sleep(30 * time.Second)
			}
		}
		look(2)
		if n := known(); n != 27 || asked.Load() != 30 {
			t.Errorf("%d are known, %d were asked for", n, asked.Load())
		}
		down.Store(true)
		look(8)
		if n := known(); n != 27 || asked.Load() <= 30 {
			t.Errorf("%d are known that were read 10 minutes ago", n)
		}
		look(10)
		if n := known(); n != 0 {
			t.Errorf("%d are known of which nothing was read for %s", n, fleetStale)
		}
		down.Store(false)
		asked.Store(0)
		look(10)
		if n := known(); n != 27 || asked.Load() > 3*30 {
			t.Errorf("%d are known again after %d questions in ten minutes", n, asked.Load())
		}
		time.Sleep(2 * time.Minute) // the last round ends
	})
}
