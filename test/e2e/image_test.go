//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	oci "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// TestImage runs the programs from their images, as a container does: with nothing of
// this machine below their root but /proc and /dev/null, and as an account without rights. The service plays an
// incident in its sandbox there, and the agent finds its C library.
func TestImage(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the root of a process can only be changed by root")
	}
	service := unpacked(t, rig.BuildResponder(t, false))
	if out, err := inside(t, service, "/responder", "demo", "--scenario", "bad-rollout", "--yes", "--speed", "60"); err != nil || !strings.Contains(out, "resolved") {
		t.Errorf("the demo: %v\n%s", err, out)
	}
	agent := unpacked(t, rig.BuildAgent(t))
	out, err := inside(t, agent, "/responder-agent", "--help")
	if err != nil || !strings.Contains(out, "--listen") {
		t.Errorf("the agent: %v\n%s", err, out)
	}
}

// unpacked makes an image of a program and returns a directory with its files.
func unpacked(t *testing.T, program string) string {
	t.Helper()
	folder, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, filepath.Base(program)), data, 0o700); err != nil {
		t.Fatal(err)
	}
	// Both programs need the C library here. The service of make image is built without.
	cmd := exec.CommandContext(t.Context(), "go", "run", "./deploy/image", "-o", image, "-libraries", runtime.GOOS+"/"+runtime.GOARCH+"="+folder)
	cmd.Dir = rig.Repository()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	root := t.TempDir()
	extract(t, only(t, image), root)
	// As every container has them. Nothing below can be removed through these mounts.
	mounted(t, filepath.Join(root, "proc"), os.Mkdir, "proc", "proc", 0)
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	empty := func(path string, mode os.FileMode) error { return os.WriteFile(path, nil, mode) }
	mounted(t, filepath.Join(root, "dev", "null"), empty, os.DevNull, "", syscall.MS_BIND)
	return root
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
