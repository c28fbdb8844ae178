// Image writes a container image of Go programs as an OCI layout, without a daemon
// and without a base image:
//
//	image -o DIR [-compiler PLATFORM=COMPILER]... PLATFORM=FOLDER...
//
// Each folder holds the programs of one platform, such as linux/arm64, and their bills
// of materials. The first program by name is the entrypoint. The image has no shell. It
// runs as 65532, and the same programs make the same image. Programs that were built with
// cgo need their C library: it is taken from the compiler that linked them.
package main

import (
	"cmp"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user runs the programs: the account that the manifests of deploy/ name, too.
const user = "65532"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("o", "", "`directory` of the layout; what it holds is replaced")
	compilers := map[string]string{}
	flags.Func("compiler", "`PLATFORM=COMPILER`: the C compiler that linked the programs of a platform, whose C library they need", func(arg string) error {
		platform, compiler, ok := strings.Cut(arg, "=")
		if !ok || compiler == "" {
			return errors.New("want PLATFORM=COMPILER, such as linux/arm64=aarch64-linux-gnu-gcc")
		}
		compilers[platform] = compiler
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *out == "" || flags.NArg() == 0 {
		fmt.Fprintln(stderr, "usage: image -o DIR [-compiler PLATFORM=COMPILER]... PLATFORM=FOLDER...")
		return 2
	}
	if err := write(*out, compilers, flags.Args(), stdout); err != nil {
		fmt.Fprintln(stderr, "image:", err)
		return 1
	}
	return 0
}

// write writes the images of all platforms under one index.
func write(out string, compilers map[string]string, folders []string, stdout io.Writer) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var version string
	for _, f := range folders {
		name, folder, ok := strings.Cut(f, "=")
		if !ok {
			return fmt.Errorf("%q: want PLATFORM=FOLDER, such as linux/arm64=bin/arm64", f)
		}
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			return err
		}
		p := programs{folder: folder, platform: *platform}
		if err := p.read(); err != nil {
			return err
		}
		img, err := p.image(compilers[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
		version = p.version
		fmt.Fprintf(stdout, "%s: %s %s\n", name, strings.Join(p.names, ", "), version)
	}
	if err := replace(out, index, version); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err == nil {
		fmt.Fprintf(stdout, "%s: %s\n", out, digest)
	}
	return err
}

// replace writes the layout beside the old one and takes its place, so that nobody
// finds half of one. A folder that is no layout stays.
func replace(out string, index v1.ImageIndex, version string) (err error) {
	out = filepath.Clean(out)
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(out, "oci-layout")); err != nil {
			return fmt.Errorf("%s holds something else than an image: name another directory", out)
		}
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil { //nolint:gosec // it is for everybody
		return err
	}
	next, err := os.MkdirTemp(filepath.Dir(out), ".image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(next)) }()
	path, err := layout.Write(next, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tag(version)})
	if err := path.AppendIndex(index, named); err != nil {
		return err
	}
	if err := os.Chmod(next, 0o755); err != nil { //nolint:gosec // it is for everybody
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return os.Rename(next, out)
}

// tag returns a version as a tag of an image, which has no plus sign.
func tag(version string) string {
	if version == "" || strings.HasPrefix(version, "(") {
		return "devel"
	}
	return strings.ReplaceAll(version, "+", "-")
}

// programs are those of one platform.
type programs struct {
	folder   string
	platform v1.Platform

	names, bills []string
	version      string
	revision     string
	created      time.Time // of the commit, the zero time of Unix where it is not recorded
}

// read finds the programs of a folder and checks that they run on the platform.
func (p *programs) read() error {
	p.created = time.Unix(0, 0)
	entries, err := os.ReadDir(p.folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".cdx.json") {
			p.bills = append(p.bills, e.Name())
			continue
		}
		info, err := buildinfo.ReadFile(filepath.Join(p.folder, e.Name()))
		if err != nil {
			return fmt.Errorf("%s: not a Go program: %w", filepath.Join(p.folder, e.Name()), err)
		}
		set := map[string]string{}
		for _, s := range info.Settings {
			set[s.Key] = s.Value
		}
		if built := set["GOOS"] + "/" + set["GOARCH"]; built != p.platform.String() {
			return fmt.Errorf("%s was built for %s, not for %s", filepath.Join(p.folder, e.Name()), built, p.platform)
		}
		if at, err := time.Parse(time.RFC3339, set["vcs.time"]); err == nil {
			p.created = at
		}
		p.names, p.version, p.revision = append(p.names, e.Name()), info.Main.Version, cmp.Or(set["vcs.revision"], p.revision)
	}
	if len(p.names) == 0 {
		return fmt.Errorf("%s holds no program", p.folder)
	}
	slices.Sort(p.names)
	return nil
}

// image returns the image of one platform: what every program needs, and the programs.
func (p *programs) image(compiler string) (v1.Image, error) {
	ground, err := p.ground(compiler)
	if err != nil {
		return nil, err
	}
	top, err := p.files()
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range [][]file{ground, top} {
		layer, err := layerOf(files, p.created)
		if err != nil {
			return nil, err
		}
		img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: p.created}, CreatedBy: "deploy/image"}})
		if err != nil {
			return nil, err
		}
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = p.platform.OS, p.platform.Architecture, p.platform.Variant
	config.Created = v1.Time{Time: p.created}
	config.Config = v1.Config{
		User: user + ":" + user, WorkingDir: "/", Env: []string{"PATH=/", "HOME=/tmp"}, Entrypoint: []string{"/" + p.names[0]},
		Labels: map[string]string{
			"org.opencontainers.image.title": p.names[0], "org.opencontainers.image.version": p.version, "org.opencontainers.image.revision": p.revision,
		},
	}
	return mutate.ConfigFile(img, config)
}
