package repository

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/inference-responder/responder/internal/fault"
)

// builder collects new objects outside the clone, where they leave no trace
// when they are not pushed.
type builder struct {
	r     *Repository
	store storer.EncodedObjectStorer
	made  []plumbing.Hash
}

func (b *builder) put(o interface {
	Encode(plumbing.EncodedObject) error
},
) (plumbing.Hash, error) {
	e := b.store.NewEncodedObject()
	if err := o.Encode(e); err != nil {
		return plumbing.ZeroHash, err
	}
	h, err := b.store.SetEncodedObject(e)
	b.made = append(b.made, h)
	return h, err
}

func (b *builder) blob(data []byte) (plumbing.Hash, error) {
	e := b.store.NewEncodedObject()
	e.SetType(plumbing.BlobObject)
	w, err := e.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := w.Write(data); err != nil {
		return plumbing.ZeroHash, err
	}
	h, err := b.store.SetEncodedObject(e)
	b.made = append(b.made, h)
	return h, err
}

// errInTheWay is a file where a change wants a directory.
var errInTheWay = errors.New("a file is in the way")

// tree writes a directory with its changes and returns its hash; the zero hash for
// one that became empty.
func (b *builder) tree(old *object.Tree, changes map[string]change) (plumbing.Hash, error) {
	below := map[string]map[string]change{}
	entries := map[string]object.TreeEntry{}
	for _, e := range old.Entries {
		entries[e.Name] = e
	}
	for p, ch := range changes {
		name, rest, deeper := strings.Cut(p, "/")
		if deeper {
			if below[name] == nil {
				below[name] = map[string]change{}
			}
			below[name][rest] = ch
			continue
		}
		if err := b.leaf(entries, name, ch); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	for name, inner := range below {
		if err := b.subtree(entries, name, inner); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	t := &object.Tree{}
	for _, e := range entries {
		t.Entries = append(t.Entries, e)
	}
	slices.SortFunc(t.Entries, func(x, y object.TreeEntry) int { return strings.Compare(sortName(x), sortName(y)) })
	return b.put(t)
}

// sortName returns the sort key of git for an entry: a directory sorts as if its
// name ended in /.
func sortName(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

func (b *builder) leaf(entries map[string]object.TreeEntry, name string, ch change) error {
	was, exists := entries[name]
	switch {
	case ch.deleted:
		delete(entries, name)
	case !ch.hash.IsZero():
		entries[name] = object.TreeEntry{Name: name, Mode: ch.mode, Hash: ch.hash}
	default:
		h, err := b.blob(ch.data)
		if err != nil {
			return err
		}
		mode := filemode.Regular
		if exists {
			mode = was.Mode
		}
		entries[name] = object.TreeEntry{Name: name, Mode: mode, Hash: h}
	}
	return nil
}

func (b *builder) subtree(entries map[string]object.TreeEntry, name string, changes map[string]change) error {
	sub := &object.Tree{}
	if e, ok := entries[name]; ok {
		if e.Mode != filemode.Dir {
			return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("commit: %s is a file, but a change needs a directory there", name), Err: errInTheWay}
		}
		var err error
		if sub, err = object.GetTree(b.store, e.Hash); err != nil {
			return &damaged{err}
		}
	}
	h, err := b.tree(sub, changes)
	if err != nil {
		return err
	}
	if h == emptyTree {
		delete(entries, name) // git has no empty directories
		return nil
	}
	entries[name] = object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: h}
	return nil
}

var emptyTree = plumbing.NewHash("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
