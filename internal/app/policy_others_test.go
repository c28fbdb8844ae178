package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/policy"
)

// TestRulesAreAskedAboutOthers: the rules see each service that a lever touches as the
// catalog has it, with the replicas that it loses, and each namespace with those of its
// workloads that are no service.
func TestRulesAreAskedAboutOthers(t *testing.T) {
	embed := machine.Touched{Service: "batch/embed", Namespace: "batch"}
	system := machine.Touched{Namespace: "kube-system"}
	svc := playbook.Service{Name: "batch/embed", Namespace: "batch", Owners: []string{"group:embed"}}
	in := guard.PolicyInput{
		State: &playbook.State{Name: "drain", Kind: playbook.StateLever, Step: "node.drain"},
		Run: machine.State{
			Playbook: &playbook.Playbook{Name: "gpu-fault", Autonomy: playbook.Auto},
			Start:    machine.Start{Autonomy: playbook.Auto, Service: playbook.Service{Name: "prod/chat", Autonomy: playbook.Auto}},
			Lever: &machine.Lever{Plan: &machine.Plan{
				Touches: []machine.Touched{embed, system},
				Others: []machine.Affected{
					{Service: "batch/embed", Capacity: machine.Capacity{ReadyNow: 2, LowestReady: 1}},
					{Service: "StatefulSet kube-system/registry", Namespace: "kube-system", Capacity: machine.Capacity{ReadyNow: 1}},
				},
				Rest: []machine.Affected{
					{Service: "Deployment kube-system/gateway", Namespace: "kube-system", Capacity: machine.Capacity{ReadyNow: 3, LowestReady: 2}},
					{Service: "Deployment kube-system/odd", Namespace: "kube-system", Capacity: machine.Capacity{Unknown: true}},
					{Service: "Deployment other/x", Namespace: "other", Capacity: machine.Capacity{ReadyNow: 1}},
				},
			}},
		},
		Others: []guard.Other{
			{Touched: embed, Entry: svc, Autonomy: playbook.Suggest},
			{Touched: system, Entry: playbook.Service{Namespace: "kube-system"}, Autonomy: playbook.Auto},
		},
	}
	want := []policy.Other{
		{Name: embed.String(), Service: svc, Autonomy: playbook.Suggest, Capacity: []machine.Capacity{{ReadyNow: 2, LowestReady: 1}}},
		{Name: system.String(), Service: playbook.Service{Namespace: "kube-system"}, Autonomy: playbook.Auto, Capacity: []machine.Capacity{
			{ReadyNow: 1}, {ReadyNow: 3, LowestReady: 2}, {Unknown: true},
		}},
	}
	if diff := cmp.Diff(want, policyInput(in).Others); diff != "" {
		t.Errorf("the rules see (-want +got):\n%s", diff)
	}
}
