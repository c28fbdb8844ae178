package fleet

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
)

// A hundred runs that ask about the same service at once measure it once, and
// again when the measurement is old.
func TestLooksAreShared(t *testing.T) {
	l := &looks{}
	var measured atomic.Int32
	ask := func(now time.Time) party {
		return l.at(t.Context(), party{svc: playbook.Service{Name: "chat"}}, now, func(p *party) error {
			measured.Add(1)
			p.stands, p.burn = slo.Breached, 14
			return nil
		})
	}
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	var runs sync.WaitGroup
	for range 100 {
		runs.Go(func() {
			if p := ask(noon); p.stands != slo.Breached || p.burn != 14 {
				t.Errorf("%+v", p)
			}
		})
	}
	runs.Wait()
	if n := measured.Load(); n != 1 {
		t.Errorf("measured %d times at once", n)
	}
	ask(noon.Add(lookFor))
	if n := measured.Load(); n != 2 {
		t.Errorf("measured %d times, want again after %s", n, lookFor)
	}
	stuck := &look{when: noon, done: make(chan struct{})}
	l.m["stuck"] = stuck
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if p := l.at(ended, party{svc: playbook.Service{Name: "stuck"}, stands: slo.Unknown}, noon, nil); p.stands != slo.Unknown {
		t.Errorf("%+v, want unknown: nobody answered in time", p)
	}
}
