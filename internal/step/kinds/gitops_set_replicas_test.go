package kinds_test

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step/git"
)

// TestCheckReplicasAsARun: who only looks is refused what a run is refused, with
// the same words.
func TestCheckReplicasAsARun(t *testing.T) {
	svc := service("Deployment") // 1 to 6
	for to, words := range map[int]string{
		-1: "replicas is -1, less than 1", 0: "replicas is 0, less than 1", 1: "", 2: "", 3: "3 replicas already", 6: "", 7: "7 replicas are more than the 6 allowed",
	} {
		w := inGit(true)
		places, err := w.Places(t.Context(), gitops.Source{}, gitops.Target{}, []gitops.Variable{{Replicas: true}})
		if err != nil {
			t.Fatal(err)
		}
		o := w.do(t, "gitops.set_replicas", machine.ActionPlan, map[string]any{"replicas": to}, nil, nil, false)
		said := ""
		if err := git.CheckReplicas(svc, places[0], to); err != nil {
			said = err.Error()
		}
		if !strings.HasSuffix(said, words) || (said == "") != (words == "") || o.Message != said {
			t.Errorf("%d: %q, and a run says %s %q; want ...%s", to, said, o.Status, o.Message, words)
		}
	}
	nowhere := gitops.Place{Missing: true}
	if err := git.CheckReplicas(svc, nowhere, 0); err == nil || !strings.Contains(err.Error(), "less than 1") {
		t.Errorf("none, where nothing is said: %v", err)
	}
	if err := git.CheckReplicas(svc, nowhere, 5); err != nil {
		t.Errorf("where what runs decides: %v", err)
	}
}
