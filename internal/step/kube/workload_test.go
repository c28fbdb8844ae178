package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/kube"
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
