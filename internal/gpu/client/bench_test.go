package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/agent"
)

// full is a snapshot of eight GPUs with 18 links and 10 minutes of history.
func full(node string) gpu.Snapshot {
	s := snapshot(node)
	now := time.Now().UTC()
	s.GPUs = nil
	for i := range 8 {
		g := gpu.GPU{UUID: fmt.Sprintf("GPU-%s-%d", node, i), Index: i, Name: "NVIDIA H100 80GB HBM3", TakenAt: now, EventsWatched: gpu.Known(true)}.WithoutReadings(gpu.NotSupported)
		g.Clocks.Reasons, g.Temperature.GPUC, g.Power.DrawMW = gpu.Known(gpu.SWPowerCap), gpu.Known[int64](70), gpu.Known[int64](690_000)
		for link := range 18 {
			n := gpu.Known[uint64](0)
			g.NVLinks = append(g.NVLinks, gpu.NVLink{Link: link, Active: gpu.Known(true), Replay: n, Recovery: n, CRCFlit: n, CRCData: n})
		}
		for m := range 10 {
			g.Minutes = append(g.Minutes, gpu.Minute{
				Start: now.Add(time.Duration(m-10) * time.Minute), Samples: 60, Reasons: map[gpu.Reasons]int{gpu.SWPowerCap: 60},
				GPUMaxC: gpu.Known[int64](71), SMMeanMHz: gpu.Known[int64](1700), PowerMW: gpu.Known[int64](690_000), GPUPercent: gpu.Known[int64](99),
				Counters: g.Counters(),
			})
		}
		s.GPUs = append(s.GPUs, g)
	}
	return s
}

// A thousand nodes with eight GPUs each, asked over TLS, each proven by its
// agent's token. In the place of the agents, which have machines of their own,
// are servers that have their answers ready; both share this process's cores.
func BenchmarkThousandAgents(b *testing.B) {
	const agents = 1000
	h := newTestCluster(b)
	nodes, bytes := make([]string, agents), 0
	cert, key := h.ca.issue(b, h.dir, agentName)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		b.Fatal(err)
	}
	for i := range agents {
		nodes[i] = fmt.Sprintf("gpu-%04d", i)
		s := full(nodes[i])
		s.TakenAt = time.Now().UTC()
		body, err := gpu.Encode(s)
		if err != nil {
			b.Fatal(err)
		}
		bytes = len(body)
		h.pods = append(h.pods, Pod{UID: nodes[i], Node: nodes[i], Address: address(i), Account: account})
		h.owners[nodes[i]] = Owner{User: account, PodUID: nodes[i], Node: nodes[i]}
		h.serve(b, i, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nodes[i], body)
	}
	c := h.client(b, nil)
	ask := func() time.Duration {
		began := time.Now()
		answers := c.Snapshots(context.Background(), nodes, 0)
		if i := slices.IndexFunc(answers, func(a gpu.Answer) bool { return a.Err != nil }); i >= 0 {
			b.Fatal(answers[i].Err)
		}
		return time.Since(began)
	}
	first := ask()
	before := cpu(b)
	for b.Loop() {
		ask()
	}
	b.ReportMetric((cpu(b)-before).Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(first.Seconds(), "s/first")
	b.ReportMetric(float64(bytes), "B/answer")
}

// serve answers at the nth address.
func (h *testCluster) serve(b *testing.B, n int, config *tls.Config, token string, body []byte) {
	b.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(address(n), fmt.Sprint(h.port)))
	if err != nil {
		b.Fatal(err)
	}
	h.port = ln.Addr().(*net.TCPAddr).Port
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(agent.IdentityHeader, token)
		_, _ = w.Write(body)
	})}
	go func() { _ = server.Serve(tls.NewListener(ln, config)) }() // ends with Close
	b.Cleanup(func() { _ = server.Close() })
}

// cpu is what this process has used so far, servers and all.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
