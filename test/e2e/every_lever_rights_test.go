//go:build e2e && levers

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// reader is an account that may read what the deployed one reads.
func (w *leverRuns) reader(t *testing.T) string {
	t.Helper()
	const name = "reader"
	account := "--serviceaccount=" + w.ns + ":" + name
	w.cp.Kubectl(t, "-n", w.ns, "create", "serviceaccount", name)
	w.cp.Kubectl(t, "-n", w.ns, "create", "rolebinding", name, "--clusterrole=responder-read", account)
	for _, role := range []string{"responder-read-cluster", "responder-read-pods"} {
		w.cp.Kubectl(t, "create", "clusterrolebinding", w.ns+"-"+role, "--clusterrole="+role, account)
	}
	return rig.ServiceAccount(w.ns, name)
}

// account is one with exactly the rights that the chart renders for a single lever: it reads
// the namespace of the services, and has the roles of this lever.
func (w *leverRuns) account(t *testing.T, lever string, ofNodes bool) string {
	t.Helper()
	name := strings.NewReplacer(".", "-", "_", "-").Replace(lever)
	spaces := w.ns
	if ofNodes { // a '*' beside a namespace is for the nodes alone
		spaces = "'*', " + w.ns
	}
	dir := t.TempDir()
	values, rendered := filepath.Join(dir, "values.yaml"), filepath.Join(dir, "rbac.yaml")
	text := fmt.Sprintf("fullnameOverride: %s\nconfig: {discovery: {enabled: false}}\nrbac: {read: [%s], levers: {%s: [%s]}}\n", name, w.ns, lever, spaces)
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), rig.Helm(t), "template", name, filepath.Join(rig.Repository(), "deploy", "chart"),
		"--namespace", w.ns, "--values", values, "--kube-version", "1.31.0", "--show-only", "templates/rbac.yaml")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("render the rights of %s: %v\n%s", lever, err, out)
	}
	if err := os.WriteFile(rendered, out, 0o600); err != nil {
		t.Fatal(err)
	}
	w.cp.Kubectl(t, "apply", "-f", rendered)
	t.Cleanup(func() { // its roles for the whole cluster go with no namespace
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if out, err := w.cp.TryKubectl(ctx, "delete", "--ignore-not-found", "-f", rendered); err != nil {
			t.Errorf("delete the rights of %s: %v\n%s", lever, err, out)
		}
	})
	return rig.ServiceAccount(w.ns, name)
}
