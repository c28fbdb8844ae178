package replay

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/slo/slotest"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/gpu"
)

// cluster adds what kube-state-metrics tells until half past: two pods of chat on two
// nodes, one of them not ready, and the pod of a deployment with a longer name.
func cluster(s slotest.Store) {
	add := func(name string, value float64, of map[string]string) {
		var points []slo.Point
		for at := noon.Add(-time.Hour); at.Before(noon.Add(30 * time.Minute)); at = at.Add(30 * time.Second) {
			points = append(points, slo.Point{At: at, Value: value})
		}
		of["namespace"] = "serving"
		s.Add(name, of, points)
	}
	for pod, p := range map[string][2]string{"chat-7d-a": {"chat-7d", "node-a"}, "chat-7d-b": {"chat-7d", "node-b"}, "chat-v2-7d-c": {"chat-v2-7d", "node-a"}} {
		for _, instance := range []string{"one", "two"} { // a pair of kube-state-metrics
			add("kube_pod_info", 1, map[string]string{"instance": instance, "pod": pod, "node": p[1], "created_by_kind": "ReplicaSet", "created_by_name": p[0]})
		}
		ready := 1.0
		if pod == "chat-7d-b" {
			ready = 0
		}
		add("kube_pod_status_ready", ready, map[string]string{"pod": pod, "condition": "true"})
	}
	add("kube_replicaset_owner", 1, map[string]string{"replicaset": "chat-7d", "owner_kind": "Deployment", "owner_name": "chat"})
	add("kube_replicaset_owner", 1, map[string]string{"replicaset": "chat-v2-7d", "owner_kind": "Deployment", "owner_name": "chat-v2"})
	add("kube_deployment_status_replicas_ready", 1, map[string]string{"deployment": "chat"})
	for _, c := range []string{"Ready true 1", "Ready false 0", "DiskPressure false 1", "DiskPressure true 0", "GPUMissing true 1", "GPUMissing false 0"} {
		var condition, status string
		var value float64
		if _, err := fmt.Sscan(c, &condition, &status, &value); err != nil {
			panic(err) // unreachable: it is written above
		}
		add("kube_node_status_condition", value, map[string]string{"node": "node-a", "condition": condition, "status": status})
	}
}

// TestCluster: pods, their nodes and conditions are what was recorded at that time, and
// unknown where nothing was.
func TestCluster(t *testing.T) {
	s := history(t)
	cluster(s)
	now := noon.Add(10 * time.Minute)
	c := recordedCluster{q: s, now: func() time.Time { return now }}
	ref := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}
	w, err := c.Workload(t.Context(), ref)
	if err != nil || fmt.Sprint(len(w.Pods), w.Ready) != "2 1" || w.Pods[0].Name != "chat-7d-a" || w.Pods[0].Node != "node-a" || !w.Pods[0].Ready || w.Pods[1].Ready {
		t.Errorf("%+v, %v", w, err)
	}
	if w, err := (readyReplicas{recordedCluster: c}).Workload(t.Context(), ref); err != nil || w.Ready != 1 {
		t.Errorf("%d ready, %v", w.Ready, err)
	}
	if n, err := c.Node(t.Context(), "node-a"); err != nil || strings.Join(n.Conditions, " ") != "GPUMissing=True" {
		t.Errorf("%v, %v", n.Conditions, err)
	}
	unknown := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "not in the history: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = c.Node(t.Context(), "node-b")
	unknown("a node without conditions", err)
	_, err = c.Workload(t.Context(), kube.Ref{Kind: "LeaderWorkerSet", Namespace: "serving", Name: "chat"})
	unknown("another kind of workload", err)
	now = noon.Add(2 * time.Hour)
	_, err = c.Workload(t.Context(), ref)
	unknown("a time without records", err)
}

// TestGPUs: dcgm-exporter's series are judged at the time of then, and a condition that
// contradicts them, or cannot be read, makes the verdict unknown.
func TestGPUs(t *testing.T) {
	s := history(t)
	cluster(s)
	for node, temperature := range map[string]float64{"node-a": 50, "node-b": 95} {
		for name, value := range map[string]float64{
			"DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 0, "DCGM_FI_DEV_GPU_TEMP": temperature, "DCGM_FI_DEV_SLOWDOWN_TEMP": 92, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
			"DCGM_FI_DEV_XID_ERRORS": 0, "DCGM_FI_DEV_ROW_REMAP_PENDING": 0, "DCGM_FI_DEV_ROW_REMAP_FAILURE": 0,
		} {
			var points []slo.Point
			for at := noon.Add(-time.Hour); at.Before(noon.Add(30 * time.Minute)); at = at.Add(30 * time.Second) {
				points = append(points, slo.Point{At: at, Value: value})
			}
			s.Add(name, map[string]string{"Hostname": node, "UUID": "GPU-" + node, "gpu": "0", "modelName": "H100"}, points)
		}
	}
	now := noon.Add(10 * time.Minute)
	clock := func() time.Time { return now }
	ask := func(q step.Querier, known bool) machine.Outcome {
		d := step.Deps{Querier: q, Now: clock}
		if known {
			d.GPUs = gpu.DCGM{Querier: q, Now: clock}
		}
		return steps(d, nil).Do(t.Context(), machine.Effect{Key: "k", Run: "r", Action: machine.ActionCheck, Step: "gpu.health", Service: chat(), Timeout: time.Minute})
	}
	o := ask(s, true)
	if data := string(o.Data); o.Status != machine.StatusOK || !strings.Contains(data, `"node-b"`) || !strings.Contains(data, `GPUMissing=True`) {
		t.Errorf("%s %s: %s", o.Status, o.Message, o.Data)
	}
	if data := string(o.Data); !strings.Contains(data, `"verdict":"throttled"`) || !strings.Contains(data, `"bad_pods":["chat-7d-b"]`) || strings.Contains(data, `"verdict":"healthy"`) {
		t.Errorf("node-b is too hot, and node-a has a bad condition: %s", data)
	}
	if o := ask(s, false); o.Message != "not in the history: gpu.health" {
		t.Errorf("without dcgm-exporter: %s", o.Message)
	}
	now = noon.Add(2 * time.Hour)
	if o := ask(s, true); o.Status == machine.StatusOK {
		t.Errorf("a time without records: %s", o.Data)
	}
}

// TestCompare: the odd one out is found by the pods that were there then.
func TestCompare(t *testing.T) {
	s := history(t)
	cluster(s)
	now := noon.Add(10 * time.Minute)
	d := step.Deps{Querier: s, Now: func() time.Time { return now }}
	o := steps(d, nil).Do(context.Background(), machine.Effect{Key: "k", Run: "r", Action: machine.ActionCheck, Step: "engine.compare", Service: chat(), Timeout: time.Minute})
	if o.Status != machine.StatusOK || !strings.Contains(string(o.Data), "fewer than two of them show requests") {
		t.Errorf("%s %s: %s", o.Status, o.Message, o.Data)
	}
}
