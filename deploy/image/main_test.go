package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// native is the platform that the test's program is built for.
const native = runtime.GOOS + "/" + runtime.GOARCH

// TestImage: whoever pulls the image finds the program, an account without rights, and
// the certificate authorities, and the same programs make the same image.
func TestImage(t *testing.T) {
	folder := folderOf(t)
	var digests []string
	for range 2 {
		out := filepath.Join(t.TempDir(), "image")
		said := written(t, 0, "-o", out, native+"="+folder)
		img := imageAt(t, out)
		digest, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest.String())
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got := config.Config; got.User != "65532:65532" || !slices.Equal(got.Entrypoint, []string{"/hello"}) || config.OS+"/"+config.Architecture != native {
			t.Errorf("%s for %s/%s: %+v", said, config.OS, config.Architecture, got)
		}
		files := content(t, img)
		if h := files["hello"].header; h == nil || h.Mode != 0o755 || h.Uid != 0 {
			t.Errorf("the program has the header %+v; want it executable, and root's", h)
		}
		if h := files["tmp/"].header; h == nil || h.Mode != 0o1777 {
			t.Errorf("/tmp has the header %+v", h)
		}
		if string(files["sbom/hello.cdx.json"].data) != "{}\n" {
			t.Error("the bill of materials is not in the image")
		}
		if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"].data) {
			t.Error("the image has no certificate authority")
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("one program made two images: %v", digests)
	}
}

// TestIndexOfPlatforms: whoever pulls the image on either architecture gets the program
// that was built for it.
func TestIndexOfPlatforms(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image")
	want := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}
	args := []string{"-o", out}
	for platform := range want {
		args = append(args, platform+"="+folderFor(t, platform))
	}
	written(t, 0, args...)
	platforms := platformsAt(t, out)
	all, err := platforms.IndexManifest()
	if err != nil || len(all.Manifests) != len(want) {
		t.Fatalf("%+v, %v; want an image for each of %v", all, err, want)
	}
	for _, m := range all.Manifests {
		img, err := platforms.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		program, err := elf.NewFile(bytes.NewReader(content(t, img)["hello"].data))
		if err != nil {
			t.Fatal(err)
		}
		machine, ok := want[m.Platform.String()]
		if !ok || config.OS+"/"+config.Architecture != m.Platform.String() || program.Machine != machine {
			t.Errorf("for %s there is an image for %s/%s with a program for %s", m.Platform, config.OS, config.Architecture, program.Machine)
		}
	}
}

// TestLibrariesOfPlatforms: programs that were linked with a C library find the loader that
// they name, and the libraries of their own compiler where that loader looks.
func TestLibrariesOfPlatforms(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image")
	args, folders := []string{"-o", out}, []string{}
	want := map[string][]string{
		"linux/amd64": {"lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libdl.so.2"},
		"linux/arm64": {"lib/ld-linux-aarch64.so.1", "usr/lib/aarch64-linux-gnu/libc.so.6", "usr/lib/aarch64-linux-gnu/libdl.so.2"},
	}
	for platform, files := range want {
		triplet := filepath.Base(filepath.Dir(files[1]))
		args = append(args, "-compiler", platform+"="+compilerFor(t, triplet, append([]string{filepath.Base(files[0])}, parts...)...))
		folders = append(folders, platform+"="+folderFor(t, platform, "-buildmode=pie"))
	}
	written(t, 0, append(args, folders...)...)
	platforms := platformsAt(t, out)
	all, err := platforms.IndexManifest()
	if err != nil || len(all.Manifests) != len(want) {
		t.Fatalf("%+v, %v; want an image for each of %v", all, err, want)
	}
	for _, m := range all.Manifests {
		img, err := platforms.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		files := content(t, img)
		for _, at := range want[m.Platform.String()] {
			if got, want := string(files[at].data), filepath.Base(filepath.Dir(want[m.Platform.String()][1]))+" "+filepath.Base(at); got != want {
				t.Errorf("%s: /%s holds %q, want %q", m.Platform, at, got, want)
			}
		}
		// NVIDIA's runtime runs ldconfig only where there is a cache.
		if files["etc/ld.so.cache"].header == nil || !strings.Contains(string(files["etc/ld.so.conf"].data), "/etc/ld.so.conf.d/") {
			t.Errorf("%s: the runtime cannot tell the loader where it puts NVIDIA's library", m.Platform)
		}
	}
}

// TestCompiler: whoever lacks a C compiler of a platform is told what to install and what to
// leave out; a compiler without the C library's files is none.
func TestCompiler(t *testing.T) {
	own, other := runtime.GOARCH, map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	cross := map[string]string{"amd64": "x86_64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}[other]
	if cross == "" {
		t.Skipf("SKIPPED: the agent is not built for %s", own)
	}
	for name, tt := range map[string]struct {
		architecture string
		compilers    map[string]string // what they print of libc.so
		code         int
		says         []string
	}{
		"own":             {own, map[string]string{"gcc": "/usr/lib/libc.so"}, 0, []string{"gcc\n"}},
		"cross":           {other, map[string]string{cross: "/usr/lib/libc.so"}, 0, []string{cross + "\n"}},
		"no own":          {own, nil, 1, []string{"apt-get install gcc libc6-dev\n", "AGENT_ARCHITECTURES=\n"}},
		"only own":        {other, map[string]string{"gcc": "/usr/lib/libc.so"}, 1, []string{cross, "apt-get install gcc-", "AGENT_ARCHITECTURES=" + own}},
		"without headers": {other, map[string]string{cross: "libc.so"}, 1, []string{"and its C library", "libc6-dev-" + other + "-cross"}},
		"another":         {"s390x", nil, 1, []string{"not for s390x"}},
	} {
		path := t.TempDir()
		for _, program := range []string{"go", "bash"} {
			at, err := exec.LookPath(program)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(at, filepath.Join(path, program)); err != nil {
				t.Fatal(err)
			}
		}
		for compiler, prints := range tt.compilers {
			script(t, filepath.Join(path, compiler), "echo "+prints)
		}
		cmd := exec.CommandContext(t.Context(), "./compiler.sh", tt.architecture)
		cmd.Env = append(os.Environ(), "PATH="+path, "CC=gcc")
		out, _ := cmd.CombinedOutput() // its code is below
		if code := cmd.ProcessState.ExitCode(); code != tt.code {
			t.Errorf("%s: exit %d, want %d", name, code, tt.code)
		}
		for _, want := range tt.says {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: %q; want %q", name, out, want)
			}
		}
	}
}

// compilerFor returns a compiler for a triplet that has these files, each of which holds
// the triplet and its own name.
func compilerFor(t *testing.T, triplet string, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(triplet+" "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compiler := filepath.Join(t.TempDir(), "gcc")
	script(t, compiler, `name=${1#-print-file-name=}
if [ "$1" = -print-multiarch ]; then echo `+triplet+`; elif [ -e "`+dir+`/$name" ]; then echo "`+dir+`/$name"; else echo "$name"; fi`)
	return compiler
}

// script writes a shell script that can be run.
func script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestImageIsReplaced: a layout is replaced, and nothing else is.
func TestImageIsReplaced(t *testing.T) {
	folder, out := folderOf(t), t.TempDir()
	written(t, 0, "-o", out, native+"="+folder)
	written(t, 0, "-o", out, native+"="+folder)
	mine := t.TempDir()
	if err := os.WriteFile(filepath.Join(mine, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if said := written(t, 1, "-o", mine, native+"="+folder); !strings.Contains(said, "holds something else") {
		t.Error(said)
	}
	if _, err := os.Stat(filepath.Join(mine, "thesis.tex")); err != nil {
		t.Error(err)
	}
}

// TestImageRefuses: what is no program, or one of another platform, becomes no image.
func TestImageRefuses(t *testing.T) {
	folder, dynamic, wrong := folderOf(t), folderFor(t, native, "-buildmode=pie"), t.TempDir()
	if err := os.WriteFile(filepath.Join(wrong, "notes"), []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"nothing":          {nil, 2, "usage"},
		"no folder":        {[]string{native}, 1, "want PLATFORM=FOLDER"},
		"no such folder":   {[]string{native + "=" + filepath.Join(wrong, "none")}, 1, "no such file"},
		"another platform": {[]string{"linux/s390x=" + folder}, 1, "was built for " + native},
		"no program":       {[]string{native + "=" + wrong}, 1, "not a Go program"},
		"an empty folder":  {[]string{native + "=" + t.TempDir()}, 1, "holds no program"},
		"no compiler":      {[]string{"-compiler", native, native + "=" + dynamic}, 2, "want PLATFORM=COMPILER"},
		"compiler unnamed": {[]string{native + "=" + dynamic}, 1, "name the compiler that linked them"},
		"compiler missing": {[]string{"-compiler", native + "=no-such-gcc", native + "=" + dynamic}, 1, "no-such-gcc"},
		"compiler of another platform": {
			[]string{"-compiler", native + "=" + compilerFor(t, "s390x-linux-gnu", "libc.so.6"), native + "=" + dynamic}, 1, "is it the compiler that linked the programs?",
		},
		"compiler of nothing": {[]string{"-compiler", native + "=gcc", native + "=" + folder}, 1, "need no library"},
	} {
		out := filepath.Join(t.TempDir(), "image")
		if said := written(t, tt.code, append([]string{"-o", out}, tt.args...)...); !strings.Contains(said, tt.says) {
			t.Errorf("%s: %q, want %q", name, said, tt.says)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was written: %v", name, err)
		}
	}
}

// folderOf returns a folder with a program of this machine's platform.
func folderOf(t *testing.T) string {
	t.Helper()
	return folderFor(t, native)
}

// folderFor returns a folder with a program of a platform and its bill of materials.
func folderFor(t *testing.T, platform string, flags ...string) string {
	t.Helper()
	system, architecture, _ := strings.Cut(platform, "/")
	source, folder := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"go.mod": "module hello\n", "main.go": "package main\n\nfunc main() { println(\"hello\") }\n"} {
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(folder, "hello")}, flags...)...)
	build.Dir, build.Env = source, append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0", "GOWORK=off", "GOOS="+system, "GOARCH="+architecture)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(folder, "hello.cdx.json"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// written runs the program and returns what it said.
func written(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if got := run(args, &out, &out); got != code {
		t.Fatalf("image %v: exit %d, want %d\n%s", args, got, code, &out)
	}
	return out.String()
}

// platformsAt returns the index of platforms of a layout, whose digests and sizes have to
// be right.
func platformsAt(t *testing.T, dir string) v1.ImageIndex {
	t.Helper()
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(root); err != nil {
		t.Fatal(err)
	}
	top, err := root.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("%+v, %v; want one index of platforms", top, err)
	}
	platforms, err := root.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return platforms
}

// imageAt returns the only image of a layout.
func imageAt(t *testing.T, dir string) v1.Image {
	t.Helper()
	platforms := platformsAt(t, dir)
	all, err := platforms.IndexManifest()
	if err != nil || len(all.Manifests) != 1 || all.Manifests[0].Platform.String() != native {
		t.Fatalf("%+v, %v; want one image for %s", all, err, native)
	}
	img, err := platforms.Image(all.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

type packed struct {
	header *tar.Header
	data   []byte
}

// content returns the files of an image by their paths.
func content(t *testing.T, img v1.Image) map[string]packed {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]packed{}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for files := tar.NewReader(r); ; {
			h, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			out[h.Name] = packed{h, data}
		}
	}
	return out
}
