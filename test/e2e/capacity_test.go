//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// What is forecast is what the real scheduler does: as many replicas get a node as
// were said to fit, with the rights of deploy/ and the selector that admission adds.
func TestCapacityIsWhatTheSchedulerDoes(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Deploy(t)
	cp.BindNodes(t)              // what else is on the nodes is of all namespaces
	ns, nodes := cp.Own(t, 4, 4) // four nodes with four GPUs each
	cp.BindReading(t, ns)
	cp.Kubectl(t, "cordon", nodes[3])
	cp.Kubectl(t, "taint", "node", nodes[2], "dedicated=batch:NoSchedule")
	cp.Apply(t, ns, inference("chat", "vllm:v1", 2)+"---"+inference("train", "vllm:v1", 1))
	cp.AwaitRollout(t, ns, "chat", time.Minute)
	cp.AwaitRollout(t, ns, "train", time.Minute)

	client, err := kube.New(kube.Options{Kubeconfig: cp.Kubeconfig(t, rig.Responder)})
	if err != nil {
		t.Fatal(err)
	}
	chat := kube.Ref{Kind: "Deployment", Namespace: ns, Name: "chat"}
	got, err := client.Capacity(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", got)
	if got.Fits != 5 || got.Free != 5 || len(got.Quotas) != 0 {
		t.Errorf("%d more fit on %d free GPUs, want 5 on 5; quotas %v", got.Fits, got.Free, got.Quotas)
	}
	cp.Kubectl(t, "-n", ns, "scale", "deployment/chat", "--replicas=12")
	rig.Await(t, time.Minute, "seven pods with a node and five without", func(ctx context.Context) (bool, string) {
		pods, err := cp.Client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=chat"})
		if err != nil {
			return false, err.Error()
		}
		bound, refused := 0, 0
		for _, p := range pods.Items {
			if p.Spec.NodeName != "" {
				bound++
				continue
			}
			for _, c := range p.Status.Conditions {
				if c.Type == "PodScheduled" && c.Reason == "Unschedulable" {
					refused++
				}
			}
		}
		return bound == 2+got.Fits && refused == 12-bound, fmt.Sprintf("%d have a node, %d have none", bound, refused)
	})
	if got, err = client.Capacity(t.Context(), chat); err != nil || got.Fits != 0 || got.Waiting != 5 {
		t.Errorf("%d more fit and %d wait, want none and 5: %v", got.Fits, got.Waiting, err)
	}

	cp.Kubectl(t, "-n", ns, "scale", "deployment/chat", "--replicas=2")
	cp.AwaitRollout(t, ns, "chat", time.Minute)
	cp.Kubectl(t, "-n", ns, "create", "quota", "team", "--hard=requests.nvidia.com/gpu=4")
	rig.Await(t, time.Minute, "a quota that leaves one GPU", func(ctx context.Context) (bool, string) {
		got, err := client.Capacity(ctx, chat)
		return err == nil && got.Fits == 1 && len(got.Quotas) == 1 && got.Quotas[0].Quota == "team", fmt.Sprintf("%+v %v", got, err)
	})
}
