package step

import (
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// RolloutCapacity returns the fewest replicas that may be ready during the
// rollout. The controller removes ready pods only down to what the strategy
// allows.
func RolloutCapacity(w kube.Workload) machine.Capacity {
	c := machine.Capacity{ReadyNow: w.Ready, ReadyAfter: w.Replicas}
	switch {
	case w.Strategy.Type == "Recreate":
	case w.Strategy.Type == "RollingUpdate" && w.Strategy.MaxUnavailable >= 0:
		c.LowestReady = min(w.Ready, max(w.Replicas-w.Strategy.MaxUnavailable, 0))
	default:
		c.Unknown = true
	}
	return c
}

// RolloutRisk fills in the risk of a rollout, how long its replicas load, and in how
// many rounds they are replaced. It leaves out how many replicas are ready now, so that the
// digest of the plan does not change by itself.
func RolloutRisk(plan *machine.Plan, w kube.Workload) {
	plan.Loading, plan.Rounds = Loading(w), rounds(w)
	plan.Risk, plan.Why = machine.RiskMedium, "replaces every pod, step by step as its strategy allows"
	switch {
	case plan.Capacity.Unknown:
		plan.Risk, plan.Why = machine.RiskHigh, "replaces every pod; how many stay ready cannot be said"
	case w.Strategy.Type == "Recreate" || w.Strategy.MaxUnavailable >= w.Replicas:
		plan.Risk, plan.Why = machine.RiskHigh, "replaces every pod; its strategy lets all of them be missing at once"
	}
	if w.Ref.Kind == "StatefulSet" && w.Ready < w.Replicas {
		plan.Notes = append(plan.Notes, "a StatefulSet waits for broken pods to become ready: they may have to be deleted by hand")
	}
}

// rounds returns how many rounds of pods a rollout takes: as many at once as may surge or
// be missing, one by one where the strategy does not tell.
func rounds(w kube.Workload) int {
	s := w.Strategy
	if s.Type == "Recreate" {
		return 1
	}
	atOnce := max(1, s.MaxSurge+s.MaxUnavailable)
	return (w.Replicas + atOnce - 1) / atOnce
}

// NotPutBack completes the plan of a rollback. A release of which no replica is
// ready now is never put back, by whatever verdict: the SLO may burn for another reason
// meanwhile, and no service gets better by replicas that do not start.
func NotPutBack(plan *machine.Plan, w kube.Workload) {
	started := false
	for _, p := range w.Pods {
		if p.Revision == w.Revision {
			if started = true; p.Ready {
				return
			}
		}
	}
	if !started || w.Revision == 0 {
		return
	}
	plan.Class = playbook.ClassHardware // of what stays
	plan.Notes = append(plan.Notes, fmt.Sprintf("no replica of revision %d is ready, so it is not put back if this does not help; people can", w.Revision))
}

// mostLoading bounds what counts as loading. A pod that was not ready for a while in
// between seems to have loaded until then, for days maybe.
const mostLoading = time.Hour

// Loading returns how long the replicas of a workload took to become ready: the
// shortest of those that are, since only a shorter time cannot be feigned; 0: not
// known.
func Loading(w kube.Workload) time.Duration {
	var least time.Duration
	for _, p := range w.Pods {
		if p.Loading > 0 && p.Loading <= mostLoading && (least == 0 || p.Loading < least) {
			least = p.Loading
		}
	}
	return least.Round(time.Second)
}

// Loadings returns how long the replicas of a workload took to become ready, in
// order: those of the current revision, else all that are ready. Replicas that
// restarted, or that seem to have loaded for more than an hour, are not among
// them.
func Loadings(w kube.Workload) []time.Duration {
	var all, current []time.Duration
	for _, p := range w.Pods {
		if p.Worker || p.Loading <= 0 || p.Loading > mostLoading {
			continue
		}
		all = append(all, p.Loading.Round(time.Second))
		if p.Revision == w.Revision {
			current = append(current, p.Loading.Round(time.Second))
		}
	}
	if len(current) > 0 {
		all = current
	}
	slices.Sort(all)
	return all
}

// RolloutPlan fills in the capacity and the risk of a change of the pod
// template.
func RolloutPlan(plan *machine.Plan, w kube.Workload) {
	plan.Capacity = RolloutCapacity(w)
	RolloutRisk(plan, w)
}
