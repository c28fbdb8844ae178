package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/outbound"
)

// Query selects the files to read.
type Query struct {
	SHA    string                 // of the commit
	Path   string                 // file or directory; empty: the whole tree
	Accept func(path string) bool // nil: every file

	Files     int   // at most; 0: 5,000
	Bytes     int64 // of all; 0: 64 MiB
	FileBytes int64 // of one; 0: 8 MiB. A larger one is skipped, or refused when it is asked for by name
}

// Tree is the result of a Query.
type Tree struct {
	Files   []gitops.File
	Skipped []Skipped // what stands there and was not read
}

// Skipped is an entry that is not read, with the reason.
type Skipped struct {
	Path string
	Why  string
}

const (
	maxTreeDepth = 64
	maxPath      = 4096
)

// Files reads the files of a commit below a path. A symbolic link, a submodule or
// a Git LFS pointer is never followed. As a part of the path it is refused; below
// the path it is skipped and named.
func (r *Repository) Files(ctx context.Context, q Query) (tree Tree, err error) {
	q.Path, err = cleanPath(q.Path)
	if err != nil {
		return tree, err
	}
	q.Files = cmp.Or(q.Files, 5000)
	q.Bytes = cmp.Or(q.Bytes, 64<<20)
	q.FileBytes = cmp.Or(q.FileBytes, 8<<20)
	err = r.do(ctx, "read files", func(ctx context.Context) error {
		tree = Tree{}
		c, err := r.ensure(ctx, q.SHA)
		if err != nil {
			return err
		}
		root, err := r.tree(c)
		if err != nil {
			return err
		}
		return r.read(ctx, root, q, &tree)
	})
	if err != nil {
		return Tree{}, err
	}
	return tree, nil
}

func (r *Repository) read(ctx context.Context, root *object.Tree, q Query, out *Tree) error {
	if q.Path == "" {
		return (&reader{r, q, out, 0}).dir(ctx, root, "", 0)
	}
	e, err := r.reach(root, q.Path)
	switch {
	case err != nil:
		return err
	case e.Hash.IsZero():
		return notFound("repository %s has no %s at commit %.10s", r.at, q.Path, q.SHA)
	case e.Mode == filemode.Dir:
		sub, err := object.GetTree(r.store, e.Hash)
		if err != nil {
			return &damaged{err}
		}
		return (&reader{r, q, out, 0}).dir(ctx, sub, q.Path, 0)
	}
	rd := &reader{r, q, out, 0}
	if err := rd.file(e, q.Path); err != nil {
		return err
	}
	if len(out.Skipped) > 0 {
		return invalid("%s of repository %s: %s", q.Path, r.at, out.Skipped[0].Why)
	}
	return nil
}

type reader struct {
	r     *Repository
	q     Query
	out   *Tree
	bytes int64
}

func (rd *reader) dir(ctx context.Context, t *object.Tree, at string, depth int) error {
	if depth > maxTreeDepth {
		return bounded("%s of repository %s: more than %d directories deep", outbound.Cut(at, 200), rd.r.at, maxTreeDepth)
	}
	if err := ctx.Err(); err != nil {
		return &fault.Error{Reason: fault.Timeout, Message: "read files of " + rd.r.at.String(), Err: err}
	}
	for _, e := range t.Entries {
		name := path.Join(at, e.Name)
		if e.Mode != filemode.Dir {
			if err := rd.file(e, name); err != nil {
				return err
			}
			continue
		}
		sub, err := object.GetTree(rd.r.store, e.Hash)
		if err != nil {
			return &damaged{err}
		}
		if err := rd.dir(ctx, sub, name, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (rd *reader) file(e object.TreeEntry, name string) error {
	if rd.q.Accept != nil && !rd.q.Accept(name) {
		return nil
	}
	skip := func(why string) error {
		rd.out.Skipped = append(rd.out.Skipped, Skipped{name, why})
		return nil
	}
	if len(rd.out.Files)+len(rd.out.Skipped) >= rd.q.Files {
		return bounded("repository %s has more than %d files below %q: name a narrower path", rd.r.at, rd.q.Files, rd.q.Path)
	}
	if why := special(e.Mode); why != "" {
		return skip(why)
	}
	size, err := rd.r.store.EncodedObjectSize(e.Hash)
	switch {
	case err != nil:
		return &damaged{err}
	case size > rd.q.FileBytes:
		return skip(fmt.Sprintf("has %d bytes, more than the %d that are read of one file", size, rd.q.FileBytes))
	case rd.bytes+size > rd.q.Bytes:
		return bounded("repository %s has more than %d bytes below %q: name a narrower path", rd.r.at, rd.q.Bytes, rd.q.Path)
	}
	data, err := rd.r.blob(e.Hash)
	if err != nil {
		return err
	}
	if IsLFS(data) {
		return skip("is a Git LFS pointer: its content is not in the repository")
	}
	rd.bytes += size
	rd.out.Files = append(rd.out.Files, gitops.File{Path: name, Data: data})
	return nil
}

// special explains why an entry is no plain file; empty for one that is.
func special(m filemode.FileMode) string {
	switch m {
	case filemode.Regular, filemode.Executable, filemode.Deprecated:
		return ""
	case filemode.Symlink:
		return "is a symbolic link, which is not followed: name the file it points to"
	case filemode.Submodule:
		return "is a submodule: configure its own repository as the source"
	case filemode.Dir:
		return "is a directory"
	}
	return "is of a kind that is not read"
}

// IsLFS reports whether a file is a Git LFS pointer, whose content is not in the
// repository.
func IsLFS(data []byte) bool {
	return len(data) < 1024 && strings.HasPrefix(string(data), "version https://git-lfs.github.com/spec/")
}

func (r *Repository) blob(h plumbing.Hash) ([]byte, error) {
	b, err := object.GetBlob(r.store, h)
	if err != nil {
		return nil, &damaged{err}
	}
	rc, err := b.Reader()
	if err != nil {
		return nil, &damaged{err}
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		return nil, &damaged{err}
	}
	return data, nil
}

// entry returns what stands at a path, or the zero entry. It does not check the
// parents.
func (r *Repository) entry(t *object.Tree, p string) (object.TreeEntry, error) {
	e, err := r.reach(t, p)
	var known *fault.Error
	if errors.As(err, &known) {
		return object.TreeEntry{}, nil
	}
	return e, err
}

// reach returns what stands at a path, and refuses links among the parents.
func (r *Repository) reach(t *object.Tree, p string) (object.TreeEntry, error) {
	parts := strings.Split(p, "/")
	for i, part := range parts {
		var found object.TreeEntry
		for _, e := range t.Entries {
			if e.Name == part {
				found = e
			}
		}
		found.Name = ""
		switch {
		case found.Hash.IsZero() || i == len(parts)-1:
			return found, nil
		case found.Mode != filemode.Dir:
			at := strings.Join(parts[:i+1], "/")
			if why := special(found.Mode); why != "" {
				return found, invalid("%s of repository %s: %s %s", p, r.at, at, why)
			}
			return object.TreeEntry{}, nil // a file where a directory is meant
		}
		sub, err := object.GetTree(r.store, found.Hash)
		if err != nil {
			return found, &damaged{err}
		}
		t = sub
	}
	return object.TreeEntry{}, nil
}

// cleanPath refuses paths that leave the tree or that git does not allow.
func cleanPath(p string) (string, error) {
	p = strings.TrimSuffix(p, "/")
	if p == "" || p == "." {
		return "", nil
	}
	bad := len(p) > maxPath || path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") ||
		strings.Contains(p, `\`) || strings.ContainsFunc(p, unicode.IsControl)
	for part := range strings.SplitSeq(p, "/") {
		bad = bad || strings.EqualFold(part, ".git")
	}
	if bad {
		return "", invalid("path %q: want a path from the repository's root, with /, without . or .. and outside .git", outbound.Cut(p, 200))
	}
	return p, nil
}
