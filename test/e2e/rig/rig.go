//go:build e2e

package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"
)

// Main runs the tests of a package and then stops what they shared. Call it
// from TestMain: os.Exit(rig.Main(m)).
func Main(m *testing.M) int {
	code := m.Run()
	if err := shared.close(code == 0); err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
	}
	return code
}

// Shared returns the control plane all tests of the package share, and starts
// it for the first one that asks. Needs [Main].
func Shared(t testing.TB) *ControlPlane {
	t.Helper()
	cp, err := shared.controlPlane()
	if err != nil {
		t.Fatalf("start the shared control plane: %v", err)
	}
	return cp
}

// sharedState is what outlives a test: one per test binary.
type sharedState struct {
	mu       sync.Mutex // serialises start, build and close
	dir      string
	plane    *ControlPlane
	planeErr error
	binaries map[string]string // of the responder, by name

	argoOnce sync.Once // starts argo, without mu
	argo     *ArgoCD
	argoErr  error
}

var shared sharedState

func (s *sharedState) controlPlane() (*ControlPlane, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plane == nil && s.planeErr == nil {
		dir, err := s.sub("control-plane")
		if err != nil {
			return nil, err
		}
		s.plane, s.planeErr = startControlPlane(dir)
	}
	return s.plane, s.planeErr
}

// sub makes a directory that lives until close. The caller holds mu.
func (s *sharedState) sub(name string) (string, error) {
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "responder-e2e-")
		if err != nil {
			return "", err
		}
		s.dir = dir
	}
	dir := filepath.Join(s.dir, name)
	return dir, os.MkdirAll(dir, 0o755)
}

func (s *sharedState) close(passed bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.argo != nil {
		s.argo.close()
	}
	if s.plane != nil {
		s.plane.Close()
	}
	switch {
	case s.dir == "":
		return nil
	case passed:
		return os.RemoveAll(s.dir)
	}
	fmt.Fprintln(os.Stderr, "rig: logs of the shared servers are kept in", s.dir)
	return nil
}

var unsafeInPath = regexp.MustCompile(`[^A-Za-z0-9]+`)

// runDir makes a directory for the files of one server of a test. It is removed
// when the test has passed and kept, and named, when it has not.
func runDir(t testing.TB, server string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "responder-e2e-"+unsafeInPath.ReplaceAllString(t.Name(), "-")+"-"+server+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("files of %s are kept in %s", server, dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove files of %s: %v", server, err)
		}
	})
	return dir
}

var ports = struct {
	mu    sync.Mutex // guards taken
	taken map[int]bool
}{taken: map[int]bool{}}

// freePort returns a loopback TCP port nobody listens on and this process has
// not handed out before. It stays below the kernel's ephemeral range: between
// now and the server's start no outgoing connection can take it.
func freePort() (int, error) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	var last error
	for range 200 {
		port := 20000 + rand.IntN(12000)
		if ports.taken[port] {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, err
		}
		ports.taken[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("no free loopback port: %w", last)
}

// FreeAddr returns a free loopback address, host:port.
func FreeAddr(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// Await asks condition up to ten times a second, and no more than half of the time, until it holds and fails the test
// when it does not within the limit. What condition returns with the verdict
// describes the state it saw; the last one is in the failure.
func Await(t testing.TB, limit time.Duration, what string, condition func(context.Context) (done bool, state string)) {
	t.Helper()
	start := time.Now()
	if state, ok := await(limit, condition); !ok {
		t.Fatalf("waited %v for: %s\nlast seen: %s", limit, what, state)
	}
	if took := time.Since(start); took > time.Second {
		t.Logf("%6.2fs for: %s", took.Seconds(), what)
	}
}

func await(limit time.Duration, condition func(context.Context) (bool, string)) (state string, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		asked := time.Now()
		done, seen := condition(ctx)
		if done {
			return seen, true
		}
		if ctx.Err() == nil || state == "" { // an error of the deadline itself says less than the one before
			state = seen
		}
		select {
		case <-ctx.Done():
			return state, false
		case <-time.After(max(100*time.Millisecond, time.Since(asked))):
		}
	}
}
