package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// TestArmingAfterARun: nothing changes a service while a run of it is held or in quarantine,
// nor when it was changed as often as the budget allows; people read so, and what to do.
func TestArmingAfterARun(t *testing.T) {
	for name, c := range map[string]struct {
		budget int
		lost   bool // nobody learns whether the change was made
		broken bool // the run cannot be read after a restart
		reason api.ArmingReason
	}{
		"the budget is spent": {budget: 1, reason: api.ArmingReason{Why: "the budget of changes is spent: 1 lever on this service within 1h, limit 1", Do: "guards.budget"}},
		"held":                {lost: true, reason: api.ArmingReason{Why: " is held, and no other run changes the service", Do: "responder runs resolve r-"}},
		"in quarantine":       {broken: true, reason: api.ArmingReason{Why: " is in quarantine with a change in place, and no other run changes the service", Do: "responder runs release r-"}},
	} {
		t.Run(name, func(t *testing.T) {
			const pace = 120
			sim, _, err := OpenSandbox(DefaultScenario, time.Now(), pace)
			if err != nil {
				t.Fatal(err)
			}
			conf, w := SandboxConfig(), SandboxWorld(sim, machine.Anonymous)
			conf.Journal.Dir, conf.Auth.Insecure = t.TempDir(), true
			if c.budget > 0 {
				conf.Guards.Budget.LeversPerService = c.budget
			}
			if c.lost {
				lost := &lostCluster{Workloads: w.Deps.Workloads, Changer: w.Deps.Changer}
				w.Deps.Workloads, w.Deps.Changer = lost, lost
			}
			var run machine.State
			t.Run("until its change is made", func(t *testing.T) { // or it is not known whether it was
				s, url := startOn(t, Options{Config: conf, World: w, Log: slog.New(slog.DiscardHandler)})
				until(t, "armed", func() bool { return s.executor.Ready() == nil && s.arming()(s.world.Services()[0]).Armed })
				body, err := sim.Notification(t.Context(), sim.Clock().Now())
				if err != nil {
					t.Fatal(err)
				}
				if status := posted(t, url+"/api/v1/alertmanager", string(body)); status != http.StatusOK {
					t.Fatalf("the alert was answered %d", status)
				}
				if status := posted(t, url+"/api/v1/runs/"+openGate(t, s).Start.Run+"/approve", "{}"); status != http.StatusOK {
					t.Fatalf("the approval was answered %d", status)
				}
				until(t, "its change is made", func() bool {
					for _, run = range s.executor.Runs(executor.Filter{}) {
						return run.Held != nil || !c.lost && run.InAir()
					}
					return false
				})
			})
			if c.broken {
				spoil(t, conf.Journal, run.Start.Run)
			}
			s, _ := startOn(t, Options{Config: conf, World: w, Log: slog.New(slog.DiscardHandler)})
			until(t, "ready again", func() bool { return len(s.missing()) == 0 })
			got := s.arming()(s.world.Services()[0])
			if got.Armed || !hasReason(got.Reasons, c.reason) {
				t.Errorf("armed %v, reasons: %+v", got.Armed, got.Reasons)
			}
		})
	}
}

// lostCluster does not answer any more once a change was sent to it.
type lostCluster struct {
	step.Workloads
	step.Changer

	lost atomic.Bool
}

func (c *lostCluster) Undo(ctx context.Context, change kube.UndoChange) (kube.Applied, error) {
	if change.DryRun {
		return c.Changer.Undo(ctx, change)
	}
	c.lost.Store(true)
	return kube.Applied{}, &fault.Error{Reason: fault.ServerError, Message: "the connection broke", Unknown: true}
}

func (c *lostCluster) Workload(ctx context.Context, ref kube.Ref) (kube.Workload, error) {
	if c.lost.Load() {
		return kube.Workload{}, &fault.Error{Reason: fault.ServerError, Message: "etcd has no leader"}
	}
	return c.Workloads.Workload(ctx, ref)
}

// spoil adds to a run what no version can read.
func spoil(t *testing.T, c config.Journal, run string) {
	t.Helper()
	j, err := openJournal(c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = j.Append(t.Context(), audit.Append{
		Stream: "run/" + run, After: audit.Any, Records: []audit.Record{{Kind: "from.the-future", Time: time.Now(), Data: json.RawMessage("{}")}},
	})
	if err := errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
}
