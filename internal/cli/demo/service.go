package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
)

const (
	alertmanagerPath = "/api/v1/alertmanager"
	demoLog          = "responder.log"
	// pumpInterval is how often, in real time, the simulated Alertmanager looks
	// whether there is something new to tell.
	pumpInterval = 200 * time.Millisecond
)

// demoService is the service around the simulated cluster, listening on
// loopback, and the Alertmanager that posts to it.
type demoService struct {
	service *app.Service
	client  client.Client
	world   *sandbox.World

	cancel context.CancelFunc
	ended  chan struct{}
	log    *slog.Logger
	files  []io.Closer
	clean  func()
	once   sync.Once
	err    error // of run and close; set before stop returns

	mu   sync.Mutex // one post at a time; guards told
	told string     // what the last post said of each alert
}

// startDemoService builds the service with its journal in dir and serves it on
// a free port of loopback.
func startDemoService(ctx context.Context, p *command.Process, sim *sandbox.World, dir string, speed float64) (_ *demoService, err error) {
	secrets, remove, err := p.Temp.Dir("responder-demo-token-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	d := &demoService{world: sim, ended: make(chan struct{}), clean: func() { _ = remove() }} // only a token for loopback is in it
	defer func() {
		if err != nil {
			err = errors.Join(err, d.release())
		}
	}()
	token := filepath.Join(secrets, "token")
	if err := os.WriteFile(token, []byte(rand.Text()), 0o600); err != nil {
		return nil, fmt.Errorf("write the demo's token: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the journal's directory: %w; --dir names another", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, demoLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the service's log: %w; --dir names a directory this user may write", err)
	}
	d.files, d.log = append(d.files, file), slog.New(slog.NewTextHandler(file, nil))
	w := app.SandboxWorld(sim)
	w.Pace = speed
	d.service, err = app.New(app.Options{Config: demoConfig(dir, token), World: w, Log: d.log, Failpoint: command.Failpoint(p.Getenv)})
	if err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on loopback: %w", err), d.service.Close())
	}
	alone := *p // what the environment says is about another service
	alone.Getenv = func(string) string { return "" }
	d.client = client.Client{Process: &alone, Server: "http://" + ln.Addr().String(), Credentials: client.Credentials{TokenFile: token}}
	ctx, d.cancel = context.WithCancel(ctx)
	go func() {
		defer close(d.ended)
		d.err = errors.Join(d.service.Run(ctx, ln), d.service.Close())
	}()
	return d, nil
}

// demoConfig is the configuration of the demo's service.
func demoConfig(dir, token string) config.Config {
	c := app.SandboxConfig()
	c.Journal.Dir = dir
	c.Auth.Tokens = []config.Token{{
		Name: "demo", File: token, Groups: []string{"group:ml-platform"},
		Scopes: []string{"intake", "read", "approve", "cancel"},
	}}
	c.Auth.People = []config.Person{{Name: "demo"}} // one person, who may have to be one of several
	return c
}

// stop ends the service and closes the journal, which signs its last
// checkpoint. A second call says what the first did.
func (d *demoService) stop() error {
	d.cancel()
	<-d.ended
	d.once.Do(func() { d.err = errors.Join(d.err, d.release()) })
	return d.err
}

func (d *demoService) release() error {
	d.clean()
	var err error
	for _, f := range d.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// playbook returns a playbook in force.
func (d *demoService) playbook(name string) *playbook.Playbook {
	return d.service.Playbooks().ByName(name)
}

// post sends the world's alerts as they stand at now, as Alertmanager would,
// and tells how large the body was. It posts nothing that it has told already.
func (d *demoService) post(ctx context.Context, now time.Time) (size int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	body, err := d.world.Notification(ctx, now)
	if err != nil || body == nil {
		return 0, err
	}
	n, err := playbook.DecodeNotification(body)
	if err != nil {
		return 0, fmt.Errorf("simulate Alertmanager: %w", err)
	}
	var says strings.Builder
	for _, a := range n.Alerts {
		fmt.Fprintln(&says, a.Episode(), a.Status)
	}
	if says.String() == d.told {
		return 0, nil
	}
	if err := d.send(ctx, body); err != nil {
		return 0, err
	}
	d.told = says.String()
	return len(body), nil
}

func (d *demoService) send(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, client.RequestDeadline)
	defer cancel()
	who, err := d.client.Identify(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.client.Server+alertmanagerPath, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Alertmanager/0.34.2")
	req.Header.Set("Authorization", who.Authorization)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("post the alert: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("post the alert: %s: %s", resp.Status, client.ServerMessage(resp.Body))
	}
	return nil
}

// pump goes on telling the service what becomes of the alerts, until ctx is
// done. A post that fails is tried again at the next look, as Alertmanager does.
func (d *demoService) pump(ctx context.Context) {
	tick := time.NewTicker(pumpInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if _, err := d.post(ctx, d.world.Clock().Now()); err != nil && ctx.Err() == nil {
				d.log.Warn("simulated alertmanager could not post", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}
