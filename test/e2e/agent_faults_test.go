//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/gpu/nvml/nvmltest"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step/gpu"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// The node underneath, end to end: pods of services on nodes, whose GPUs real
// agents read and dcgm-exporter tells of, the shipped playbooks, and a responder
// with the rights of deploy/.
func TestGPUFaults(t *testing.T) {
	// Nobody is called healthy before two minutes have been seen. They pass while
	// the tests run that run alone.
	rig.Shared(t).Deploy(t)
	rig.BuildAgent(t)
	began := time.Now()
	f := newFaults(t)
	t.Logf("agents, exporters and Prometheus took %s", time.Since(began).Round(time.Second))
	t.Parallel()
	f.deploy(t)
	f.write(t, "responder.yaml", "auth: {insecure: true}\nkubernetes: {kubeconfig: "+f.cp.Kubeconfig(t, rig.Responder)+"}\nprometheus: {url: "+f.prometheus.URL+"}\n"+
		f.settings("20s")+"  dcgm: {enabled: true}\n")
	t.Run("each", func(t *testing.T) {
		for name, run := range map[string]func(*testing.T, *faults){
			"faulty": gpuFellOff, "busy": gpusAreWell, "mute": agentIsMute, "returned": nodeReturns,
			"exported": gpuFaultByDCGM, "proven": nodeReturnsByDCGM, "stale": exporterStops,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(t, f)
			})
		}
	})
	wantIntact(t, f.responder)
}

// is waits for the verdict about a node.
func (f *faults) is(t *testing.T, node string, want judge.Verdict) {
	t.Helper()
	rig.Await(t, 4*time.Minute, fmt.Sprintf("node %s is %s", node, want), func(ctx context.Context) (bool, string) {
		n := f.status(t, node)
		if n.Verdict != want { // each question is a program of its own
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
		}
		return n.Verdict == want, fmt.Sprintf("%+v", n)
	})
}

// gpuFellOff: one GPU of one node is lost. That node is drained, the service is
// well without it, and the repair is asked for.
func gpuFellOff(t *testing.T, f *faults) {
	node := f.pools["faulty"][0]
	script := healthyOn(node)
	script.Set(3, "fail", nvmltest.Lost)
	script.Happen(3, 79)
	script.Write(t, filepath.Join(f.dir, "script-"+node))
	f.is(t, node, judge.Failing)
	f.takenOut(t, "faulty", "GPUFallenOffBus", `"source":"nvml"`, "GPU 3 on node "+node+": the GPU has fallen off the bus")
	// What the agent forgets when it is started anew, the node keeps.
	if _, _, annotations := f.node(t, node); !strings.HasSuffix(annotations[kube.GPUsWhenOut], " boot=boot-of-"+node+" reset="+uuidOn(node, 3)) {
		t.Errorf("annotations %v; want what GPU 3 needed when the node went out", annotations)
	}
}

// takenOut: the run of gpu-fault drains the first node of a service, proves it
// and asks for the repair.
func (f *faults) takenOut(t *testing.T, service, alertname string, says ...string) {
	t.Helper()
	node, other := f.pools[service][0], f.pools[service][1]
	f.is(t, other, judge.Healthy) // else nothing is moved to it
	run := f.run(t, "gpu-fault", alertname, service)
	wantEnd(t, run, machine.OutcomeResolved, append(says, "1 of 1 pods have left node "+node)...)
	if n := run.Has(machine.Verified); n != 2 {
		t.Errorf("%d changes were proven, want the drain and the request:\n%s", n, run)
	}
	cordoned, labels, annotations := f.node(t, node)
	if !cordoned || labels["responder.dev/gpu-reset"] != "requested" || annotations["responder.dev/gpu-reset-requested"] == "" {
		t.Errorf("the node is cordoned: %v, labels %v, annotations %v", cordoned, labels, annotations)
	}
	if cordoned, labels, _ := f.node(t, other); cordoned || labels["responder.dev/gpu-reset"] != "" {
		t.Errorf("node %s, which has no fault, is cordoned: %v, labels %v", other, cordoned, labels)
	}
	f.cp.AwaitRollout(t, f.ns, service, time.Minute) // both replicas have found room
}

// gpusAreWell: idle GPUs and one at its power limit are no fault.
func gpusAreWell(t *testing.T, f *faults) {
	node := f.pools["busy"][0]
	f.is(t, node, judge.Busy)
	wantEnd(t, f.run(t, "gpu-fault", "GPUDegraded", "busy"), machine.OutcomeNoAction, `"verdict":"busy"`, `"healthy_nodes":1`)
	if cordoned, _, _ := f.node(t, node); cordoned {
		t.Error("the node was cordoned")
	}
}

// agentIsMute: an agent that takes connections and stays silent says nothing
// about the GPUs, least of all that they are well.
func agentIsMute(t *testing.T, f *faults) {
	agent := f.agents[f.pools["mute"][0]]
	if err := agent.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := agent.Signal(syscall.SIGCONT); err != nil { // so that it can be stopped
			t.Error(err)
		}
	}()
	wantEnd(t, f.run(t, "gpu-fault", "GPUXIDError", "mute"), machine.OutcomeEscalated, `"verdict":"unknown"`, "did not answer within 5s", "the state of its GPUs cannot be told")
}

// nodeReturns: what Responder took out it gives back when the agent has seen it
// healthy for long enough.
func nodeReturns(t *testing.T, f *faults) {
	f.comesBack(t, "returned", "nvml")
}

// gpuFaultByDCGM: without an agent, and with the counters that dcgm-exporter
// gives by default, a fault is found. Health could not be: where the pods may go
// is known to be healthy because its exporter is told all.
func gpuFaultByDCGM(t *testing.T, f *faults) {
	node := f.pools["exported"][0]
	f.is(t, node, judge.Uncertain)
	f.exporters[node].set("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1)
	f.is(t, node, judge.Failing)
	f.takenOut(t, "exported", "GPURowRemapFailure", `"source":"dcgm"`, `"rma":true`, "GPU 0 on node "+node+": a memory row could not be remapped")
}

// nodeReturnsByDCGM: the proof can be dcgm-exporter's alone. Prometheus knows the
// XIDs of the time for which it was scraped, however long ago, and of no other.
func nodeReturnsByDCGM(t *testing.T, f *faults) {
	node := f.pools["proven"][0]
	f.is(t, node, judge.Healthy)
	since := time.Now().Add(-time.Minute)
	f.comesBack(t, "proven", "dcgm")
	querier, err := slo.NewPrometheus(slo.Options{URL: f.prometheus.URL})
	if err != nil {
		t.Fatal(err)
	}
	xids, uuids := gpu.DCGM{Querier: querier, Now: time.Now}, []string{"GPU-" + node + "-0", "GPU-" + node + "-1"}
	if err := xids.Quiet(t.Context(), node, uuids, since); err != nil {
		t.Errorf("XIDs since %s: %v; want to know that none came", since, err)
	}
	if err := xids.Quiet(t.Context(), node, uuids, since.Add(-2*time.Hour)); err == nil || !strings.Contains(err.Error(), "was scraped at ") {
		t.Errorf("XIDs of hours before the exporter was started: %v", err)
	}
}

func (f *faults) comesBack(t *testing.T, service, source string) {
	t.Helper()
	node := f.pools[service][0]
	f.is(t, node, judge.Healthy) // else it would go out unseen, and nothing but a reboot would bring it back
	wantEnd(t, f.run(t, "out", "TakeOut", service, "node", node), machine.OutcomeResolved)
	if cordoned, _, annotations := f.node(t, node); !cordoned || !strings.HasSuffix(annotations[kube.GPUsWhenOut], " boot=boot-of-"+node) {
		t.Errorf("the node is cordoned: %v, annotations %v; want it out, and that its GPUs needed nothing then", cordoned, annotations)
	}
	wantEnd(t, f.run(t, "long-return", "GPUNodeRepairedLongAgo", service, "node", node), machine.OutcomeEscalated, "wanted are 30m")
	if cordoned, _, _ := f.node(t, node); !cordoned {
		t.Error("the node takes pods again without proof")
	}
	wantEnd(t, f.run(t, "node-return", "GPUNodeRepaired", service, "node", node), machine.OutcomeResolved, "its GPUs are healthy for ", "by "+source)
	if cordoned, _, annotations := f.node(t, node); cordoned || annotations[kube.GPUsWhenOut] != "" {
		t.Errorf("the node is cordoned: %v, annotations %v", cordoned, annotations)
	}
}

// exporterStops: what Prometheus last heard of the GPUs is not what they are.
func exporterStops(t *testing.T, f *faults) {
	node := f.pools["stale"][0]
	f.is(t, node, judge.Healthy)
	f.exporters[node].server.Close()
	f.prometheus.AwaitQuery(t, time.Minute, fmt.Sprintf("count(DCGM_FI_DEV_GPU_TEMP{Hostname=%q} offset 2s) or vector(0)", node), func(v float64) bool { return v == 0 })
	wantEnd(t, f.run(t, "gpu-fault", "GPUUncorrectableECC", "stale"), machine.OutcomeEscalated, `"verdict":"unknown"`, `"unknown_nodes":1`, "(the driver's events (XIDs)) is too old", "the state of its GPUs cannot be told")
}
