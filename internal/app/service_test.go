package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor"
)

// startService runs a service on loopback until the test ends.
func startService(t *testing.T, c config.Config) (*Service, string) {
	t.Helper()
	return startServiceWith(t, c, true)
}

// startServiceWith is startService with the journal in the configuration's
// directory, unless it is temporary.
func startServiceWith(t *testing.T, c config.Config, temporary bool) (*Service, string) {
	t.Helper()
	_, w, err := OpenSandbox(DefaultScenario, time.Now(), 1)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Config: c, World: w, Log: slog.New(slog.DiscardHandler)}
	if temporary {
		o.Temporary = t.TempDir()
	}
	return startOn(t, o)
}

// startOn serves on loopback until the test ends.
func startOn(t *testing.T, o Options) (*Service, string) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the service did not stop in order: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	// It answers last of all: what comes before in its start is done, and does not
	// run beside the test.
	resp, err := http.Get("http://" + ln.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return s, "http://" + ln.Addr().String()
}

// until waits for something another goroutine brings about.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within 2 min: %s", what)
		}
	}
}

// Playbooks change under a running service. A bad file keeps the last good set
// in force, and nobody has to guess: metric, journal and readiness say it.
func TestHotReload(t *testing.T) {
	good, err := os.ReadFile(rollbackPlaybook)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "playbook.yaml")
	write := func(content string) {
		t.Helper()
		// At once: a writer that is held up in the middle is another test's matter.
		if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(string(good))
	c := SandboxConfig()
	c.Playbooks.Shipped = false
	c.Playbooks.Dir = dir
	s, server := startService(t, c)
	until(t, "ready", func() bool { return len(s.missing()) == 0 })
	first := s.library.set().Digest()

	write(strings.Replace(string(good), "start: look", "start: nowhere", 1))
	until(t, "the rejection is in the journal", func() bool {
		for rec, err := range s.journal.Stream(controlStream, 0) {
			if err == nil && rec.Kind == executor.KindRejected && strings.Contains(string(rec.Data), `nowhere`) {
				return true
			}
		}
		return false
	})
	if s.library.set().Digest() != first {
		t.Error("a bad file replaced the last good set")
	}
	if got := scrape(t, s.metrics)["responder_playbooks_rejected_total"]; got != "1" {
		t.Errorf("responder_playbooks_rejected_total is %s", got)
	}
	resp, err := http.Get(server + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("with the last good set in force the service is ready, but /readyz says %s", resp.Status)
	}

	write(strings.Replace(string(good), "title: Test rollback", "title: Another title", 1))
	until(t, "the repaired file is in force", func() bool {
		pb := s.library.set().ByName("test-rollback")
		return pb != nil && pb.Title == "Another title"
	})
}

// A service without a single good playbook would answer every alert with
// silence: it does not start.
func TestServiceRefusesBadPlaybooks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("kind: Nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := SandboxConfig()
	c.Playbooks.Shipped = false
	c.Playbooks.Dir = dir
	_, w, err := OpenSandbox(DefaultScenario, time.Now(), 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{Config: c, World: w, Log: slog.New(slog.DiscardHandler), Temporary: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "a.yaml:1") {
		t.Errorf("want an error that names the place, got %v", err)
	}
}

// A pod that restarts over a bad ConfigMap goes on with the playbooks that were
// in force before, and says so.
func TestLastGoodSetSurvivesRestart(t *testing.T) {
	good, err := os.ReadFile(rollbackPlaybook)
	if err != nil {
		t.Fatal(err)
	}
	c := SandboxConfig()
	c.Playbooks.Shipped = false
	c.Playbooks.Dir, c.Journal.Dir = t.TempDir(), t.TempDir()
	file := filepath.Join(c.Playbooks.Dir, "playbook.yaml")
	if err := os.WriteFile(file, good, 0o600); err != nil {
		t.Fatal(err)
	}
	var digest string
	t.Run("first start", func(t *testing.T) {
		s, _ := startServiceWith(t, c, false)
		until(t, "ready", func() bool { return len(s.missing()) == 0 })
		digest = s.library.set().Digest()
	})
	if err := os.WriteFile(file, []byte("kind: Nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("second start", func(t *testing.T) {
		s, _ := startServiceWith(t, c, false)
		until(t, "ready", func() bool { return len(s.missing()) == 0 })
		if s.library.set().Digest() != digest {
			t.Error("another set is in force than before the restart")
		}
		until(t, "the rejection is counted", func() bool { return scrape(t, s.metrics)["responder_playbooks_rejected_total"] == "1" })
	})
}

// A service that was told to take nothing in does not forget it by restarting.
func TestPausedIntakeSurvivesRestart(t *testing.T) {
	c := SandboxConfig()
	c.Journal.Dir = t.TempDir()
	post := func(url string) int {
		t.Helper()
		body := `{"version":"4","status":"firing","alerts":[{"status":"firing","labels":{"alertname":"X"},"startsAt":"2026-03-01T12:00:00Z"}]}`
		resp, err := http.Post(url+"/", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	t.Run("paused", func(t *testing.T) {
		s, url := startServiceWith(t, c, false)
		until(t, "ready", func() bool { return len(s.missing()) == 0 })
		if err := s.intake.Pause(t.Context(), "user:ada", "the volume moves"); err != nil {
			t.Fatal(err)
		}
		if got := post(url); got != http.StatusServiceUnavailable {
			t.Errorf("paused: %d, want 503", got)
		}
	})
	t.Run("restarted, then lifted", func(t *testing.T) {
		s, url := startServiceWith(t, c, false)
		until(t, "ready", func() bool { return len(s.missing()) == 0 })
		if got := post(url); got != http.StatusServiceUnavailable {
			t.Errorf("paused before the restart: %d, want 503", got)
		}
		if err := s.intake.Unpause(t.Context(), "user:ada", ""); err != nil {
			t.Fatal(err)
		}
		if got := post(url); got != http.StatusOK {
			t.Errorf("lifted: %d, want 200", got)
		}
	})
	t.Run("restarted once more", func(t *testing.T) {
		s, url := startServiceWith(t, c, false)
		until(t, "ready", func() bool { return len(s.missing()) == 0 })
		if got := post(url); got != http.StatusOK {
			t.Errorf("lifted before the restart: %d, want 200", got)
		}
	})
}
