package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// file is a file of an image; one whose path ends with a slash is a directory.
type file struct {
	path string
	mode int64
	data []byte
}

// files returns the programs and their bills of materials.
func (p *programs) files() ([]file, error) {
	out := []file{{"sbom/", 0o755, nil}}
	add := func(at, name string, mode int64) error {
		data, err := os.ReadFile(filepath.Join(p.folder, name))
		out = append(out, file{at + name, mode, data})
		return err
	}
	for _, name := range p.names {
		if err := add("", name, 0o755); err != nil {
			return nil, err
		}
	}
	for _, name := range p.bills {
		if err := add("sbom/", name, 0o644); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ground returns what programs expect of a system: an account, a place for temporary
// files, the certificate authorities, and the C library where it is wanted.
func (p *programs) ground(libraries bool) ([]file, error) {
	out := []file{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte("nonroot:x:" + user + ":\n")},
		{"etc/passwd", 0o644, []byte("nonroot:x:" + user + ":" + user + "::/tmp:/sbin/nologin\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		{"tmp/", 0o1777, nil},
	}
	if !libraries {
		return out, nil
	}
	if p.platform.OS != runtime.GOOS || p.platform.Architecture != runtime.GOARCH {
		return nil, fmt.Errorf("the C library of this machine is for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	c, err := cLibrary(filepath.Join(p.folder, p.names[0]))
	return append(out, c...), err
}

// authorities are those that Mozilla trusts, in PEM. One that is trusted with
// constraints is left out: PEM cannot express constraints.
func authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// parts of the C library that NVIDIA's driver library names, too.
var parts = []string{"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}

// cLibrary returns the loader that a program names and the C library beside it.
func cLibrary(program string) ([]file, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	loader := f.Section(".interp")
	if loader == nil {
		return nil, fmt.Errorf("%s names no loader: it needs no library", program)
	}
	raw, err := loader.Data()
	if err != nil {
		return nil, err
	}
	name := strings.TrimRight(string(raw), "\x00")
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	files := map[string]string{name: real}
	for _, lib := range append(slices.Clone(parts), needed...) {
		if lib != filepath.Base(name) {
			files[filepath.Join(filepath.Dir(real), lib)] = filepath.Join(filepath.Dir(real), lib)
		}
	}
	var out []file
	dirs := map[string]bool{}
	for at, from := range files {
		data, err := os.ReadFile(from)
		if err != nil {
			return nil, fmt.Errorf("the C library: %w", err)
		}
		at = strings.TrimPrefix(at, "/")
		out = append(out, file{at, 0o755, data})
		for d := path.Dir(at); d != "."; d = path.Dir(d) {
			dirs[d+"/"] = true
		}
	}
	for d := range dirs {
		out = append(out, file{d, 0o755, nil})
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.path, b.path) }) // a directory before what it holds
	return out, nil
}

// layerOf returns a layer with files of root, all of one time.
func layerOf(files []file, at time.Time) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.path, Mode: f.mode, Size: int64(len(f.data)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(f.path, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}
