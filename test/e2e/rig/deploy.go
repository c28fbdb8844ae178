//go:build e2e

package rig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where deploy/kubernetes puts the responder, and as whom.
const (
	ResponderNamespace = "responder"
	ResponderAccount   = "responder"
)

// Responder is the user name of the deployed responder's service account.
var Responder = ServiceAccount(ResponderNamespace, ResponderAccount)

// Deploy applies deploy/kubernetes as it is, once per control plane. The pod it
// asks for stays Pending, because nothing provisions its volume here; tests run
// the binary outside of the cluster, as the same service account.
func (cp *ControlPlane) Deploy(t testing.TB) {
	t.Helper()
	cp.deploy.Do(func() {
		cp.Kubectl(t, "apply", "-k", filepath.Join(Repository(), "deploy", "kubernetes"))
	})
}

// BindReading lets the deployed responder read one namespace, as
// deploy/kubernetes/example-reading.yaml does for serving.
func (cp *ControlPlane) BindReading(t testing.TB, namespace string) {
	t.Helper()
	cp.bind(t, namespace, "example-reading.yaml")
}

// BindLevers grants the deployed responder the rights to all levers in one
// namespace, as deploy/kubernetes/example-binding.yaml does for serving, and to read it.
func (cp *ControlPlane) BindLevers(t testing.TB, namespace string) {
	t.Helper()
	cp.BindReading(t, namespace)
	cp.bind(t, namespace, "example-binding.yaml")
}

// BindJobs grants the deployed responder the right to run Jobs in one namespace, as
// deploy/kubernetes/example-job-binding.yaml does for serving.
func (cp *ControlPlane) BindJobs(t testing.TB, namespace string) {
	t.Helper()
	cp.bind(t, namespace, "example-job-binding.yaml")
}

// BindFlux grants the deployed responder the right to read what Flux deploys from in one
// namespace, and to ask Flux to look at Git, as deploy/kubernetes/example-flux-binding.yaml
// does for serving.
func (cp *ControlPlane) BindFlux(t testing.TB, namespace string) {
	t.Helper()
	cp.bind(t, namespace, "example-flux-binding.yaml")
}

// bind applies a file of role bindings to another namespace than serving.
func (cp *ControlPlane) bind(t testing.TB, namespace, file string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(Repository(), "deploy", "kubernetes", file))
	if err != nil {
		t.Fatal(err)
	}
	cp.Apply(t, namespace, strings.ReplaceAll(string(data), "namespace: serving", "namespace: "+namespace))
}

// BindNodes grants the deployed responder the right to change nodes, as
// deploy/kubernetes/example-node-binding.yaml does, once per control plane.
func (cp *ControlPlane) BindNodes(t testing.TB) {
	t.Helper()
	cp.bindNodes.Do(func() {
		cp.Kubectl(t, "apply", "-f", filepath.Join(Repository(), "deploy", "kubernetes", "example-node-binding.yaml"))
	})
}
