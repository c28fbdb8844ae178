package kinds_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// Replicas that were added for a burst are needed as long as it lasts; those that
// were added for nothing are not.
func TestHeadroom(t *testing.T) {
	for _, c := range []struct {
		scenario string
		undo     bool // go back to the earlier revision too
		by       int64
		window   string
		fits     bool
	}{
		{"traffic-burst", false, -2, "5m", false},
		{"traffic-burst", false, 0, "5m", true},
		{"bad-rollout", true, -2, "5m", true},
		{"bad-rollout", true, -2, "20m", true},
		{"bad-rollout", true, -2, "2h", false},  // the breach is in it
		{"bad-rollout", false, -2, "5m", false}, // it misses its objectives
		{"bad-rollout", true, -6, "5m", false},  // nothing would be left
	} {
		clock := sandbox.NewManualClock(noon)
		w, err := sandbox.New(c.scenario, clock)
		if err != nil {
			t.Fatal(err)
		}
		svc := w.Services()[0]
		ref := kube.Ref{Kind: svc.Workload.Kind, Namespace: svc.Namespace, Name: svc.Workload.Name}
		pre := func() (kube.Workload, kube.Precondition) {
			now, err := w.Workload(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			return now, kube.Precondition{UID: now.UID, Generation: now.Generation}
		}
		now, p := pre()
		if _, err := w.Scale(t.Context(), kube.ScaleChange{Ref: ref, Replicas: now.Replicas + 2, Pre: p}); err != nil {
			t.Fatal(err)
		}
		if c.undo {
			now, p := pre()
			if _, err := w.Undo(t.Context(), kube.UndoChange{Ref: ref, Revision: now.Revision - 1, Pre: p}); err != nil {
				t.Fatal(err)
			}
		}
		clock.Advance(45 * time.Minute)
		set := kinds.New(step.Deps{Querier: w, Workloads: w, Now: clock.Now})
		o := set.Do(t.Context(), machine.Effect{
			Key: "k", Run: "r-1", Action: machine.ActionCheck, Step: "slo.headroom", Service: svc, With: map[string]any{"by": c.by, "window": c.window}, Timeout: time.Minute,
		})
		var out struct {
			Fits     bool
			Replicas int
			Note     string
		}
		if o.Status != machine.StatusOK {
			t.Fatalf("%+v", o)
		}
		if err := json.Unmarshal(o.Data, &out); err != nil {
			t.Fatal(err)
		}
		if out.Fits != c.fits || c.by < 0 && out.Replicas != 6 {
			t.Errorf("%s, undone %t, by %d over %s: %s %q", c.scenario, c.undo, c.by, c.window, o.Data, o.Facts)
		}
	}
}
