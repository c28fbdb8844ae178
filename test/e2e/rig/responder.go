//go:build e2e

package rig

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Tag holds the build tags every build of the responder needs: without them
// kustomize's plugin loader changes how the binary is linked, and gRPC's
// tracing keeps the linker from dropping what nobody calls.
const Tag = "kustomize_disable_go_plugin_support,grpcnotrace"

// BuildResponder builds the responder, once per test binary, and returns its
// path. With failpoints it is a binary that can be told where to die; that code
// is in no other build. Needs [Main].
func BuildResponder(t testing.TB, failpoints bool) string {
	t.Helper()
	if failpoints {
		return build(t, "responder-failpoints", Tag+",failpoints", "0", "./cmd/responder")
	}
	return build(t, "responder", Tag, "0", "./cmd/responder")
}

// BuildHelm builds the program that renders charts, beside the service, once per test
// binary. Needs [Main].
func BuildHelm(t testing.TB) string {
	t.Helper()
	return build(t, "responder-helm", Tag, "0", "./cmd/responder/helm")
}

// Helm is the path of helm: the one of the PATH, or the one that Argo CD's repo-server
// runs.
func Helm(t testing.TB) string { return source(t, "helm") }

// BuildAgent builds the node agent, once per test binary, and returns its path.
// Needs [Main].
func BuildAgent(t testing.TB) string {
	t.Helper()
	return build(t, "responder-agent", Tag, "1", "./cmd/responder/agent")
}

// build compiles a program as make image does, which then finds all packages in Go's cache.
func build(t testing.TB, name, tags, cgo, program string) string {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if path := shared.binaries[name]; path != "" {
		return path
	}
	dir, err := shared.sub("bin")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	path := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-o", path, program)
	cmd.Dir = Repository()
	cmd.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	if shared.binaries == nil {
		shared.binaries = map[string]string{}
	}
	shared.binaries[name] = path
	return path
}

// Repository is the root of the working tree in which the test runs: go test starts it in the
// directory of its package.
func Repository() string {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	panic("no go.mod here or above") // unreachable unless the test was moved out of the repository
}

// Kustomize returns the path of kustomize: the one on the PATH, else one that is
// built once.
func Kustomize(t testing.TB) string {
	t.Helper()
	return source(t, "kustomize")
}

func source(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	dir, err := built("sources.sh", "sourcebox")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}
