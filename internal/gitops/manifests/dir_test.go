package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
)

// TestReadDirChart: of a chart count the packed charts that it depends on, and the value
// files that are named, wherever they stand.
func TestReadDirChart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"charts/chat/Chart.yaml", "charts/chat/charts/common-1.0.0.tgz", "charts/chat/model.tgz", "envs/prod.yaml", "envs/staging.yaml"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("a: 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := ReadDir(dir, "charts/chat", "envs/prod.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Path)
	}
	if want := []string{"charts/chat/Chart.yaml", "charts/chat/charts/common-1.0.0.tgz", "envs/prod.yaml"}; !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "envs/link.yaml")); err != nil {
		t.Fatal(err)
	}
	for p, tt := range map[string]struct {
		reason fault.Reason
		words  string
	}{
		"envs/none.yaml": {fault.NotFound, "has no envs/none.yaml"},
		"envs/link.yaml": {fault.Invalid, "is a symbolic link"},
		"../prod.yaml":   {fault.Invalid, "not below the checkout"},
	} {
		if _, err := ReadDir(dir, "charts/chat", p); !reasonIs(err, tt.reason, tt.words) {
			t.Errorf("value file %s: %v, want %s ...%s...", p, err, tt.reason, tt.words)
		}
	}
}

// TestReadDirBelow: of a checkout counts what is below the source, what that is
// built of, and who else builds; nothing else is read, whatever it is.
func TestReadDirBelow(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("apps/chat/kustomization.yaml", []byte("resources: [../../base, https://example.com/remote]\n"))
	write("base/kustomization.yaml", []byte("resources: [deployment.yaml, ../parts/hpa.yaml]\n"))
	write("base/deployment.yaml", []byte("kind: Deployment\n"))
	write("parts/hpa.yaml", []byte("kind: HorizontalPodAutoscaler\n"))
	write("parts/other.yaml", []byte("kind: Other\n"))
	write("apps/code/kustomization.yaml", []byte("resources: [../../base]\n"))
	write("models/weights.json", make([]byte, maxFileBytes+1))
	files, err := ReadDir(dir, "apps/chat/")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Path)
	}
	want := []string{"apps/chat/kustomization.yaml", "apps/code/kustomization.yaml", "base/deployment.yaml", "base/kustomization.yaml", "parts/hpa.yaml"}
	if !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	for source, tt := range map[string]struct {
		reason fault.Reason
		words  string
	}{
		"":             {fault.Invalid, "models/weights.json has more than 8 MiB"},
		"models":       {fault.Invalid, "--source"},
		"apps/nothing": {fault.NotFound, "has no apps/nothing"},
		"../elsewhere": {fault.Invalid, "not below the checkout"},
		"/etc":         {fault.Invalid, "not below the checkout"},
	} {
		if _, err := ReadDir(dir, source); !reasonIs(err, tt.reason, tt.words) {
			t.Errorf("source %q: %v, want %s ...%s...", source, err, tt.reason, tt.words)
		}
	}
	// What it is built of has to be readable, wherever it stands.
	write("base/kustomization.yaml", []byte("resources: [deployment.yaml, ../models]\n"))
	if _, err := ReadDir(dir, "apps/chat"); !reasonIs(err, fault.Invalid, "models/weights.json") {
		t.Errorf("a base that is too large: %v", err)
	}
}

// TestReadDirRefuses: what may set a value and cannot be read is refused, and
// nothing outside of the checkout is looked at.
func TestReadDirRefuses(t *testing.T) {
	write := func(t *testing.T, file, data string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(t *testing.T, to, file string) {
		t.Helper()
		if err := os.Symlink(to, file); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		make   func(t *testing.T, dir string)
		source string
		words  string // empty: it is read
	}{
		"an LFS pointer": {func(t *testing.T, dir string) {
			write(t, dir+"/apps/values.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
		}, "apps", "apps/values.yaml is a Git LFS pointer"},
		"a link out":           {func(t *testing.T, dir string) { link(t, "/etc/hostname", dir+"/apps/b.yaml") }, "", "apps/b.yaml is a symbolic link"},
		"a link as the source": {func(t *testing.T, dir string) { link(t, "/etc", dir+"/etc") }, "etc", "etc is a symbolic link"},
		"a link on the way":    {func(t *testing.T, dir string) { link(t, "apps", dir+"/same") }, "same/a.yaml", "same is a symbolic link"},
		"a submodule": {func(t *testing.T, dir string) {
			write(t, dir+"/charts/vllm/.git", "gitdir: ../../.git/modules/vllm\n")
			write(t, dir+"/charts/vllm/values.yaml", "{}\n")
		}, "", "charts/vllm is a submodule"},
		"a submodule that is not checked out": {func(t *testing.T, dir string) {
			write(t, dir+"/.gitmodules", "[submodule \"vllm\"]\n\tpath = charts/vllm\n\turl = https://git.example/vllm\n")
			write(t, dir+"/charts/README.md", "charts\n")
			if err := os.Mkdir(dir+"/charts/vllm", 0o755); err != nil {
				t.Fatal(err)
			}
		}, "", "charts/vllm is a submodule"},
		"inside a submodule": {func(t *testing.T, dir string) {
			write(t, dir+"/charts/vllm/.git", "gitdir: ../../.git/modules/vllm\n")
			write(t, dir+"/charts/vllm/values.yaml", "{}\n")
		}, "charts/vllm/values.yaml", "charts/vllm is a submodule"},
		"a submodule elsewhere": {func(t *testing.T, dir string) { write(t, dir+"/charts/vllm/.git", "gitdir: x\n") }, "apps", ""},
		"a work tree":           {func(t *testing.T, dir string) { write(t, dir+"/.git", "gitdir: /srv/repository/.git/worktrees/x\n") }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir+"/apps/a.yaml", "kind: Deployment\n")
			tt.make(t, dir)
			files, err := ReadDir(dir, tt.source)
			if tt.words == "" {
				if err != nil || len(files) != 1 {
					t.Errorf("%d files, %v", len(files), err)
				}
			} else if !reasonIs(err, fault.Invalid, tt.words) {
				t.Errorf("%v, want ...%s...", err, tt.words)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "a.yaml")
	write(t, file, "kind: Deployment\n")
	if _, err := ReadDir(file, ""); !reasonIs(err, fault.Invalid, "the file in it with --source") {
		t.Errorf("a file: %v", err)
	}
}
