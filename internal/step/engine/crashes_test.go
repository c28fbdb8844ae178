package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// podsOf is a workload with pods and the logs of their containers.
type podsOf struct {
	step.Workloads
	revision int64
	pods     []kube.Pod
	logs     map[string]string // by pod; missing: forbidden
}

func (p podsOf) Workload(context.Context, kube.Ref) (kube.Workload, error) {
	w := kube.Workload{Ref: kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}, Revision: p.revision, Pods: p.pods}
	for _, x := range p.pods {
		if x.Ready {
			w.Ready++
		}
	}
	return w, nil
}

func (p podsOf) Log(_ context.Context, q kube.LogQuery) (string, error) {
	text, ok := p.logs[q.Pod]
	if !ok {
		return "", errors.New("get pods/log " + q.Namespace + "/" + q.Pod + " is forbidden")
	}
	return text, nil
}

func died(name, node string, revision int64, served kube.Served, reason string, code int, ago time.Duration) kube.Pod {
	return kube.Pod{
		Name: name, Node: node, Revision: revision, Restarts: 3,
		Ended: &kube.Ended{Container: "engine", Reason: reason, ExitCode: code, At: noonOfCrash.Add(-ago), MemoryLimit: 64 << 30, Again: true, Served: served},
	}
}

func well(name, node string, revision int64) kube.Pod {
	return kube.Pod{Name: name, Node: node, Revision: revision, Ready: true}
}

var noonOfCrash = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

const (
	cudaOOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
	taken   = "ValueError: Free memory on device cuda:0 (7.34/79.15 GiB) on startup is less than desired GPU memory utilization (0.9, 71.24 GiB).\n"
)

func TestCrashes(t *testing.T) {
	a, b := died("chat-a", "gpu-1", 5, kube.ServedNo, "Error", 1, time.Minute), died("chat-b", "gpu-2", 5, kube.ServedNo, "Error", 1, 2*time.Minute)
	message := died("chat-a", "gpu-1", 5, kube.ServedYes, "Error", 1, time.Minute)
	message.Ended.Message = cudaOOM
	for _, c := range []struct {
		name                    string
		world                   podsOf
		cause, phase, node, why string
		crashed, down           int
		currentOnly, missing    bool
	}{
		{name: "none", world: podsOf{pods: []kube.Pod{well("chat-a", "gpu-1", 4)}}, cause: "none", phase: "none", why: "no replica crashed within 1h"},
		{
			name: "CUDA runs out of memory at the start of a release", world: podsOf{revision: 5, pods: []kube.Pod{a, b, well("chat-c", "gpu-3", 4)}, logs: map[string]string{"chat-a": cudaOOM, "chat-b": cudaOOM}},
			cause: "gpu_memory", phase: "start", crashed: 2, down: 2, currentOnly: true,
			why: "2 crashed within 1h as they started: the GPU ran out of memory (2.00 GiB); 2 of them not ready; only the current revision crashes",
		},
		{
			name: "in service, by the termination message", world: podsOf{revision: 5, pods: []kube.Pod{message, well("chat-c", "gpu-3", 5)}},
			cause: "gpu_memory", phase: "service", node: "gpu-1", crashed: 1, down: 1,
			why: "1 crashed within 1h while they served: the GPU ran out of memory (2.00 GiB); 1 of them not ready; all on node gpu-1",
		},
		{
			name: "killed for memory", world: podsOf{revision: 5, pods: []kube.Pod{died("chat-a", "gpu-1", 5, kube.ServedYes, "OOMKilled", 137, time.Minute)}},
			cause: "host_memory", phase: "service", crashed: 1, down: 1, why: "1 crashed within 1h while they served: killed for using more memory than their limit; 1 of them not ready",
		},
		{
			name: "somebody else uses the GPU", world: podsOf{revision: 5, pods: []kube.Pod{a, well("chat-c", "gpu-3", 5)}, logs: map[string]string{"chat-a": taken}},
			cause: "gpu_taken", phase: "start", node: "gpu-1", crashed: 1, down: 1,
			why: "1 crashed within 1h as they started: somebody else holds memory of the GPU (7.34/79.15 GiB, 71.24 GiB); 1 of them not ready; all on node gpu-1",
		},
		{name: "for different reasons", world: podsOf{revision: 5, pods: []kube.Pod{a, b}, logs: map[string]string{"chat-a": cudaOOM, "chat-b": taken}}, cause: "mixed", phase: "start", crashed: 2, down: 2, why: "2 crashed within 1h as they started: for several reasons; 2 of them not ready"},
		{name: "logs may not be read", world: podsOf{revision: 5, pods: []kube.Pod{a}}, cause: "unknown", phase: "start", crashed: 1, down: 1, missing: true, why: "1 crashed within 1h as they started: why is not known; 1 of them not ready"},
		{name: "one log may be read", world: podsOf{revision: 5, pods: []kube.Pod{a, b}, logs: map[string]string{"chat-b": cudaOOM}}, cause: "gpu_memory", phase: "start", crashed: 2, down: 2, missing: true, why: "2 crashed within 1h as they started: the GPU ran out of memory (2.00 GiB); 2 of them not ready"},
		{name: "killed by the kubelet", world: podsOf{revision: 5, pods: []kube.Pod{died("chat-a", "gpu-1", 5, kube.ServedYes, "Error", 137, time.Minute)}, logs: map[string]string{"chat-a": "INFO all is well"}}, cause: "killed", phase: "service", crashed: 1, down: 1, why: "1 crashed within 1h while they served: killed by the kubelet; 1 of them not ready"},
		{name: "long ago", world: podsOf{pods: []kube.Pod{died("chat-a", "gpu-1", 5, kube.ServedYes, "Error", 1, 2*time.Hour)}}, cause: "none", phase: "none", why: "no replica crashed within 1h"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := NewCrashes(step.Deps{Workloads: c.world, Logs: c.world}).Run(t.Context(), step.Input{Now: noonOfCrash})
			if err != nil {
				t.Fatal(err)
			}
			out := f.Out.(crashesOut)
			if out.Cause != c.cause || out.Phase != c.phase || out.Node != c.node || out.Crashed != c.crashed || out.Down != c.down || out.CurrentOnly != c.currentOnly || (out.Missing != "") != c.missing {
				t.Errorf("got %+v", out)
			}
			if out.Why != c.why {
				t.Errorf("got  %s\nwant %s", out.Why, c.why)
			}
		})
	}
}

// Nothing that a log says of a request stands in the evidence.
func TestCrashesKeepNoText(t *testing.T) {
	world := podsOf{revision: 1, pods: []kube.Pod{died("chat-a", "gpu-1", 1, kube.ServedYes, "Error", 1, time.Minute)}, logs: map[string]string{"chat-a": "INFO Received request: prompt: 'CANARY'\nValueError: CANARY is no number\n"}}
	f, err := NewCrashes(step.Deps{Workloads: world, Logs: world}).Run(t.Context(), step.Input{Now: noonOfCrash})
	if err != nil {
		t.Fatal(err)
	}
	all, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(all), "CANARY") || !strings.Contains(string(all), `"what":"ValueError"`) {
		t.Errorf("%s", all)
	}
}

// Restarts over the whole life of a pod are no crash loop.
func TestCrashesAgain(t *testing.T) {
	for _, c := range []struct {
		name     string
		restarts int
		began    time.Duration // before now
		waits    bool          // it is not started again yet
		want     bool
	}{
		{name: "once, for the first time", restarts: 1, began: 10 * time.Minute},
		{name: "once after hours, and often before", restarts: 31, began: 5 * time.Hour},
		{name: "twice within the hour", restarts: 2, began: 10 * time.Minute, want: true},
		{name: "twice, and waits for its start", restarts: 1, began: 10 * time.Minute, waits: true, want: true},
	} {
		p := died("chat-a", "gpu-1", 5, kube.ServedYes, "Error", 1, time.Minute)
		p.Restarts, p.Ended.Began, p.Ended.Again = c.restarts, noonOfCrash.Add(-c.began), !c.waits
		f, err := NewCrashes(step.Deps{Workloads: podsOf{pods: []kube.Pod{p}}}).Run(t.Context(), step.Input{Now: noonOfCrash})
		if err != nil {
			t.Fatal(err)
		}
		if out := f.Out.(crashesOut); out.Replicas[0].Again != c.want || (out.Repeated == 1) != c.want {
			t.Errorf("%s: again %v, repeated %d; want %v", c.name, out.Replicas[0].Again, out.Repeated, c.want)
		}
	}
}
