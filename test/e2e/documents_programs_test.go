//go:build e2e

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu/nvml/nvmltest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// programsWorld is where a reader runs examples that need the other programs: responder,
// responder-agent and responder-helm beside each other, NVIDIA's library stood in for, and
// two nodes with agents.
type programsWorld struct {
	*agentWorld
	env []string
}

// TestDocumentedPrograms runs the examples that TestExamples of cmd/responder leaves out,
// because they need responder-agent or responder-helm: all that examples.not-run has.
func TestDocumentedPrograms(t *testing.T) {
	t.Parallel()
	_, nodes := rig.Shared(t).Own(t, 2, 8)
	w := &programsWorld{agentWorld: newAgentWorld(t, nodes)}
	for _, node := range nodes {
		healthyOn(node).Write(t, filepath.Join(w.dir, "script-"+node))
		w.start(t, node, node)
	}
	program := rig.BuildResponder(t, false)
	rig.BuildHelm(t)
	w.env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "LD_LIBRARY_PATH="+w.dir, nvmltest.ScriptVariable+"="+filepath.Join(w.dir, "script-"+nodes[0]))
	w.write(t, "ca.crt", w.read(t, "tls.crt"))
	w.token(t, "identity", "responder-agent", "responder", nil)
	w.write(t, "responder.yaml", "auth: {insecure: true}\nkubernetes: {kubeconfig: "+w.cp.Kubeconfig(t, rig.Responder)+"}\n"+w.settings("20s"))
	writeTree(t, w.dir, map[string]string{
		"charts/chat/Chart.yaml": "apiVersion: v2\nname: chat\nversion: 0.1.0\n", "charts/chat/values.yaml": "maxNumSeqs: 256\n", "envs/prod.yaml": "maxNumSeqs: 128\n",
		"charts/chat/templates/deployment.yaml": strings.Replace(chartTemplate("x", "        - --max-num-seqs={{ .Values.maxNumSeqs }}\n"), "{{ .Release.Name }}-x", "chat", 1),
	})
	api := " --api-server " + w.cp.URL + " --api-ca-file api.crt --api-token-file agent-token" // a pod's own, by default

	left := listed(t, filepath.Join(rig.Repository(), "cmd", "responder", "testdata", "examples.not-run"))
	example := func(t *testing.T, line string) string {
		t.Helper()
		if left[line] == "" {
			t.Errorf("examples.not-run does not have %s", line)
		}
		delete(left, line)
		return line
	}
	serves := func(line, scheme, extra string) {
		w.serves(t, example(t, line)+extra, scheme)
	}
	serves("responder agent --listen 127.0.0.1:9443", "http", "")
	serves("responder agent --listen :9443 --cert-file tls.crt --key-file tls.key --allow-account responder/responder --identity-file identity", "https", api)
	serves("responder agent --listen :9443 --cert-file tls.crt --key-file tls.key --client-ca-file ca.crt --allow-client responder", "https", "")

	probes := []struct {
		line, want string
		code       int
	}{
		{"responder agent probe", `(?m)healthy`, 0}, // after two minutes of history
		{"responder agent probe --library /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", `(?m)healthy`, 0},
		{"responder agent probe --for 5s -o json", `"verdict": "unknown"`, 1},
	}
	for i := range probes {
		example(t, probes[i].line)
	}
	t.Run("probes", func(t *testing.T) {
		for _, p := range probes {
			t.Run(p.line, func(t *testing.T) {
				t.Parallel()
				w.prints(t, strings.ReplaceAll(p.line, "/usr/lib/x86_64-linux-gnu/", w.dir+"/"), p.code, p.want)
			})
		}
	})

	w.prints(t, strings.NewReplacer("gpu-17", nodes[0], "gpu-18", nodes[1]).Replace(example(t, "responder gpu status gpu-17 gpu-18 --config responder.yaml -o json")), 0, `"verdict": "healthy"`)
	// The cluster has nodes of other tests, which have no agent.
	w.prints(t, example(t, "responder gpu status --config responder.yaml")+"; true", 0, `(?m)^`+nodes[0]+` +healthy +8 `)
	w.prints(t, example(t, "responder gitops set --path . --source charts/chat --values envs/prod.yaml --service serving/chat --flag max-num-seqs --value 64 --dry-run"), 0, `(?m)^\+maxNumSeqs: 64$`)
	for line, reason := range left {
		t.Errorf("%s\nis not run here, and examples.not-run says: %s", line, reason)
	}
}

// serves runs an example that serves until it is interrupted, at an address that is free.
func (w *programsWorld) serves(t *testing.T, line, scheme string) {
	t.Helper()
	address := rig.FreeAddr(t)
	line = regexp.MustCompile(`[0-9.]*:9443`).ReplaceAllString(line, address)
	p := rig.Start(t, rig.Spec{Name: "documented", Path: "bash", Args: []string{"-c", "cd " + w.dir + " && exec " + line}, Env: w.env, Ready: scheme + "://" + address + "/healthz"})
	if err := p.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.Wait(t, 10*time.Second); code != 0 {
		t.Errorf("%s ends with %d:\n%s", line, code, p.Tail(20))
	}
}

// prints runs an example to its end and checks its exit code and what it prints.
func (w *programsWorld) prints(t *testing.T, line string, code int, pattern string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
	cmd.Dir, cmd.Env = w.dir, w.env
	out, err := cmd.CombinedOutput()
	got := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != code || !regexp.MustCompile(pattern).Match(out) {
		t.Errorf("%s ends with %d, want %d and %s in\n%s", line, got, code, pattern, out)
	}
}

func (w *agentWorld) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
