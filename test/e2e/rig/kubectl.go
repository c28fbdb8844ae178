//go:build e2e

package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startKubectl starts the process that runs kubectl's commands. A process for each
// of them used to cost more than the API server.
func (cp *ControlPlane) startKubectl() error {
	dir, err := built("kubectl.sh")
	if err != nil {
		return err
	}
	socket := filepath.Join(cp.Dir, "kubectl.sock")
	var dial net.Dialer
	cp.kubectl = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dial.DialContext(ctx, "unix", socket)
	}}}
	if err := cp.launch(Spec{
		Name: "kubectl", Path: filepath.Join(dir, "kubectl"), Args: []string{socket},
		Env: []string{"KUBECACHEDIR=" + filepath.Join(cp.Dir, "kubectl")}, // what the API server of an earlier test knew is not ours
	}); err != nil {
		return err
	}
	if state, ok := await(30*time.Second, func(ctx context.Context) (bool, string) {
		_, err := cp.TryKubectl(ctx, "version", "--client")
		return err == nil, fmt.Sprint(err)
	}); !ok {
		return fmt.Errorf("does not answer: %s", state)
	}
	return nil
}

// KubectlPath is the path of kubectl, of the release of the control plane.
func (cp *ControlPlane) KubectlPath() string { return filepath.Join(cp.bin, "kubectl") }

// Kubectl runs kubectl as admin and returns what it printed.
func (cp *ControlPlane) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := cp.TryKubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TryKubectl is Kubectl for a call that may fail. A --kubeconfig among the
// arguments makes it another user's.
func (cp *ControlPlane) TryKubectl(ctx context.Context, args ...string) (string, error) {
	asked, err := json.Marshal(append([]string{"--kubeconfig=" + cp.kubeconfigPath(userAdmin)}, args...))
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://kubectl", bytes.NewReader(asked))
	if err != nil {
		return "", err
	}
	resp, err := cp.kubectl.Do(request)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("kubectl %s: %s", strings.Join(args, " "), bytes.TrimSpace(out))
	}
	return string(out), err
}
