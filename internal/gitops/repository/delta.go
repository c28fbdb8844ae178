package repository

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/inference-responder/responder/internal/outbound"
)

// delta is one file that a commit changed, with both its states.
type delta struct {
	path     string
	from, to object.TreeEntry // the zero entry: not there
}

// changed returns what a commit changed against its first parent. A rename is a
// removal and an addition.
func (r *Repository) changed(c *commit) ([]delta, error) {
	now, err := r.tree(c)
	if err != nil {
		return nil, err
	}
	before, err := r.parentTree(c)
	if err != nil {
		return nil, err
	}
	return r.compare(before, now)
}

// compare returns the files that differ between two trees, by path. Unlike the
// library's comparison it does not open directories of the same hash.
func (r *Repository) compare(from, to *object.Tree) ([]delta, error) {
	deltas, err := r.differ(from, to, "", 0)
	slices.SortFunc(deltas, func(a, b delta) int { return strings.Compare(a.path, b.path) })
	return deltas, err
}

func (r *Repository) differ(from, to *object.Tree, at string, depth int) (deltas []delta, err error) {
	if depth > maxTreeDepth {
		return nil, bounded("%s of repository %s: more than %d directories deep", outbound.Cut(at, 200), r.at, maxTreeDepth)
	}
	a, b := entries(from), entries(to)
	names := maps.Clone(a)
	maps.Copy(names, b)
	for name := range names {
		x, y := a[name], b[name]
		if x == y {
			continue
		}
		p := path.Join(at, name)
		left, err := r.directory(x)
		if err != nil {
			return nil, err
		}
		right, err := r.directory(y)
		if err != nil {
			return nil, err
		}
		if left != nil || right != nil {
			below, err := r.differ(left, right, p, depth+1)
			if err != nil {
				return nil, err
			}
			deltas = append(deltas, below...)
		}
		d := delta{path: p, from: file(x), to: file(y)}
		if d.from != d.to {
			deltas = append(deltas, d)
		}
	}
	return deltas, nil
}

func entries(t *object.Tree) map[string]object.TreeEntry {
	m := map[string]object.TreeEntry{}
	if t == nil {
		return m
	}
	for _, e := range t.Entries {
		name := e.Name
		e.Name = ""
		m[name] = e
	}
	return m
}

// directory opens an entry; nil if it is not a directory.
func (r *Repository) directory(e object.TreeEntry) (*object.Tree, error) {
	if e.Mode != filemode.Dir {
		return nil, nil
	}
	t, err := object.GetTree(r.store, e.Hash)
	if err != nil {
		return nil, &damaged{err}
	}
	return t, nil
}

// file returns an entry unless it is a directory.
func file(e object.TreeEntry) object.TreeEntry {
	if e.Mode == filemode.Dir {
		return object.TreeEntry{}
	}
	return e
}
