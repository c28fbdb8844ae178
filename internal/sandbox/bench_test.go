package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/step"
)

var timelines = flag.String("timelines", "", "directory to write down in what happened in each incident of the bench")

const (
	benchTick   = 5 * time.Second
	benchLength = 2 * time.Hour
	benchRed    = 45 * time.Minute // of an incident that nothing repairs
	benchWell   = 20               // minutes
)

// TestBench plays every incident through the whole service with the shipped
// playbooks, in virtual time, and approves whatever is asked. -v prints the table.
func TestBench(t *testing.T) {
	var mu sync.Mutex
	rows, sum := map[string]string{}, struct{ named, reached, harm, recovered, bad int }{}
	t.Run("incidents", func(t *testing.T) {
		for _, i := range sandbox.Incidents() {
			t.Run(i.Name, func(t *testing.T) {
				t.Parallel()
				var r sandbox.Result
				synctest.Test(t, func(t *testing.T) { r = play(t, i) })
				what, wrong := i.Check(r)
				switch what {
				case i.Gap:
				case "":
					t.Errorf("the gap is mended; take it out of the incident: %s", i.Gap)
				default:
					t.Errorf("wrong is %q, the known gap is %q: %s; changes %v; runs %s", what, i.Gap, strings.Join(wrong, "; "), r.Changes, strings.Join(r.Runs, " | "))
				}
				if *timelines != "" {
					if err := os.WriteFile(filepath.Join(*timelines, i.Name+".txt"), []byte(strings.Join(r.Timeline, "\n")), 0o600); err != nil {
						t.Error(err)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				rows[i.Name] = row(i, r)
				count := func(n *int, is bool) {
					if is {
						*n++
					}
				}
				count(&sum.named, i.Named(r))
				count(&sum.reached, i.Reached(r))
				count(&sum.harm, len(i.Harm(r)) > 0)
				count(&sum.recovered, i.Recovered(r))
				sum.bad += r.Bad
			})
		}
	})
	var table strings.Builder
	for _, i := range sandbox.Incidents() {
		table.WriteString(rows[i.Name])
	}
	t.Logf("\n%-18s %-5s %-6s %-5s %-9s %4s  %s\n%s\n%d of %d: cause named %d, right lever %d, harmful or needless %d, recovered %d, %d bad minutes",
		"incident", "cause", "lever", "harm", "recovered", "bad", "outcome, changes, runs", table.String(),
		len(rows), len(sandbox.Incidents()), sum.named, sum.reached, sum.harm, sum.recovered, sum.bad)
}

func row(i sandbox.Incident, r sandbox.Result) string {
	yes := func(is bool) string { return map[bool]string{true: "yes", false: "NO"}[is] }
	return fmt.Sprintf("%-18s %-5s %-6s %-5d %-9s %4d  %s; %v; %s\n",
		i.Name, yes(i.Named(r)), yes(i.Reached(r)), len(i.Harm(r)), yes(i.Recovered(r)), r.Bad, r.Outcome, r.Changes, strings.Join(r.Runs, " | "))
}

// bench is one incident under way.
type bench struct {
	t        *testing.T
	incident sandbox.Incident
	world    *sandbox.World
	service  *app.Service
	began    time.Time // first alert
	told     map[string]string
	asked    map[string]time.Time // gates, since when they are open

	mu      sync.Mutex // guards notices
	notices []string
}

// play plays an incident for two hours after its first alert, or until all is well
// and nothing is left to do.
func play(t *testing.T, i sandbox.Incident) sandbox.Result {
	clock, err := sandbox.NewClock(time.Now(), 1)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, incident: i, world: i.Open(clock), told: map[string]string{}, asked: map[string]time.Time{}}
	stop := b.start()
	defer stop()
	meter := sandbox.NewMeter(b.world)
	meter.Look()
	meter.Bad()
	r := sandbox.Result{}
	good := 0 // minutes in a row
	length := benchLength
	if i.Red {
		length = benchRed
	}
	for tick := 1; b.began.IsZero() && tick < 720 || time.Since(b.began) < length; tick++ {
		if tick%6 == 1 { // the rules' interval
			b.post()
		}
		b.approve()
		time.Sleep(benchTick)
		synctest.Wait()
		meter.Look()
		if time.Duration(tick)*benchTick%time.Minute == 0 {
			bad := meter.Bad()
			good++
			if bad > 0 {
				good = 0
			}
			if !b.began.IsZero() {
				r.Bad += bad
			}
			if good == benchWell && len(b.runs("?open=true")) == 0 {
				break // nobody does anything any more
			}
		}
	}
	r.Red = good < 10
	b.report(&r)
	return r
}

// start starts the service.
func (b *bench) start() (stop func()) {
	log := slog.New(slog.DiscardHandler)
	world := app.SandboxWorld(b.world, machine.Anonymous)
	world.Channels = notify.New(notify.Options{Channels: []notify.Member{{Name: "people", Default: true, Channel: b}}, AnyName: true, Log: log})
	world.Deps.Notifier = b
	s, err := app.New(app.Options{Config: app.SandboxConfig(), World: world, Log: log, Temporary: b.t.TempDir()})
	if err != nil {
		b.t.Fatal(err)
	}
	b.service = s
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, &deaf{closed: make(chan struct{})}) }()
	synctest.Wait()
	time.Sleep(time.Second)
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("the service did not stop in order: %v", err)
		}
		if err := s.Close(); err != nil {
			b.t.Error(err)
		}
	}
}

// Tell implements [notify.Channel].
func (b *bench) Tell(_ context.Context, n notify.Notice) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notices = append(b.notices, n.Text)
	return nil
}

// Notify implements [step.Notifier].
func (b *bench) Notify(ctx context.Context, n step.Notice) error {
	return b.Tell(ctx, notify.Notice(n))
}

// ask sends a request to the service and decodes its answer.
func (b *bench) ask(method, path string, body []byte, into any) {
	b.t.Helper()
	req := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.service.Handler().ServeHTTP(w, req)
	if w.Code/100 != 2 && w.Code != http.StatusConflict { // a question that was withdrawn meanwhile
		b.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		b.t.Fatalf("%s %s: %v in %s", method, path, err, w.Body)
	}
}

// post posts what Alertmanager has to tell that is new.
func (b *bench) post() {
	now := b.world.Clock().Now()
	bodies, err := b.world.Notifications(b.t.Context(), now)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, body := range bodies {
		n, err := playbook.DecodeNotification(body)
		if err != nil {
			b.t.Fatal(err)
		}
		says := ""
		for _, a := range n.Alerts {
			says += fmt.Sprintln(a.Episode(), a.Status)
		}
		if b.told[n.GroupKey] == says {
			continue
		}
		if b.began.IsZero() {
			b.began = now
		}
		b.told[n.GroupKey] = says
		b.ask(http.MethodPost, "/api/v1/alertmanager", body, nil)
	}
}

// approve answers the questions that have been open for long enough.
func (b *bench) approve() {
	wait := b.incident.Approvals
	if wait == 0 {
		wait = 10 * time.Second
	}
	for _, r := range b.runs("?open=true") {
		if r.Status != string(machine.PhaseDeciding) {
			continue
		}
		var d api.RunDetail
		b.ask(http.MethodGet, "/api/v1/runs/"+r.Run, nil, &d)
		if g := d.Run.Gate; g != nil && time.Since(g.Opened) >= wait {
			body, err := json.Marshal(api.DecisionRequest{Reason: "bench", Gate: g.Gate, Digest: g.Digest})
			if err != nil {
				b.t.Fatal(err)
			}
			b.ask(http.MethodPost, "/api/v1/runs/"+r.Run+"/approve", body, nil)
		}
	}
}

func (b *bench) runs(query string) []api.RunSummary {
	var list api.RunList
	b.ask(http.MethodGet, "/api/v1/runs"+query, nil, &list)
	return list.Runs
}

// deaf is a listener of the loopback interface that nobody connects to.
type deaf struct {
	once   sync.Once
	closed chan struct{}
}

// Accept implements [net.Listener].
func (d *deaf) Accept() (net.Conn, error) {
	<-d.closed
	return nil, io.EOF
}

// Close implements [net.Listener].
func (d *deaf) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// Addr implements [net.Listener].
func (d *deaf) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }
