package git

import (
	"testing"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/playbook"
)

// The component of the catalog's entry is looked for in Git, and a plan keeps it.
func TestComponent(t *testing.T) {
	svc := playbook.Service{
		Name: "chat", Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "chat-0-worker"},
		GitOps: playbook.GitOps{Object: playbook.Workload{Kind: "DynamoGraphDeployment", Name: "chat"}, Component: "VllmDecodeWorker"},
	}
	want := gitops.Target{Kind: "DynamoGraphDeployment", Namespace: "serving", Name: "chat", Workload: "chat-0-worker", Component: "VllmDecodeWorker"}
	if got := ManifestOf(svc); got.Component != want.Component || got.Name != want.Name {
		t.Errorf("looked for %+v, want %+v", got, want)
	}
	if got := payloadAt(site{object: want}, gitops.Proposal{}).target("serving"); got.Component != want.Component {
		t.Errorf("the plan keeps %+v, want %+v", got, want)
	}
}
