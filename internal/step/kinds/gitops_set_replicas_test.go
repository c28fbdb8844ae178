package kinds_test

import (
	"context"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
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

// TestReplicasOfBound: a lower bound in Git below what runs adds nothing, so more is counted from what
// runs; and the planner of a Dynamo graph has GPUs for it, or the commit is not made.
func TestReplicasOfBound(t *testing.T) {
	const planner = "spec.services.Planner.extraPodSpec.mainContainer.args[--config.decode_min_endpoint]"
	for name, tt := range map[string]struct {
		at     string
		in     string // Git
		with   map[string]any
		scaler step.Autoscalers
		want   string
	}{
		"an autoscaler":            {"spec.minReplicas", "2", map[string]any{"by": 1}, nil, "set replicas from 2 to 4"},
		"an autoscaler at it":      {"spec.minReplicas", "3", map[string]any{"by": 1}, nil, "set replicas from 3 to 4"},
		"an autoscaler above":      {"spec.minReplicas", "4", map[string]any{"by": 1}, nil, "set replicas from 4 to 5"},
		"the number itself":        {"", "2", map[string]any{"by": 1}, nil, "set replicas from 2 to 3"},
		"a loan that goes back":    {"spec.minReplicas", "5", map[string]any{"by": -2, "above": 2}, nil, "set replicas from 5 to 3"},
		"a planner":                {planner, "2", map[string]any{"by": 1}, planning{most: 4}, "set replicas from 2 to 4"},
		"a planner without GPUs":   {planner, "2", map[string]any{"by": 1}, planning{most: 3}, "gitops.set_replicas: the lower bound of DynamoGraphDeployment serving/llm/Decode is not changed to 4: full"},
		"a planner that advises":   {planner, "2", map[string]any{"by": 1}, planning{most: 9, inert: "it scales nothing"}, "is not changed to 4: it scales nothing"},
		"a planner nobody sees":    {planner, "2", map[string]any{"by": 1}, nil, "no cluster is configured"},
		"no more than run already": {"spec.minReplicas", "2", map[string]any{"by": 1, "max": 3}, nil, "3 replicas already, 3 are the most allowed"},
		"a planner of others":      {planner, "4", map[string]any{"by": -1}, planning{most: 9, inert: "it is of all alike"}, "is not changed to 3: it is of all alike"},
		"a planner that has less":  {planner, "4", map[string]any{"by": -2, "above": 2}, nil, "set replicas from 4 to 2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := inGit(true)
			w.BoundAt, w.deps.Scalers = tt.at, tt.scaler
			w.Push("ada", "bound", map[string]string{"replicas": tt.in})
			w.deploy()
			o := w.do(t, "gitops.set_replicas", machine.ActionPlan, tt.with, nil, nil, false)
			said := o.Message
			if o.Plan != nil {
				said = o.Plan.Summary
			}
			if !strings.Contains(said, tt.want) {
				t.Errorf("%s %s, want %s", o.Status, said, tt.want)
			}
		})
	}
}

// planning is the planner of a Dynamo graph.
type planning struct {
	step.Autoscalers

	most  int
	inert string
}

func (p planning) AutoscalerOf(context.Context, kube.Ref) (kube.Autoscaler, error) {
	return kube.Autoscaler{
		Ref: kube.Ref{Kind: kube.DynamoGraph, Namespace: "serving", Name: "llm/Decode"}, Ceiling: &kube.Ceiling{Most: p.most, Starts: p.most, Why: "full"}, Inert: p.inert,
	}, nil
}
