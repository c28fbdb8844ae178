package catalog

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// onNodes is who is on which node, and how often that was asked.
type onNodes struct {
	pods  map[string][]kube.NodePod
	err   error
	hangs bool
	asked int
}

func (n *onNodes) NodePods(ctx context.Context, node string) ([]kube.NodePod, error) {
	n.asked++
	if n.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return n.pods[node], n.err
}

func podOn(namespace, kind, workload string, gpus int) kube.NodePod {
	return kube.NodePod{Namespace: namespace, Name: workload + "-0", Owner: kube.Ref{Kind: kind, Namespace: namespace, Name: workload}, GPUs: gpus}
}

func nodeCatalog(t *testing.T, n *onNodes) *Catalog {
	t.Helper()
	return New(Options{Entries: testCatalog(t).o.Entries, Tenants: n})
}

// TestResolveByNode: an alert that names only a node is about who uses most of
// its GPUs; one that names more is not about the node.
func TestResolveByNode(t *testing.T) {
	gone := podOn("batch", "StatefulSet", "chat", 8)
	gone.Done = true
	n := &onNodes{pods: map[string][]kube.NodePod{
		"one":    {podOn("serving", "Deployment", "embed", 4), podOn("kube-system", "DaemonSet", "agent", 0), {Namespace: "serving", Name: "alone", GPUs: 8}},
		"shared": {podOn("serving", "Deployment", "chat", 2), podOn("serving", "Deployment", "embed", 4), podOn("serving", "Deployment", "chat", 4)},
		"group":  {podOn("batch", "LeaderWorkerSet", "chat", 8)},
		"others": {podOn("research", "Deployment", "train", 8), gone},
	}}
	tests := []struct {
		name   string
		labels map[string]string
		want   string
		why    string
	}{
		{"one service", map[string]string{"node": "one"}, "serving/embed", "it has pods on node one"},
		{"two services", map[string]string{"node": "shared"}, "serving/chat", "it has the most GPUs of serving/chat, serving/embed on node shared"},
		{"two services, one in the namespace", map[string]string{"node": "shared", "namespace": "batch"}, "", "where no service of the catalog has a pod"},
		{"a group of pods, by its leaders", map[string]string{"node": "group"}, "batch/chat", "it has pods on node group"},
		{"nobody of ours", map[string]string{"node": "others"}, "", "the alert names only node others, where no service of the catalog has a pod"},
		{"no such node", map[string]string{"node": "nope"}, "", "where no service of the catalog has a pod"},
		{"a service and a node", map[string]string{"node": "one", "namespace": "serving", "service": "chat"}, "serving/chat", ""},
		{"a foreign pod and a node", map[string]string{"node": "one", "pod": "exporter-abc"}, "", "no service fits"},
	}
	c := nodeCatalog(t, n)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			services, why, err := c.Resolve(playbook.Alert{Labels: tt.labels})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, s := range services {
				got += s.Name
			}
			if got != tt.want || !strings.Contains(why, tt.why) || tt.why == "" && why != "" {
				t.Errorf("got %q because %q, want %q because %q", got, why, tt.want, tt.why)
			}
		})
	}
}

// TestNodeThatCannotBeAsked: a cluster that does not answer is an error, within
// seconds, and is left alone for a while.
func TestNodeThatCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &onNodes{hangs: true, pods: map[string][]kube.NodePod{"one": {podOn("serving", "Deployment", "embed", 4)}}}
		c := nodeCatalog(t, n)
		ask := func() ([]playbook.Service, error) {
			s, _, err := c.Resolve(playbook.Alert{Labels: map[string]string{"node": "one"}})
			return s, err
		}
		began := time.Now()
		if _, err := ask(); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > tenantsWithin {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		n.hangs = false
		if _, err := ask(); err == nil || n.asked != 1 {
			t.Errorf("asked %d times, %v; want it to rest", n.asked, err)
		}
		time.Sleep(tenantsRest)
		for range 3 {
			if s, err := ask(); err != nil || len(s) != 1 || n.asked != 2 {
				t.Errorf("got %v, %v after %d questions; want one service after 2", s, err, n.asked)
			}
		}
		time.Sleep(tenantsKept)
		if _, err := ask(); err != nil || n.asked != 3 {
			t.Errorf("asked %d times, %v; want it asked again", n.asked, err)
		}
	})
}
