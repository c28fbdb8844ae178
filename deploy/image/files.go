package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"os"
	"path/filepath"
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
// files, the certificate authorities, and the C library where they were linked with one.
func (p *programs) ground(compiler string) ([]file, error) {
	out := []file{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte("nonroot:x:" + user + ":\n")},
		{"etc/passwd", 0o644, []byte("nonroot:x:" + user + ":" + user + "::/tmp:/sbin/nologin\n")},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, authorities()},
		{"tmp/", 0o1777, nil},
	}
	c, err := p.libraries(compiler)
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
