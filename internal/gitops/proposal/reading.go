package proposal

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/gitops"
)

// Reading is what was read of a source at one commit.
type Reading struct {
	Source gitops.Source
	SHA    string
	Files  []gitops.File
	Digest string   // of the files that count
	Beyond []string // files and directories outside the source's path that it is built of
}

// Version is a commit with the source's files that it changed, before and after it.
type Version struct {
	Commit        gitops.Commit
	Before, After []gitops.File
}

// Target is the target with what the source says of it.
func (r Reading) Target(t gitops.Target) gitops.Target {
	t.Path = r.Source.Path
	return t
}

// Places returns where each variable of the target stands, in the order they were asked.
func (r Reading) Places(t gitops.Target, vs []gitops.Variable) ([]gitops.Place, error) {
	var out []gitops.Place
	for _, v := range vs {
		places, err := gitops.Locate(r.Files, r.Target(t), v)
		if err != nil {
			return nil, err
		}
		out = append(out, places...)
	}
	return out, nil
}

// Own is the target with the documents that its HelmRelease is built of.
func (r Reading) Own(t gitops.Target) gitops.Target {
	if t.HelmRelease != "" && t.Written == nil {
		t.Written = gitops.Written(r.Files, r.Target(t))
	}
	return t
}

// Made returns an error unless the target is known to be what its HelmRelease makes.
func (r Reading) Made(t gitops.Target) error { return gitops.Made(r.Files, r.Target(t)) }

// Concerns reports whether a path is one of the source's files.
func (r Reading) Concerns(p string) bool {
	return Readable(p) && (Under(p, strings.Trim(r.Source.Path, "/.")) || slices.ContainsFunc(r.Beyond, func(dir string) bool { return Under(p, dir) }))
}

// Touched returns what a commit changed of the target.
func (r Reading) Touched(v Version, t gitops.Target) gitops.Touched {
	out := gitops.Touched{Commit: v.Commit, Touches: touches(v.Before, v.After, t)}
	for _, p := range v.Commit.Files {
		if !r.Concerns(p) {
			out.Others = append(out.Others, p)
		}
	}
	return out
}

// Digest stands for the files: their names and contents.
func Digest(files map[string][]byte) string {
	all := sha256.New()
	for _, p := range slices.Sorted(maps.Keys(files)) {
		one := sha256.Sum256(files[p])
		all.Write([]byte(p + "\x00"))
		all.Write(one[:])
	}
	return "sha256:" + hex.EncodeToString(all.Sum(nil))
}

var extensions = []string{".yaml", ".yml", ".json", ".env", ".properties", ".conf", ".toml", ".cfg", ".ini", ".tpl", ".txt", ""}

// Readable leaves out what is certainly no manifest and nothing that one is
// built of.
func Readable(p string) bool {
	return slices.Contains(extensions, strings.ToLower(path.Ext(p))) || vendored(p)
}

// vendored reports whether a file is a packed chart that another chart depends on.
func vendored(p string) bool { return path.Ext(p) == ".tgz" && path.Base(path.Dir(p)) == "charts" }

var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// IsKustomization reports whether a path is that of a kustomization.
func IsKustomization(p string) bool { return slices.Contains(kustomizations, path.Base(p)) }

// Under reports whether a path is a directory or below it; empty: the root.
func Under(p, dir string) bool { return dir == "" || p == dir || strings.HasPrefix(p, dir+"/") }
