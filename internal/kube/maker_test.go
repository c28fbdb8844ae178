package kube

import "testing"

// TestNamed: an owner is one if its operator calls what it makes so.
func TestNamed(t *testing.T) {
	for workload, owners := range map[Ref]map[Owner]bool{
		{Kind: "Deployment", Name: "chat-predictor"}: {
			{Kind: InferenceService, Name: "chat"}: true, {Kind: InferenceService, Name: "cha"}: false, {Kind: "Deployment", Name: "chat-predictor"}: false, {Kind: "Deployment", Name: "chat"}: false,
			{Kind: LeaderWorkerSet, Name: "chat-predictor"}: false, {Kind: "DynamoComponentDeployment", Name: "chat-predictor"}: true, {Kind: "DynamoComponentDeployment", Name: "chat"}: false,
		},
		{Kind: "Deployment", Name: "chat-predictor-evil"}: {{Kind: InferenceService, Name: "chat"}: false},
		{Kind: "StatefulSet", Name: "chat-predictor"}:     {{Kind: InferenceService, Name: "chat"}: false, {Kind: LeaderWorkerSet, Name: "chat-predictor"}: true, {Kind: LeaderWorkerSet, Name: "chat"}: false},
		{Kind: "Deployment", Name: "chat-kserve-prefill"}: {{Kind: "LLMInferenceService", Name: "chat"}: true, {Kind: "LLMInferenceService", Name: "chat-kserve"}: false},
	} {
		for owner, want := range owners {
			if got := Named(owner, workload); got != want {
				t.Errorf("%s %s by %s %s: %t", workload.Kind, workload.Name, owner.Kind, owner.Name, got)
			}
		}
	}
}
