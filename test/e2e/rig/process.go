//go:build e2e

package rig

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Spec describes how to start one server.
type Spec struct {
	Name  string   // names the log; required
	Path  string   // the program; required
	Args  []string // without the program's name
	Env   []string // added to the test's own environment
	Dir   string   // working directory and place of the log; default: one of its own
	Ready string   // URL that answers with 2xx once the server is up; empty: do not wait
	Limit time.Duration
}

// Process is a started server. Its log survives restarts.
type Process struct {
	Dir string // holds the log

	spec Spec

	mu   sync.Mutex // guards cmd and done across Restart
	cmd  *exec.Cmd
	done chan struct{} // closed once the current process has been reaped
}

// Start starts a server, waits until it is ready and stops it when the test
// ends. A failed test shows the end of its log.
func Start(t testing.TB, spec Spec) *Process {
	t.Helper()
	if spec.Dir == "" {
		spec.Dir = runDir(t, spec.Name)
	}
	p, err := startProcess(spec.Dir, spec)
	if p != nil {
		t.Cleanup(func() {
			p.Stop()
			if t.Failed() {
				t.Logf("last lines of %s:\n%s", p.LogPath(), p.Tail(40))
			}
		})
	}
	if err != nil {
		t.Fatalf("start %s: %v", spec.Name, err)
	}
	return p
}

// startProcess is Start without a test. The process it returns with an error
// has been stopped, and is there for its log.
func startProcess(dir string, spec Spec) (*Process, error) {
	if spec.Limit == 0 {
		spec.Limit = 30 * time.Second
	}
	if spec.Dir == "" {
		spec.Dir = dir
	}
	p := &Process{Dir: dir, spec: spec}
	if err := p.start(); err != nil {
		return p, err
	}
	if err := p.awaitReady(); err != nil {
		p.Stop()
		return p, err
	}
	return p, nil
}

func (p *Process) start() error {
	log, err := os.OpenFile(p.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own descriptor

	cmd := exec.Command(p.spec.Path, p.spec.Args...)
	cmd.Dir = p.spec.Dir
	cmd.Env = append(os.Environ(), p.spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	// A test binary that is killed takes its servers with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
	}()
	p.mu.Lock()
	p.cmd, p.done = cmd, done
	p.mu.Unlock()
	return nil
}

// probe reaches the control plane too, whose certificate signs itself.
var probe = &http.Client{
	Timeout:   2 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
}

func (p *Process) awaitReady() error {
	if p.spec.Ready == "" {
		return nil
	}
	var exited bool
	state, ok := await(p.spec.Limit, func(ctx context.Context) (bool, string) {
		if !p.Running() {
			exited = true
			return true, ""
		}
		return answers(ctx, p.spec.Ready)
	})
	switch {
	case exited:
		return fmt.Errorf("exited at once (%v):\n%s", p.current().ProcessState, p.Tail(30))
	case !ok:
		return fmt.Errorf("not ready after %v: %s\n%s", p.spec.Limit, state, p.Tail(30))
	}
	return nil
}

func answers(ctx context.Context, url string) (ok bool, state string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err.Error()
	}
	resp, err := probe.Do(req)
	if err != nil {
		return false, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 512))
	if err != nil {
		return false, err.Error()
	}
	return resp.StatusCode/100 == 2, fmt.Sprintf("%s: %s", resp.Status, body)
}

// AwaitURL waits until url answers with 2xx.
func (p *Process) AwaitURL(t testing.TB, url string, limit time.Duration) {
	t.Helper()
	Await(t, limit, url+" answers", func(ctx context.Context) (bool, string) {
		if !p.Running() {
			t.Fatalf("%s has exited (%v):\n%s", p.spec.Name, p.current().ProcessState, p.Tail(30))
		}
		return answers(ctx, url)
	})
}

func (p *Process) current() *exec.Cmd {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd
}

func (p *Process) reaped() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Running reports whether the process has not exited.
func (p *Process) Running() bool {
	done := p.reaped()
	if done == nil {
		return false
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// Stop ends the process as an orchestrator does: TERM, five seconds, KILL.
func (p *Process) Stop() {
	if !p.Running() {
		return
	}
	_ = p.Signal(syscall.SIGTERM) // it may just have exited
	select {
	case <-p.reaped():
	case <-time.After(5 * time.Second):
		p.Kill9()
	}
}

// Kill9 ends the process as a crash does, and returns when it is gone.
func (p *Process) Kill9() {
	if !p.Running() {
		return
	}
	_ = p.Signal(syscall.SIGKILL) // it may just have exited
	<-p.reaped()
}

// Signal sends a signal to the process. STOP and CONT make a server that
// accepts connections and stays silent.
func (p *Process) Signal(s syscall.Signal) error {
	cmd := p.current()
	if cmd == nil || cmd.Process == nil {
		return errors.New("not started")
	}
	return cmd.Process.Signal(s)
}

// Wait waits for the process to exit by itself and returns its exit code.
func (p *Process) Wait(t testing.TB, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.reaped():
		return p.current().ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("%s still runs after %v", p.spec.Name, limit)
		return -1
	}
}

// Restart stops the process, starts it again with the same arguments and
// waits until it is ready.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	p.Stop()
	if err := p.start(); err != nil {
		t.Fatalf("restart %s: %v", p.spec.Name, err)
	}
	if err := p.awaitReady(); err != nil {
		t.Fatalf("restart %s: %v", p.spec.Name, err)
	}
}

// LogPath is the file that takes the process's output.
func (p *Process) LogPath() string { return filepath.Join(p.Dir, p.spec.Name+".log") }

// Log returns what the process has written so far.
func (p *Process) Log() string {
	data, err := os.ReadFile(p.LogPath())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Tail returns the last n lines of the log.
func (p *Process) Tail(n int) string {
	lines := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// run runs a program to its end and returns its standard output.
func run(ctx context.Context, path string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(path), strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
