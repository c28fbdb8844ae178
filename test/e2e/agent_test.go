//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/nvml/nvmltest"
	"github.com/inference-responder/responder/internal/gpu/podresources/kubelettest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// agentWorld is the deployed DaemonSet on two nodes of its own, with a real
// agent process in the place of the first one's pod.
type agentWorld struct {
	cp      *rig.ControlPlane
	dir     string
	library string
	nodes   []string
	pods    map[string]corev1.Pod // by node
	script  nvmltest.Script
	address string // of the agent
	kubelet *kubelettest.Kubelet
}

func newAgentWorld(t *testing.T) *agentWorld {
	cp := rig.Shared(t)
	cp.Deploy(t)
	w := &agentWorld{cp: cp, dir: t.TempDir(), pods: map[string]corev1.Pod{}, script: nvmltest.Healthy(8)}
	w.library = nvmltest.Build(t, w.dir)
	w.kubelet = kubelettest.New(t, filepath.Join(w.dir, "kubelet.sock"))
	_, w.nodes = cp.Own(t, 2, 8)
	cp.Apply(t, "", "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\n")
	cp.Kubectl(t, "apply", "-k", filepath.Join(rig.Repository(), "deploy", "agent"))
	for i, node := range w.nodes {
		cp.Kubectl(t, "label", "node", node, "nvidia.com/gpu.present=true")
		rig.Await(t, time.Minute, "the agent's pod on "+node, func(ctx context.Context) (bool, string) {
			pods, err := cp.Client.CoreV1().Pods(rig.ResponderNamespace).List(ctx, metav1.ListOptions{
				LabelSelector: "app.kubernetes.io/name=responder-agent", FieldSelector: "spec.nodeName=" + node,
			})
			if err != nil || len(pods.Items) != 1 {
				return false, fmt.Sprint(pods, err)
			}
			w.pods[node] = pods.Items[0]
			return pods.Items[0].Status.Phase == corev1.PodRunning, string(pods.Items[0].Status.Phase)
		})
		// Pods have addresses on this machine, so that what listens there answers.
		address := fmt.Sprintf("127.3.%d.%d", os.Getpid()%250, i+1)
		patch := fmt.Sprintf(`{"status":{"podIP":%q,"podIPs":[{"ip":%q}]}}`, address, address)
		if _, err := cp.Client.CoreV1().Pods(rig.ResponderNamespace).Patch(t.Context(), w.pods[node].Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			w.address = address
		}
	}
	w.certificate(t)
	return w
}

// certificate writes ca.crt, tls.crt and tls.key.
func (w *agentWorld) certificate(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "agents"}, DNSNames: []string{"responder-agent"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "tls.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	w.write(t, "tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
}

func (w *agentWorld) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// token writes a real token of a service account, bound to a pod as the
// kubelet's are, or to none.
func (w *agentWorld) token(t *testing.T, file, account, audience string, pod *corev1.Pod) {
	t.Helper()
	hour := int64(3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	answer, err := w.cp.Client.CoreV1().ServiceAccounts(rig.ResponderNamespace).CreateToken(t.Context(), account, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, file, answer.Status.Token)
}

// start runs the agent as its pod would, and as the named node.
func (w *agentWorld) start(t *testing.T, node string) (agent *rig.Process, port int) {
	t.Helper()
	ln, err := net.Listen("tcp", w.address+":0")
	if err != nil {
		t.Fatal(err)
	}
	port = ln.Addr().(*net.TCPAddr).Port
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(w.dir, "api.crt")
	if err := os.WriteFile(ca, w.cp.Config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(w.dir, name) }
	return rig.Start(t, rig.Spec{
		Name: "responder-agent", Path: rig.BuildAgent(t),
		Args: []string{
			"--listen", fmt.Sprintf("%s:%d", w.address, port), "--library", w.library, "--pod-resources", w.kubelet.Socket,
			"--cert-file", file("tls.crt"), "--key-file", file("tls.key"), "--allow-account", "responder/responder", "--identity-file", file("identity"),
			"--api-server", w.cp.URL, "--api-ca-file", ca, "--api-token-file", file("agent-token"),
		},
		Env:   []string{"NODE_NAME=" + node, nvmltest.ScriptVariable + "=" + file("script")},
		Ready: fmt.Sprintf("https://%s:%d/healthz", w.address, port),
	}), port
}

// status is what `responder gpu status` says of a node, as the responder's own
// service account.
func (w *agentWorld) status(t *testing.T, node string) gpu.NodeJudgement {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rig.BuildResponder(t, false), "gpu", "status", node, "--config", filepath.Join(w.dir, "responder.yaml"), "-o", "json")
	out, err := cmd.Output()
	var judged []gpu.NodeJudgement
	if json.Unmarshal(out, &judged) != nil || len(judged) != 1 {
		t.Fatalf("gpu status: %v\n%s", err, out)
	}
	return judged[0]
}

func (w *agentWorld) await(t *testing.T, what string, is func(gpu.NodeJudgement) bool) gpu.NodeJudgement {
	t.Helper()
	var last gpu.NodeJudgement
	rig.Await(t, time.Minute, what, func(context.Context) (bool, string) {
		last = w.status(t, w.nodes[0])
		return is(last), fmt.Sprintf("%+v", last)
	})
	return last
}

// says reports whether one of the reasons about the node holds a text.
func says(text string) func(gpu.NodeJudgement) bool {
	return func(n gpu.NodeJudgement) bool {
		for _, r := range n.Reasons {
			if strings.Contains(r.Text, text) {
				return n.Verdict == gpu.Uncertain
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
	w := newAgentWorld(t)
	agentRights(t, w.cp)
	w.kubelet.Say(kubelettest.Pod("serving", "chat-1", "nvidia.com/gpu", "GPU-00000000-0000-0000-0000-000000000003"))
	mine, other := w.pods[w.nodes[0]], w.pods[w.nodes[1]]
	w.token(t, "agent-token", "responder-agent", "", nil)
	w.token(t, "identity", "responder-agent", "responder", &mine)
	w.token(t, "responder-token", "responder", "responder-agent", nil)
	script := filepath.Join(w.dir, "script")
	w.script.Write(t, script)
	agent, port := w.start(t, w.nodes[0])
	w.write(t, "responder.yaml", fmt.Sprintf(`
auth: {insecure: true}
kubernetes: {kubeconfig: %s}
gpu: {agents: {enabled: true, port: %d, ca_file: tls.crt, token_file: responder-token, timeout: 20s}}
`, w.cp.Kubeconfig(t, rig.Responder), port))

	began := w.await(t, "the agent's readings", func(n gpu.NodeJudgement) bool { return len(n.GPUs) == 8 })
	if began.Source != "nvml" || began.Verdict != gpu.Uncertain { // two minutes of history are needed for better
		t.Errorf("at first: %+v", began)
	}
	w.script.Set(3, "fail", nvmltest.Lost)
	w.script.Happen(5, 79)
	w.script.Write(t, script)
	failing := w.await(t, "what is broken", func(n gpu.NodeJudgement) bool {
		return len(n.GPUs) == 8 && n.GPUs[3].Verdict == gpu.Failing && n.GPUs[5].Verdict == gpu.Failing
	})
	if failing.Verdict != gpu.Failing || failing.GPUs[0].Verdict == gpu.Failing {
		t.Errorf("broken: %+v", failing)
	}
	// A driver that hangs leaves the agent answering.
	w.script["fail.nvmlDeviceGetPowerUsage"] = nvmltest.Hang
	w.script.Write(t, script)
	w.await(t, "the hung calls", func(n gpu.NodeJudgement) bool {
		return len(n.GPUs) == 8 && strings.Contains(fmt.Sprint(n.GPUs[0].Reasons), "[timeout]")
	})
	delete(w.script, "fail.nvmlDeviceGetPowerUsage")
	w.script.Write(t, script)
	w.awaitMetric(t, port, `responder_agent_gpu_pod{container="main",gpu="3",mig_instance="",namespace="serving",node="`+w.nodes[0]+`",pod="chat-1",uuid="GPU-00000000-0000-0000-0000-000000000003"} 1`)
	agentFigures(t, agent)

	w.token(t, "identity", "responder-agent", "responder", &other)
	w.await(t, "another pod's token", says("the token of another"))
	w.token(t, "identity", "responder-agent", "", &mine)
	w.await(t, "a token that is not for the responder", says("does not vouch"))
	w.token(t, "identity", "responder-agent", "responder", &mine)
	w.token(t, "responder-token", "default", "responder-agent", nil)
	w.await(t, "a caller who may not ask", says("answers 403"))
	w.token(t, "responder-token", "responder", "responder-agent", nil)
	agent.Stop()
	liar, port := w.start(t, w.nodes[1])
	config, err := os.ReadFile(filepath.Join(w.dir, "responder.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "responder.yaml", replacePort(string(config), port))
	w.await(t, "an agent that lies about its node", says(fmt.Sprintf("says that it is on node %q", w.nodes[1])))
	liar.Stop()
	w.await(t, "no agent", says("cannot be reached"))
}

// awaitMetric waits until the agent shows a sample to everybody who asks.
func (w *agentWorld) awaitMetric(t *testing.T, port int, sample string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // what it shows is no secret
	rig.Await(t, time.Minute, sample, func(ctx context.Context) (bool, string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s:%d/metrics", w.address, port), nil)
		if err != nil {
			return false, err.Error()
		}
		resp, err := client.Do(req)
		if err != nil {
			return false, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(body), sample), string(body)
	})
}

func replacePort(config string, port int) string {
	before, rest, _ := strings.Cut(config, "port: ")
	_, after, _ := strings.Cut(rest, ",")
	return fmt.Sprintf("%sport: %d,%s", before, port, after)
}

// agentFigures holds the agent to its memory and logs what it costs. The
// processor's share is logged only: this machine runs the control plane, too.
func agentFigures(t *testing.T, agent *rig.Process) {
	t.Helper()
	const limit = 30 << 20
	memory := agent.Memory(t)
	t.Logf("agent with 8 GPUs: %.1f MiB resident, %.1f MiB at most, of which files %.1f MiB; %s of processor so far",
		float64(memory.Resident)/(1<<20), float64(memory.Peak)/(1<<20), float64(memory.Files)/(1<<20), agent.CPU(t))
	if memory.Resident > limit {
		t.Errorf("%d bytes resident, more than %d", memory.Resident, limit)
	}
}
