package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
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
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/goruntime"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/webhook"
)

// journalIntake admits to a real journal, as the service does; with journal nil
// it does everything but keep the notification.
type journalIntake struct {
	journal *audit.Journal
	buffers sync.Pool
}

func (i *journalIntake) Admit(ctx context.Context, n playbook.Notification) error {
	buf, _ := i.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	data := n.AppendJSON((*buf)[:0])
	var err error
	if i.journal != nil {
		_, err = i.journal.Append(ctx, audit.Append{Stream: "intake", After: audit.Any, Records: []audit.Record{{Kind: "notification", Data: data}}})
	}
	if cap(data) <= 256<<10 { // as the service does
		*buf = data
		i.buffers.Put(buf)
	}
	return err
}

const benchToken = "bench-token-0123456789"

// receiver is this package's receiver with everything it does in service.
func receiver(b *testing.B, j *audit.Journal) http.Handler {
	b.Helper()
	file := filepath.Join(b.TempDir(), "token")
	if err := os.WriteFile(file, []byte(benchToken), 0o600); err != nil {
		b.Fatal(err)
	}
	s, err := webhook.New(webhook.Options{
		Intake:     &journalIntake{journal: j},
		Auth:       webhook.Auth{Tokens: []webhook.Token{{Grant: webhook.Grant{Name: "am", Scopes: []webhook.Scope{webhook.ScopeIntake}}, File: file}}},
		DropLabels: []string{"prometheus_replica"},
		Logger:     slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		b.Fatal(err)
	}
	return s.Handler()
}

// naive is the receiver everyone writes first: it authenticates nobody, checks
// nothing and keeps nothing.
func naive() http.Handler {
	e := echo.New()
	e.POST("/", func(c echo.Context) error {
		var d template.Data
		if err := json.NewDecoder(c.Request().Body).Decode(&d); err != nil {
			return err
		}
		return c.NoContent(http.StatusOK)
	})
	return e
}

func journal(b *testing.B, noSync bool) *audit.Journal {
	b.Helper()
	j, err := audit.Open(filepath.Join(b.TempDir(), "journal.db"), audit.Options{NoSync: noSync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := j.Close(); err != nil {
			b.Error(err)
		}
	})
	return j
}

func listen(b *testing.B, h http.Handler) string {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadTimeout: 10 * time.Second}
	go server.Serve(ln) //nolint:errcheck // ends with the benchmark
	b.Cleanup(func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	})
	return ln.Addr().String()
}

// message is a body as Alertmanager writes it, of about 1.2 KB an alert.
func message(b *testing.B, alerts int) []byte {
	b.Helper()
	d := template.Data{
		Receiver: "remediator", Status: "firing", NotificationReason: "new alerts added", ExternalURL: "http://alertmanager.monitoring:9093",
		GroupLabels:  template.KV{"alertname": "InferenceTTFTFastBurn", "model_name": "llama-70b"},
		CommonLabels: template.KV{"alertname": "InferenceTTFTFastBurn", "model_name": "llama-70b", "severity": "critical", "cluster": "lab"},
	}
	for i := range alerts {
		d.Alerts = append(d.Alerts, template.Alert{
			Status: "firing", Fingerprint: fmt.Sprintf("%016x", i), StartsAt: time.Date(2026, 11, 21, 2, 28, 4, 731e6, time.UTC),
			GeneratorURL: "http://prometheus.monitoring:9090/graph?g0.expr=" + strings.Repeat("slo%3Ainference_ttft_error%3Aratio_rate5m+%3E+", 6) + "&g0.tab=1",
			Labels: template.KV{
				"alertname": "InferenceTTFTFastBurn", "cluster": "lab", "namespace": "serving", "pod": fmt.Sprintf("inference-llm-%d", i),
				"service": "inference-llm", "severity": "critical", "slo": "inference-ttft", "job": "vllm", "model_name": "llama-70b",
				"instance": "10.0.0.1:8000",
			},
			Annotations: template.KV{
				"runbook": "runbook-inference-slo-breach: inference SLO breach (TTFT)", "summary": "TTFT error ratio 63.17% on inference-llm",
				"description": strings.Repeat("The error budget burns much too fast. ", 6),
			},
		})
	}
	body, err := json.Marshal(struct {
		template.Data
		Version         string `json:"version"`
		GroupKey        string `json:"groupKey"`
		TruncatedAlerts uint64 `json:"truncatedAlerts"`
	}{d, "4", `{}/{alertname=~".+"}:{alertname="InferenceTTFTFastBurn"}`, 0})
	if err != nil {
		b.Fatal(err)
	}
	return body
}

// sender is a client as Alertmanager has one: net/http with connections kept.
type sender struct {
	client *http.Client
	url    string
}

func dial(b *testing.B, addr string) *sender {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 1}
	b.Cleanup(transport.CloseIdleConnections)
	return &sender{&http.Client{Transport: transport}, "http://" + addr}
}

// send delivers one body and waits for its 200.
func (s *sender) send(body []byte) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Alertmanager/0.34.2")
	req.Header.Set("Authorization", "Bearer "+benchToken)
	resp, err := s.client.Do(req)
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

// peer is one of the receivers compared.
type peer struct {
	name    string
	senders []*sender
	rates   []float64 // requests per second, one for each round
	took    []time.Duration
}

// round drives the peer for the given time with all its senders.
func (p *peer) round(b *testing.B, request []byte, d time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	count := 0
	for _, s := range p.senders {
		wg.Go(func() {
			var took []time.Duration
			for last := began; last.Sub(began) < d; {
				if err := s.send(request); err != nil {
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
	p.rates = append(p.rates, float64(count)/time.Since(began).Seconds())
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// ratio is the median over rounds of one peer's rate over another's of the
// same round, so that what else the machine does counts for both.
func ratio(a, b *peer) float64 {
	var r []float64
	for i := range a.rates {
		r = append(r, a.rates[i]/b.rates[i])
	}
	return median(r)
}

// BenchmarkIntake compares, in turns within one run, the receiver with a real
// journal (durable), with a journal that does not sync (unsynced), with nothing
// behind it (volatile) and the naive one, over loopback with senders like
// Alertmanager's and bodies of 10 alerts and 12 KB. Its targets: against the
// receiver with persistence switched off 0.45, 0.6 and 0.8 at 1, 16 and 64
// senders, against the naive one 1 at 64.
func BenchmarkIntake(b *testing.B) {
	const rounds, slice = 7, 250 * time.Millisecond
	req := message(b, 10)
	for _, senders := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			if os.Getenv("GOMAXPROCS") == "" { // as in the service; testing sets its own number for each of these
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
				goruntime.AddProcessor()
			}
			peers := []*peer{{name: "durable"}, {name: "volatile"}, {name: "naive"}, {name: "unsynced"}}
			for i, h := range []http.Handler{receiver(b, journal(b, false)), receiver(b, nil), naive(), receiver(b, journal(b, true))} {
				addr := listen(b, h)
				for range senders {
					peers[i].senders = append(peers[i].senders, dial(b, addr))
				}
				peers[i].round(b, req, slice) // warm up
				peers[i].rates, peers[i].took = nil, nil
			}
			for b.Loop() {
				for r := range rounds {
					for i := range peers {
						peers[(i+r)%len(peers)].round(b, req, slice)
					}
				}
			}
			for _, p := range peers {
				b.ReportMetric(median(p.rates), p.name+"/s")
			}
			slices.Sort(peers[0].took)
			b.ReportMetric(peers[0].took[len(peers[0].took)*99/100].Seconds()*1e3, "durable-p99-ms")
			b.ReportMetric(ratio(peers[0], peers[1]), "durable/volatile")
			b.ReportMetric(ratio(peers[0], peers[2]), "durable/naive")
			b.ReportMetric(ratio(peers[0], peers[3]), "durable/unsynced")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkIntakeOfOneLargeGroup is one body of 10,000 alerts and 11 MB. Its
// targets: within 1 s, resident memory under 150 MiB, here with the sender's
// and after the first body.
func BenchmarkIntakeOfOneLargeGroup(b *testing.B) {
	body := message(b, 10_000)
	s := dial(b, listen(b, receiver(b, journal(b, false))))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(96 << 20)) // as the service does
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets the peak
		b.Skip("no peak to measure: ", err)
	}
	peak := 0.0
	for b.Loop() {
		if err := s.send(body); err != nil {
			b.Fatal(err)
		}
		if peak == 0 {
			peak = peakMiB(b)
		}
	}
	b.ReportMetric(peak, "peak-MiB")
	b.ReportMetric(float64(len(body))/(1<<20), "body-MiB")
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
