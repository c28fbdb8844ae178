package client

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/agent"
)

// reasonOf asks one node and gives why there is no snapshot; empty: there is.
func reasonOf(t *testing.T, c *Client, node string) (fault.Reason, string) {
	t.Helper()
	answers := c.Snapshots(t.Context(), []string{node}, 0)
	if len(answers) != 1 || answers[0].Node != node {
		t.Fatalf("answers: %+v", answers)
	}
	if answers[0].Err == nil {
		if answers[0].Snapshot.Node != node {
			t.Fatalf("a snapshot of %q for %q", answers[0].Snapshot.Node, node)
		}
		return "", ""
	}
	var a *fault.Error
	if !errors.As(answers[0].Err, &a) {
		t.Fatalf("error: %v", answers[0].Err)
	}
	return a.Reason, a.Message
}

func expect(t *testing.T, c *Client, node string, want fault.Reason, text string) {
	t.Helper()
	if got, message := reasonOf(t, c, node); got != want || !strings.Contains(message, text) {
		t.Errorf("%s: %q, %q; want %q, %q", node, got, message, want, text)
	}
}

func TestAgentsAreAsked(t *testing.T) {
	h := newTestCluster(t)
	for _, node := range []string{"gpu-1", "gpu-2", "gpu-3"} {
		h.agent(t, node, nil)
	}
	c := h.client(t, nil)
	answers := c.Snapshots(t.Context(), []string{"gpu-3", "cpu-1", "gpu-1"}, 0)
	if len(answers) != 3 || answers[0].Snapshot.Node != "gpu-3" || answers[2].Snapshot.Node != "gpu-1" || !errors.Is(answers[1].Err, gpu.ErrNoAgent) {
		t.Errorf("%+v", answers)
	}
	if nodes, err := c.Nodes(t.Context()); err != nil || strings.Join(nodes, " ") != "gpu-1 gpu-2 gpu-3" {
		t.Errorf("nodes %v, %v", nodes, err)
	}
	before := h.asked
	expect(t, c, "gpu-1", "", "")
	if h.asked != before {
		t.Error("a token that was proven is asked about again at once")
	}
}

// TestHistoryIsAskedFor: only who needs the long history gets it.
func TestHistoryIsAskedFor(t *testing.T) {
	h := newTestCluster(t)
	g := &h.agent(t, "gpu-1", nil).s.GPUs[0]
	for i := range gpu.MaxMinutes {
		g.Minutes = append(g.Minutes, gpu.Minute{Start: g.TakenAt.Add(time.Duration(i-gpu.MaxMinutes) * time.Minute), Samples: 60})
	}
	c := h.client(t, nil)
	for back, want := range map[time.Duration]int{0: 10, 10 * time.Minute: 12, 30 * time.Minute: 32} {
		if a := c.Snapshots(t.Context(), []string{"gpu-1"}, back)[0]; a.Err != nil || len(a.Snapshot.GPUs[0].Minutes) != want {
			t.Errorf("%s back: %v, %d minutes, want %d", back, a.Err, len(a.Snapshot.GPUs[0].Minutes), want)
		}
	}
}

// An agent that lies about its node is found, whichever way it lies.
func TestImpostors(t *testing.T) {
	h := newTestCluster(t)
	h.agent(t, "honest", nil)
	h.agent(t, "lies", nil).s.Node = "honest"
	h.agent(t, "silent", func(o *agent.Options) { o.IdentityFile = "" })
	h.agent(t, "stolen", func(o *agent.Options) { o.IdentityFile = filepath.Join(h.dir, "honest.token") })
	h.agent(t, "forged", nil)
	h.agent(t, "moved", nil)
	h.agent(t, "stranger", nil)
	h.owners["token-moved"] = Owner{User: account, PodUID: "uid-moved", Node: "honest"}
	h.owners["token-stranger"] = Owner{User: "system:serviceaccount:default:default", PodUID: "uid-stranger", Node: "stranger"}
	delete(h.owners, "token-forged")
	c := h.client(t, nil)
	expect(t, c, "honest", "", "")
	expect(t, c, "lies", fault.Impostor, `claims to be on node "honest"`)
	expect(t, c, "silent", fault.Impostor, "presents no token")
	expect(t, c, "stolen", fault.Impostor, "the token of another pod: "+account+", pod uid-honest, node honest")
	expect(t, c, "forged", fault.Impostor, "does not accept the token")
	expect(t, c, "moved", fault.Impostor, "node honest")
	expect(t, c, "stranger", fault.Impostor, "system:serviceaccount:default:default")

	h.broken = errors.New("the API server is away")
	expect(t, h.client(t, nil), "honest", fault.Unchecked, "the API server is away")
}

// With a certificate for each node, the name in it is the proof.
func TestCertificatePerNode(t *testing.T) {
	h := newTestCluster(t)
	for _, node := range []string{"gpu-1", "gpu-2"} {
		h.agent(t, node, func(o *agent.Options) { o.CertFile, o.KeyFile = h.ca.issue(t, h.dir, "gpu-1.agents") })
	}
	c := h.client(t, func(o *Options) { o.Reviewer, o.ServerName = nil, "{node}.agents" })
	expect(t, c, "gpu-1", "", "")
	expect(t, c, "gpu-2", fault.Untrusted, "not gpu-2.agents")
}

func TestCallersAreChecked(t *testing.T) {
	h := newTestCluster(t)
	h.agent(t, "gpu-1", nil)
	h.agent(t, "gpu-2", func(o *agent.Options) {
		o.Accounts, o.Reviewer = nil, nil
		o.ClientCAFile, o.ClientNames = h.ca.file, []string{"responder"}
	})
	for token, want := range map[string]string{"responder": "", "stranger": "answers 403", "nobody": "answers 401", "down": "answers 503", "": "answers 401"} {
		c := h.client(t, nil)
		write(t, c.o.TokenFile, token)
		if want == "" {
			expect(t, c, "gpu-1", "", "")
		} else {
			expect(t, c, "gpu-1", fault.Refused, want)
		}
		expect(t, c, "gpu-2", fault.Refused, "answers 401") // a token is nothing to it
	}
	for name, want := range map[string]fault.Reason{"responder": "", "mallory": fault.Refused} {
		c := h.client(t, func(o *Options) { o.CertFile, o.KeyFile = h.ca.issue(t, h.dir, name); o.TokenFile = "" })
		expect(t, c, "gpu-2", want, "")
	}
	other := newAuthority(t, h.dir, "others")
	c := h.client(t, func(o *Options) { o.CertFile, o.KeyFile = other.issue(t, h.dir, "responder"); o.TokenFile = "" })
	if reason, _ := reasonOf(t, c, "gpu-2"); reason == "" {
		t.Error("a certificate of another authority is let in")
	}
}

func TestNoAnswer(t *testing.T) {
	h := newTestCluster(t)
	h.agent(t, "gpu-1", nil)
	add := func(node string, handler http.HandlerFunc) {
		server := httptest.NewUnstartedServer(handler)
		ln, err := net.Listen("tcp", net.JoinHostPort(address(len(h.pods)), fmt.Sprint(h.port)))
		if err != nil {
			t.Fatal(err)
		}
		h.pods = append(h.pods, Pod{UID: node, Node: node, Address: address(len(h.pods)), Account: account})
		_ = server.Listener.Close()
		server.Listener = ln
		server.TLS = h.client(t, func(o *Options) { o.CertFile, o.KeyFile = h.ca.issue(t, h.dir, agentName) }).tls.Fresh().Clone()
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
		server.StartTLS()
		t.Cleanup(server.Close)
		h.owners[node] = Owner{User: account, PodUID: node}
	}
	answer := func(token, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(agent.IdentityHeader, token)
			_, _ = w.Write([]byte(body))
		}
	}
	released := make(chan struct{})
	add("hangs", func(http.ResponseWriter, *http.Request) { <-released })
	t.Cleanup(func() { close(released) })
	add("garbage", answer("garbage", "<html>"))
	add("newer", answer("newer", `{"format":"responder.gpu/v1","node":"newer","disease":1}`))
	add("huge", answer("huge", strings.Repeat(" ", gpu.MaxBytes+10)))
	add("elsewhere", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://127.0.0.1:1/", http.StatusFound)
	})
	add("rude", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		_, _ = w.Write([]byte(`{"message":"\u001b[31mno"}`))
	})
	h.pods = append(h.pods, Pod{UID: "gone", Node: "gone", Address: "127.2.0.1"}, Pod{UID: "meta", Node: "meta", Address: "169.254.169.254"}, Pod{UID: "odd", Node: "odd", Address: "gpu 1"})

	c := h.client(t, nil)
	expect(t, c, "garbage", fault.BadSnapshot, "invalid character")
	expect(t, c, "newer", fault.BadSnapshot, "disease")
	expect(t, c, "huge", fault.BadSnapshot, "")
	expect(t, c, "elsewhere", fault.Refused, "answers 302")
	expect(t, c, "rude", fault.Refused, "answers 500: ?[31mno")
	expect(t, c, "gone", fault.Unreachable, "cannot be reached")
	expect(t, c, "meta", fault.Unreachable, "never asked")
	expect(t, c, "odd", fault.Unreachable, "")
	expect(t, h.client(t, func(o *Options) { o.Timeout = 200 * time.Millisecond }), "hangs", fault.Timeout, "within 200ms")
	expect(t, h.client(t, func(o *Options) { o.ServerName = "other-agent" }), "gpu-1", fault.Untrusted, "not other-agent")
	strangers := newAuthority(t, h.dir, "strangers")
	expect(t, h.client(t, func(o *Options) { o.CAFile = strangers.file }), "gpu-1", fault.Untrusted, "unknown authority")

	h.failed = errors.New("pods is forbidden")
	answers := h.client(t, nil).Snapshots(t.Context(), []string{"gpu-1", "gpu-2"}, 0)
	if len(answers) != 2 || answers[1].Err == nil || !strings.Contains(answers[1].Err.Error(), "pods is forbidden") {
		t.Errorf("%+v", answers)
	}
}

// A new pod is found as soon as its node is asked for, and an agent that moved
// on the next time, but a node without an agent costs no list a question.
func TestListsAreKept(t *testing.T) {
	h := newTestCluster(t)
	h.agent(t, "gpu-1", nil)
	c := h.client(t, nil)
	expect(t, c, "gpu-1", "", "")
	expect(t, c, "gpu-1", "", "")
	expect(t, c, "cpu-1", fault.NoAgent, "no agent runs there")
	if h.lists != 1 {
		t.Errorf("%d lists for three questions at once", h.lists)
	}
	h.agent(t, "gpu-2", nil)
	c.listed = c.listed.Add(-againFor)
	expect(t, c, "gpu-2", "", "")
	expect(t, c, "gpu-1", "", "")
	if h.lists != 2 {
		t.Errorf("%d lists, want 2", h.lists)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	h := newTestCluster(t)
	good := h.client(t, nil).o
	for text, change := range map[string]func(*Options){
		"missing CA file":             func(o *Options) { o.CAFile = "" },
		"no such file":                func(o *Options) { o.CAFile = "nowhere" },
		"holds no PEM certificate":    func(o *Options) { o.CAFile = o.TokenFile },
		"must contain {node}":         func(o *Options) { o.Reviewer = nil },
		"the name in the agents'":     func(o *Options) { o.ServerName = "" },
		"missing credential":          func(o *Options) { o.TokenFile = "" },
		"both a certificate file and": func(o *Options) { o.CertFile = "x" },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	c := h.client(t, nil)
	if err := os.Remove(c.o.TokenFile); err != nil {
		t.Fatal(err)
	}
	h.agent(t, "gpu-1", nil)
	if a := c.Snapshots(t.Context(), []string{"gpu-1"}, 0)[0]; a.Err == nil || !strings.Contains(a.Err.Error(), "read our token") {
		t.Errorf("%v", a.Err)
	}
}
