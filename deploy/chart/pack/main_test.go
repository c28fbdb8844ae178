package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// TestVersions: the package has the version of the commit, by the tags of git, as the image
// has, and installs the image of that version. A working tree with changes says so.
func TestVersions(t *testing.T) {
	source := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", source, "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	change := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("go.mod", "module example.com/hello\n")
	change("main.go", "package main\n\nfunc main() { println(\"hello\") }\n")
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "first")
	git("tag", "v0.2.0")
	wantVersion(t, source, "0.2.0", "v0.2.0")
	change("more.txt", "more\n")
	git("add", ".")
	git("commit", "-qm", "second")
	wantVersion(t, source, "0.2.1-0.", "v0.2.1-0.")
	change("main.go", "package main\n\nfunc main() { println(\"changed\") }\n")
	wantVersion(t, source, "0.2.1-0.", "-dirty")
}

// wantVersion builds the program, packs the chart and renders the package.
func wantVersion(t *testing.T, source, version, tag string) {
	t.Helper()
	program, out := filepath.Join(t.TempDir(), "hello"), t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=true", "-o", program)
	build.Dir, build.Env = source, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	var said bytes.Buffer
	if code := run("..", []string{"-o", out, program}, &said, &said); code != 0 {
		t.Fatalf("exit %d: %s", code, &said)
	}
	c, err := loader.Load(strings.TrimSpace(said.String()))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(c.Metadata.Version, version) || !strings.Contains(c.Metadata.AppVersion, tag) {
		t.Errorf("version %s, appVersion %s; want %s and %s", c.Metadata.Version, c.Metadata.AppVersion, version, tag)
	}
	for _, f := range c.Raw {
		if strings.HasSuffix(f.Name, ".go") || strings.HasPrefix(f.Name, "testdata") {
			t.Errorf("the package has %s", f.Name)
		}
	}
	values, err := chartutil.ToRenderValues(c, nil, chartutil.ReleaseOptions{Name: "responder", Namespace: "responder"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, values)
	if err != nil {
		t.Fatal(err)
	}
	deployment := files["responder/templates/deployment.yaml"]
	if !strings.Contains(deployment, "image: responder:"+c.Metadata.AppVersion+"\n") {
		t.Errorf("it installs another image than %s:\n%s", c.Metadata.AppVersion, deployment)
	}
	label := "helm.sh/chart: responder-" + strings.ReplaceAll(c.Metadata.Version, "+", "_")
	if !slices.Contains(strings.Fields(deployment), strings.Fields(label)[1]) || len(label) > len("helm.sh/chart: ")+63 {
		t.Errorf("no label %s:\n%s", label, deployment)
	}
}

// TestNoVersion: a program of no commit makes no package.
func TestNoVersion(t *testing.T) {
	program, err := os.Executable() // of a test
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	var said bytes.Buffer
	if code := run("..", []string{"-o", out, program}, &said, &said); code != 1 || !strings.Contains(said.String(), "build it in a clone") {
		t.Errorf("exit %d: %s", code, &said)
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) > 0 {
		t.Errorf("there are %v, %v", entries, err)
	}
}
