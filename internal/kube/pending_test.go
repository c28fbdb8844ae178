package kube

import (
	"strings"
	"testing"
	"time"
)

// TestPending: each reason for which a replica does not serve is told from the others,
// and one that ends by itself from one that does not.
func TestPending(t *testing.T) {
	at := time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)
	on := func(p Pod) Pod { p.Name, p.Node, p.Phase = "chat-0", "node-a", "Pending"; return p }
	for name, tt := range map[string]struct {
		w      Workload
		cause  PendingCause
		blocks bool
	}{
		"GPUs are taken":         {Workload{Replicas: 1, Pods: []Pod{{Phase: "Pending", Message: "0/8 nodes are available: 5 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint {dedicated: cpu}. preemption: 0/8 nodes are available: 8 No preemption victims found for incoming pod."}}}, PendingGPU, true},
		"GPU nodes are cordoned": {Workload{Replicas: 1, Pods: []Pod{{Phase: "Pending", Message: "0/8 nodes are available: 2 Insufficient nvidia.com/gpu, 6 node(s) were unschedulable."}}}, PendingTaint, true},
		"memory":                 {Workload{Replicas: 1, Pods: []Pod{{Phase: "Pending", Message: "0/3 nodes are available: 3 Insufficient memory."}}}, PendingResources, true},
		"node selector":          {Workload{Replicas: 1, Pods: []Pod{{Phase: "Pending", Message: "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."}}}, PendingAffinity, true},
		"an unbound claim":       {Workload{Replicas: 1, Pods: []Pod{{Phase: "Pending", Message: "pod has unbound immediate PersistentVolumeClaims. preemption: not eligible"}}}, PendingVolume, true},
		"no words that we know":  {Workload{Replicas: 1, Pods: []Pod{{Phase: "Pending", Message: "0/3 nodes are available: 3 node(s) are out of luck."}}}, PendingUnknown, true},
		"the image":              {Workload{Replicas: 1, Pods: []Pod{on(Pod{Waiting: "ErrImagePull"})}}, PendingImage, true},
		"a Secret":               {Workload{Replicas: 1, Pods: []Pod{on(Pod{Waiting: "CreateContainerConfigError"})}}, PendingConfig, true},
		"it crashes":             {Workload{Replicas: 1, Pods: []Pod{on(Pod{Waiting: "CrashLoopBackOff"})}}, PendingCrash, true},
		"a mount": {Workload{Replicas: 1, Pods: []Pod{on(Pod{})}, Events: []EventCount{
			{Reason: "FailedMount", Object: "Pod/other", Message: "another one"}, {Reason: "FailedMount", Object: "Pod/chat-0", Message: "no such claim"},
		}}, PendingVolume, true},
		"the network":            {Workload{Replicas: 1, Pods: []Pod{on(Pod{})}, Events: []EventCount{{Reason: "FailedCreatePodSandBox", Object: "Pod/chat-0", Message: "no IP left"}}}, PendingNetwork, true},
		"the quota":              {Workload{Replicas: 1, Events: []EventCount{{Reason: "FailedCreate", Object: "ReplicaSet/chat-1", Message: `pods "chat-0" is forbidden: exceeded quota: gpus`}}}, PendingQuota, true},
		"a quota of before":      {Workload{Replicas: 2, Pods: []Pod{{Name: "chat-1", Ready: true, Created: at}}, Events: []EventCount{{Reason: "FailedCreate", Object: "ReplicaSet/chat-1", Message: `pods "chat-0" is forbidden: exceeded quota: gpus`, Last: at.Add(-time.Minute)}}}, PendingNew, false},
		"a webhook":              {Workload{Replicas: 1, Stuck: "admission webhook denied the request"}, PendingRefused, true},
		"the model is fetched":   {Workload{Replicas: 1, Pods: []Pod{on(Pod{Init: "storage-initializer"})}}, PendingDownload, false},
		"another init container": {Workload{Replicas: 1, Pods: []Pod{on(Pod{Init: "warmup-network"})}}, PendingInit, false},
		"the model is fetched at last": {Workload{Replicas: 1, Pods: []Pod{on(Pod{Init: "storage-initializer"})}, Events: []EventCount{
			{Reason: "FailedMount", Object: "Pod/chat-0", Message: "failed to sync configmap cache"},
		}}, PendingDownload, false},
		"the image is pulled":     {Workload{Replicas: 1, Pods: []Pod{on(Pod{})}}, PendingCreating, false},
		"the engine loads":        {Workload{Replicas: 1, Pods: []Pod{{Name: "chat-0", Node: "node-a", Phase: "Running"}}}, PendingLoading, false},
		"the scheduler is behind": {Workload{Replicas: 1, Pods: []Pod{{Phase: "Pending"}}}, PendingNew, false},
		"not created yet":         {Workload{Replicas: 1}, PendingNew, false},
	} {
		got := tt.w.Pending()
		if len(got) != 1 || got[0].Cause != tt.cause || got[0].Cause.Blocks() != tt.blocks || got[0].Why == "" || strings.Contains(got[0].Why, "another one") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	w := Workload{Replicas: 4, Pods: []Pod{{Name: "a", Ready: true}, {Name: "b", Node: "n", Phase: "Running"}, {Name: "c", Phase: "Pending", Message: "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}, {Name: "d", Phase: "Terminating"}, {Name: "e", Worker: true}}}
	got := w.Pending()
	if len(got) != 3 || got[0].Name != "c" || !strings.HasPrefix(PendingText(got), "1x no node with free GPUs (0/1 nodes") {
		t.Errorf("%+v: %s", got, PendingText(got))
	}
}

// TestRollingOut: what a rollout has left to replace is one; what has ended, or is kept
// back on purpose, is none.
func TestRollingOut(t *testing.T) {
	old := Pod{Name: "old", Revision: 1, Phase: "Running"}
	for name, tt := range map[string]struct {
		w    Workload
		want bool
	}{
		"one is left":             {Workload{Revision: 2, Pods: []Pod{old, {Revision: 2}}}, true},
		"not seen yet":            {Workload{Generation: 3, Observed: 2}, true},
		"all are new":             {Workload{Revision: 2, Pods: []Pod{{Revision: 2}}}, false},
		"the kubelet evicted it":  {Workload{Revision: 2, Pods: []Pod{{Revision: 1, Phase: "Failed"}, {Revision: 2}}}, false},
		"it leaves":               {Workload{Revision: 2, Pods: []Pod{{Revision: 1, Phase: "Terminating"}}}, false},
		"a partition keeps it":    {Workload{Revision: 2, Pods: []Pod{old}, Strategy: Strategy{Partition: 1}}, false},
		"it is replaced by hand":  {Workload{Revision: 2, Pods: []Pod{old}, Strategy: Strategy{Type: "OnDelete"}}, false},
		"a worker of some leader": {Workload{Revision: 2, Pods: []Pod{{Revision: 0, Worker: true}}}, false},
	} {
		if got := tt.w.RollingOut(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
