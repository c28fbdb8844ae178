package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/inference-responder/responder/internal/gitops"
)

// Bounds of a local checkout.
const (
	maxFiles     = 5000
	maxBytes     = 64 << 20
	maxFileBytes = 8 << 20
)

// ReadDir reads a local checkout as the repositories are read: what is below the
// source's path (empty: all of it), what kustomizations there take from
// elsewhere in it, and all other kustomizations, which tell who else uses the
// same. Nothing outside of the checkout is read, nor what is certainly no
// manifest. A symbolic link or a file that is too large, where a manifest may
// stand, is refused.
func ReadDir(dir, source string) ([]gitops.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &gitops.Error{Reason: gitops.NotFound, Message: "read the checkout", Err: err}
	}
	defer root.Close()
	if source = path.Clean(source); !fs.ValidPath(source) {
		return nil, invalid("%s is not below the checkout: name a directory in it, with slashes", source)
	}
	switch _, err := root.Stat(source); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &gitops.Error{Reason: gitops.NotFound, Message: fmt.Sprintf("the checkout %s has no %s", dir, source)}
	case err != nil:
		return nil, &gitops.Error{Reason: gitops.Invalid, Message: "read the checkout", Err: err}
	}
	c := &checkout{root: root, dir: dir, files: map[string][]byte{}}
	err = c.read(source, readable, true)
	if err == nil && source != "." {
		err = c.reachable(source)
	}
	if err == nil && source != "." {
		err = c.read(".", isKustomization, false)
	}
	var known *gitops.Error
	if err != nil && !errors.As(err, &known) {
		err = &gitops.Error{Reason: gitops.Invalid, Message: "read the checkout", Err: err}
	}
	var files []gitops.File
	for _, p := range sortedKeys(c.files) {
		files = append(files, gitops.File{Path: p, Data: c.files[p]})
	}
	return files, err
}

// checkout is a local checkout that is being read.
type checkout struct {
	root  *os.Root
	dir   string
	files map[string][]byte
	bytes int
}

// read adds the files below a place that are wanted. Whole: what cannot be read
// is refused, else left out.
func (c *checkout) read(below string, wanted func(string) bool, whole bool) error {
	return fs.WalkDir(c.root.FS(), below, func(p string, d fs.DirEntry, err error) error {
		_, known := c.files[p]
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir() || known || !wanted(p):
			return nil
		case !d.Type().IsRegular() && whole:
			return unread(p, "is no plain file", 0, narrower)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := readFile(c.root, p)
		switch {
		case err != nil:
			return err
		case data == nil && whole:
			return unread(p, fmt.Sprintf("has more than %d MiB", maxFileBytes>>20), 0, narrower)
		case data == nil:
			return nil
		}
		if c.bytes += len(data); c.bytes > maxBytes || len(c.files) == maxFiles {
			return &gitops.Error{Reason: gitops.OutOfBounds, Message: fmt.Sprintf(
				"%s holds more than %d files or %d MiB: %s", path.Join(c.dir, below), maxFiles, maxBytes>>20, narrower)}
		}
		c.files[p] = data
		return nil
	})
}

const narrower = "name a narrower directory with --source"

// reachable adds what the kustomizations below a place are built of and stands
// elsewhere in the checkout.
func (c *checkout) reachable(below string) error {
	seen := map[string]bool{}
	for queue := sortedKeys(c.files); len(queue) > 0; queue = queue[1:] {
		file := queue[0]
		if !isKustomization(file) {
			continue
		}
		for _, ref := range references(c.files[file]) {
			at := path.Join(path.Dir(file), ref)
			if !fs.ValidPath(at) || seen[at] || under(at, below) {
				continue
			}
			seen[at] = true
			before := sortedKeys(c.files)
			err := c.read(at, readable, true)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a remote base, or a mistake that the build would show
			}
			if err != nil {
				return err
			}
			for _, p := range sortedKeys(c.files) {
				if _, there := slices.BinarySearch(before, p); !there {
					queue = append(queue, p)
				}
			}
		}
	}
	return nil
}

// readFile reads one file; nil: it is too large to be a manifest.
func readFile(root *os.Root, p string) ([]byte, error) {
	f, err := root.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil || len(data) > maxFileBytes {
		return nil, err
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// Edit computes an edit of files that are in no repository, such as a local
// checkout. The source's path counts as it does in one.
func Edit(files []gitops.File, w gitops.Want) (gitops.Proposal, error) {
	p := gitops.Proposal{Source: w.Source}
	t := w.Target
	t.Path = w.Source.Path
	return p, edit(&p, files, t, w)
}
