package sandbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/steptest"
)

// TestLevers holds the simulated cluster to what levers demand of a real one.
func TestLevers(t *testing.T) {
	world := func(meddle func(t *testing.T, w *World, now kube.Workload)) func(t *testing.T) steptest.World {
		return func(t *testing.T) steptest.World {
			w, clock := open(t, "bad-rollout")
			svc, ref := chat(w)
			svc.MaxScale = 20
			return steptest.World{
				Service: svc, Deps: step.Deps{Workloads: w, Changer: w, Now: clock.Now},
				Spec: func(testing.TB) string {
					now := workload(t, w, ref)
					revisions, err := w.Revisions(t.Context(), ref)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range revisions {
						if r.Current {
							return fmt.Sprint(now.Replicas, r.Fields)
						}
					}
					t.Fatal("no revision is current")
					return ""
				},
				Settle: func(testing.TB) { clock.Advance(20 * time.Minute) },
				Meddle: func(testing.TB) { meddle(t, w, workload(t, w, ref)) },
			}
		}
	}
	t.Run("scale", func(t *testing.T) {
		steptest.TestLever(t, "kube.scale", map[string]any{"by": int64(1)}, world(func(t *testing.T, w *World, now kube.Workload) {
			if _, err := w.Scale(t.Context(), kube.ScaleChange{Ref: now.Ref, Replicas: now.Replicas + 2, Pre: pre(now)}); err != nil {
				t.Fatal(err)
			}
		}))
	})
	t.Run("rollout_undo", func(t *testing.T) {
		steptest.TestLever(t, "kube.rollout_undo", nil, world(func(t *testing.T, w *World, now kube.Workload) {
			if _, err := w.Undo(t.Context(), kube.UndoChange{Ref: now.Ref, Revision: 1, Pre: pre(now)}); err != nil {
				t.Fatal(err)
			}
		}))
	})
}
