package worlds

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
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

const (
	tick = 5 * time.Second
	// patience is how long an alert may take to fire.
	patience = time.Hour
	// calm is for how many minutes all objectives are met until nobody looks any more.
	calm = 20
	// anyRest is how many good minutes at the end make an incident a repaired one.
	anyRest = 10
)

// Options are how scenarios are played.
type Options struct {
	Seed uint64 // of all that looks random; 0: the scenario's own
	Temp string // directory for the journal of a run
}

// Play plays a scenario until its length is over after the first alert, or until all
// has been well for a while and nothing is left to do. It ends early when ctx does.
func (s *Scenario) Play(ctx context.Context, o Options) (r Result, err error) {
	// A bubble is package testing's, which offers it to tests alone: an empty test is one
	// that reports to nobody. A test of this package notices when that changes.
	// The context is from outside of the bubble, so nothing inside may wait for it.
	synctest.Test(new(testing.T), func(*testing.T) { r, err = s.play(o, ctx.Err) })
	if err != nil {
		return r, fmt.Errorf("%s: %w", s.File, err)
	}
	s.judge(&r)
	return r, nil
}

// player is one scenario under way.
type player struct {
	scenario *Scenario
	world    *sandbox.World
	service  *app.Service
	began    time.Time         // the first alert
	told     map[string]string // what was posted last, by group

	mu      sync.Mutex // guards notices
	notices []notice
}

// notice is a message to people.
type notice struct {
	at   time.Time
	text string
}

// Open opens the scenario's world at the clock's present moment. seed is of all that
// looks random; 0: the scenario's own.
func (s *Scenario) Open(clock *sandbox.Clock, seed uint64) *sandbox.World {
	return s.incident.Open(clock, cmp.Or(seed, s.seed))
}

func (s *Scenario) play(o Options, canceled func() error) (r Result, err error) {
	clock, err := sandbox.NewClock(time.Now(), 1)
	if err != nil {
		return r, err
	}
	p := &player{scenario: s, world: s.Open(clock, o.Seed), told: map[string]string{}}
	stop, err := p.start(o.Temp)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := p.live(canceled, &r); err != nil {
		return r, err
	}
	return r, p.report(&r)
}

// live lets the time pass.
func (p *player) live(canceled func() error, r *Result) error {
	meter := sandbox.NewMeter(p.world)
	meter.Look()
	meter.Read()
	opened := time.Now()
	good := 0 // minutes in a row
	over := func() bool {
		if p.began.IsZero() {
			return time.Since(opened) >= patience
		}
		return time.Since(p.began) >= p.scenario.length
	}
	for n := 1; !over(); n++ {
		if err := canceled(); err != nil {
			return err
		}
		if n%6 == 1 { // the interval of the rules
			if err := p.post(); err != nil {
				return err
			}
		}
		if err := p.answer(); err != nil {
			return err
		}
		time.Sleep(tick)
		synctest.Wait()
		meter.Look()
		if time.Duration(n)*tick%time.Minute != 0 {
			continue
		}
		good++
		for _, reading := range meter.Read() {
			r.note(reading, time.Now(), p.began)
			if reading.Bad {
				good = 0
			}
		}
		if good < calm {
			continue
		}
		if open, err := p.runs("?open=true"); err != nil || len(open) == 0 {
			r.Red = false
			return err
		}
	}
	r.Red = good < anyRest
	return nil
}

// start starts the service.
func (p *player) start(temp string) (stop func() error, err error) {
	log := slog.New(slog.DiscardHandler)
	world := app.SandboxWorld(p.world, machine.Anonymous)
	world.Channels = notify.New(notify.Options{Channels: []notify.Member{{Name: "people", Default: true, Channel: p}}, AnyName: true, Log: log})
	world.Deps.Notifier = p
	c := app.SandboxConfig()
	c.Playbooks.Dir = p.scenario.playbooks
	if p.service, err = app.New(app.Options{Config: c, World: world, Log: log, Temporary: temp, ReadOnce: true}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.service.Run(ctx, &deaf{closed: make(chan struct{})}) }()
	synctest.Wait()
	time.Sleep(time.Second)
	return func() error {
		cancel()
		return errors.Join(<-ended, p.service.Close())
	}, nil
}

// Tell implements [notify.Channel].
func (p *player) Tell(_ context.Context, n notify.Notice) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notices = append(p.notices, notice{time.Now(), n.Text})
	return nil
}

// Notify implements [step.Notifier].
func (p *player) Notify(ctx context.Context, n step.Notice) error {
	return p.Tell(ctx, notify.Notice(n))
}

// post posts what Alertmanager has to tell that is new.
func (p *player) post() error {
	now := p.world.Clock().Now()
	bodies, err := p.world.Notifications(context.Background(), now)
	if err != nil {
		return err
	}
	for _, body := range bodies {
		n, err := playbook.DecodeNotification(body)
		if err != nil {
			return err
		}
		says := ""
		for _, a := range n.Alerts {
			says += fmt.Sprintln(a.Episode(), a.Status)
		}
		if p.told[n.GroupKey] == says {
			continue
		}
		if p.began.IsZero() {
			p.began = now
		}
		p.told[n.GroupKey] = says
		if err := p.ask(http.MethodPost, "/api/v1/alertmanager", body, nil); err != nil {
			return err
		}
	}
	return nil
}

// answer answers the questions that have been open for long enough.
func (p *player) answer() error {
	a := p.scenario.answers
	if a.nobody {
		return nil
	}
	runs, err := p.runs("?open=true")
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Status != string(machine.PhaseDeciding) {
			continue
		}
		var d api.RunDetail
		if err := p.ask(http.MethodGet, "/api/v1/runs/"+r.Run, nil, &d); err != nil {
			return err
		}
		g := d.Run.Gate
		after, own := a.of[d.Run.State]
		if !own {
			after = a.after
		}
		if g == nil || time.Since(g.Opened) < after {
			continue
		}
		body, err := json.Marshal(api.DecisionRequest{Reason: "as the scenario says", Gate: g.Gate, Digest: g.Digest})
		if err != nil {
			return err
		}
		word := "approve"
		if a.deny {
			word = "deny"
		}
		if err := p.ask(http.MethodPost, "/api/v1/runs/"+r.Run+"/"+word, body, nil); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) runs(query string) ([]api.RunSummary, error) {
	var list api.RunList
	err := p.ask(http.MethodGet, "/api/v1/runs"+query, nil, &list)
	return list.Runs, err
}

// ask sends a request to the service and decodes its answer. A question that was
// withdrawn meanwhile is no error.
func (p *player) ask(method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(context.Background(), method, "http://127.0.0.1:8080"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.RequestURI, req.RemoteAddr = path, "127.0.0.1:1234"
	w := &response{code: http.StatusOK, header: http.Header{}}
	p.service.Handler().ServeHTTP(w, req)
	switch {
	case w.code/100 != 2 && w.code != http.StatusConflict:
		return fmt.Errorf("%s %s: %d %s", method, path, w.code, w.body.Bytes())
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(w.body.Bytes(), into); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// response is the answer to a request.
type response struct {
	code   int
	header http.Header
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(code int) { w.code = code }

// Write implements [io.Writer].
func (w *response) Write(b []byte) (int, error) { return w.body.Write(b) }

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
