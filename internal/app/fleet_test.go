package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
			if len(all) != len(services) || !errors.Is(err, missing) || time.Since(began) > 200*time.Millisecond {
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
		if all, _ := f.all(t.Context()); !strings.HasPrefix(all[0].Why, "it is being read") {
			t.Errorf("the first look: %q", all[0].Why)
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

// TestFleetAsksAgain: what Prometheus did not answer is asked for again in a minute, and what
// was known of it stays, with its age.
func TestFleetAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := playbook.Service{Name: "chat", SLOs: []playbook.SLO{{Name: "ttft"}}}
		var asked atomic.Int64
		answers := []web.Budget{{Objective: "ttft", Burn: 2}, {Objective: "ttft", Why: unanswered}, {Objective: "ttft", Burn: 9}}
		f := newFleet(func() ([]playbook.Service, error) { return []playbook.Service{svc}, nil }, func(context.Context, playbook.Service) []web.Budget {
			return answers[asked.Add(1)-1 : asked.Load()]
		}, time.Now)
		look := func(burn float64, since time.Duration) {
			t.Helper()
			all, err := f.all(t.Context())
			if err != nil || len(all) != 1 || all[0].Burn != burn || time.Since(all[0].Read) != since {
				t.Fatalf("%+v, %v: want a burn rate of %v, read %s ago", all, err, burn, since)
			}
		}
		look(2, 0)
		before := f.read()
		time.Sleep(fleetFresh)
		look(2, fleetFresh) // the second answer is none
		if !f.read().After(before) {
			t.Error("pages are not told of a round")
		}
		time.Sleep(failedFresh)
		look(9, 0)
	})
}
