package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/webhook"
)

// ErrNextScenario is the error of [Service.Run] after a request for another scenario of
// the sandbox. The caller resumes the sandbox's file and builds another service.
var ErrNextScenario = errors.New("another scenario begins")

// steering delivers the alerts of a simulated cluster on request, and replaces the
// cluster by that of another scenario.
type steering struct {
	sim      *sandbox.World
	executor *executor.Executor
	intake   *dispatch.Intake
	permits  permits

	mu       sync.Mutex    // one request at a time
	followed chan struct{} // closed once the next scenario is stored
}

// newSteering returns nil if the cluster is real.
func (s *Service) newSteering() *steering {
	if s.world.Sandbox == nil {
		return nil
	}
	return &steering{sim: s.world.Sandbox, executor: s.executor, intake: s.intake, permits: s.permits(), followed: make(chan struct{})}
}

// run returns [ErrNextScenario] once the next scenario is stored.
func (s *steering) run(ctx context.Context) error {
	select {
	case <-s.followed:
		return ErrNextScenario
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Show describes the cluster and the scenarios.
func (s *steering) Show() api.Sandbox {
	out := api.Sandbox{
		Scenario: s.sim.Scenario().Name, Opened: s.sim.Started(), Now: s.sim.Clock().Now().UTC(), Pace: s.sim.Clock().Pace(),
	}
	for _, sc := range sandbox.Scenarios() {
		out.Scenarios = append(out.Scenarios, api.SandboxScenario{Name: sc.Name, Title: sc.Title})
	}
	return out
}

// Fire delivers the cluster's alerts, or replaces the cluster by another scenario's.
func (s *steering) Fire(ctx context.Context, who rights.Actor, scenario string) (api.SandboxFired, error) {
	if err := s.permits.check(who, rights.Start, ""); err != nil {
		return api.SandboxFired{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.executor.Ready(); err != nil {
		return api.SandboxFired{}, journalRefusal(err)
	}
	if scenario == "" {
		return s.deliver(ctx)
	}
	return s.follow(ctx, scenario)
}

// deliver admits what Alertmanager would post now.
func (s *steering) deliver(ctx context.Context) (api.SandboxFired, error) {
	out := api.SandboxFired{Scenario: s.sim.Scenario().Name, Opened: s.sim.Started(), Alerts: []api.SandboxAlert{}}
	body, err := s.sim.Notification(ctx, s.sim.Clock().Now())
	if err != nil {
		return out, fmt.Errorf("simulate the alert: %w", err)
	}
	if body == nil {
		return out, &refused{as: webhook.ErrConflict, message: "no alert of the scenario " + out.Scenario + " has fired"}
	}
	n, err := playbook.DecodeNotification(body)
	if err != nil {
		return out, fmt.Errorf("simulate the alert: %w", err)
	}
	for _, a := range n.Alerts {
		sent := api.SandboxAlert{Name: a.Labels["alertname"], Status: string(a.Status), Starts: a.StartsAt.UTC(), Runs: []string{}}
		seen, more := s.executor.Alerts(dispatch.SeenFilter{Episode: a.Episode()}, 1)
		if more {
			return out, fmt.Errorf("several alerts are the episode %s", a.Episode()) // unreachable unless an episode is the beginning of another one
		}
		for _, known := range seen {
			sent.Runs = append(sent.Runs, known.Runs...)
		}
		out.Alerts = append(out.Alerts, sent)
	}
	return out, s.admit(ctx, n)
}

func (s *steering) admit(ctx context.Context, n playbook.Notification) error {
	_, err := admission{s.intake}.Admit(ctx, n)
	return err
}

// follow stores the next scenario if no run is open, and ends the service. From that
// check to the end no run starts: it would continue on another cluster than it looked at.
func (s *steering) follow(ctx context.Context, scenario string) (out api.SandboxFired, err error) {
	if err := sandbox.Known(scenario); err != nil {
		return out, &refused{as: webhook.ErrInvalid, message: err.Error()}
	}
	release, open, err := s.executor.HoldStarts(ctx, "the service restarts on the cluster of the scenario "+scenario)
	if err != nil {
		return out, journalRefusal(err)
	}
	if len(open) > 0 {
		return out, stillOpen(open, scenario)
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	if err := s.resolveAll(ctx); err != nil {
		return out, err
	}
	opens, err := s.sim.Follow(scenario)
	if err != nil {
		return out, err
	}
	close(s.followed)
	return api.SandboxFired{Scenario: scenario, Opened: opens, Alerts: []api.SandboxAlert{}}, nil
}

// stillOpen refuses another scenario while runs are open: their cluster would be gone.
func stillOpen(runs []machine.State, scenario string) error {
	r := runs[0]
	what, end := "run", "answer its question, wait for its end, or end it by 'responder runs cancel "+r.Start.Run+" --reason TEXT'"
	if r.Start.Loan != "" {
		what, end = "loan", "wait until it is given back, or end it by 'responder loans keep "+r.Start.Run+" --reason TEXT'"
	}
	more := ""
	if n := len(runs) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return &refused{as: webhook.ErrConflict, message: fmt.Sprintf(
		"%s cannot begin while the %s %s on %s is open%s: the cluster that it acts on would be gone; %s",
		scenario, what, r.Start.Run, r.Start.Service.Name, more, end)}
}

// mostResolved is more than the alerts that a sandbox fires by itself.
const mostResolved = 1000

// resolveAll resolves every alert that fires: the next cluster never mentions them.
func (s *steering) resolveAll(ctx context.Context) error {
	firing, now := true, s.sim.Clock().Now().UTC()
	n := playbook.Notification{Receiver: "responder", Status: playbook.Resolved, GroupKey: "{}:{}", Version: "4"}
	seen, more := s.executor.Alerts(dispatch.SeenFilter{Firing: &firing}, mostResolved)
	if more {
		return &refused{as: webhook.ErrConflict, message: fmt.Sprintf(
			"more than %d alerts fire, and the next cluster would never resolve them; resolve those that were posted to the sandbox first", mostResolved)}
	}
	for _, a := range seen {
		if a.Alert == nil {
			continue // its notification is archived, so its labels are unknown
		}
		gone := *a.Alert
		gone.Status, gone.EndsAt = playbook.Resolved, later(now, gone.StartsAt)
		n.Alerts = append(n.Alerts, gone)
	}
	if len(n.Alerts) == 0 {
		return nil
	}
	return s.admit(ctx, n)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
