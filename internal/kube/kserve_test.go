package kube_test

import (
	"testing"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// kserve is the labels that KServe gives a pod of the predictor of an
// InferenceService, and what its ReplicaSet adds.
func kserve(app, generation string) map[string]string {
	l := map[string]string{"serving.kserve.io/inferenceservice": "big", "component": "predictor", "app": "isvc." + app, "pod-template-hash": "h"}
	if generation != "" {
		l["isvc.generation"] = generation
	}
	return l
}

// TestServingCountsKServe: the head of an InferenceService over several nodes
// and its workers, which two Deployments make, are one replica of the head's.
func TestServingCountsKServe(t *testing.T) {
	head := func(name, node, generation string) member {
		return member{owner: "ReplicaSet", name: name, node: node, labels: kserve("big-predictor", generation), nodes: "3"}
	}
	worker := func(name, node, generation string) member {
		return member{owner: "ReplicaSet", name: name, node: node, labels: kserve("big-predictor-worker", generation), nodes: "3"}
	}
	unready := func(m member) member { m.unready = true; return m }
	leaving := func(m member) member { m.leaving = true; return m }
	said := func(m member, nodes string) member { m.nodes = nodes; return m }
	serving := func(ready, here int, unknown bool) kube.Serving {
		return kube.Serving{Ref: kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "big-predictor"}, Ready: ready, Here: here, GPUs: true, Unknown: unknown}
	}
	for name, c := range map[string]struct {
		pods   []member
		want   kube.Serving
		serves string
	}{
		"whole": {
			pods: []member{head("h", "node-1", "1"), worker("w-0", "node-0", "1"), worker("w-1", "node-2", "1")},
			want: serving(1, 1, false), serves: "w-0 ",
		},
		"a worker not ready": {
			pods: []member{head("h", "node-0", "1"), worker("w-0", "node-1", "1"), unready(worker("w-1", "node-2", "1"))},
			want: serving(0, 0, false),
		},
		"a worker missing": {pods: []member{head("h", "node-0", "1"), worker("w-0", "node-1", "1")}, want: serving(0, 0, false)},
		"a worker on its way out, and its successor": {
			pods: []member{head("h", "node-0", "1"), worker("w-0", "node-1", "1"), leaving(worker("w-1", "node-2", "1")), worker("w-2", "node-1", "1")},
			want: serving(1, 1, false), serves: "h ",
		},
		"two generations": {
			pods: []member{
				head("h", "node-0", "1"), worker("w-0", "node-1", "1"), worker("w-1", "node-2", "1"),
				head("h-2", "node-1", "2"), worker("w-2", "node-2", "2"), unready(worker("w-3", "node-0", "2")),
			},
			want: serving(1, 1, false), serves: "h ",
		},
		"two generations, which nothing tells apart": {
			pods: []member{
				head("h", "node-0", ""), worker("w-0", "node-1", ""), worker("w-1", "node-2", ""), unready(worker("w-3", "node-2", "")),
			},
			want: serving(0, 0, true),
		},
		"a second head of the same group": {
			pods: []member{
				said(head("h", "node-0", "1"), "2"), said(head("h-2", "node-1", "1"), "2"), unready(said(worker("w-0", "node-2", "1"), "2")),
			},
			want: serving(0, 0, true),
		},
		"no generation": {pods: []member{head("h", "node-0", ""), worker("w-0", "node-1", ""), worker("w-1", "node-1", "")}, want: serving(1, 1, false), serves: "h "},
		"a number that is none": {
			pods: []member{said(head("h", "node-0", ""), "two"), said(worker("w-0", "node-1", ""), "two"), unready(said(worker("w-1", "node-1", ""), "two"))},
			want: serving(0, 0, true),
		},
		"a head that does not say that it has workers": {
			pods: []member{said(head("h", "node-0", ""), ""), said(worker("w-0", "node-1", ""), "")}, want: serving(0, 0, true),
		},
		"on one node": {
			pods: []member{said(head("h", "node-0", "1"), "1"), said(head("h-2", "node-1", "1"), "1")}, want: serving(2, 1, false), serves: "h ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.pods { // made by two ReplicaSets
				c.pods[i].ownerName = c.pods[i].labels["app"][len("isvc."):] + "-h"
			}
			wantServing(t, c.pods, c.want, c.serves)
		})
	}
}

// TestWorkloadOfKServeHead: the Deployment of the head is ready when its workers
// are, and their pods and nodes are the workload's.
func TestWorkloadOfKServeHead(t *testing.T) {
	s := kubetest.New(t)
	s.Node(t, "node-0", 8, nil)
	s.Node(t, "node-1", 8, nil)
	head := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "big-predictor"}
	template := kubetest.Template("big", "vllm:v1")
	template.Labels = kserve("big-predictor", "1")
	s.Workload(t, head, 1, template)
	s.Change(kubetest.Path(head), func(o map[string]any) {
		o["spec"].(map[string]any)["selector"] = map[string]any{"matchExpressions": []any{map[string]any{"key": "other", "operator": "DoesNotExist"}}}
	})
	s.Change(kubetest.PodPath("serving", "big-predictor-0"), func(p map[string]any) {
		labels := map[string]any{}
		for k, v := range template.Labels {
			labels[k] = v
		}
		p["metadata"].(map[string]any)["labels"] = labels
	})
	worker := member{labels: kserve("big-predictor-worker", "1"), nodes: "2"}
	counts := func(ready, pods, nodes int) {
		t.Helper()
		w, err := s.Client(t).Workload(t.Context(), head)
		if err != nil {
			t.Fatal(err)
		}
		on, err := s.Client(t).Nodes(t.Context(), head)
		if err != nil {
			t.Fatal(err)
		}
		if w.Ready != ready || w.Available != ready || w.Replicas != 1 || len(w.Pods) != pods || len(on) != nodes {
			t.Errorf("%d of %d ready, %d available, %d pods on %d nodes; want %d of 1, %d pods on %d nodes", w.Ready, w.Replicas, w.Available, len(w.Pods), len(on), ready, pods, nodes)
		}
	}
	s.Pod(t, kube.Ref{Kind: "ReplicaSet", Namespace: "serving", Name: "big-predictor-worker-h"}, "w-0", "node-1", worker.put)
	counts(1, 2, 2)
	worker.unready = true
	s.Pod(t, kube.Ref{Kind: "ReplicaSet", Namespace: "serving", Name: "big-predictor-worker-h"}, "w-0", "node-1", worker.put)
	counts(0, 2, 2)
}
