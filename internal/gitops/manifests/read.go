package manifests

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/proposal"
	"github.com/inference-responder/responder/internal/gitops/repository"
)

// reading is what was read of a source at one commit.
type reading struct{ proposal.Reading }

// kept is how many readings of a branch are remembered: the services of one
// repository that are looked at in turn.
const kept = 16

// head reads the source at the branch's head.
func (b *branch) head(ctx context.Context, src gitops.Source) (reading, error) {
	sha, err := b.repo.Head(ctx)
	if err != nil {
		return reading{}, err
	}
	return b.read(ctx, src, sha)
}

// read reads everything that may concern the source at a commit: what is below
// its path, what kustomizations there take from elsewhere, and all other
// kustomizations, which tell who else uses the same.
func (b *branch) read(ctx context.Context, src gitops.Source, sha string) (reading, error) {
	at := strings.Join(append([]string{sha, src.Path}, src.Values...), "\x00")
	b.mu.Lock()
	r, known := b.last[at]
	b.mu.Unlock()
	if known {
		return r, nil
	}
	r, err := b.readAll(ctx, src, sha)
	if err != nil {
		return r, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.last) >= kept {
		b.last = map[string]reading{}
	}
	b.last[at] = r
	return r, nil
}

func (b *branch) readAll(ctx context.Context, src gitops.Source, sha string) (reading, error) {
	r := reading{proposal.Reading{Source: src, SHA: sha}}
	src.Path = strings.Trim(src.Path, "/")
	if src.Path == "." {
		src.Path = ""
	}
	own, err := b.repo.Files(ctx, repository.Query{SHA: sha, Path: src.Path, Accept: proposal.Readable})
	if err == nil {
		err = whole(own)
	}
	if err != nil {
		return r, err
	}
	files := map[string][]byte{}
	for _, f := range own.Files {
		files[f.Path] = f.Data
	}
	if src.Path != "" {
		if r.Beyond, err = b.reachable(ctx, sha, src, files); err != nil {
			return r, err
		}
	}
	r.Digest = proposal.Digest(files)
	if len(r.Beyond) > 0 || src.Path != "" {
		others, err := b.repo.Files(ctx, repository.Query{SHA: sha, Accept: proposal.IsKustomization})
		if err != nil {
			return r, err
		}
		for _, f := range others.Files {
			files[f.Path] = f.Data
		}
	}
	for _, p := range sortedKeys(files) {
		r.Files = append(r.Files, gitops.File{Path: p, Data: files[p]})
	}
	return r, nil
}

// whole refuses a tree of which something was not read: a value that overrides
// ours may stand there.
func whole(t repository.Tree) error {
	if len(t.Skipped) == 0 {
		return nil
	}
	s := t.Skipped[0]
	return unread(s.Path, s.Why, len(t.Skipped)-1, "name a narrower path (gitops.path)")
}

func unread(at, why string, more int, narrower string) error {
	also := ""
	if more > 0 {
		also = fmt.Sprintf(", nor %d more", more)
	}
	return invalid("%s %s; it is not read%s, and may set what we change: %s, or keep plain manifests there", at, why, also, narrower)
}

// maxBeyond bounds how many places outside its path one source is built of.
const maxBeyond = 100

// reachable adds to files what the kustomizations and charts in them are built of and
// stands outside the path, and gives the names of that.
func (b *branch) reachable(ctx context.Context, sha string, src gitops.Source, files map[string][]byte) ([]string, error) {
	seen := map[string]bool{}
	queue := slices.Clone(sortedKeys(files))
	below := src.Path
	var beyond []string
	for _, p := range src.Values {
		if _, there := files[p]; there {
			continue
		}
		tree, err := b.repo.Files(ctx, repository.Query{SHA: sha, Path: p, Accept: proposal.Readable})
		if isNotFound(err) {
			continue // the editor refuses a value file that is missing
		}
		if err == nil {
			err = whole(tree)
		}
		if err != nil {
			return nil, err
		}
		beyond = append(beyond, p)
		for _, f := range tree.Files {
			files[f.Path] = f.Data
		}
	}
	for len(queue) > 0 {
		file := queue[0]
		queue = queue[1:]
		if !proposal.IsKustomization(file) {
			continue
		}
		for _, ref := range references(files[file]) {
			at := path.Join(path.Dir(file), ref)
			if at == ".." || strings.HasPrefix(at, "../") || seen[at] || proposal.Under(at, below) {
				continue
			}
			seen[at] = true
			if len(seen) > maxBeyond {
				return nil, &fault.Error{Reason: fault.OutOfBounds, Message: below + " is built of more than 100 places outside of it"}
			}
			tree, err := b.repo.Files(ctx, repository.Query{SHA: sha, Path: at, Accept: proposal.Readable})
			if isNotFound(err) {
				continue // a remote base, or a mistake that the build would show
			}
			if err == nil {
				err = whole(tree)
			}
			if err != nil {
				return nil, err
			}
			beyond = append(beyond, at)
			for _, f := range tree.Files {
				if _, there := files[f.Path]; !there {
					files[f.Path] = f.Data
					queue = append(queue, f.Path)
				}
			}
		}
	}
	slices.Sort(beyond)
	return beyond, nil
}

// references lists the files and directories that a kustomization names. What
// it cannot read, the editor refuses with its place.
func references(data []byte) []string {
	var k struct {
		Resources  []string `yaml:"resources"`
		Bases      []string `yaml:"bases"`
		Components []string `yaml:"components"`
		Merges     []string `yaml:"patchesStrategicMerge"`
		Patches    []struct {
			Path string `yaml:"path"`
		} `yaml:"patches"`
		JSON []struct {
			Path string `yaml:"path"`
		} `yaml:"patchesJson6902"`
		ConfigMaps []struct {
			Files []string `yaml:"files"`
			Envs  []string `yaml:"envs"`
			Env   string   `yaml:"env"`
		} `yaml:"configMapGenerator"`
	}
	if yaml.Unmarshal(data, &k) != nil {
		return nil
	}
	refs := slices.Concat(k.Resources, k.Bases, k.Components, k.Merges)
	for _, p := range append(k.Patches, k.JSON...) {
		refs = append(refs, p.Path)
	}
	for _, c := range k.ConfigMaps {
		for _, f := range c.Files {
			if _, file, named := strings.Cut(f, "="); named {
				f = file
			}
			refs = append(refs, f)
		}
		refs = append(append(refs, c.Envs...), c.Env)
	}
	return slices.DeleteFunc(refs, func(r string) bool {
		return r == "" || strings.ContainsAny(r, "\n:") || strings.HasPrefix(r, "/") || strings.Contains(r, "?ref=")
	})
}
