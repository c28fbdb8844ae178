package repository

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// conflict returns the error that names the files of a change that have moved.
func (r *Repository) conflict(ctx context.Context, base, head plumbing.Hash, want map[string]change) error {
	m := &gitops.Divergence{Base: base.String(), Head: head.String()}
	e := &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("commit: repository %s", r.at), Err: m}
	is, err := r.contains(ctx, base, head)
	if err != nil {
		return err
	}
	m.Rewritten = !is
	from, err := r.commit(base)
	if err != nil {
		return err
	}
	to, err := r.commit(head)
	if err != nil {
		return err
	}
	before, err := r.tree(from)
	if err != nil {
		return err
	}
	now, err := r.tree(to)
	if err != nil {
		return err
	}
	for p, ch := range want {
		f, old, err := r.movedFile(before, now, p, ch)
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}
		if f.By, err = r.changers(ctx, base, head, p); err != nil {
			return err
		}
		if f.SameLines && f.Lines != "" {
			if f.By, err = r.culprit(f.By, p, old, ch.data); err != nil {
				return err
			}
		}
		m.Files = append(m.Files, *f)
	}
	slices.SortFunc(m.Files, func(a, b gitops.DivergedFile) int { return strings.Compare(a.Path, b.Path) })
	return e
}

// movedFile compares one file; nil if it did not change. It returns the old
// content too.
func (r *Repository) movedFile(before, now *object.Tree, p string, ch change) (*gitops.DivergedFile, []byte, error) {
	a, err := r.entry(before, p)
	if err != nil {
		return nil, nil, err
	}
	b, err := r.entry(now, p)
	if err != nil {
		return nil, nil, err
	}
	if a == b {
		return nil, nil, nil
	}
	f := &gitops.DivergedFile{Path: p, SameLines: true}
	if a.Mode != b.Mode || special(a.Mode) != "" || ch.deleted || !ch.hash.IsZero() {
		return f, nil, nil // not line by line
	}
	old, err := r.blob(a.Hash)
	if err != nil {
		return nil, nil, err
	}
	theirs, err := r.blob(b.Hash)
	if err != nil {
		return nil, nil, err
	}
	_, clashes := merge(old, theirs, ch.data)
	f.SameLines = len(clashes) > 0
	if f.Lines = spans(clashes); !f.SameLines {
		f.Lines = spans(gitops.Hunks(string(old), string(theirs)))
	}
	return f, old, nil
}

// culprit returns the commit, among those that changed a file, after which base
// and theirs conflict.
func (r *Repository) culprit(by []gitops.Commit, p string, base, theirs []byte) ([]gitops.Commit, error) {
	for _, c := range slices.Backward(by) {
		full, err := r.commit(plumbing.NewHash(c.SHA))
		if err != nil {
			return nil, err
		}
		root, err := r.tree(full)
		if err != nil {
			return nil, err
		}
		e, err := r.entry(root, p)
		if err != nil {
			return nil, err
		}
		if special(e.Mode) != "" || e.Hash.IsZero() {
			return []gitops.Commit{c}, nil
		}
		version, err := r.blob(e.Hash)
		if err != nil {
			return nil, err
		}
		if _, clashes := merge(base, version, theirs); len(clashes) > 0 {
			return []gitops.Commit{c}, nil
		}
	}
	return by, nil
}

// changers returns the commits between two that touched a path, newest first.
func (r *Repository) changers(ctx context.Context, base, head plumbing.Hash, p string) (by []gitops.Commit, err error) {
	from, err := r.commit(base)
	if err != nil {
		return nil, err
	}
	old := from.Committer.When.Add(-skew) // base may have come by a merge, from outside this line
	_, err = r.walk(ctx, head, true, recentCommits, func(c *commit) (bool, error) {
		if c.Hash == base || c.Committer.When.Before(old) || len(by) >= 20 || !r.parentKnown(c) {
			return true, nil
		}
		touched, err := r.touches(c, p)
		if err != nil || !touched {
			return false, err
		}
		d, err := r.describe(c)
		by = append(by, d)
		return false, err
	})
	return by, err
}
