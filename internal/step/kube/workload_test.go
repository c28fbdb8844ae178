package kube

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// Probes that failed while pods started are not told once they are ready; what
// several pods have in common is told once.
func TestEventFacts(t *testing.T) {
	const loading = "Readiness probe failed: HTTP probe failed with statuscode: 503"
	pods := []kube.Pod{{Name: "chat-1", Ready: true}, {Name: "chat-2"}, {Name: "chat-3"}}
	got := eventFacts([]eventOut{
		{"Unhealthy", "Pod/chat-1", loading, 4},
		{"Unhealthy", "Pod/chat-1", "Liveness probe failed: connection refused", 1},
		{"Unhealthy", "Pod/chat-2", loading, 2},
		{"Unhealthy", "Pod/chat-3", loading, 3},
		{"FailedCreate", "ReplicaSet/chat-6d5f", "exceeded quota", 7},
	}, pods)
	want := []string{
		"1x Unhealthy on Pod/chat-1: Liveness probe failed: connection refused",
		"5x Unhealthy on Pod/chat-2 and 1 more: " + loading,
		"7x FailedCreate on ReplicaSet/chat-6d5f: exceeded quota",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

// How long a service's replicas load is read from those that are ready. One that
// was not ready for a while in between seems to have loaded until then.
func TestLoaded(t *testing.T) {
	minutes := func(n int) step.Duration { return step.Duration(time.Duration(n) * time.Minute) }
	pod := func(revision int64, loading int) kube.Pod {
		return kube.Pod{Revision: revision, Loading: time.Duration(loading) * time.Minute}
	}
	worker := pod(2, 1)
	worker.Worker = true
	for name, tt := range map[string]struct {
		pods                  []kube.Pod
		stated                int
		usual, longest, limit int
	}{
		"none ready":              {[]kube.Pod{pod(2, 0)}, 0, 0, 0, 0},
		"none ready, but stated":  {[]kube.Pod{pod(2, 0)}, 20, 0, 0, 20},
		"of the current revision": {[]kube.Pod{pod(1, 2), pod(2, 9), pod(2, 12), pod(2, 10), pod(2, 0)}, 0, 10, 12, 20},
		"of the one before":       {[]kube.Pod{pod(1, 8), pod(1, 6), pod(2, 0)}, 0, 6, 8, 12},
		"stated goes before":      {[]kube.Pod{pod(2, 10)}, 45, 10, 10, 45},
		"not ready in between":    {[]kube.Pod{pod(2, 10), pod(2, 3*24*60)}, 0, 10, 10, 20},
		"workers answer nobody":   {[]kube.Pod{worker, pod(2, 10)}, 0, 10, 10, 20},
	} {
		var out workloadOut
		out.loaded(step.Loadings(kube.Workload{Revision: 2, Pods: tt.pods}), time.Duration(tt.stated)*time.Minute)
		got := []step.Duration{out.LoadTime, out.LongestLoadTime, out.LoadWithin}
		if diff := cmp.Diff([]step.Duration{minutes(tt.usual), minutes(tt.longest), minutes(tt.limit)}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
