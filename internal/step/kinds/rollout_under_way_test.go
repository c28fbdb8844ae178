package kinds_test

import (
	"context"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// underWay is a cluster in which a rollout has one pod left to replace.
type underWay struct{ step.Workloads }

func (u underWay) Workload(ctx context.Context, ref kube.Ref) (kube.Workload, error) {
	w, err := u.Workloads.Workload(ctx, ref)
	w.Revision++
	for i := range w.Pods[1:] {
		w.Pods[i+1].Revision = w.Revision
	}
	return w, err
}

// TestRolloutUnderWay: a pod is not taken away beside a rollout, which takes others away.
func TestRolloutUnderWay(t *testing.T) {
	for kind, with := range map[string]map[string]any{"pod.evict": {"pod": "chat-0"}, "kube.replace_pod": {"pod": "chat-0"}, "kube.restart": nil} {
		deps := nodeWorld(t, gpuCluster(t), nil).Deps
		deps.Workloads = underWay{deps.Workloads}
		svc := service("Deployment")
		svc.MaxScale = 9
		o := kinds.New(deps).Do(t.Context(), machine.Effect{Key: "r-1/fix#1/plan#1", Run: "r-1", State: "fix", Action: machine.ActionPlan, Step: kind, With: with, Service: svc})
		if o.Status != machine.StatusRefused || !strings.Contains(o.Message, "in the middle of a rollout") {
			t.Errorf("%s: %s %s", kind, o.Status, o.Message)
		}
	}
}
