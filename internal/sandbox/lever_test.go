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
	t.Run("autoscaler", func(t *testing.T) {
		fresh := world(func(t *testing.T, w *World, now kube.Workload) {
			a, err := w.AutoscalerOf(t.Context(), now.Ref)
			if err != nil {
				t.Fatal(err)
			}
			to := kube.Bounds{Min: new(a.Min() + 1), Max: new(a.Max() + 2)}
			if _, err := w.SetBounds(t.Context(), kube.BoundsChange{Ref: a.Ref, UID: a.UID, Stamp: a.Stamp(), To: to, Run: "r-9", Key: "r-9/other#1/apply#1"}); err != nil {
				t.Fatal(err)
			}
		})
		steptest.TestLever(t, "kube.autoscaler", map[string]any{"by": int64(1)}, func(t *testing.T) steptest.World {
			x := fresh(t)
			sim := x.Deps.Workloads.(*World)
			f := sim.fleets[0]
			f.hpa = &autoscaler{autoscaling: autoscaling{min: 2, max: f.replicas, target: 1000}}
			x.Deps.Scalers = sim
			x.Spec = func(testing.TB) string { return fmt.Sprint(f.hpa.autoscaling) }
			return x
		})
	})
	t.Run("replace_pod", func(t *testing.T) {
		w, _ := open(t, "bad-rollout")
		_, ref := chat(w)
		with := map[string]any{"pod": workload(t, w, ref).Pods[0].Name}
		fresh := world(func(t *testing.T, w *World, now kube.Workload) {
			if _, err := w.Scale(t.Context(), kube.ScaleChange{Ref: now.Ref, Replicas: now.Replicas + 2, Pre: pre(now)}); err != nil {
				t.Fatal(err)
			}
		})
		steptest.TestLever(t, "kube.replace_pod", with, func(t *testing.T) steptest.World {
			x := fresh(t)
			sim := x.Deps.Workloads.(*World)
			x.Deps.Pods, x.Deps.Nodes, x.Deps.NodeChanger = sim, sim, sim
			return x
		})
	})
	for _, kind := range []string{"kube.rollout_undo", "service.rollback", "kube.restart"} {
		t.Run(kind, func(t *testing.T) {
			steptest.TestLever(t, kind, nil, world(func(t *testing.T, w *World, now kube.Workload) {
				if _, err := w.Undo(t.Context(), kube.UndoChange{Ref: now.Ref, Revision: 1, Pre: pre(now)}); err != nil {
					t.Fatal(err)
				}
			}))
		})
	}
}

// TestHold does the same for one on a rollout that has come half way, and for the
// rollback of what is held.
func TestHold(t *testing.T) {
	fresh := func(t *testing.T, held bool) steptest.World {
		w, clock := open(t, "bad-rollout")
		svc, ref := chat(w)
		f := w.fleets[0]
		f.spec.loading = 5 * time.Minute
		f.release(revisionSpec{cause: "release 2026.48", fields: f.current().fields, image: f.current().image}, clock.Now())
		clock.Advance(time.Minute)
		hold := func(set, run string) {
			if _, err := w.Hold(t.Context(), kube.HoldChange{Ref: ref, Set: set, Pre: pre(workload(t, w, ref)), Run: run, Key: run + "/other#1/apply#1"}); err != nil {
				t.Fatal(err)
			}
		}
		if held {
			hold(workload(t, w, ref).Template, "r-0")
			clock.Advance(time.Minute)
		}
		return steptest.World{
			Service: svc, Deps: step.Deps{Workloads: w, Changer: w, Now: clock.Now},
			Spec: func(testing.TB) string {
				now := workload(t, w, ref)
				return fmt.Sprint(now.Paused, now.Template, now.Held)
			},
			Settle: func(testing.TB) { clock.Advance(40 * time.Minute) },
			Meddle: func(testing.TB) {
				now := workload(t, w, ref)
				switch {
				case held:
					if _, err := w.Undo(t.Context(), kube.UndoChange{Ref: now.Ref, Revision: 1, Pre: pre(now)}); err != nil {
						t.Fatal(err)
					}
				case now.Paused:
					hold("", "r-9")
				default:
					hold(now.Template, "r-9")
				}
			},
		}
	}
	t.Run("hold", func(t *testing.T) {
		steptest.TestLever(t, "rollout.hold", nil, func(t *testing.T) steptest.World { return fresh(t, false) })
	})
	t.Run("rollback", func(t *testing.T) {
		steptest.TestLever(t, "kube.rollout_undo", nil, func(t *testing.T) steptest.World { return fresh(t, true) })
	})
}

// TestTrafficShift does the same for the one on a route.
func TestTrafficShift(t *testing.T) {
	steptest.TestLever(t, "traffic.shift", map[string]any{"by": int64(50)}, func(t *testing.T) steptest.World {
		sc := badRollout()
		sc.services[0].withWarm(warmSpec{replicas: 2})
		clock := NewManualClock(morning)
		w := build(sc, clock, clock.Now(), nil)
		svc, ref := chat(w)
		ref.Kind = kube.HTTPRoute
		route := func() kube.Route {
			r, err := w.Route(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		return steptest.World{
			Service: svc, Deps: step.Deps{Workloads: w, Routes: w, Querier: w, Now: clock.Now},
			Spec:   func(testing.TB) string { return fmt.Sprint(route().Rules) },
			Settle: func(testing.TB) { clock.Advance(time.Minute) },
			Meddle: func(testing.TB) {
				r := route()
				r.Rules[0].Backends[1].Weight += 7
				if _, err := w.SetRoute(t.Context(), kube.RouteChange{Ref: ref, Rules: r.Rules, Pre: kube.Precondition{UID: r.UID, Generation: r.Generation}, Run: "r-9"}); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// TestNodeLevers does the same for those on nodes.
func TestNodeLevers(t *testing.T) {
	// Whatever was done, somebody else has the last word.
	world := func(edit func(now kube.NodeState) kube.NodeEdit) func(t *testing.T) steptest.World {
		return func(t *testing.T) steptest.World {
			w, clock := open(t, "bad-rollout")
			svc, _ := chat(w)
			name := w.nodes[0].spec.name
			look := func() kube.NodeState {
				n, err := w.Node(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			return steptest.World{
				Service: svc, Deps: step.Deps{Workloads: w, Nodes: w, NodeChanger: w, Now: clock.Now},
				Spec: func(testing.TB) string {
					n := look()
					return fmt.Sprint(n.Unschedulable, n.Taints, n.Labels)
				},
				Settle: func(testing.TB) { clock.Advance(time.Minute) },
				Meddle: func(testing.TB) {
					n := look()
					if _, err := w.ChangeNode(t.Context(), kube.NodeChange{
						Name: name, UID: n.UID, Stamp: n.Stamp(), Edit: edit(n), Mark: "responder.dev/cordon", Key: "r-9/other#1/apply#1",
					}); err != nil {
						t.Fatal(err)
					}
				},
			}
		}
	}
	turn := world(func(now kube.NodeState) kube.NodeEdit { return kube.NodeEdit{Cordon: new(!now.Unschedulable)} })
	for _, kind := range []string{"node.cordon", "node.drain"} {
		t.Run(kind, func(t *testing.T) {
			with := map[string]any{"node": gpuNodes()[0].name}
			if kind == "node.drain" {
				with["at_once"] = int64(100)
			}
			steptest.TestLever(t, kind, with, turn)
		})
	}
}
