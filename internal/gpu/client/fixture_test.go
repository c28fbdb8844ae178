package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/agent"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t testing.TB, dir, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{cert: cert, key: key, file: filepath.Join(dir, name+".ca")}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

// issue writes a certificate and its key and gives the two files.
func (a *authority) issue(t testing.TB, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	writePEM(t, cert, "CERTIFICATE", der)
	bytes, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, key, "EC PRIVATE KEY", bytes)
	return cert, key
}

func writePEM(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	write(t, file, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fixed is a source that says what a test wants.
type fixed struct {
	mu sync.Mutex
	s  gpu.Snapshot
}

func (f *fixed) Snapshot() gpu.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.s.TakenAt = time.Now().UTC()
	return f.s
}

func snapshot(node string) gpu.Snapshot {
	return gpu.Snapshot{Format: gpu.Format, Node: node, Source: "nvml", PeriodMS: 1000, GPUs: []gpu.GPU{{UUID: "GPU-" + node, TakenAt: time.Now().UTC()}}}
}

// cluster is agents on loopback addresses, and what the API server says of them.
type cluster struct {
	mu     sync.Mutex
	pods   []Pod
	lists  int
	failed error            // of the list
	owners map[string]Owner // by token; one that is missing is not good
	asked  int              // reviews of agents' tokens
	broken error            // of reviews
}

func (c *cluster) AgentPods(context.Context) ([]Pod, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	return append([]Pod(nil), c.pods...), c.failed
}

func (c *cluster) ReviewAgent(_ context.Context, token string) (Owner, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	o, ok := c.owners[token]
	return o, ok, c.broken
}

// callers is the API server of the agents: the one good token is the responder's.
type callers struct{}

func (callers) ReviewToken(_ context.Context, token string) (string, error) {
	switch token {
	case "responder":
		return "system:serviceaccount:responder:responder", nil
	case "stranger":
		return "system:serviceaccount:default:default", nil
	case "down":
		return "", errors.New("the API server is away")
	default:
		return "", nil
	}
}

const (
	agentName = "responder-agent"
	account   = "system:serviceaccount:responder:responder-agent"
)

// testCluster is a cluster with a certificate authority.
type testCluster struct {
	*cluster
	dir  string
	ca   *authority
	port int
}

func newTestCluster(t testing.TB) *testCluster {
	dir := t.TempDir()
	return &testCluster{cluster: &cluster{owners: map[string]Owner{}}, dir: dir, ca: newAuthority(t, dir, "agents")}
}

// address returns the nth loopback address; the kernel answers on all of 127/8.
func address(n int) string { return fmt.Sprintf("127.1.%d.%d", n/250, n%250+1) }

// agent starts a real agent for a node and lists its pod. All agents listen on
// the same port, each at an address of its own, as pods do.
func (h *testCluster) agent(t testing.TB, node string, change func(*agent.Options)) *fixed {
	t.Helper()
	h.mu.Lock()
	n := len(h.pods)
	h.pods = append(h.pods, Pod{UID: "uid-" + node, Node: node, Address: address(n), Account: account, Started: time.Now()})
	h.owners["token-"+node] = Owner{User: account, PodUID: "uid-" + node, Node: node}
	h.mu.Unlock()
	identity := filepath.Join(h.dir, node+".token")
	write(t, identity, "token-"+node+"\n")
	source := &fixed{s: snapshot(node)}
	cert, key := h.ca.issue(t, h.dir, agentName)
	o := agent.Options{
		Source: source, CertFile: cert, KeyFile: key, Accounts: []string{"responder/responder"}, Reviewer: callers{}, IdentityFile: identity,
		Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	s, err := agent.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(address(n), fmt.Sprint(h.port)))
	if err != nil {
		t.Fatal(err)
	}
	h.port = ln.Addr().(*net.TCPAddr).Port
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("agent of %s: %v", node, err)
		}
	})
	return source
}

// client makes a client of the agents that were started.
func (h *testCluster) client(t testing.TB, change func(*Options)) *Client {
	t.Helper()
	token := filepath.Join(h.dir, "responder.token")
	write(t, token, "responder\n")
	o := Options{
		Pods: h, Reviewer: h, Port: h.port, CAFile: h.ca.file, ServerName: agentName, TokenFile: token,
		Timeout: 20 * time.Second, Log: slog.New(slog.DiscardHandler), // a busy machine is no fault of an agent
	}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
