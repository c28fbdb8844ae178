package manifests

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/inference-responder/responder/internal/gitops"
)

// Bounds of a local checkout.
const (
	maxFiles     = 5000
	maxBytes     = 64 << 20
	maxFileBytes = 8 << 20
)

// ReadDir reads a local checkout as the repositories are read: nothing outside
// of it, and nothing that is certainly no manifest. A symbolic link or a file
// that is too large, where a manifest may stand, is refused.
func ReadDir(dir string) ([]gitops.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &gitops.Error{Reason: gitops.NotFound, Message: "read the checkout", Err: err}
	}
	defer root.Close()
	var files []gitops.File
	left := int64(maxBytes)
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir() || !readable(p):
			return nil
		case !d.Type().IsRegular():
			return unread(p, "is no plain file", 0)
		}
		data, err := readFile(root, p)
		if err != nil {
			return err
		}
		if data == nil {
			return unread(p, fmt.Sprintf("has more than %d MiB", maxFileBytes>>20), 0)
		}
		if left -= int64(len(data)); left < 0 || len(files) == maxFiles {
			return &gitops.Error{Reason: gitops.OutOfBounds, Message: fmt.Sprintf(
				"%s holds more than %d files or %d MiB: name a directory below it", dir, maxFiles, maxBytes>>20)}
		}
		files = append(files, gitops.File{Path: p, Data: data})
		return nil
	})
	var known *gitops.Error
	if err != nil && !errors.As(err, &known) {
		err = &gitops.Error{Reason: gitops.Invalid, Message: "read the checkout", Err: err}
	}
	return files, err
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
