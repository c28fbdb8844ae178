//go:build e2e

package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// ServiceOptions say how a responder is configured. The zero value is the
// configuration of deploy/ without a cluster and without Prometheus.
type ServiceOptions struct {
	Addr       string            // host:port; empty: a free one
	Prometheus string            // URL
	Kubeconfig string            // file
	Playbook   string            // one file's content, in force beside the shipped ones or in place of one
	NoShipped  bool              // only the test's own playbooks are in force
	Services   string            // the catalog, as YAML
	Settings   string            // YAML laid over everything else, by top-level field
	Files      map[string]string // more files next to responder.yaml, by name
	Failpoints bool              // run the binary that has failpoints in it
	Env        []string
}

// Service is a running `responder serve --config`.
type Service struct {
	*Process
	URL       string
	Webhook   string // where Alertmanager posts
	Config    string // path of responder.yaml
	Playbooks string // directory of the test's own; empty: there are none

	binary string
}

// The tokens of a test's responder. All are worth nothing outside the test.
const (
	IntakeToken = "rig-intake-token-of-no-worth"
	oncallToken = "rig-oncall-token-of-no-worth"
)

// StartService configures a responder as deploy/kubernetes/config.yaml does,
// with the test's own addresses and files in it, starts it and waits until it
// is ready.
func StartService(t testing.TB, options ServiceOptions) *Service {
	t.Helper()
	s := NewService(t, options)
	s.Process = Start(t, s.Spec(options.Env...))
	return s
}

// NewService is StartService without the start.
func NewService(t testing.TB, options ServiceOptions) *Service {
	t.Helper()
	addr := options.Addr
	if addr == "" {
		addr = FreeAddr(t)
	}
	s := &Service{URL: "http://" + addr, Webhook: WebhookURL(addr), binary: BuildResponder(t, options.Failpoints)}
	dir := runDir(t, "responder")
	s.Config = filepath.Join(dir, "responder.yaml")
	files := map[string]string{"alertmanager": IntakeToken, "oncall": oncallToken, "prometheus": "rig-metrics-token-of-no-worth", "reader": "rig-reader-token-of-no-worth", "page": "rig-page-password-of-no-worth"}
	maps.Copy(files, options.Files)
	if options.Playbook != "" {
		s.Playbooks = filepath.Join(dir, "playbooks")
		files["playbooks/test.yaml"] = options.Playbook
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := s.configure(addr, dir, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Config, config, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// Spec is how the service is started, for a test that does not wait for it.
func (s *Service) Spec(env ...string) Spec {
	return Spec{
		Name: "responder", Path: s.binary, Args: []string{"serve", "--config", s.Config}, Env: env,
		Dir: filepath.Dir(s.Config), Ready: s.URL + "/readyz",
	}
}

// configure takes the deployed configuration and puts the test's places in.
func (s *Service) configure(addr, dir string, options ServiceOptions) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(Repository(), "deploy", "kubernetes", "config.yaml"))
	if err != nil {
		return nil, err
	}
	var deployed struct{ Data map[string]string }
	if err := yaml.Unmarshal(data, &deployed); err != nil {
		return nil, fmt.Errorf("deploy/kubernetes/config.yaml: %w", err)
	}
	text := strings.ReplaceAll(deployed.Data["responder.yaml"], "/etc/responder-tokens/", dir+"/")
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return nil, fmt.Errorf("deploy/kubernetes/config.yaml: responder.yaml: %w", err)
	}
	config["listen"] = addr
	delete(config, "listen_probes")
	delete(config, "tls")
	auth, _ := config["auth"].(map[string]any)
	tokens, _ := auth["tokens"].([]any)
	if len(tokens) == 0 {
		return nil, errors.New("deploy/kubernetes/config.yaml: responder.yaml has no auth.tokens")
	}
	auth["tokens"] = append(tokens, map[string]any{ // whom the tests act as
		"name": "user:oncall", "file": filepath.Join(dir, "oncall"), "groups": []string{"group:oncall"},
		"scopes": []string{"read", "admin", "approve", "cancel", "pause", "unpause", "resolve", "release", "promote"},
	})
	auth["rights"] = []any{
		map[string]any{"to": []string{"asked"}, "may": []string{"approve"}},
		map[string]any{"to": []string{"group:oncall"}, "may": []string{"cancel", "pause", "unpause", "resolve", "release", "promote"}, "services": []string{"*"}},
	}
	config["journal"] = map[string]any{"dir": filepath.Join(dir, "data")}
	config["prometheus"] = map[string]any{"url": options.Prometheus}
	delete(config, "kubernetes")
	delete(config, "discovery")
	if options.Kubeconfig != "" {
		config["kubernetes"] = map[string]any{"kubeconfig": options.Kubeconfig}
	}
	if s.Playbooks != "" {
		config["playbooks"] = map[string]any{"dir": s.Playbooks, "shipped": !options.NoShipped}
	}
	for _, more := range []string{options.Services, options.Settings} {
		over := map[string]any{}
		if err := yaml.Unmarshal([]byte(more), &over); err != nil {
			return nil, fmt.Errorf("%w in:\n%s", err, more)
		}
		maps.Copy(config, over)
	}
	return yaml.Marshal(config)
}

// WebhookURL is where Alertmanager posts to a responder at addr.
func WebhookURL(addr string) string { return "http://" + addr + "/api/v1/alertmanager" }

// Result is what one call of the command line gave.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// CLI runs the responder's command line against the service, with the token of
// the person on call.
func (s *Service) CLI(ctx context.Context, args ...string) (Result, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Env = append(os.Environ(),
		"RESPONDER_SERVER="+s.URL, "RESPONDER_TOKEN_FILE="+filepath.Join(filepath.Dir(s.Config), "oncall"))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}, err
}

// Must runs the command line and fails the test unless it exits with 0.
func (s *Service) Must(t testing.TB, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := s.CLI(ctx, args...)
	if err != nil || r.Code != 0 {
		t.Fatalf("responder %s: exit %d, %v\n%s%s", strings.Join(args, " "), r.Code, err, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// Journal is the directory that holds the journal and its keys.
func (s *Service) Journal() string { return filepath.Join(filepath.Dir(s.Config), "data") }
