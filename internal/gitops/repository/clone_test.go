package repository

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

// TestDamagedClone cuts, empties, scribbles over and removes each file of a
// clone in turn. Whatever it was, the next use works, on true data.
func TestDamagedClone(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest, "b.yaml": "b: 1\n"})
	sha := s.Push("second", map[string]string{"b.yaml": "b: 2\n"})
	dir := t.TempDir()
	use := func(t *testing.T, what string) {
		t.Helper()
		r, err := New(Options{URL: s.RepositoryURL(), Branch: "main", Dir: dir, Depth: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := r.Head(t.Context()); err != nil || got != sha {
			t.Fatalf("%s: head %s, %v", what, got, err)
		}
		tree, err := r.Files(t.Context(), Query{SHA: sha})
		if err != nil || len(tree.Files) != 2 || string(tree.Files[0].Data)+string(tree.Files[1].Data) != manifest+"b: 2\n" {
			t.Fatalf("%s: files %v, %v", what, tree, err)
		}
		if log, err := r.Log(t.Context(), Window{}); err != nil || len(log) != 2 {
			t.Fatalf("%s: log %v, %v", what, log, err)
		}
	}
	harm := map[string]func(string) error{
		"empty":    func(f string) error { return os.Truncate(f, 0) },
		"cut":      func(f string) error { i, _ := os.Stat(f); return os.Truncate(f, i.Size()/2) },
		"remove":   os.Remove,
		"scribble": scribble,
	}
	done := 0
	for what, hurt := range harm {
		use(t, "whole")
		for _, name := range cloneFiles(t, dir) {
			file := filepath.Join(dir, "clone", name)
			if _, err := os.Stat(file); err != nil {
				use(t, "again") // the clone was made anew: other names
				continue
			}
			if err := os.Chmod(file, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := hurt(file); err != nil {
				t.Fatal(err)
			}
			use(t, what+" "+name)
			done++
		}
	}
	if done < 16 {
		t.Errorf("only %d damages were tried", done)
	}
}

// scribble turns the bits of the second half of a file.
func scribble(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for i := len(b) / 2; i < len(b); i++ {
		b[i] ^= 0xff
	}
	return os.WriteFile(file, b, 0o600)
}

func cloneFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	root := os.DirFS(filepath.Join(dir, "clone"))
	err := fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestCloneOfAnother(t *testing.T) {
	one, two := gittest.NewServer(t), gittest.NewServer(t)
	one.Push("first", map[string]string{"a.yaml": manifest})
	sha := two.Push("first", map[string]string{"b.yaml": "b: 1\n"})
	dir := t.TempDir()
	for _, s := range []*gittest.Server{one, two} {
		var log bytes.Buffer
		r, err := New(Options{URL: s.RepositoryURL(), Branch: "main", Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		head(t, r)
		if s == two {
			if tree, err := r.Files(t.Context(), Query{SHA: sha}); err != nil || tree.Files[0].Path != "b.yaml" {
				t.Errorf("files %v, %v", tree, err)
			}
			if !strings.Contains(log.String(), "of another repository") {
				t.Errorf("the log does not say so: %s", log.String())
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTwoOnOneDir(t *testing.T) {
	s := gittest.NewServer(t)
	dir := t.TempDir()
	r, err := New(Options{URL: s.RepositoryURL(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Options{URL: s.RepositoryURL(), Dir: dir})
	wantError(t, err, fault.Conflict, dir)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err = New(Options{URL: s.RepositoryURL(), Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// full is a disk without room.
type full struct{ billy.Filesystem }

func (f full) TempFile(dir, prefix string) (billy.File, error) {
	file, err := f.Filesystem.TempFile(dir, prefix)
	return fullFile{file}, err
}

type fullFile struct{ billy.File }

func (fullFile) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "pack", Err: syscall.ENOSPC}
}

func TestDiskFull(t *testing.T) {
	s := gittest.NewServer(t)
	base := s.Push("first", map[string]string{"a.yaml": manifest})
	r := open(t, s)
	r.files = func(dir string) billy.Filesystem { return full{osfs.New(dir)} }
	_, err := r.Head(t.Context())
	wantError(t, err, fault.Unreachable, "disk is full")
	r.files = func(dir string) billy.Filesystem { return osfs.New(dir) }
	r.shut()
	head(t, r)
	r.shut()
	r.files = func(dir string) billy.Filesystem { return full{osfs.New(dir)} }
	// A commit that the disk has no room for was pushed all the same.
	done, err := r.Commit(t.Context(), change192(base))
	if err != nil || s.Head("main") != done.SHA {
		t.Fatalf("commit %s, %v", done.SHA, err)
	}
	_, err = r.Head(t.Context())
	wantError(t, err, fault.Unreachable, "disk is full")
	r.files = func(dir string) billy.Filesystem { return osfs.New(dir) }
	r.shut()
	if got := head(t, r); got != done.SHA {
		t.Errorf("head %s", got)
	}
}

// TestManyAtOnce: operations take turns, and each sees a whole repository.
func TestManyAtOnce(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest})
	r := open(t, s)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			sha, err := r.Head(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if tree, err := r.Files(t.Context(), Query{SHA: sha}); err != nil || len(tree.Files) != 1 {
				t.Errorf("files %v, %v", tree, err)
			}
		})
	}
	wg.Wait()
}

// TestManyPacks: a clone that has grown into many packs is made anew.
func TestManyPacks(t *testing.T) {
	s := gittest.NewServer(t)
	base := s.Push("first", map[string]string{"a.yaml": manifest})
	r := open(t, s)
	head(t, r)
	for i := range maxPacks + 1 {
		name := filepath.Join(r.clonePath(), "objects", "pack", fmt.Sprintf("pack-%d.pack", i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Commit(t.Context(), change192(base)); err != nil {
		t.Fatal(err)
	}
	if got := head(t, r); got != s.Head("main") {
		t.Errorf("head %s", got)
	}
	if n := len(cloneFiles(t, r.o.Dir)); n > 20 {
		t.Errorf("the clone has %d files", n)
	}
}
