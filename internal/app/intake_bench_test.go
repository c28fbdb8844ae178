package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/alertmanager/template"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/goruntime"
)

const benchToken = "bench-token-0123456789"

// intakeService runs the whole service on a disk, with one sender who may post. It
// returns its address, and a function that waits until it has decided about all
// that it took in.
func intakeService(b *testing.B) (addr string, decided func()) {
	b.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "intake-") // a disk: b.TempDir may be memory
	if err != nil {
		b.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(benchToken), 0o600); err != nil {
		b.Fatal(err)
	}
	c := config.Default()
	c.Journal.Dir = filepath.Join(dir, "data")
	c.Auth.Tokens = []config.Token{{Name: "alertmanager", File: token, Scopes: []string{"intake"}}}
	s, address, stop := runWaitingWorld(b, c)
	b.Cleanup(func() {
		stop()
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	return address, func() {
		for undecided(b, s.journal) {
			time.Sleep(time.Millisecond) // the dispatcher tells nobody how far it is
		}
	}
}

// undecided reports whether a notification waits for its decision.
func undecided(b *testing.B, j *audit.Journal) bool {
	b.Helper()
	intake, err := j.Head(dispatch.StreamIntake)
	if err != nil {
		b.Fatal(err)
	}
	head, err := j.Head(dispatch.Stream)
	if err != nil {
		b.Fatal(err)
	}
	for rec, err := range j.Stream(dispatch.Stream, max(head, 1)-1) {
		if err != nil {
			b.Fatal(err)
		}
		last, err := dispatch.DecodeRecord(rec)
		if err != nil {
			b.Fatal(err)
		}
		return !last.Done || last.Index+1 < intake
	}
	return intake > 0
}

// naiveReceiver is the receiver everyone writes first: it authenticates nobody,
// checks nothing, decides nothing and keeps nothing. It returns its address.
func naiveReceiver(b *testing.B) string {
	b.Helper()
	e := echo.New()
	e.POST("/", func(c echo.Context) error {
		var d template.Data
		if err := json.NewDecoder(c.Request().Body).Decode(&d); err != nil {
			return err
		}
		return c.NoContent(http.StatusOK)
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: e, ReadTimeout: 10 * time.Second}
	go server.Serve(ln) //nolint:errcheck // ends with the benchmark
	b.Cleanup(func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	})
	return ln.Addr().String()
}

// alertMark stands where a body has the number of an alert.
const alertMark = "0123456789abcdef"

// bodies makes bodies as Alertmanager writes them, of about 1.2 KB an alert. No
// two alerts are the same, and no playbook is about them.
type bodies struct {
	text   []byte
	alerts atomic.Uint64 // made so far
}

func newBodies(b *testing.B, alerts int) *bodies {
	b.Helper()
	d := template.Data{
		Receiver: "responder", Status: "firing", ExternalURL: "http://alertmanager.monitoring:9093",
		GroupLabels:  template.KV{"alertname": "KubePodNotReady"},
		CommonLabels: template.KV{"alertname": "KubePodNotReady", "severity": "warning", "cluster": "lab"},
	}
	for range alerts {
		d.Alerts = append(d.Alerts, template.Alert{
			Status: "firing", Fingerprint: alertMark, StartsAt: time.Now().Add(-time.Minute).UTC(),
			GeneratorURL: "http://prometheus.monitoring:9090/graph?g0.expr=" + strings.Repeat("kube_pod_status_ready%7Bcondition%3D%22false%22%7D+", 6) + "&g0.tab=1",
			Labels: template.KV{
				"alertname": "KubePodNotReady", "cluster": "lab", "namespace": "batch", "pod": "worker-" + alertMark, "service": "worker",
				"severity": "warning", "job": "kube-state-metrics", "instance": "10.0.0.1:8080", "team": "batch", "container": "main",
			},
			Annotations: template.KV{
				"runbook": "runbook-pod-not-ready", "summary": "Pod worker-" + alertMark + " is not ready",
				"description": strings.Repeat("The pod has been in a non-ready state for 15 minutes. ", 5),
			},
		})
	}
	text, err := json.Marshal(struct {
		template.Data
		Version  string `json:"version"`
		GroupKey string `json:"groupKey"`
	}{d, "4", `{}:{alertname="KubePodNotReady"}`})
	if err != nil {
		b.Fatal(err)
	}
	return &bodies{text: text}
}

// next returns a body of alerts that no body had before. The marks of one alert
// follow each other: its fingerprint comes after its labels.
func (s *bodies) next() []byte {
	body := bytes.Clone(s.text)
	number := []byte(fmt.Sprintf("%016x", s.alerts.Add(1)))
	for rest := body; ; {
		i := bytes.Index(rest, []byte(alertMark))
		if i < 0 {
			return body
		}
		copy(rest[i:], number)
		rest = rest[i+len(alertMark):]
		if bytes.HasPrefix(rest, []byte(`"}`)) {
			number = []byte(fmt.Sprintf("%016x", s.alerts.Add(1)))
		}
	}
}

// intakePeer is one of the receivers compared.
type intakePeer struct {
	name    string
	url     string
	decided func()         // waits until what was sent is dealt with; nil: it is
	senders []*http.Client // as Alertmanager's: net/http with connections kept
	rates   []float64      // bodies per second, one for each round
	took    []time.Duration
}

// send posts one body and waits for its 200.
func (p *intakePeer) send(c *http.Client, body []byte) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+benchToken)
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, answer)
	}
	return err
}

// round drives the peer for the given time with all its senders. What it leaves
// for later counts, too.
func (p *intakePeer) round(b *testing.B, bodies *bodies, d time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	began, count := time.Now(), 0
	for _, c := range p.senders {
		wg.Go(func() {
			var took []time.Duration
			for last := began; last.Sub(began) < d; {
				if err := p.send(c, bodies.next()); err != nil {
					b.Error(p.name, err)
					return
				}
				now := time.Now()
				took = append(took, now.Sub(last))
				last = now
			}
			mu.Lock()
			defer mu.Unlock()
			count += len(took)
			p.took = append(p.took, took...)
		})
	}
	wg.Wait()
	if p.decided != nil {
		p.decided()
	}
	p.rates = append(p.rates, float64(count)/time.Since(began).Seconds())
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// BenchmarkIntake compares, in turns within one run, the whole service (bodies
// journaled, each alert decided) with the naive receiver, over loopback, with
// bodies of 10 alerts and 12 KB that never repeat an alert. Its target: 1.5 times
// the naive one's rate with 64 senders.
func BenchmarkIntake(b *testing.B) {
	const rounds, slice = 9, 500 * time.Millisecond
	for _, senders := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			if os.Getenv("GOMAXPROCS") == "" { // as in the service; testing sets its own number for each of these
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
				goruntime.AddProcessor()
			}
			defer debug.SetGCPercent(debug.SetGCPercent(50)) // as the service does
			all := newBodies(b, 10)
			addr, decided := intakeService(b)
			peers := []*intakePeer{{name: "service", url: "http://" + addr, decided: decided}, {name: "naive", url: "http://" + naiveReceiver(b)}}
			for _, p := range peers {
				for range senders {
					transport := &http.Transport{MaxIdleConnsPerHost: 1}
					b.Cleanup(transport.CloseIdleConnections)
					p.senders = append(p.senders, &http.Client{Transport: transport})
				}
				p.round(b, all, slice) // warm up
				p.rates, p.took = nil, nil
			}
			for b.Loop() {
				for r := range rounds {
					for i := range peers {
						peers[(i+r)%len(peers)].round(b, all, slice)
					}
				}
			}
			var ratios []float64
			for i := range peers[0].rates {
				ratios = append(ratios, peers[0].rates[i]/peers[1].rates[i])
			}
			slices.Sort(peers[0].took)
			b.ReportMetric(median(peers[0].rates), "service/s")
			b.ReportMetric(median(peers[1].rates), "naive/s")
			b.ReportMetric(median(ratios), "service/naive")
			b.ReportMetric(peers[0].took[len(peers[0].took)*99/100].Seconds()*1e3, "service-p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkIntakeOfOneLargeGroup is one body of 10,000 alerts and 11 MB. Its
// targets: within 1 s, resident memory under 150 MiB, here with the sender's.
func BenchmarkIntakeOfOneLargeGroup(b *testing.B) {
	addr, _ := intakeService(b)
	p := &intakePeer{url: "http://" + addr}
	all := newBodies(b, 10_000)
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets the peak
		b.Skip("no peak to measure: ", err)
	}
	peak := 0.0
	for b.Loop() {
		if err := p.send(http.DefaultClient, all.next()); err != nil {
			b.Fatal(err)
		}
		if peak == 0 {
			peak = peakMiB(b)
		}
	}
	b.ReportMetric(peak, "peak-MiB")
	b.ReportMetric(float64(len(all.text))/(1<<20), "body-MiB")
}

// peakMiB is the most memory that was resident since the peak was reset.
func peakMiB(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseFloat(strings.Fields(rest + " ?")[0], 64)
	if err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}
