package app

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// waitingRuns is how many runs wait at gates in the benchmark.
const waitingRuns = 10_000

// BenchmarkWaitingService is an outage of everything: 10,000 services alert at
// once, and each run of the shipped playbook waits for a person. What the
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
	cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run", "^TestWaitingServiceChild$", "-test.v")
	cmd.Env = append(os.Environ(), "WAITING_DIR="+dir, "WAITING_STAGE="+stage)
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	looked, err := cmd.StdinPipe() // closed when the viewers have gone
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	said := bufio.NewScanner(out)
	var all []string
	for said.Scan() {
		all = append(all, said.Text())
		if url, ok := strings.CutPrefix(said.Text(), "listening "); ok && stage == "storm" {
			sendAlerts(b, url, waitingRuns)
		}
		if url, ok := strings.CutPrefix(said.Text(), "viewers "); ok {
			sendViewers(b, url)
			if err := looked.Close(); err != nil {
				b.Fatal(err)
			}
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

// sendAlerts posts an alert of each service 100 in a body.
func sendAlerts(tb testing.TB, url string, services int) {
	tb.Helper()
	for i := 0; i < services; i += 100 {
		var alerts []playbook.Alert
		for k := i; k < min(i+100, services); k++ {
			alerts = append(alerts, waitingAlert(k))
		}
		resp, err := http.Post(url+"/", "application/json", bytes.NewReader(webhookBody(alerts)))
		if err != nil {
			tb.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			tb.Fatalf("%v %s", err, resp.Status)
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
	c.Autonomy, c.Journal.Dir, c.Auth.Insecure = playbook.Auto, filepath.Join(dir, "data"), true
	BoundGarbage(os.Getenv)
	s, address, stop := runWaitingWorld(t, c, waitingRuns)
	fmt.Println("figure", time.Since(start).Seconds(), "s-to-ready")
	fmt.Println("listening", "http://"+address)
	if err := awaitGates(s.executor, waitingRuns); err != nil {
		t.Fatal(err)
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
	if stage == "restarted" { // before a page is asked for, which has error budgets read in the background
		before := processorTime(t)
		time.Sleep(viewersFor)
		idle := processorTime(t) - before
		fmt.Println("viewers", "http://"+address+"/")
		time.Sleep(viewersFor)
		fmt.Println("figure", 100*(processorTime(t)-before-2*idle).Seconds()/viewersFor.Seconds(), "%-of-a-core-for-viewers")
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil { // until the last one has its answer
			t.Fatal(err)
		}
	}
	reportPages(t, "http://"+address)
	stop()
}

// waitingStill is how long no further run may come to a gate: what is measured then is
// not what the benchmark is about.
const waitingStill = time.Minute

// awaitGates returns when that many runs of the shipped playbook wait at a gate. It is an
// error with the run's last words as soon as one ended instead, and when no further run
// comes to a gate.
func awaitGates(e *executor.Executor, runs int) error {
	ended, most, since := false, 0, time.Now()
	for {
		waiting := e.Figures().Phases[executor.Standing{Playbook: "inference-slo-breach", Phase: machine.PhaseDeciding}]
		if waiting >= runs {
			return nil
		}
		if found := e.Runs(executor.Filter{Open: &ended, Limit: 1}); len(found) > 0 {
			return fmt.Errorf("%d of %d runs wait at a gate, but one ended: %s", waiting, runs, lastWords(e, found[0]))
		}
		if waiting > most {
			most, since = waiting, time.Now()
		}
		if time.Since(since) > waitingStill {
			open := true
			found := e.Runs(executor.Filter{Open: &open, Limit: 1})
			if len(found) == 0 {
				return fmt.Errorf("no run began within %s", waitingStill)
			}
			return fmt.Errorf("%d of %d runs wait at a gate, and no further one since %s; the newest run: %s", waiting, runs, waitingStill, lastWords(e, found[0]))
		}
		time.Sleep(100 * time.Millisecond) // another goroutine brings them there; how long it takes is measured
	}
}

// lastWords returns where a run is, the way it took, and what it saw there.
func lastWords(e *executor.Executor, s machine.State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s, phase %s in state %s, after", s.Start.Run, s.Phase, s.Current)
	for _, v := range s.Path {
		fmt.Fprintf(&b, " %s", v.State)
	}
	events, err := e.RunEvents(s.Start.Run)
	if err != nil {
		fmt.Fprintf(&b, " (%v)", err)
	}
	for _, ev := range events {
		if text, err := json.Marshal(ev); err == nil {
			fmt.Fprintf(&b, "\n%s", text)
		}
	}
	return b.String()
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
