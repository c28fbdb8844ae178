package dryrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/client"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
)

// Options are what dry-run is asked.
type Options struct {
	Source   Source
	Alert    []string
	Config   string
	Sandbox  string
	Policy   string
	Playbook string
	Timeout  time.Duration
	Verbose  bool
}

// setup is what a dry run walks through.
type setup struct {
	config config.Config
	world  app.World
	bodies [][]byte
	// ceiling is the autonomy that the service would have had.
	ceiling playbook.Autonomy
}

// Run builds a service around a read-only world and a journal that goes
// away, hands it the alerts, and reports what became of them.
func Run(ctx context.Context, p *command.Process, f Options) (Report, error) {
	logTo := io.Discard
	if f.Verbose {
		logTo = p.Stderr
	}
	log := slog.New(slog.NewTextHandler(logTo, nil))
	setup, err := prepareDryRun(ctx, p, f, log)
	if err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	return walk(ctx, p, setup, log)
}

// prepareDryRun opens the world and reads the alerts.
func prepareDryRun(ctx context.Context, p *command.Process, f Options, log *slog.Logger) (s setup, err error) {
	now := time.Now()
	if f.Sandbox != "" {
		sim, w, err := app.OpenSandbox(f.Sandbox, now, dryRunPace)
		if err != nil {
			return s, err
		}
		s.config, s.world = app.SandboxConfig(), w
		s.world.Channels = app.SandboxChannels(log)
		if f.Source.File == "" && len(f.Source.Labels) == 0 && f.Source.FromAlertmanager == "" {
			body, err := sim.Notification(ctx, sim.Clock().Now())
			if err != nil {
				return s, fmt.Errorf("simulate the alert: %w", err)
			}
			s.bodies = [][]byte{body}
		}
	} else {
		if s.config, err = config.Load(f.Config); err != nil {
			return s, err
		}
		if s.world, err = cluster.Open(s.config, p.Temp.Dir, log); err != nil {
			return s, err
		}
	}
	if f.Playbook != "" {
		if s.config.Playbooks, err = app.PlaybooksAt(s.config.Playbooks, f.Playbook); err != nil {
			return s, err
		}
	}
	if f.Policy != "" {
		s.config.Policy.File = f.Policy
	}
	if s.bodies == nil {
		if s.bodies, err = f.Source.bodies(ctx, p, now); err != nil {
			return s, err
		}
	}
	s.ceiling = s.config.Autonomy
	s.config.Autonomy = playbook.Observe // the first lock; readOnly is the second
	s.world.Deps = readOnly(s.world.Deps)
	// Nobody else reaches the receiver: it is called in this process.
	s.config.Auth = config.Auth{Insecure: true}
	s.config.TLS = config.TLS{}
	return s, nil
}

// dryRunPace lets a simulated back-off pass quickly without running away from
// the evidence.
const dryRunPace = 10

// walk runs the service until nothing is left to do, and reports.
func walk(ctx context.Context, p *command.Process, setup setup, log *slog.Logger) (report Report, err error) {
	dir, remove, err := p.Temp.Dir("responder-dry-run-")
	if err != nil {
		return report, fmt.Errorf("make a directory for the journal: %w", err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	s, err := app.New(app.Options{Config: setup.config, World: setup.world, Log: log, Temporary: dir})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running, nil) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	if setup.world.Prepare != nil {
		if err := setup.world.Prepare(ctx); err != nil {
			return report, err
		}
	}
	for _, body := range setup.bodies {
		if err := postInProcess(ctx, s, body); err != nil {
			return report, err
		}
	}
	if err := s.WaitQuiet(ctx); err != nil {
		return report, err
	}
	return newReport(s, setup)
}

// postInProcess posts one body to the receiver, as Alertmanager would.
func postInProcess(ctx context.Context, s *app.Service, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/api/v1/alertmanager", bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer := &recordedAnswer{header: http.Header{}, status: http.StatusOK}
	s.Handler().ServeHTTP(answer, req)
	if answer.status != http.StatusOK {
		return fmt.Errorf("the receiver would refuse this notification with %d: %s", answer.status, client.ServerMessage(&answer.body))
	}
	return nil
}

// recordedAnswer keeps the answer to a request that never left the process.
type recordedAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header is the header of the answer.
func (a *recordedAnswer) Header() http.Header { return a.header }

// WriteHeader keeps the status.
func (a *recordedAnswer) WriteHeader(status int) { a.status = status }

// Write keeps the body.
func (a *recordedAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }
