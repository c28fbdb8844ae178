package app

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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

// intakeServices is how many services the catalog has while intake is measured: a
// large site's. None of them is what the alerts are about.
const intakeServices = 500

// intakeService runs the whole service on a disk, with one sender who may post. It
// returns its address, and a function that waits until it has decided about all
// that it took in.
func intakeService(tb testing.TB, services int) (addr string, decided func()) {
	tb.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "intake-") // a disk: b.TempDir may be memory
	if err != nil {
		tb.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(benchToken), 0o600); err != nil {
		tb.Fatal(err)
	}
	c := config.Default()
	c.Journal.Dir = filepath.Join(dir, "data")
	c.Auth.Tokens = []config.Token{{Name: "alertmanager", File: token, Scopes: []string{"intake"}}}
	s, address, stop := runWaitingWorld(tb, c, services)
	tb.Cleanup(func() {
		stop()
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return address, func() {
		for undecided(tb, s.journal) {
			time.Sleep(time.Millisecond) // the dispatcher tells nobody how far it is
		}
	}
}

// undecided reports whether a notification waits for its decision.
func undecided(tb testing.TB, j *audit.Journal) bool {
	tb.Helper()
	intake, err := j.Head(dispatch.StreamIntake)
	if err != nil {
		tb.Fatal(err)
	}
	head, err := j.Head(dispatch.Stream)
	if err != nil {
		tb.Fatal(err)
	}
	for rec, err := range j.Stream(dispatch.Stream, max(head, 1)-1) {
		if err != nil {
			tb.Fatal(err)
		}
		last, err := dispatch.DecodeRecord(rec)
		if err != nil {
			tb.Fatal(err)
		}
		return !last.Done || last.Index+1 < intake
	}
	return intake > 0
}

// naiveReceiver is the receiver everyone writes first: it authenticates nobody,
// checks nothing, decides nothing and keeps nothing. It returns its address.
func naiveReceiver(tb testing.TB) string {
	tb.Helper()
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
		tb.Fatal(err)
	}
	server := &http.Server{Handler: e, ReadTimeout: 10 * time.Second}
	go server.Serve(ln) //nolint:errcheck // ends with the benchmark
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
	})
	return ln.Addr().String()
}

// alertMark stands where a body has the number of an alert.
const alertMark = "0123456789abcdef"

// alertBody returns a body as Alertmanager writes it, of about 1.2 KB an alert, that
// no playbook is about. It has alertMark three times for each alert, the last time as
// its fingerprint.
func alertBody(b *testing.B, alerts int) []byte {
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
	return text
}

// marksOfAlert is how often alertBody has alertMark for each alert.
const marksOfAlert = 3

// intakeSender posts bodies over one connection, and spends as little as it can: what
// it spends, the receiver lacks.
type intakeSender struct {
	conn    net.Conn
	answer  *bufio.Reader
	request []byte         // head and body
	marks   []int          // where it has numbers of alerts
	alerts  *atomic.Uint64 // made so far, by all senders
}

func newIntakeSender(b *testing.B, addr string, body []byte, alerts *atomic.Uint64) *intakeSender {
	b.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	s := &intakeSender{conn: conn, answer: bufio.NewReader(conn), alerts: alerts}
	s.request = fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: %s\r\nUser-Agent: Alertmanager/0.28.1\r\nContent-Length: %d\r\n"+
		"Authorization: Bearer %s\r\nContent-Type: application/json\r\n\r\n%s", addr, len(body), benchToken, body)
	for at := 0; ; at += len(alertMark) {
		i := bytes.Index(s.request[at:], []byte(alertMark))
		if i < 0 {
			return s
		}
		at += i
		s.marks = append(s.marks, at)
	}
}

// post sends a body of alerts that no body had before, and waits for its 200.
func (s *intakeSender) post() error {
	last := s.alerts.Add(uint64(len(s.marks) / marksOfAlert))
	var number [8]byte
	for i, at := range s.marks {
		binary.BigEndian.PutUint64(number[:], last-uint64(i/marksOfAlert))
		hex.Encode(s.request[at:], number[:])
	}
	if _, err := s.conn.Write(s.request); err != nil {
		return err
	}
	ok := false
	for first := true; ; first = false {
		line, err := s.answer.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case first:
			ok = bytes.HasPrefix(line, []byte("HTTP/1.1 200 "))
		case len(line) > len("\r\n"):
		case ok: // the answer has no body
			return nil
		default:
			rest, _ := s.answer.Peek(s.answer.Buffered())
			return fmt.Errorf("not accepted: %s", rest)
		}
	}
}

// intakePeer is one of the receivers compared, in a process of its own.
type intakePeer struct {
	name    string
	ask     io.Writer      // a line: say what you have spent, once all is dealt with
	said    *bufio.Scanner // its answers
	senders []*intakeSender
	rates   []float64 // bodies per second, one for each round
	spent   []float64 // its processor time for each body, in ms, one for each round
	sending []float64 // the same of its senders
	took    []time.Duration
}

// startIntakePeer runs TestIntakePeer as that receiver, until the benchmark ends.
func startIntakePeer(b *testing.B, name string) (p *intakePeer, addr string) {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestIntakePeer$", "-test.v")
	cmd.Env = append(os.Environ(), "INTAKE_PEER="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			b.Error(name, err)
		}
	})
	p = &intakePeer{name: name, ask: in, said: bufio.NewScanner(out)}
	return p, p.hear(b, "listening ")
}

// hear returns what follows that word in what the peer says next.
func (p *intakePeer) hear(b *testing.B, word string) string {
	b.Helper()
	for p.said.Scan() {
		if rest, ok := strings.CutPrefix(p.said.Text(), word); ok {
			return rest
		}
	}
	b.Fatalf("%s ended before it was %s", p.name, word)
	return ""
}

// settle waits until the peer has dealt with all it was sent, and returns the
// processor time that it has spent so far.
func (p *intakePeer) settle(b *testing.B) time.Duration {
	b.Helper()
	if _, err := fmt.Fprintln(p.ask); err != nil {
		b.Fatal(err)
	}
	spent, err := time.ParseDuration(p.hear(b, "spent "))
	if err != nil {
		b.Fatal(err)
	}
	return spent
}

// round drives the peer for the given time with all its senders. What it leaves
// for later counts, too.
func (p *intakePeer) round(b *testing.B, d time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	before, own := p.settle(b), processorTime(b)
	began, count := time.Now(), 0
	for _, s := range p.senders {
		wg.Go(func() {
			var took []time.Duration
			for last := began; last.Sub(began) < d; {
				if err := s.post(); err != nil {
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
	own = processorTime(b) - own
	spent := p.settle(b) - before
	p.rates = append(p.rates, float64(count)/time.Since(began).Seconds())
	p.spent = append(p.spent, spent.Seconds()*1e3/float64(max(count, 1)))
	p.sending = append(p.sending, own.Seconds()*1e3/float64(max(count, 1)))
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// TestIntakePeer is a process that BenchmarkIntake compares.
func TestIntakePeer(t *testing.T) {
	var addr string
	decided := func() {}
	switch os.Getenv("INTAKE_PEER") {
	case "service":
		BoundGarbage(os.Getenv)
		if os.Getenv("GOMAXPROCS") == "" {
			goruntime.AddProcessor()
		}
		addr, decided = intakeService(t, intakeServices)
	case "naive":
		addr = naiveReceiver(t)
	default:
		t.Skip("only as a child of BenchmarkIntake")
	}
	fmt.Println("listening", addr)
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		decided()
		fmt.Println("spent", processorTime(t))
	}
}

// processorTime is what this process has spent.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIntake compares, in turns within one run, the whole service (bodies
// journaled, each alert decided) with the naive receiver, over loopback, with
// bodies of 10 alerts and 12 KB that never repeat an alert. Its target: 1.5 times
// the naive one's rate with 64 senders. Each is a process of its own, so that
// neither collects the other's garbage. What the rates would be if processor time
// were all that bounds them is reported, too: other work on the machine, and a disk
// that others use, change it less.
func BenchmarkIntake(b *testing.B) {
	const rounds, slice = 9, 500 * time.Millisecond
	body := alertBody(b, 10)
	for _, senders := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			var alerts atomic.Uint64
			var peers []*intakePeer
			for _, name := range []string{"service", "naive"} {
				p, addr := startIntakePeer(b, name)
				for range senders {
					p.senders = append(p.senders, newIntakeSender(b, addr, body, &alerts))
				}
				p.round(b, slice) // warm up
				p.rates, p.spent, p.sending, p.took = nil, nil, nil, nil
				peers = append(peers, p)
			}
			for b.Loop() {
				for r := range rounds {
					for i := range peers {
						peers[(i+r)%len(peers)].round(b, slice)
					}
				}
			}
			service, naive := peers[0], peers[1]
			var ratios, costs []float64
			for i := range service.rates {
				ratios = append(ratios, service.rates[i]/naive.rates[i])
				costs = append(costs, (naive.spent[i]+naive.sending[i])/(service.spent[i]+service.sending[i]))
			}
			slices.Sort(service.took)
			b.ReportMetric(median(ratios), "service/naive")
			b.ReportMetric(median(costs), "service/naive-by-cpu")
			for _, p := range peers {
				b.ReportMetric(median(p.rates), p.name+"/s")
				b.ReportMetric(median(p.spent), p.name+"-cpu-ms")
				b.ReportMetric(median(p.sending), p.name+"-sender-cpu-ms")
			}
			b.ReportMetric(service.took[len(service.took)*99/100].Seconds()*1e3, "service-p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkIntakeOfOneLargeGroup is one body of 10,000 alerts and 11 MB. Its
// targets: within 1 s, resident memory under 150 MiB, here with the sender's.
func BenchmarkIntakeOfOneLargeGroup(b *testing.B) {
	addr, _ := intakeService(b, waitingRuns)
	body := alertBody(b, 10_000)
	sender := newIntakeSender(b, addr, body, new(atomic.Uint64))
	BoundGarbage(os.Getenv)
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // resets the peak
		b.Skip("no peak to measure: ", err)
	}
	peak := 0.0
	for b.Loop() {
		if err := sender.post(); err != nil {
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
