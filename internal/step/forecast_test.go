package step_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

type room struct {
	c   kube.Capacity
	err error
}

func (r room) Capacity(context.Context, kube.Ref) (kube.Capacity, error) { return r.c, r.err }

// TestForecast: the plan that people approve says whether new replicas will run, and
// that it is not known where it is not.
func TestForecast(t *testing.T) {
	for name, tt := range map[string]struct {
		room  room
		more  int
		risk  machine.Risk
		notes []string // each in the note at its place
	}{
		"room for all": {
			room{c: kube.Capacity{Needs: "1 nvidia.com/gpu", Fits: 2}},
			2, machine.RiskLow,
			[]string{"the nodes have room for them now (each needs 1 nvidia.com/gpu); those that run took at least 6m0s to become ready"},
		},
		"no room": {
			room{c: kube.Capacity{Needs: "8 nvidia.com/gpu", Refusals: []kube.Refusal{{Why: "too few free nvidia.com/gpu", Nodes: 9}, {Why: "b", Nodes: 1}, {Why: "c", Nodes: 1}, {Why: "d", Nodes: 1}}}},
			1, machine.RiskMedium,
			[]string{"room for 0 of 1: each needs 8 nvidia.com/gpu; 9 nodes: too few free nvidia.com/gpu; 1 node: b; 1 node: c; 1 other reasons; the others wait"},
		},
		"a training job would be evicted": {
			room{c: kube.Capacity{Below: 3, Ignored: []string{"pod affinity"}}},
			1, machine.RiskHigh,
			[]string{"room for 0 of 1", "may evict some of 3 pods", "not taken into account: pod affinity"},
		},
		"not known":        {room{err: errors.New("list pods: forbidden")}, 1, machine.RiskLow, []string{"is not known: list pods: forbidden"}},
		"nothing is added": {room{err: errors.New("not asked")}, -1, machine.RiskLow, nil},
	} {
		t.Run(name, func(t *testing.T) {
			plan := machine.Plan{Risk: machine.RiskLow, Loading: 6 * time.Minute}
			step.Forecast(t.Context(), tt.room, &plan, kube.Ref{}, tt.more)
			if plan.Risk != tt.risk || len(plan.Notes) != len(tt.notes) {
				t.Fatalf("risk %s, notes %q; want %s, %q", plan.Risk, plan.Notes, tt.risk, tt.notes)
			}
			for i, want := range tt.notes {
				if !strings.Contains(plan.Notes[i], want) {
					t.Errorf("note %q, want %q", plan.Notes[i], want)
				}
			}
		})
	}
}
