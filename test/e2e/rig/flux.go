//go:build e2e

package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Flux is a real Flux for a control plane: its source-, kustomize- and helm-controller.
type Flux struct{ cp *ControlPlane }

// StartFlux starts it for one test, and the tests within it.
func StartFlux(t testing.TB, cp *ControlPlane) *Flux {
	t.Helper()
	bin, err := built("flux.sh")
	if err != nil {
		t.Fatal(err)
	}
	crds := filepath.Join(bin, "crds")
	cp.Kubectl(t, "apply", "--server-side", "-f", crds)
	cp.Kubectl(t, "wait", "--for=condition=Established", "--timeout=60s", "-f", crds)
	dir := runDir(t, "flux")
	kubeconfig, err := cp.writeKubeconfig(userFlux, staticToken(userFlux))
	if err != nil {
		t.Fatal(err)
	}
	storage := filepath.Join(dir, "storage")
	if err := os.MkdirAll(storage, 0o700); err != nil {
		t.Fatal(err)
	}
	artifacts := FreeAddr(t)
	for name, args := range map[string][]string{
		"source-controller":    {"--storage-path=" + storage, "--storage-addr=" + artifacts, "--storage-adv-addr=" + artifacts},
		"kustomize-controller": {"--http-retry=2"},
		"helm-controller":      {"--http-retry=2"},
	} {
		health := FreeAddr(t)
		Start(t, Spec{
			Name: name, Path: filepath.Join(bin, name), Limit: time.Minute,
			Args:  append(args, "--metrics-addr=0", "--health-addr="+health, "--watch-all-namespaces=true"),
			Env:   []string{"KUBECONFIG=" + kubeconfig, "RUNTIME_NAMESPACE=default", "HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")},
			Ready: "http://" + health + "/readyz",
		})
	}
	return &Flux{cp}
}

// Kustomization is one that keeps its namespace like a directory of a repository. It has
// the name models, and so has its source.
type Kustomization struct {
	cp *ControlPlane
	ns string
}

// Kustomization creates one. Flux waits until what it applied is healthy, for at most so
// long, and looks at Git every hour, unless it is asked.
func (f *Flux) Kustomization(t testing.TB, namespace, path string, git *Git, timeout time.Duration) *Kustomization {
	t.Helper()
	// Flux sends no credentials of a Secret over plain http; those of an address it does.
	address := strings.Replace(git.URL, "http://", "http://flux:"+git.Token+"@", 1)
	f.cp.Apply(t, namespace, fmt.Sprintf(`
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: models}
spec: {interval: 1h, url: %q, ref: {branch: %s}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: models}
spec:
  interval: 1h
  retryInterval: 1h
  timeout: %s
  path: ./%s
  prune: true
  wait: true
  targetNamespace: %s
  sourceRef: {kind: GitRepository, name: models}
`, address, git.Branch, timeout, path, namespace))
	return &Kustomization{f.cp, namespace}
}

// Suspend has Flux leave the Kustomization alone, or ends that.
func (k *Kustomization) Suspend(t testing.TB, suspend bool) {
	t.Helper()
	k.cp.Kubectl(t, "-n", k.ns, "patch", "kustomization/models", "--type=merge", fmt.Sprintf("--patch={\"spec\":{\"suspend\":%t}}", suspend))
}

// Reconcile asks Flux to look at Git now, as `flux reconcile` does.
func (k *Kustomization) Reconcile(t testing.TB) {
	t.Helper()
	k.cp.Kubectl(t, "-n", k.ns, "annotate", "--overwrite", "gitrepository/models", "reconcile.fluxcd.io/requestedAt="+time.Now().Format(time.RFC3339Nano))
}

// AwaitApplied waits until Flux has applied a commit, and found it healthy.
func (k *Kustomization) AwaitApplied(t testing.TB, sha string, limit time.Duration) {
	t.Helper()
	Await(t, limit, fmt.Sprintf("Flux has applied %.8s", sha), func(ctx context.Context) (bool, string) {
		out, err := k.cp.TryKubectl(ctx, "-n", k.ns, "get", "kustomization/models", "-o", "json")
		if err != nil {
			return false, err.Error()
		}
		var got struct {
			Status struct {
				LastAppliedRevision string `json:"lastAppliedRevision"`
				Conditions          []struct{ Type, Status, Reason, Message string }
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			return false, err.Error()
		}
		ready := false
		for _, c := range got.Status.Conditions {
			ready = ready || c.Type == "Ready" && c.Status == "True"
		}
		return ready && strings.HasSuffix(got.Status.LastAppliedRevision, ":"+sha), fmt.Sprintf("%+v", got.Status)
	})
}
