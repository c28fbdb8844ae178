package app

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/catalog"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// waitingRuns is how many runs wait at gates in the benchmark.
const waitingRuns = 10_000

// waitingAtMost is how long they may take until they do.
const waitingAtMost = 5 * time.Minute

// waitingPlaybook asks about each service. The shipped playbook does not: what so many
// services suffer from has a shared cause, which one of its runs tells people.
const waitingPlaybook = `apiVersion: responder/v1alpha1
kind: Playbook
metadata: {name: inference-slo-breach, title: More replicas, runbook: docs/benchmarks.md}
spec:
  match: '{alertname=~"Inference.*"}'
  autonomy: suggest
  start: look
  states:
    look: {check: kube.workload, on_error: escalated, next: add}
    add:
      lever: kube.scale
      with: {by: 1}
      approve: {by: service.owners, within: 7d}
      next: [{when: verified, to: resolved}, {to: escalated}]
    resolved: {end: resolved}
    escalated: {end: escalated}
`

// BenchmarkWaitingService is an outage of everything: 10,000 services alert at
// once, and each run waits for a person. What the
// service then takes is measured in a process of its own, receiver and
// scrapes included: once after the storm, once after a restart. So are its pages, and
// what people who look at one cost.
func BenchmarkWaitingService(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir()
		waitingChild(b, dir, "storm")
		waitingChild(b, dir, "restarted")
	}
	b.ReportMetric(0, "ns/op")
}

// waitingChild runs the service in a child and reports its figures.
func waitingChild(b *testing.B, dir, stage string) {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestWaitingServiceChild$", "-test.v")
	cmd.Env = append(os.Environ(), "WAITING_DIR="+dir, "WAITING_STAGE="+stage)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	said := bufio.NewScanner(out)
	var all []string
	for said.Scan() {
		all = append(all, said.Text())
		if url, ok := strings.CutPrefix(said.Text(), "listening "); ok && stage == "storm" {
			sendStorm(b, url)
		}
		if url, ok := strings.CutPrefix(said.Text(), "viewers "); ok {
			sendViewers(b, url)
		}
		var value float64
		var unit string
		if n, err := fmt.Sscanf(said.Text(), "figure %f %s", &value, &unit); n == 2 && err == nil {
			b.ReportMetric(value, stage+"-"+unit)
		}
	}
	if err := cmd.Wait(); err != nil {
		b.Fatalf("%v: %s", err, strings.Join(all, "\n"))
	}
}

// sendStorm posts an alert of each service, 100 in a body.
func sendStorm(b *testing.B, url string) {
	b.Helper()
	for i := 0; i < waitingRuns; i += 100 {
		var alerts []playbook.Alert
		for k := range 100 {
			alerts = append(alerts, waitingAlert(i+k))
		}
		resp, err := http.Post(url+"/", "application/json", bytes.NewReader(webhookBody(alerts)))
		if err != nil {
			b.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("%v %s", err, resp.Status)
		}
	}
}

// The page asks whether it is behind as often as its script does.
const (
	viewers     = 200
	viewersEach = 5 * time.Second
	viewersFor  = 20 * time.Second
)

// sendViewers does what the browsers of 200 people do who look at a page.
func sendViewers(b *testing.B, url string) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: viewers}}
	every := time.NewTicker(viewersEach / viewers)
	defer every.Stop()
	for range int(viewersFor / viewersEach * viewers) {
		<-every.C
		resp, err := client.Head(url)
		if err != nil {
			b.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatalf("%v %s", err, resp.Status)
		}
	}
}

// reportPages prints how long pages take, and how large they are.
func reportPages(t *testing.T, url string) {
	t.Helper()
	for name, path := range map[string]string{"now": "/", "history": "/history", "alerts": "/alerts", "audit": "/audit"} {
		var took time.Duration
		for range 5 {
			asked := time.Now()
			resp, err := http.Get(url + path)
			if err != nil {
				t.Fatal(err)
			}
			page, err := io.ReadAll(resp.Body)
			if err := errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %v %s", path, err, resp.Status)
			}
			took = max(took, time.Since(asked))
			fmt.Println("figure", float64(len(page))/1000, "KB-of-"+name)
		}
		fmt.Println("figure", float64(took.Microseconds())/1000, "ms-to-"+name)
	}
}

func waitingName(i int) string { return fmt.Sprintf("chat-%05d", i) }

// waitingAlert has the labels and annotations of the shipped rules.
func waitingAlert(i int) playbook.Alert {
	name := waitingName(i)
	return playbook.Alert{
		Status: playbook.Firing, StartsAt: time.Now().Add(-time.Minute).UTC(), GeneratorURL: "http://prometheus.monitoring:9090/graph?g0.expr=ttft",
		Labels: map[string]string{
			"alertname": "InferenceTTFTFastBurn", "severity": "page", "namespace": "serving", "service": name, "cluster": "eu-west-1",
			"model_name": "llama-3.3-70b-" + name, "job": "serving/" + name, "slo": "ttft", "team": "ml-platform", "prometheus": "monitoring/k8s",
		},
		Annotations: map[string]string{
			"summary":     "Time to first token of " + name + " burns its error budget 14 times too fast.",
			"description": "More than 14.4 % of the requests of the last hour and of the last five minutes took longer than 500 ms to the first token.",
			"runbook_url": "https://runbooks.example.org/inference-slo-breach",
		},
	}
}

// TestWaitingServiceChild is the process that BenchmarkWaitingService measures.
func TestWaitingServiceChild(t *testing.T) {
	dir, stage := os.Getenv("WAITING_DIR"), os.Getenv("WAITING_STAGE")
	if dir == "" {
		t.Skip("only as a child of BenchmarkWaitingService")
	}
	start := time.Now()
	c := config.Default()
	c.Autonomy, c.Journal.Dir, c.Auth.Insecure, c.Playbooks.Dir = playbook.Auto, filepath.Join(dir, "data"), true, filepath.Join(dir, "playbooks")
	if err := errors.Join(os.MkdirAll(c.Playbooks.Dir, 0o700), os.WriteFile(filepath.Join(c.Playbooks.Dir, "waiting.yaml"), []byte(waitingPlaybook), 0o600)); err != nil {
		t.Fatal(err)
	}
	BoundGarbage(os.Getenv)
	s, address, stop := runWaitingWorld(t, c, waitingRuns)
	fmt.Println("figure", time.Since(start).Seconds(), "s-to-ready")
	fmt.Println("listening", "http://"+address)
	for s.executor.Figures().Phases[executor.Standing{Playbook: "inference-slo-breach", Phase: machine.PhaseDeciding}] < waitingRuns {
		if time.Since(start) > waitingAtMost {
			t.Fatalf("after %s not all of %d runs wait for people: %v", waitingAtMost, waitingRuns, s.executor.Figures().Phases)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if stage == "storm" {
		fmt.Println("figure", time.Since(start).Seconds(), "s-to-wait")
	}
	time.Sleep(restInterval + 5*time.Second)
	for range 3 {
		asked := time.Now()
		scrape(t, s.metrics)
		fmt.Println("figure", float64(time.Since(asked).Microseconds())/1000, "ms-to-scrape")
	}
	reportResident()
	reportPages(t, "http://"+address)
	if stage == "restarted" {
		before := processorTime(t)
		time.Sleep(viewersFor)
		idle := processorTime(t) - before
		fmt.Println("viewers", "http://"+address+"/")
		time.Sleep(viewersFor)
		fmt.Println("figure", 100*(processorTime(t)-before-2*idle).Seconds()/viewersFor.Seconds(), "%-of-a-core-for-viewers")
	}
	stop()
}

// runWaitingWorld runs the whole service in the waiting world, and returns it with its
// address when it is ready. stop ends it.
func runWaitingWorld(tb testing.TB, c config.Config, services int) (s *Service, address string, stop func()) {
	tb.Helper()
	s, err := New(Options{Config: c, World: waitingWorld(services), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, ln) }()
	for s.executor.Ready() != nil {
		time.Sleep(time.Millisecond) // another goroutine gets ready; what it takes is measured
	}
	return s, ln.Addr().String(), func() {
		end()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			tb.Error(err)
		}
	}
}

// reportResident prints what the system says the process takes, before
// anything is done to make it less, and then the heap in use.
func reportResident() {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return
	}
	for _, line := range strings.Split(string(status), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		unit := map[string]string{"VmRSS:": "MiB-resident", "RssAnon:": "MiB-own", "RssFile:": "MiB-mapped", "VmHWM:": "MiB-peak"}[f[0]]
		if kib, err := strconv.ParseFloat(f[1], 64); err == nil && unit != "" {
			fmt.Println("figure", kib/1024, unit)
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println("figure", float64(m.HeapAlloc)/(1<<20), "MiB-heap")
}

// waitingWorld is services in trouble: each was left alone for a day,
// is over its objective and may be scaled.
func waitingWorld(services int) World {
	var entries []catalog.Entry
	for i := range services {
		name := waitingName(i)
		entries = append(entries, catalog.Entry{Source: "test", Service: playbook.Service{
			Name: "serving/" + name, Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: name}, Container: "vllm",
			Engine: "vllm", Model: "llama-3.3-70b-" + name, Endpoint: "http://" + name + ".serving:8000",
			SLOs:   []playbook.SLO{{Name: "ttft", Objective: 0.99, Window: 28 * 24 * time.Hour, Threshold: 0.5}},
			Owners: []string{"group:ml-platform"}, Autonomy: playbook.Auto, MinReady: 2, MaxScale: 12,
			Selector: `model_name="llama-3.3-70b-` + name + `",namespace="serving"`,
		}})
	}
	known := catalog.New(catalog.Options{Entries: entries, Ceiling: playbook.Auto})
	troubled := troubledCluster{}
	return World{
		Deps:    step.Deps{Querier: troubled, Workloads: troubled, Changer: troubled},
		Resolve: known.Resolve, Services: known.Services, Known: known.Known,
	}
}

// troubledCluster answers for every service alike.
type troubledCluster struct{}

// Instant implements step.Querier: three of a hundred requests are slow, and
// every sample is fresh.
func (troubledCluster) Instant(_ context.Context, expr string, at time.Time) (slo.Vector, error) {
	if strings.Contains(expr, "timestamp(") {
		return slo.Vector{Samples: []slo.Sample{{Value: float64(at.Unix()), At: at}}}, nil
	}
	return slo.Vector{Samples: []slo.Sample{{Value: 0.03, At: at}}}, nil
}

// Range implements step.Querier.
func (troubledCluster) Range(context.Context, string, time.Time, time.Time, time.Duration) (slo.Matrix, error) {
	return slo.Matrix{}, nil
}

// Workload implements step.Workloads.
func (troubledCluster) Workload(_ context.Context, ref kube.Ref) (kube.Workload, error) {
	return kube.Workload{
		Ref: ref, APIVersion: "apps/v1", UID: "uid-" + ref.Name, Generation: 3, Observed: 3, Replicas: 4, Ready: 4, Updated: 4, Available: 4,
		Revision: 2, Strategy: kube.Strategy{Type: "RollingUpdate", MaxSurge: 1},
	}, nil
}

// Revisions implements step.Workloads.
func (troubledCluster) Revisions(_ context.Context, ref kube.Ref) ([]kube.Revision, error) {
	long := time.Now().Add(-24 * time.Hour)
	return []kube.Revision{
		{Number: 1, Name: ref.Name + "-1", Created: long, Active: long},
		{Number: 2, Name: ref.Name + "-2", Created: long, Active: long, Current: true},
	}, nil
}

// Nodes implements step.Workloads.
func (troubledCluster) Nodes(context.Context, kube.Ref) ([]kube.Node, error) { return nil, nil }

// Scale implements step.Changer.
func (troubledCluster) Scale(_ context.Context, c kube.ScaleChange) (kube.Applied, error) {
	return kube.Applied{UID: c.Pre.UID, Generation: c.Pre.Generation + 1, Replicas: c.Replicas}, nil
}

// Undo implements step.Changer.
func (troubledCluster) Restart(_ context.Context, c kube.RestartChange) (kube.Applied, error) {
	return kube.Applied{UID: c.Pre.UID, Generation: c.Pre.Generation + 1}, nil
}

func (troubledCluster) Hold(_ context.Context, c kube.HoldChange) (kube.Applied, error) {
	return kube.Applied{UID: c.Pre.UID, Generation: c.Pre.Generation + 1}, nil
}

func (troubledCluster) Undo(_ context.Context, c kube.UndoChange) (kube.Applied, error) {
	return kube.Applied{UID: c.Pre.UID, Generation: c.Pre.Generation + 1}, nil
}
