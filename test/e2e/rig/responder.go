//go:build e2e

package rig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// Tag is the build tag every build of the responder needs: without it
// kustomize's plugin loader changes how the binary is linked.
const Tag = "kustomize_disable_go_plugin_support"

// BuildResponder builds the responder, once per test binary, and returns its
// path. Needs [Main].
func BuildResponder(t testing.TB) string {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.responder != "" {
		return shared.responder
	}
	dir, err := shared.sub("bin")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	path := filepath.Join(dir, "responder")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-tags", Tag, "-o", path, "./cmd/responder")
	cmd.Dir = repository()
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the responder: %v\n%s", err, out)
	}
	shared.responder = path
	return path
}

// repository is the root of the working tree this package was compiled from.
func repository() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		panic("the rig does not know its own path") // unreachable unless it was built with -trimpath
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}
