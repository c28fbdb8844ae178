package step

import (
	"slices"
	"testing"

	"github.com/inference-responder/responder/internal/playbook"
)

// TestPodsOfService: evidence is kept of a service's own pods, and not of another one's
// whose name begins alike.
func TestPodsOfService(t *testing.T) {
	ends := []string{"ml/chat-6d4b9c-x2x9z", "ml/chat-long-6d4b9c-x2x9z", "ml/chat-0", "ml/chat-0-1", "ml/chat-long-0", "other/chat-6d4b9c-x2x9z", "ml/chatty-6d4b9c-x2x9z"}
	for kind, want := range map[string][]string{"Deployment": {"chat-6d4b9c-x2x9z", "chat-0"}, "StatefulSet": {"chat-0", "chat-0-1"}} {
		got := podsOfService(playbook.Service{Namespace: "ml", Workload: playbook.Workload{Kind: kind, Name: "chat"}}, ends)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}
