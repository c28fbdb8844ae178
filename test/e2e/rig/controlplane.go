//go:build e2e

package rig

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	_ "embed" // stages.yaml, audit.yaml
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

//go:embed stages.yaml
var stages []byte

//go:embed audit.yaml
var auditPolicy []byte

// ControlPlane is a Kubernetes cluster without containers: a real etcd, API
// server, controller manager and scheduler, and KWOK in the place of kubelets.
type ControlPlane struct {
	URL    string               // of the API server
	Dir    string               // its files and logs
	Config *rest.Config         // as admin
	Client kubernetes.Interface // as admin

	bin     string
	kubectl *http.Client // see [ControlPlane.TryKubectl]
	ca      []byte
	servers []*Process

	deploy    sync.Once // see Deploy
	bindNodes sync.Once
	audit     auditTail

	mu      sync.Mutex // guards the counters
	nodes   int
	spaces  int
	files   int
	flushes int
}

// The control plane's own clients have a user each, so that the audit log tells
// a test's writes from theirs. All tokens are worth nothing outside the test.
const (
	userAdmin       = "admin"
	userControllers = "controllers"
	userScheduler   = "scheduler"
	userKwok        = "kwok"
	userArgoCD      = "argocd"
	userFlux        = "flux"
)

// StartControlPlane starts a control plane for one test. [Shared] is cheaper.
func StartControlPlane(t testing.TB) *ControlPlane {
	t.Helper()
	cp, err := startControlPlane(runDir(t, "control-plane"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Close)
	return cp
}

func startControlPlane(dir string) (*ControlPlane, error) {
	cp := &ControlPlane{Dir: dir}
	if err := cp.start(); err != nil {
		cp.Close()
		return nil, fmt.Errorf("%w\nlogs are kept in %s", err, dir)
	}
	return cp, nil
}

func (cp *ControlPlane) start() error {
	var err error
	if cp.bin, err = built("build.sh", "kubebox"); err != nil {
		return err
	}
	etcd, err := cp.startEtcd()
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	if err := cp.startAPIServer(etcd); err != nil {
		return fmt.Errorf("start kube-apiserver: %w", err)
	}
	if err := cp.startControllers(); err != nil {
		return err
	}
	if err := cp.startKubectl(); err != nil {
		return fmt.Errorf("start kubectl: %w", err)
	}
	return cp.awaitServiceAccount("default", 60*time.Second)
}

// built returns the directory of what build.sh, sources.sh or flux.sh builds, which has
// made it, or makes it now.
func built(script string, target ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	out, err := run(ctx, filepath.Join(Repository(), "test", "e2e", "rig", script), target...)
	return strings.TrimSpace(out), err
}

func (cp *ControlPlane) launch(spec Spec) error {
	if spec.Path == "" {
		spec.Path = filepath.Join(cp.bin, spec.Name)
	}
	p, err := startProcess(cp.Dir, spec)
	if p != nil {
		cp.servers = append(cp.servers, p)
	}
	return err
}

func (cp *ControlPlane) startEtcd() (url string, err error) {
	client, err := freePort()
	if err != nil {
		return "", err
	}
	peer, err := freePort()
	if err != nil {
		return "", err
	}
	url = fmt.Sprintf("http://127.0.0.1:%d", client)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", peer)
	return url, cp.launch(Spec{
		Name: "etcd",
		Args: []string{
			"--name=rig", "--data-dir=" + filepath.Join(cp.Dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
			"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL, "--initial-cluster=rig=" + peerURL,
		},
		Ready: url + "/health",
	})
}

func (cp *ControlPlane) startAPIServer(etcd string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	cp.URL = fmt.Sprintf("https://127.0.0.1:%d", port)
	key, err := serviceAccountKey()
	if err != nil {
		return err
	}
	var tokens strings.Builder
	for _, user := range []string{userAdmin, userControllers, userScheduler, userKwok, userArgoCD, userFlux} {
		fmt.Fprintf(&tokens, "%s,%s,%s,system:masters\n", staticToken(user), user, user)
	}
	for name, data := range map[string][]byte{
		"audit.yaml": auditPolicy, "stages.yaml": stages, "sa.key": key, "tokens.csv": []byte(tokens.String()),
	} {
		if err := os.WriteFile(filepath.Join(cp.Dir, name), data, 0o600); err != nil {
			return err
		}
	}
	err = cp.launch(Spec{
		Name: "kube-apiserver",
		Args: []string{
			"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
			"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
			"--cert-dir=" + filepath.Join(cp.Dir, "certs"), "--authorization-mode=RBAC", "--token-auth-file=" + filepath.Join(cp.Dir, "tokens.csv"),
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + filepath.Join(cp.Dir, "sa.key"),
			"--service-account-signing-key-file=" + filepath.Join(cp.Dir, "sa.key"),
			"--audit-policy-file=" + filepath.Join(cp.Dir, "audit.yaml"), "--audit-log-path=" + cp.auditLog(),
			"--enable-admission-plugins=PodNodeSelector", // keeps the pods of tests apart
			"--allow-privileged", "--profiling=false", "--v=1",
		},
		Ready: cp.URL + "/readyz",
		Limit: 2 * time.Minute,
	})
	if err != nil {
		return err
	}
	// The API server signs its own certificate, so that is the authority too.
	if cp.ca, err = os.ReadFile(filepath.Join(cp.Dir, "certs", "apiserver.crt")); err != nil {
		return err
	}
	path, err := cp.writeKubeconfig(userAdmin, staticToken(userAdmin))
	if err != nil {
		return err
	}
	if cp.Config, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
		return err
	}
	cp.Config.QPS, cp.Config.Burst = 300, 600
	cp.Client, err = kubernetes.NewForConfig(cp.Config)
	return err
}

func (cp *ControlPlane) startControllers() error {
	for _, server := range []struct {
		name, user string
		args       []string
	}{
		{"kube-controller-manager", userControllers, []string{
			// The default of 20 requests a second costs seconds per rollout.
			"--leader-elect=false", "--kube-api-qps=300", "--kube-api-burst=600", "--concurrent-deployment-syncs=5", "--v=1",
			"--service-account-private-key-file=" + filepath.Join(cp.Dir, "sa.key"),
			"--root-ca-file=" + filepath.Join(cp.Dir, "certs", "apiserver.crt"),
			"--horizontal-pod-autoscaler-sync-period=1s", "--horizontal-pod-autoscaler-downscale-stabilization=5s",
		}},
		{"kube-scheduler", userScheduler, []string{"--leader-elect=false", "--v=1"}},
		{"kwok", userKwok, []string{"--config=" + filepath.Join(cp.Dir, "stages.yaml")}},
	} {
		port, err := freePort()
		if err != nil {
			return err
		}
		listen := []string{fmt.Sprintf("--secure-port=%d", port), "--bind-address=127.0.0.1"}
		if server.name == "kwok" {
			listen = []string{fmt.Sprintf("--server-address=127.0.0.1:%d", port)}
		}
		kubeconfig, err := cp.writeKubeconfig(server.user, staticToken(server.user))
		if err != nil {
			return err
		}
		args := append(append(server.args, listen...), "--kubeconfig="+kubeconfig)
		if err := cp.launch(Spec{Name: server.name, Args: args}); err != nil {
			return fmt.Errorf("start %s: %w", server.name, err)
		}
	}
	return nil
}

func serviceAccountKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func staticToken(user string) string { return "rig-" + user }

// Close stops the servers, the last started first.
func (cp *ControlPlane) Close() {
	for i := len(cp.servers) - 1; i >= 0; i-- {
		cp.servers[i].Stop()
	}
}

// Server returns one of the control plane's own servers by its program's name,
// for a test that takes it away.
func (cp *ControlPlane) Server(t testing.TB, name string) *Process {
	t.Helper()
	for _, p := range cp.servers {
		if p.spec.Name == name {
			return p
		}
	}
	t.Fatalf("no server %q in the control plane", name)
	return nil
}

// Namespace makes a namespace for the test, whose pods run on nodes of
// [ControlPlane.AddNodes] only. It goes when the test ends, and its pods with it.
func (cp *ControlPlane) Namespace(t testing.TB) string {
	t.Helper()
	cp.mu.Lock()
	cp.spaces++
	name := fmt.Sprintf("e2e-%d", cp.spaces)
	cp.mu.Unlock()

	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		"rig.responder/test": t.Name(), "scheduler.alpha.kubernetes.io/node-selector": poolLabel + "=" + name,
	}}}
	if _, err := cp.Client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	t.Cleanup(func() { cp.deleteNamespace(t, name) })
	if err := cp.awaitServiceAccount(name, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	return name
}

func (cp *ControlPlane) deleteNamespace(t testing.TB, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if t.Failed() {
		if out, err := cp.TryKubectl(ctx, "-n", name, "get", "deploy,rs,pods,events", "-o", "wide"); err == nil {
			t.Logf("namespace %s at the end:\n%s", name, out)
		}
	}
	if err := cp.Client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("delete namespace: %v", err)
		return
	}
	state, ok := await(time.Minute, func(ctx context.Context) (bool, string) {
		pods, err := cp.Client.CoreV1().Pods(name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		// The test's nodes may be gone before its pods, and nobody ends those.
		for _, pod := range pods.Items {
			if err := cp.Client.CoreV1().Pods(name).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0)); err != nil && !apierrors.IsNotFound(err) {
				return false, err.Error()
			}
		}
		return len(pods.Items) == 0, fmt.Sprintf("%d pods left", len(pods.Items))
	})
	if !ok {
		t.Errorf("namespace %s does not empty: %s", name, state)
	}
}

// awaitServiceAccount waits for the controller manager's sign of life in a
// namespace; before it no pod can be created there.
func (cp *ControlPlane) awaitServiceAccount(namespace string, limit time.Duration) error {
	state, ok := await(limit, func(ctx context.Context) (bool, string) {
		_, err := cp.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
	if !ok {
		return fmt.Errorf("no default service account in namespace %s: %s", namespace, state)
	}
	return nil
}

// Apply applies manifests, as admin, to a namespace.
func (cp *ControlPlane) Apply(t testing.TB, namespace, manifests string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifests.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	cp.Kubectl(t, "-n", namespace, "apply", "-f", file)
}

// AwaitRollout waits until the Deployment's newest revision is complete.
func (cp *ControlPlane) AwaitRollout(t testing.TB, namespace, deployment string, limit time.Duration) {
	t.Helper()
	Await(t, limit, "rollout of "+deployment, func(ctx context.Context) (bool, string) {
		d, err := cp.Client.AppsV1().Deployments(namespace).Get(ctx, deployment, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		want := *d.Spec.Replicas
		s := d.Status
		done := s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.Replicas == want && s.AvailableReplicas == want
		return done, fmt.Sprintf("%d wanted, %d there, %d updated, %d available", want, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas)
	})
}
