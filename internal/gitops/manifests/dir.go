package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/proposal"
	"github.com/inference-responder/responder/internal/gitops/repository"
)

// Limits of a local checkout.
const (
	maxFiles     = 5000
	maxBytes     = 64 << 20
	maxFileBytes = 8 << 20
)

// ReadDir reads a local checkout like a repository: the files below the source's
// path (empty: all), files elsewhere that the kustomizations there use, the Helm value
// files that are named, and all
// other kustomizations, which show who else uses the same files. It reads nothing
// outside of the checkout, and nothing that is certainly not a manifest. It
// refuses symbolic links, submodules, Git LFS pointers and oversized files where a
// manifest may stand.
func ReadDir(dir, source string, values ...string) ([]gitops.File, error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, invalid("%s is a file: name the directory of the checkout with --path, and the file in it with --source", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &fault.Error{Reason: fault.NotFound, Message: "read the checkout", Err: err}
	}
	defer root.Close()
	if source = path.Clean(source); !fs.ValidPath(source) {
		return nil, invalid("%s is not below the checkout: name a directory in it, with slashes", source)
	}
	c := &checkout{root: root, dir: dir, files: map[string][]byte{}, modules: submodules(root)}
	if err := c.reach(source); err != nil {
		return nil, err
	}
	err = c.read(source, proposal.Readable, true)
	if err == nil && source != "." {
		err = c.reachable(source)
	}
	for _, p := range values {
		if err == nil {
			err = c.value(p)
		}
	}
	if err == nil && source != "." {
		err = c.read(".", proposal.IsKustomization, false)
	}
	var known *fault.Error
	if err != nil && !errors.As(err, &known) {
		err = &fault.Error{Reason: fault.Invalid, Message: "read the checkout", Err: err}
	}
	var files []gitops.File
	for _, p := range sortedKeys(c.files) {
		files = append(files, gitops.File{Path: p, Data: c.files[p]})
	}
	return files, err
}

// value adds a Helm value file, which may stand outside the source's path.
func (c *checkout) value(p string) error {
	if !fs.ValidPath(p) {
		return invalid("%s is not below the checkout: name a value file in it, with slashes", p)
	}
	if err := c.reach(p); err != nil {
		return err
	}
	return c.read(p, proposal.Readable, true)
}

// checkout is a local checkout being read.
type checkout struct {
	root    *os.Root
	dir     string
	modules map[string]bool // submodules, as .gitmodules has them
	files   map[string][]byte
	bytes   int
}

// reach refuses a source that does not exist, or whose path leads through a
// symbolic link or a submodule.
func (c *checkout) reach(source string) error {
	for i, r := range source + "/" {
		if r != '/' {
			continue
		}
		at := source[:i]
		info, err := c.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("the checkout %s has no %s", c.dir, source)}
		case err != nil:
			return &fault.Error{Reason: fault.Invalid, Message: "read the checkout", Err: err}
		}
		if why := c.special(at, info.Mode()); why != "" {
			return invalid("%s %s", at, why)
		}
	}
	return nil
}

// special explains why an entry is neither a plain file nor a directory of the
// checkout's own; empty for one that is.
func (c *checkout) special(p string, mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return ""
	case mode&fs.ModeSymlink != 0:
		return "is a symbolic link, which is not followed: name what it points to"
	case !mode.IsDir():
		return "is no plain file"
	}
	if _, err := c.root.Lstat(path.Join(p, ".git")); p != "." && (err == nil || c.modules[p]) {
		return "is a submodule: look in a checkout of its own repository"
	}
	return ""
}

// submodules returns the paths in .gitmodules. An unreadable file names none: what
// is checked out there is recognised by its .git.
func submodules(root *os.Root) map[string]bool {
	out := map[string]bool{}
	data, err := readFile(root, ".gitmodules")
	if err != nil {
		return out
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(name) == "path" {
			out[path.Clean(strings.Trim(strings.TrimSpace(value), `"`))] = true
		}
	}
	return out
}

// read adds the wanted files below a path. whole: unreadable files are refused,
// otherwise left out.
func (c *checkout) read(below string, wanted func(string) bool, whole bool) error {
	return fs.WalkDir(c.root.FS(), below, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		_, known := c.files[p]
		special := c.special(p, d.Type())
		switch {
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case known || !d.IsDir() && !wanted(p):
			return nil
		case special != "" && whole:
			return unread(p, special, 0, narrower)
		case special != "" && d.IsDir():
			return fs.SkipDir
		case special != "" || d.IsDir():
			return nil
		}
		data, err := readFile(c.root, p)
		switch {
		case err != nil:
			return err
		case data == nil:
			special = fmt.Sprintf("has more than %d MiB", maxFileBytes>>20)
		case repository.IsLFS(data):
			special = "is a Git LFS pointer: its content is not in the repository"
		}
		switch {
		case special != "" && whole:
			return unread(p, special, 0, narrower)
		case special != "":
			return nil
		}
		if c.bytes += len(data); c.bytes > maxBytes || len(c.files) == maxFiles {
			return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
				"%s holds more than %d files or %d MiB: %s", path.Join(c.dir, below), maxFiles, maxBytes>>20, narrower)}
		}
		c.files[p] = data
		return nil
	})
}

const narrower = "name a narrower directory with --source"

// reachable adds files elsewhere in the checkout that the kustomizations below a
// path use.
func (c *checkout) reachable(below string) error {
	seen := map[string]bool{}
	for queue := sortedKeys(c.files); len(queue) > 0; queue = queue[1:] {
		file := queue[0]
		if !proposal.IsKustomization(file) {
			continue
		}
		for _, ref := range references(c.files[file]) {
			at := path.Join(path.Dir(file), ref)
			if !fs.ValidPath(at) || seen[at] || proposal.Under(at, below) {
				continue
			}
			seen[at] = true
			before := sortedKeys(c.files)
			err := c.read(at, proposal.Readable, true)
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

// readFile reads one file; nil: it is too large for a manifest.
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

// Edit computes an edit of files outside of a repository, such as a local
// checkout. The source's path applies as in a repository.
func Edit(files []gitops.File, w gitops.Want) (gitops.Proposal, error) {
	p := gitops.Proposal{Source: w.Source}
	return p, proposal.Reading{Source: w.Source, Files: files}.Edit(&p, w)
}
