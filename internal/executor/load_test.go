package executor

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
)

// A scrape, the page and the API are answered while the service still loads its
// runs.
func TestViewsWhileStarting(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = waitingSet(t)
		h.start()
		var alerts []playbook.Alert
		for i := range 100 {
			alerts = append(alerts, alertOf("Slow", fmt.Sprintf("n%d", i)))
		}
		h.post(alerts...)
		id := h.runs()[0].Start.Run
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		e, err := New(Options{
			Journal: h.journal, Playbooks: func() *playbook.Set { return loadSet(t, nil) }, Kinds: testKinds(),
			Services: testServices(), Steps: h.world, Autonomy: playbook.Auto,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for e.Ready() != nil && ctx.Err() == nil {
					e.Figures()
					e.Pauses()
					e.Runs(Filter{Limit: 10})
					e.RunState(id)
				}
				end()
			})
		}
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
		readers.Wait()
		if n := e.countOpen(); n != len(alerts) {
			t.Errorf("%d runs are open, want %d", n, len(alerts))
		}
	})
}
