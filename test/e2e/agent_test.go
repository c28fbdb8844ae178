//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/gpu/nvml/nvmltest"
	"github.com/inference-responder/responder/internal/gpu/podresources/kubelettest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// status is what `responder gpu status` says of a node, as the responder's own
// service account.
func (w *agentWorld) status(t *testing.T, node string) judge.NodeJudgement {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rig.BuildResponder(t, false), "gpu", "status", node, "--config", filepath.Join(w.dir, "responder.yaml"), "-o", "json")
	out, err := cmd.Output()
	var judged []judge.NodeJudgement
	if json.Unmarshal(out, &judged) != nil || len(judged) != 1 {
		t.Fatalf("gpu status: %v\n%s", err, out)
	}
	return judged[0]
}

func (w *agentWorld) await(t *testing.T, what string, is func(judge.NodeJudgement) bool) judge.NodeJudgement {
	t.Helper()
	var last judge.NodeJudgement
	rig.Await(t, time.Minute, what, func(context.Context) (bool, string) {
		last = w.status(t, w.nodes[0])
		return is(last), fmt.Sprintf("%+v", last)
	})
	return last
}

// says reports whether one of the reasons about the node holds a text.
func says(text string) func(judge.NodeJudgement) bool {
	return func(n judge.NodeJudgement) bool {
		for _, r := range n.Reasons {
			if strings.Contains(r.Text, text) {
				return n.Verdict == judge.Uncertain
			}
		}
		return false
	}
}

// The deployed agent's pod is admitted; the agent itself, as a process with
// NVIDIA's library stood in for, is asked by the responder over TLS, both
// proving themselves with real tokens that the real API server checks. An agent
// that shows another pod's token, or says that it is on another node, is
// refused.
func TestNodeAgent(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	_, nodes := cp.Own(t, 2, 8)
	w := newAgentWorld(t, nodes)
	agentRights(t, cp)
	w.script = nvmltest.Healthy(8)
	w.kubelet = kubelettest.New(t, filepath.Join(w.dir, "kubelet.sock"))
	w.kubelet.Say(kubelettest.Pod("serving", "chat-1", "nvidia.com/gpu", "GPU-00000000-0000-0000-0000-000000000003"))
	mine, other := w.pods[w.nodes[0]], w.pods[w.nodes[1]]
	script := filepath.Join(w.dir, "script-"+w.nodes[0])
	w.script.Write(t, script)
	agent := w.start(t, w.nodes[0], w.nodes[0])
	w.write(t, "responder.yaml", "auth: {insecure: true}\nkubernetes: {kubeconfig: "+w.cp.Kubeconfig(t, rig.Responder)+"}\n"+w.settings("20s"))

	began := w.await(t, "the agent's readings", func(n judge.NodeJudgement) bool { return len(n.GPUs) == 8 })
	if began.Source != "nvml" || began.Verdict != judge.Uncertain { // two minutes of history are needed for better
		t.Errorf("at first: %+v", began)
	}
	w.script.Set(3, "fail", nvmltest.Lost)
	w.script.Happen(5, 79)
	w.script.Write(t, script)
	failing := w.await(t, "what is broken", func(n judge.NodeJudgement) bool {
		return len(n.GPUs) == 8 && n.GPUs[3].Verdict == judge.Failing && n.GPUs[5].Verdict == judge.Failing
	})
	if failing.Verdict != judge.Failing || failing.GPUs[0].Verdict == judge.Failing {
		t.Errorf("broken: %+v", failing)
	}
	// A driver that hangs leaves the agent answering.
	w.script["fail.nvmlDeviceGetPowerUsage"] = nvmltest.Hang
	w.script.Write(t, script)
	w.await(t, "the hung calls", func(n judge.NodeJudgement) bool {
		return len(n.GPUs) == 8 && strings.Contains(fmt.Sprint(n.GPUs[0].Reasons), "[timeout]")
	})
	delete(w.script, "fail.nvmlDeviceGetPowerUsage")
	w.script.Write(t, script)
	w.awaitMetric(t, w.nodes[0], `responder_agent_gpu_pod{container="main",gpu="3",mig_instance="",namespace="serving",node="`+w.nodes[0]+`",pod="chat-1",uuid="GPU-00000000-0000-0000-0000-000000000003"} 1`)
	agentFigures(t, agent)

	w.token(t, "identity-"+w.nodes[0], "responder-agent", "responder", &other)
	w.await(t, "another pod's token", says("the token of another"))
	w.token(t, "identity-"+w.nodes[0], "responder-agent", "", &mine)
	w.await(t, "a token that is not for the responder", says("does not accept the token"))
	w.token(t, "identity-"+w.nodes[0], "responder-agent", "responder", &mine)
	w.token(t, "responder-token", "default", "responder-agent", nil)
	w.await(t, "a caller who may not ask", says("answers 403"))
	w.token(t, "responder-token", "responder", "responder-agent", nil)
	agent.Stop()
	liar := w.start(t, w.nodes[0], w.nodes[1])
	w.await(t, "an agent that lies about its node", says(fmt.Sprintf("claims to be on node %q", w.nodes[1])))
	liar.Stop()
	w.await(t, "no agent", says("cannot be reached"))
}

// awaitMetric waits until the agent of a node shows a sample to who may read
// it, and wants it to show nobody else any.
func (w *agentWorld) awaitMetric(t *testing.T, node, sample string) {
	t.Helper()
	rig.Await(t, time.Minute, sample, func(ctx context.Context) (bool, string) {
		code, body, err := w.scrape(ctx, node, "scrape-token")
		return err == nil && code == http.StatusOK && strings.Contains(body, sample), fmt.Sprint(code, body, err)
	})
	for token, want := range map[string]int{"": http.StatusUnauthorized, "agent-token": http.StatusForbidden, "responder-token": http.StatusUnauthorized} {
		if code, body, err := w.scrape(t.Context(), node, token); err != nil || code != want || strings.Contains(body, "responder_agent_") {
			t.Errorf("/metrics with the token %q: %d %.200s %v, want %d", token, code, body, err, want)
		}
	}
}

// scrape asks the agent of a node for its metrics with the token of a file;
// empty: without one.
func (w *agentWorld) scrape(ctx context.Context, node, token string) (code int, body string, err error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // tokens of the test's own
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(w.addresses[node], w.port)+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		text, err := os.ReadFile(filepath.Join(w.dir, token))
		if err != nil {
			return 0, "", err
		}
		req.Header.Set("Authorization", "Bearer "+string(text))
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(all), err
}

// agentFigures holds the agent to its memory and logs what it costs. It has a
// minute of history, and must have room for a full one: 2.2 MiB were measured over
// half an hour (docs/benchmarks.md), of which nvml.TestFullHistoryIsSmall bounds
// what is alive. The processor's share is logged only: this machine runs the
// control plane, too.
func agentFigures(t *testing.T, agent *rig.Process) {
	t.Helper()
	const fullHistory = 4 << 20
	const limit = 30<<20 - fullHistory
	memory := agent.Memory(t)
	t.Logf("agent with 8 GPUs: %.1f MiB resident, %.1f MiB at most, of which files %.1f MiB; %s of processor so far",
		float64(memory.Resident)/(1<<20), float64(memory.Peak)/(1<<20), float64(memory.Files)/(1<<20), agent.CPU(t))
	if memory.Resident > limit {
		t.Errorf("%d bytes resident, more than %d", memory.Resident, limit)
	}
}
