package kube_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

func TestInventory(t *testing.T) {
	s := kubetest.New(t)
	s.Node(t, "gpu-2", 8, nil)
	s.Node(t, "gpu-1", 8, nil)
	s.Cordon("gpu-1", "kubectl", true)
	of := kube.Ref{Kind: "StatefulSet", Namespace: "serving", Name: "chat"}
	s.Pod(t, of, "chat-0", "gpu-1", nil)
	s.Pod(t, of, "chat-1", "gpu-2", nil)
	s.Pod(t, of, "chat-2", "", nil) // it waits for a node
	s.Pod(t, kube.Ref{Kind: "StatefulSet", Namespace: "other", Name: "chat"}, "chat-0", "gpu-1", nil)
	c := s.Client(t)
	nodes, err := c.AllNodes(t.Context())
	if err != nil || len(nodes) != 2 || nodes[0].Name != "gpu-1" || nodes[0].CordonedBy != "kubectl" || nodes[1].Out() {
		t.Errorf("%+v, %v", nodes, err)
	}
	pods, err := c.PodsByNode(t.Context(), "serving")
	if err != nil || len(pods) != 2 || len(pods["gpu-1"]) != 1 || pods["gpu-1"][0].Owner != of || pods["gpu-2"][0].Name != "chat-1" {
		t.Errorf("%+v, %v", pods, err)
	}
	s.Fail(func(*http.Request) kubetest.Fault { return kubetest.Fault{Status: 403} })
	if _, err := c.AllNodes(t.Context()); kubeReason(err) != fault.Forbidden || !strings.Contains(err.Error(), "nodes") {
		t.Errorf("without the right to list nodes: %v", err)
	}
	if _, err := c.PodsByNode(t.Context(), "serving"); kubeReason(err) != fault.Forbidden || !strings.Contains(err.Error(), "serving") {
		t.Errorf("without the right to list pods: %v", err)
	}
}
