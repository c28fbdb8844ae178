package repository

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/inference-responder/responder/internal/fault"
)

const (
	cacheBytes = 32 << 20 // objects kept in memory
	maxPacks   = 400      // a fetch or a push adds one; beyond, the clone is made anew
)

// Repository is one repository and its warm clone. It is safe for concurrent
// use: operations take turns.
type Repository struct {
	o       Options
	at      address
	secrets secrets
	carrier carrier
	lock    *os.File

	// turn holds one token. Its holder owns everything below.
	turn  chan struct{}
	store *filesystem.Storage // nil: not open
	files func(dir string) billy.Filesystem
}

// New validates the options and locks the directory. It does not connect.
func New(o Options) (*Repository, error) {
	o.defaults()
	at, err := o.validate()
	if err != nil {
		return nil, err
	}
	r := &Repository{o: o, at: at, turn: make(chan struct{}, 1), files: func(dir string) billy.Filesystem { return osfs.New(dir) }}
	if r.carrier, err = r.newCarrier(); err != nil {
		return nil, err
	}
	if r.lock, err = lockDir(o.Dir); err != nil {
		return nil, err
	}
	return r, nil
}

// lockDir excludes other processes until the file is closed.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "repository dir", Err: err}
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "repository dir", Err: err}
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("repository dir %s is in use by another process: give each its own", dir)}
	}
	return f, nil
}

// Close releases the directory. It waits for the operation that runs.
func (r *Repository) Close() error {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	r.shut()
	return r.lock.Close()
}

// String returns the address, without credentials.
func (r *Repository) String() string { return r.at.String() }

func (r *Repository) clonePath() string { return filepath.Join(r.o.Dir, "clone") }

// do runs one operation at a time. A damaged clone is discarded, and the operation
// runs once more on a new one.
func (r *Repository) do(ctx context.Context, doing string, f func(context.Context) error) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return &fault.Error{Reason: fault.Timeout, Message: fmt.Sprintf("%s: repository %s is busy", doing, r.at), Err: ctx.Err()}
	}
	err := r.attempt(ctx, f)
	var d *damaged
	if errors.As(err, &d) && !isLocal(d.err) {
		r.o.Log.Warn("the clone is damaged, it is discarded and cloned again", "repository", r.at.String(), "error", d.err.Error())
		if err = r.wipe(); err == nil {
			err = r.attempt(ctx, f)
		}
	}
	if err == nil {
		return nil
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	return r.localError(doing, err)
}

// attempt runs an operation. The library's readers trust the files, so a damaged
// file can make them panic: that counts as damage too.
func (r *Repository) attempt(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.o.Log.Error("reading the clone panicked", "repository", r.at.String(), "error", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = &damaged{fmt.Errorf("%v", p)}
		}
	}()
	if err := r.open(); err != nil {
		return err
	}
	return f(ctx)
}

// open opens the clone or creates an empty one.
func (r *Repository) open() error {
	if r.store != nil {
		return nil
	}
	dir := r.clonePath()
	mark := filepath.Join(dir, "responder-url")
	was, err := os.ReadFile(mark)
	fresh := errors.Is(err, os.ErrNotExist)
	if err != nil && !fresh {
		return err
	}
	if !fresh && string(was) != r.at.String() {
		r.o.Log.Info("the clone is of another repository, it is discarded and cloned again", "repository", r.at.String())
		fresh = true
	}
	if fresh {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	store := filesystem.NewStorageWithOptions(r.files(dir), cache.NewObjectLRU(cacheBytes),
		filesystem.Options{ExclusiveAccess: true, MaxOpenDescriptors: 32})
	if fresh {
		if err := store.Init(); err != nil {
			return err
		}
		// Written last: without it the clone is incomplete.
		if err := os.WriteFile(mark, []byte(r.at.String()), 0o600); err != nil {
			return err
		}
	}
	r.store = store
	return nil
}

func (r *Repository) shut() {
	if r.store != nil {
		_ = r.store.Close()
		r.store = nil
	}
}

// wipe removes the clone.
func (r *Repository) wipe() error {
	r.shut()
	if err := os.RemoveAll(r.clonePath()); err != nil {
		return err
	}
	return r.open()
}

// tidy removes a clone of many small packs, each of which every look-up has to
// search. The next operation fetches a shallow one.
func (r *Repository) tidy() {
	packs, err := filepath.Glob(filepath.Join(r.clonePath(), "objects", "pack", "*.pack"))
	if err != nil || len(packs) <= maxPacks {
		return
	}
	r.o.Log.Info("the clone has many packs, it is cloned again", "repository", r.at.String(), "packs", len(packs))
	if err := r.wipe(); err != nil {
		r.o.Log.Warn("the clone was not removed", "repository", r.at.String(), "error", err.Error())
	}
}
