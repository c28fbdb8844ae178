package step

import (
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
)

// How far a rollout has come is counted in pods of the newest revision only: pods of the
// one before are ready, too.
func TestRolloutOf(t *testing.T) {
	pod := func(revision int64, phase string, ready bool) kube.Pod {
		return kube.Pod{Revision: revision, Phase: phase, Ready: ready}
	}
	old, loading, ready := pod(4, "Running", true), pod(5, "Running", false), pod(5, "Running", true)
	for name, tt := range map[string]struct {
		w    kube.Workload
		want *machine.Progress
	}{
		"nothing is replaced":        {kube.Workload{Pods: []kube.Pod{old, old}}, &machine.Progress{Revision: 5}},
		"one loads":                  {kube.Workload{Pods: []kube.Pod{old, old, loading}}, &machine.Progress{Revision: 5, Done: 1}},
		"one is ready":               {kube.Workload{Pods: []kube.Pod{old, ready}}, &machine.Progress{Revision: 5, Done: 2}},
		"one leaves":                 {kube.Workload{Pods: []kube.Pod{old, ready, pod(5, "Terminating", true)}}, &machine.Progress{Revision: 5, Done: 2}},
		"a worker serves nobody":     {kube.Workload{Pods: []kube.Pod{ready, {Revision: 5, Worker: true, Ready: true}}}, &machine.Progress{Revision: 5, Done: 2}},
		"its controller has not run": {kube.Workload{Generation: 3, Observed: 2, Pods: []kube.Pod{ready}}, nil},
	} {
		tt.w.Revision = 5
		got := RolloutOf(tt.w)
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestRounds(t *testing.T) {
	for name, tt := range map[string]struct {
		w    kube.Workload
		want int
	}{
		"one by one":       {kube.Workload{Replicas: 10, Strategy: kube.Strategy{Type: "RollingUpdate", MaxSurge: 1}}, 10},
		"three at once":    {kube.Workload{Replicas: 10, Strategy: kube.Strategy{Type: "RollingUpdate", MaxSurge: 1, MaxUnavailable: 2}}, 4},
		"all at once":      {kube.Workload{Replicas: 10, Strategy: kube.Strategy{Type: "Recreate"}}, 1},
		"more than it has": {kube.Workload{Replicas: 1, Strategy: kube.Strategy{Type: "RollingUpdate", MaxSurge: 2}}, 1},
		"not known":        {kube.Workload{Replicas: 3}, 3},
		"no replicas":      {kube.Workload{}, 0},
	} {
		if got := rounds(tt.w); got != tt.want {
			t.Errorf("%s: %d rounds, want %d", name, got, tt.want)
		}
	}
}
