package app

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/sandbox"
)

// startSandbox serves a sandbox that is stored in dir, on loopback, and returns
// what ends it.
func startSandbox(t *testing.T, dir, scenario string, pace float64) (s *Service, server string, stop func() error) {
	t.Helper()
	sim, err := sandbox.Resume(filepath.Join(dir, "sandbox.json"), scenario, pace)
	if err != nil {
		t.Fatal(err)
	}
	c := SandboxConfig()
	c.Journal.Dir = dir
	if s, err = New(Options{Config: c, World: ServedSandbox(sim, pace), Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, ln) }()
	until(t, "ready", func() bool { return len(s.missing()) == 0 })
	return s, "http://" + ln.Addr().String(), func() error {
		cancel()
		err := <-ended
		if closed := s.Close(); closed != nil {
			t.Error(closed)
		}
		return err
	}
}

// posted posts a body and returns the status.
func posted(t *testing.T, url, body string) int {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// openGate waits for the question of a run and returns the run.
func openGate(t *testing.T, s *Service) machine.State {
	t.Helper()
	var found machine.State
	until(t, "a question is open", func() bool {
		for _, r := range s.executor.Runs(executor.Filter{}) {
			if r.Gate != nil {
				found = r
			}
		}
		return found.Gate != nil
	})
	return found
}

// A newcomer needs the time to read: what a question says of its deadline is
// true at any pace, and time goes on at that pace afterwards.
func TestQuestionsOfTheSandboxLastTheirRealTime(t *testing.T) {
	dir := t.TempDir()
	s, server, stop := startSandbox(t, dir, DefaultScenario, 60)
	sim := s.world.Sandbox
	body, err := sim.Notification(t.Context(), sim.Clock().Now())
	if err != nil {
		t.Fatal(err)
	}
	if got := posted(t, server+"/api/v1/alertmanager", string(body)); got != http.StatusOK {
		t.Fatalf("the alert was answered %d", got)
	}
	run := openGate(t, s)
	until(t, "real time", func() bool { return sim.Clock().Pace() == 1 })
	if left := run.Gate.Deadline.Sub(sim.Clock().Now()); left < 14*time.Minute {
		t.Errorf("%s are left for the answer, want about 15 minutes", left)
	}
	if err := stop(); err != nil { // a restart costs no time to answer either
		t.Error(err)
	}
	s, server, stop = startSandbox(t, dir, DefaultScenario, 60)
	if sim = s.world.Sandbox; sim.Clock().Pace() != 1 {
		t.Errorf("after a restart time passes at a pace of %g while a question is open", sim.Clock().Pace())
	}
	if got := posted(t, server+"/api/v1/runs/"+run.Start.Run+"/deny", `{"reason":"no"}`); got != http.StatusOK {
		t.Fatalf("the denial was answered %d", got)
	}
	until(t, "the sandbox's pace", func() bool { return sim.Clock().Pace() == 60 })
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Another incident happens in the running sandbox, with the journal of before. It
// waits for open runs: their cluster would be gone.
func TestAnotherScenarioFollows(t *testing.T) {
	dir := t.TempDir()
	s, server, stop := startSandbox(t, dir, DefaultScenario, 60)
	const fire, next = "/api/v1/sandbox/fire", `{"scenario":"traffic-burst"}`
	if got := posted(t, server+fire, `{}`); got != http.StatusOK {
		t.Fatalf("the alert was answered %d", got)
	}
	run := openGate(t, s).Start.Run
	if got := posted(t, server+fire, next); got != http.StatusConflict {
		t.Errorf("another scenario while a run is open was answered %d", got)
	}
	if got := posted(t, server+"/api/v1/runs/"+run+"/deny", `{"reason":"no"}`); got != http.StatusOK {
		t.Fatalf("the denial was answered %d", got)
	}
	until(t, "the run ends", func() bool { r, _ := s.executor.RunState(run); return r.Phase == machine.PhaseEnded })
	if got := posted(t, server+fire, `{"scenario":"no-such"}`); got != http.StatusBadRequest {
		t.Errorf("a scenario that nobody knows was answered %d", got)
	}
	if got := posted(t, server+fire, next); got != http.StatusAccepted {
		t.Fatalf("another scenario was answered %d", got)
	}
	firing := true
	until(t, "its alert resolves", func() bool {
		seen, _ := s.executor.Alerts(dispatch.SeenFilter{Firing: &firing}, 10)
		return len(seen) == 0
	})
	if err := stop(); !errors.Is(err, ErrNextScenario) {
		t.Fatalf("the service ended: %v", err)
	}

	s, server, stop = startSandbox(t, dir, DefaultScenario, 60)
	if name := s.world.Sandbox.Scenario().Name; name != "traffic-burst" {
		t.Errorf("%s happens, want traffic-burst", name)
	}
	if got := posted(t, server+fire, `{}`); got != http.StatusOK {
		t.Fatalf("its alert was answered %d", got)
	}
	if again := openGate(t, s); again.Start.Run == run || again.Lever == nil || again.Lever.Step != "kube.scale" {
		t.Errorf("asks %+v, want more replicas", again.Lever)
	}
	var page string
	until(t, "the page of the run before has its chart", func() bool {
		_, _, page = browser{t: t, url: server}.do(http.MethodGet, "/runs/"+run, nil)
		return strings.Contains(page, `class="chart"`)
	})
	if want := "the incident bad-rollout were simulated"; !strings.Contains(page, want) {
		t.Errorf("the page of the run before does not say %q", want)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A run that begins between the decision for another scenario and the restart would
// continue on the new cluster with what it saw of the old one.
func TestNoRunStartsBeforeTheNextScenario(t *testing.T) {
	dir := t.TempDir()
	s, server, stop := startSandbox(t, dir, DefaultScenario, 60)
	sim, who := s.world.Sandbox, rights.Actor{By: machine.Anonymous}
	body, err := sim.Notification(t.Context(), sim.Clock().Now())
	if err != nil {
		t.Fatal(err)
	}
	wish := executor.StartRequest{Playbook: "inference-slo-breach", Service: sim.Services()[0].Name, By: machine.Anonymous, Reason: "test"}

	// A scenario that cannot be stored changes nothing.
	file := filepath.Join(dir, "sandbox.json")
	kept, err := os.ReadFile(file)
	if err := errors.Join(err, os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.steering.Fire(t.Context(), who, "traffic-burst"); err == nil {
		t.Fatal("a scenario that is not stored began")
	}
	if err := errors.Join(os.Remove(file), os.WriteFile(file, kept, 0o600)); err != nil {
		t.Fatal(err)
	}
	run, _, err := s.executor.StartRun(t.Context(), wish)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the run asks", func() bool { r, _ := s.executor.RunState(run); return r.Gate != nil || r.Phase == machine.PhaseEnded })
	if got := posted(t, server+"/api/v1/runs/"+run+"/cancel", `{"reason":"done"}`); got != http.StatusOK && got != http.StatusConflict {
		t.Fatalf("the cancellation was answered %d", got)
	}
	until(t, "the run ends", func() bool { r, _ := s.executor.RunState(run); return r.Phase == machine.PhaseEnded })

	fired, err := s.steering.Fire(t.Context(), who, "traffic-burst")
	if err != nil {
		t.Fatal(err)
	}
	if run, _, err := s.executor.StartRun(t.Context(), wish); err == nil {
		t.Errorf("run %s began on the cluster that goes", run)
	}
	// The receiver may have stopped: an alert that it still takes waits for the new cluster.
	if resp, err := http.Post(server+"/api/v1/alertmanager", "application/json", bytes.NewReader(body)); err == nil {
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := stop(); !errors.Is(err, ErrNextScenario) {
		t.Fatalf("the service ended: %v", err)
	}
	s, _, stop = startSandbox(t, dir, DefaultScenario, 60)
	for _, r := range s.executor.Runs(executor.Filter{}) {
		if r.Phase != machine.PhaseEnded && r.Began.Before(fired.Opened) {
			t.Errorf("run %s of the cluster before is open", r.Start.Run)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
