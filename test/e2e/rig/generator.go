//go:build e2e

package rig

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// generator is the controller that makes applications from ApplicationSets.
// Only tests of it need it.
type generator struct {
	once sync.Once
	err  error
}

func (a *ArgoCD) startGenerator(t testing.TB) {
	t.Helper()
	a.generator.once.Do(func() { a.generator.err = a.generate() })
	if a.generator.err != nil {
		t.Fatalf("start the controller of ApplicationSets: %v", a.generator.err)
	}
}

// generate puts the definition into the cluster and starts the controller.
func (a *ArgoCD) generate() error {
	bin, err := built("sources.sh", "appsetbox")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	crds := filepath.Join(bin, "crds")
	if _, err := a.cp.TryKubectl(ctx, "apply", "--server-side", "-f", crds); err != nil {
		return err
	}
	state, ok := await(30*time.Second, func(ctx context.Context) (bool, string) { // there is nothing to wait for before its first status
		_, err := a.cp.TryKubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "-f", crds)
		return err == nil, fmt.Sprint(err)
	})
	if !ok {
		return fmt.Errorf("the definition is not established: %s", state)
	}
	const name = "argocd-applicationset-controller"
	kubeconfig := a.cp.kubeconfigPath(userArgoCD)
	spec := Spec{Name: name, Path: filepath.Join(bin, name), Limit: 2 * time.Minute}
	if spec.Env, err = a.environment(name, kubeconfig); err != nil {
		return err
	}
	var ports [3]int
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	spec.Args = []string{
		fmt.Sprintf("--metrics-addr=127.0.0.1:%d", ports[0]), fmt.Sprintf("--probe-addr=127.0.0.1:%d", ports[1]), fmt.Sprintf("--webhook-addr=127.0.0.1:%d", ports[2]),
		"--argocd-repo-server=" + a.repos, "--repo-server-plaintext", "--namespace=" + argoNamespace, "--kubeconfig=" + kubeconfig,
	}
	spec.Ready = fmt.Sprintf("http://127.0.0.1:%d/metrics", ports[0]) // it is asked to serve no health
	return a.launch(spec)
}
