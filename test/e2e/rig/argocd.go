//go:build e2e

package rig

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed" // argocd.yaml
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:embed argocd.yaml
var argoConfig string

const (
	argoNamespace = "argocd"
	argoAccount   = "responder" // of argocd.yaml, and the role of deploy/argocd/project-role.yaml
)

// ArgoCD is a real Argo CD for a control plane: Redis, repo-server,
// application-controller and API server.
type ArgoCD struct {
	Addr string // host:port of the API server, which speaks TLS
	URL  string // the same as an https URL
	CA   string // file with the certificate that the API server shows

	cp      *ControlPlane
	dir     string
	bin     string
	sources string // directory of helm and kustomize
	redis   string // host:port
	repos   string // host:port of the repo-server
	servers []*Process
	client  *http.Client
	admin   string // the administrator's token

	generator generator
	accounts  sync.Mutex // one change of an account's tokens at a time
}

// SharedArgoCD returns the Argo CD all tests of the package share, with the
// shared control plane, and starts it for the first one that asks. Needs [Main].
func SharedArgoCD(t testing.TB) *ArgoCD {
	t.Helper()
	cp := Shared(t)
	argo, err := shared.argoCD(cp)
	if err != nil {
		t.Fatalf("start the shared Argo CD: %v", err)
	}
	return argo
}

// argoCD starts Argo CD once. Whoever asks for a control plane or a binary
// meanwhile does not wait for it.
func (s *sharedState) argoCD(cp *ControlPlane) (*ArgoCD, error) {
	s.argoOnce.Do(func() {
		s.mu.Lock()
		dir, err := s.sub("argocd")
		s.mu.Unlock()
		if err != nil {
			s.argoErr = err
			return
		}
		s.argo = &ArgoCD{cp: cp, dir: dir}
		if s.argoErr = s.argo.start(); s.argoErr != nil {
			s.argo.close()
			s.argoErr = fmt.Errorf("%w\nlogs are kept in %s", s.argoErr, dir)
		}
	})
	return s.argo, s.argoErr
}

func (a *ArgoCD) start() error {
	var err error
	if a.bin, err = built("build.sh", "argobox"); err != nil {
		return err
	}
	if a.sources, err = built("sources.sh", "sourcebox"); err != nil {
		return err
	}
	if err := a.install(); err != nil {
		return err
	}
	if err := a.startRedis(); err != nil {
		return fmt.Errorf("start redis: %w", err)
	}
	if err := a.startServers(); err != nil {
		return err
	}
	return a.login()
}

// install puts the definitions and the configuration into the cluster.
func (a *ArgoCD) install() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	config := filepath.Join(a.dir, "argocd.yaml")
	if err := os.WriteFile(config, []byte(argoConfig), 0o600); err != nil {
		return err
	}
	rights, err := deployed("account.yaml", "e2e-*")
	if err != nil {
		return err
	}
	crds := filepath.Join(a.bin, "crds")
	for _, args := range [][]string{
		{"create", "namespace", argoNamespace},
		{"apply", "--server-side", "-f", crds},
		{"-n", argoNamespace, "apply", "-f", config},
		{"-n", argoNamespace, "patch", "configmap", "argocd-rbac-cm", "--type=merge", "--patch=" + rights},
		{"wait", "--for=condition=Established", "--timeout=30s", "-f", crds},
	} {
		if _, err := a.cp.TryKubectl(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// deployed is a file of deploy/argocd, for other projects than its own.
func deployed(file, projects string) (string, error) {
	data, err := os.ReadFile(filepath.Join(Repository(), "deploy", "argocd", file))
	return strings.ReplaceAll(string(data), "inference", projects), err
}

func (a *ArgoCD) launch(spec Spec) error {
	p, err := startProcess(a.dir, spec)
	if p != nil {
		a.servers = append(a.servers, p)
	}
	return err
}

func (a *ArgoCD) startRedis() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	a.redis = fmt.Sprintf("127.0.0.1:%d", port)
	return a.launch(Spec{
		Name: "redis-server", Path: "/usr/bin/redis-server",
		Args: []string{"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", a.dir},
	})
}

// startServers starts Argo CD's three programs in parallel and waits for
// all of them.
func (a *ArgoCD) startServers() error {
	kubeconfig, err := a.cp.writeKubeconfig(userArgoCD, staticToken(userArgoCD))
	if err != nil {
		return err
	}
	var ports [5]int
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	a.Addr = fmt.Sprintf("localhost:%d", ports[4]) // its certificate has names only
	a.URL = "https://" + a.Addr
	a.repos = fmt.Sprintf("127.0.0.1:%d", ports[0])
	specs := []Spec{{
		Name: "argocd-repo-server",
		Args: []string{
			"--address=127.0.0.1", fmt.Sprintf("--port=%d", ports[0]), "--metrics-address=127.0.0.1", fmt.Sprintf("--metrics-port=%d", ports[1]),
			"--disable-tls", "--redis=" + a.redis,
		},
		Ready: fmt.Sprintf("http://127.0.0.1:%d/healthz", ports[1]),
	}, {
		Name: "argocd-application-controller",
		Args: []string{
			fmt.Sprintf("--metrics-port=%d", ports[2]), "--repo-server=" + a.repos, "--repo-server-plaintext", "--redis=" + a.redis,
			"--namespace=" + argoNamespace, "--kubeconfig=" + kubeconfig, "--status-processors=8", "--operation-processors=8",
		},
		Ready: fmt.Sprintf("http://127.0.0.1:%d/healthz", ports[2]),
	}, {
		Name: "argocd-server",
		Args: []string{
			"--address=127.0.0.1", fmt.Sprintf("--port=%d", ports[4]), "--metrics-address=127.0.0.1", fmt.Sprintf("--metrics-port=%d", ports[3]),
			"--repo-server=" + a.repos, "--repo-server-plaintext", "--redis=" + a.redis, "--dex-server=http://127.0.0.1:1",
			"--namespace=" + argoNamespace, "--kubeconfig=" + kubeconfig,
		},
		Ready: a.URL + "/healthz",
	}}
	started := make(chan error, len(specs))
	for _, spec := range specs {
		spec.Path, spec.Limit = filepath.Join(a.bin, spec.Name), 2*time.Minute
		if spec.Env, err = a.environment(spec.Name, kubeconfig); err != nil {
			return err
		}
		ready := spec.Ready
		spec.Ready = ""
		if err := a.launch(spec); err != nil {
			return fmt.Errorf("start %s: %w", spec.Name, err)
		}
		p := a.servers[len(a.servers)-1]
		p.spec.Ready = ready
		go func() {
			if err := p.awaitReady(); err != nil {
				started <- fmt.Errorf("start %s: %w", p.spec.Name, err)
				return
			}
			started <- nil
		}()
	}
	var all error
	for range specs {
		all = errors.Join(all, <-started)
	}
	return all
}

// environment keeps a server's files in a directory of its own, and away from
// the configuration of whoever runs the tests.
func (a *ArgoCD) environment(server, kubeconfig string) ([]string, error) {
	home := filepath.Join(a.dir, server+".d")
	for _, dir := range []string{"tmp", "empty"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			return nil, err
		}
	}
	empty := filepath.Join(home, "empty")
	return []string{
		"HOME=" + home, "TMPDIR=" + filepath.Join(home, "tmp"), "PATH=" + a.bin + ":" + a.sources + ":" + os.Getenv("PATH"),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "KUBECONFIG=" + kubeconfig,
		"ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false", "ARGOCD_ASK_PASS_SOCK=" + filepath.Join(home, "ask.sock"),
		"ARGOCD_TLS_DATA_PATH=" + empty, "ARGOCD_SSH_DATA_PATH=" + empty, "ARGOCD_GPG_DATA_PATH=" + empty,
		"ARGOCD_PLUGINSOCKFILEPATH=" + empty, "ARGOCD_BINARY_NAME=" + server,
	}, nil
}

// login takes the API server's certificate and the administrator's first
// password from where Argo CD has put them.
func (a *ArgoCD) login() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	secrets := a.cp.Client.CoreV1().Secrets(argoNamespace)
	main, err := secrets.Get(ctx, "argocd-secret", metav1.GetOptions{})
	if err != nil {
		return err
	}
	initial, err := secrets.Get(ctx, "argocd-initial-admin-secret", metav1.GetOptions{})
	if err != nil {
		return err
	}
	a.CA = filepath.Join(a.dir, "ca.crt")
	if err := os.WriteFile(a.CA, main.Data["tls.crt"], 0o600); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(main.Data["tls.crt"]) {
		return errors.New("argocd-secret has no certificate")
	}
	a.client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	var session struct{ Token string }
	credentials := map[string]string{"username": "admin", "password": string(initial.Data["password"])}
	if err := a.call(ctx, "", http.MethodPost, "/api/v1/session", credentials, &session); err != nil {
		return err
	}
	a.admin = session.Token
	return nil
}

// APIError is a refusal of Argo CD's API.
type APIError struct {
	Status  int // of HTTP
	Message string
}

func (e *APIError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Message) }

// call asks the API over HTTP. out may be nil.
func (a *ArgoCD) call(ctx context.Context, token, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, a.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var problem struct{ Message string }
		if json.Unmarshal(answer, &problem) != nil || problem.Message == "" {
			problem.Message = strings.TrimSpace(string(answer))
		}
		return fmt.Errorf("%s %s: %w", method, path, &APIError{resp.StatusCode, problem.Message})
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// Call asks the API over HTTP with a token, as curl would: method, path below
// the server, and what is sent and received as JSON. out may be nil. What the
// server refuses is an [*APIError].
func (a *ArgoCD) Call(t testing.TB, token, method, path string, in, out any) error {
	t.Helper()
	return a.call(t.Context(), token, method, path, in, out)
}

// Server returns one of Argo CD's own servers by its program's name, for a test
// that looks at its log. Other tests need it: do not take it away.
func (a *ArgoCD) Server(t testing.TB, name string) *Process {
	t.Helper()
	for _, p := range a.servers {
		if p.spec.Name == name {
			return p
		}
	}
	t.Fatalf("no server %q in Argo CD", name)
	return nil
}

func (a *ArgoCD) close() {
	for i := len(a.servers) - 1; i >= 0; i-- {
		a.servers[i].Stop()
	}
}
