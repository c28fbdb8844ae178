//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	oci "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/inference-responder/responder/internal/gpu/nvml/nvmltest"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// TestImage runs the programs from the images that make image writes, as a container does: with
// nothing of this machine below their root but /proc and /dev/null, and as an account without rights. The service
// plays an incident in its sandbox there, and the agent finds its C library and NVIDIA's.
func TestImage(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the root of a process can only be changed by root")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "make", "image", "ARCHITECTURES="+runtime.GOARCH, "AGENT_ARCHITECTURES="+runtime.GOARCH, "OUT="+dir)
	cmd.Dir, cmd.Env = rig.Repository(), append(os.Environ(), "MAKEFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	service := unpacked(t, filepath.Join(dir, "image", "responder"), "responder", "responder-helm")
	if out, err := inside(t, service, "/responder", "demo", "--scenario", "bad-rollout", "--yes", "--speed", "60"); err != nil || !strings.Contains(out, "resolved") {
		t.Errorf("the demo: %v\n%s", err, out)
	}
	if out, err := inside(t, service, "/responder-helm"); err == nil || !strings.Contains(out, "read the request: EOF") {
		t.Errorf("responder-helm without a request: %v\n%s", err, out)
	}
	agent := unpacked(t, filepath.Join(dir, "image", "agent"), "responder-agent")
	if out, err := inside(t, agent, "/responder-agent", "--help"); err != nil || !strings.Contains(out, "--listen") {
		t.Errorf("the agent: %v\n%s", err, out)
	}
	findsDriver(t, agent)
}

// findsDriver puts NVIDIA's driver library where NVIDIA's container runtime mounts it: into the
// directory of the image's own libraries, and into one that only the loader's cache names, which the runtime renews.
func findsDriver(t *testing.T, root string) {
	t.Helper()
	probe := []string{"probe", "--node", "gpu-1"}
	if out, err := inside(t, root, "/responder-agent", probe...); err == nil || !strings.Contains(out, "libnvidia-ml.so.1: cannot open shared object file") {
		t.Errorf("without the driver library: %v\n%s", err, out)
	}
	own, err := filepath.Glob(filepath.Join(root, "usr", "lib*", "*", "libc.so.6"))
	if err != nil || len(own) != 1 {
		t.Fatalf("%v, %v; want one C library", own, err)
	}
	library := nvmltest.Build(t, t.TempDir())
	for _, dir := range []string{filepath.Dir(own[0]), filepath.Join(root, "usr", "lib64")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, filepath.Base(library))
		copied(t, library, at)
		if dir != filepath.Dir(own[0]) {
			args := []string{"-r", root, "-f", "/etc/ld.so.conf", "-C", "/etc/ld.so.cache", "/usr/lib64"}
			if out, err := exec.CommandContext(t.Context(), "/sbin/ldconfig", args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		if out, err := inside(t, root, "/responder-agent", probe...); !strings.Contains(out, "no GPU was seen on the node") { // it has none
			t.Errorf("with the driver library in %s: %v\n%s", dir, err, out)
		}
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
	}
}

// copied copies a library.
func copied(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err == nil {
		err = os.Chmod(to, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// unpacked returns a directory with the files of an image, and checks what whoever pulls it relies on: which programs
// there are, whose account runs them, which commit they are of, and what is in them.
func unpacked(t *testing.T, layout string, programs ...string) string {
	t.Helper()
	img, root := only(t, layout), t.TempDir()
	extract(t, img, root)
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config; got.User != "65532:65532" || !slices.Equal(got.Entrypoint, []string{"/" + programs[0]}) || config.Architecture != runtime.GOARCH {
		t.Errorf("%s: the image is for %s: %+v", layout, config.Architecture, got)
	}
	for _, name := range programs {
		described(t, root, name, config.Config.Labels)
	}
	for _, path := range executables(t, root) {
		if !slices.Contains(programs, path) && !strings.Contains(filepath.Base(path), ".so.") {
			t.Errorf("%s: the image has the program %s, want only %v", layout, path, programs)
		}
	}
	// As every container has them. Nothing below can be removed through these mounts.
	mounted(t, filepath.Join(root, "proc"), os.Mkdir, "proc", "proc", 0)
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	empty := func(path string, mode os.FileMode) error { return os.WriteFile(path, nil, mode) }
	mounted(t, filepath.Join(root, "dev", "null"), empty, os.DevNull, "", syscall.MS_BIND)
	return root
}

// described checks that the labels name the version and the commit of a program, and its bill of materials every
// module in it. In a worktree of git, the go command records no commit.
func described(t *testing.T, root, name string, labels map[string]string) {
	t.Helper()
	info, err := buildinfo.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	var commit string
	if git, err := os.Stat(filepath.Join(rig.Repository(), ".git")); err == nil && git.IsDir() {
		out, err := exec.CommandContext(t.Context(), "git", "-C", rig.Repository(), "rev-parse", "HEAD").Output()
		if err != nil {
			t.Fatal(err)
		}
		commit = strings.TrimSpace(string(out))
	}
	if version, revision := labels["org.opencontainers.image.version"], labels["org.opencontainers.image.revision"]; version != info.Main.Version || revision != commit {
		t.Errorf("%s: labelled with %q of %q; want %q of %q", name, version, revision, info.Main.Version, commit)
	}
	data, err := os.ReadFile(filepath.Join(root, "sbom", name+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(data, &bill); err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, c := range bill.Components {
		named[c.Name+" "+c.Version] = true
	}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		if !named[module.Path+" "+module.Version] {
			t.Errorf("%s: the bill of materials lacks %s %s", name, module.Path, module.Version)
		}
	}
}

// executables returns the paths below a directory of the files that can be run.
func executables(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode()&0o111 != 0 {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// mounted makes a place and mounts something there until the test ends.
func mounted(t *testing.T, at string, place func(string, os.FileMode) error, source, kind string, flags uintptr) {
	t.Helper()
	if err := place(at, 0o555); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(source, at, kind, flags, ""); err != nil {
		t.Skipf("%s cannot be mounted here: %v", source, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// only returns the only image of a layout.
func only(t *testing.T, dir string) v1.Image {
	t.Helper()
	index, err := oci.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the layout's own index, and that of the platforms
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 {
			t.Fatalf("%+v, %v", manifest, err)
		}
		digest := manifest.Manifests[0].Digest
		if img, err := index.Image(digest); err == nil && manifest.Manifests[0].MediaType.IsImage() {
			return img
		}
		if index, err = index.ImageIndex(digest); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the layout holds no image")
	return nil
}

// extract writes the files of an image below a directory.
func extract(t *testing.T, img v1.Image, root string) {
	t.Helper()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	flat := mutate.Extract(img)
	defer flat.Close()
	for files := tar.NewReader(flat); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var data []byte
			if data, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, data, 0o600)
			}
		}
		if err == nil {
			err = os.Chmod(path, os.FileMode(h.Mode&0o777)|map[bool]os.FileMode{true: os.ModeSticky}[h.Mode&0o1000 != 0])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// inside runs a program with that root, as the user of the image.
func inside(t *testing.T, root string, program string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/", "HOME=/tmp"}
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	err := cmd.Run()
	return out.String(), err
}
