package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/outbound"
)

// RevertRequest selects the commits to undo.
type RevertRequest struct {
	Base    string   // what the plan was made on; empty: whatever the branch is at when it is pushed
	Branch  string   // as in [CommitRequest]
	Commits []string // in any order; what each changed against its first parent is undone
	Paths   []string // files or directories; empty: all that the commits touched
	Message Message  // What is not used: the subject names the commits
}

// Reversal is the plan of a revert.
type Reversal struct {
	Base    string          // the commit it was worked out on
	Commits []gitops.Commit // newest first
	Files   []gitops.File   // new contents
	Deleted []string        // files that the commits had added
}

// PlanRevert returns what Revert would do, and pushes nothing.
func (r *Repository) PlanRevert(ctx context.Context, q RevertRequest) (plan Reversal, err error) {
	if q, err = cleanRevert(q); err != nil {
		return plan, err
	}
	err = r.do(ctx, "plan revert", func(ctx context.Context) error {
		plan = Reversal{}
		head, err := r.fetchBranch(ctx, r.o.Branch, 0)
		if err != nil {
			return err
		}
		base, err := r.commit(head)
		if q.Base != "" && err == nil {
			base, err = r.ensure(ctx, q.Base)
		}
		if err != nil {
			return err
		}
		undone, changes, err := r.reversal(ctx, base, q)
		if err != nil {
			return err
		}
		if _, err := r.build(base, changes, "plan\n"); err != nil { // says what a revert may not change, and that nothing is left to undo
			return err
		}
		plan.Base = base.Hash.String()
		return r.fill(&plan, undone, changes)
	})
	return plan, err
}

func (r *Repository) fill(plan *Reversal, undone []*commit, changes map[string]change) error {
	for _, c := range undone {
		d, err := r.describe(c)
		if err != nil {
			return err
		}
		plan.Commits = append(plan.Commits, d)
	}
	for name, ch := range changes {
		switch {
		case ch.deleted:
			plan.Deleted = append(plan.Deleted, name)
			continue
		case !ch.hash.IsZero() && special(ch.mode) != "":
			continue // a link or a submodule, which is no file of a manifest
		case !ch.hash.IsZero():
			data, err := r.blob(ch.hash)
			if err != nil {
				return err
			}
			ch.data = data
		}
		plan.Files = append(plan.Files, gitops.File{Path: name, Data: ch.data})
	}
	slices.Sort(plan.Deleted)
	slices.SortFunc(plan.Files, func(a, b gitops.File) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

// Revert makes one commit that undoes exactly the named commits, and pushes it
// like [Repository.Commit]. Later changes of other lines stay. If a later commit
// changed the same lines, the error is a Conflict whose cause, a [*gitops.Divergence],
// names it.
func (r *Repository) Revert(ctx context.Context, q RevertRequest) (done gitops.Commit, err error) {
	if q, err = cleanRevert(q); err != nil {
		return done, err
	}
	w := write{base: q.Base, branch: q.Branch, effect: q.Message.Effect}
	if err := r.writable(w); err != nil {
		return done, err
	}
	err = r.do(ctx, "revert", func(ctx context.Context) error {
		commits, err := r.named(ctx, q.Commits)
		if err != nil {
			return err
		}
		if w.text, err = r.revertMessage(commits, q); err != nil {
			return err
		}
		for try := 0; ; try++ {
			done, err = r.write(ctx, w, func(base *commit) (map[string]change, error) {
				_, changes, err := r.reversal(ctx, base, q)
				return changes, err
			})
			// Without a base, the changes are computed again on whatever was pushed meanwhile.
			if try == 3 || w.base != "" || !raced(err) {
				return err
			}
		}
	})
	return done, err
}

// raced reports whether a push lost against another one that did not change the
// same lines.
func raced(err error) bool {
	var m *gitops.Divergence
	return errors.As(err, &m) && !m.SameLines() && !m.Rewritten
}

func cleanRevert(q RevertRequest) (RevertRequest, error) {
	if len(q.Commits) == 0 {
		return q, invalid("revert: no commit is named")
	}
	var paths []string
	for _, p := range q.Paths {
		clean, err := cleanPath(p)
		if err != nil {
			return q, err
		}
		paths = append(paths, clean)
	}
	q.Paths = paths
	return q, nil
}

// named reads the commits, newest first: each before its ancestors.
func (r *Repository) named(ctx context.Context, shas []string) ([]*commit, error) {
	var commits []*commit
	for _, sha := range shas {
		c, err := r.ensure(ctx, sha)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(commits, func(o *commit) bool { return o.Hash == c.Hash }) {
			return nil, invalid("revert: commit %s is named twice", sha)
		}
		if !r.parentKnown(c) {
			if more, err := r.deepen(ctx, r.o.Branch, 16*r.o.Depth); err != nil {
				return nil, err
			} else if !more || !r.parentKnown(c) {
				return nil, bounded("revert: what commit %.10s changed cannot be told: its parent is further back than is fetched", sha)
			}
		}
		at := len(commits)
		for i, other := range commits {
			later, err := r.contains(ctx, other.Hash, c.Hash)
			if err != nil {
				return nil, err
			}
			if later {
				at = i
				break
			}
		}
		commits = slices.Insert(commits, at, c)
	}
	return commits, nil
}

func (r *Repository) revertMessage(commits []*commit, q RevertRequest) (string, error) {
	first, err := r.describe(commits[0])
	if err != nil {
		return "", err
	}
	m := q.Message
	m.What = fmt.Sprintf("Revert %q", outbound.Cut(first.Subject, 100))
	if n := len(commits) - 1; n > 0 {
		m.What += fmt.Sprintf(" and %d more", n)
	}
	var lines []string
	for _, c := range commits {
		line := revertsLine(c.Hash)
		if len(c.ParentHashes) > 1 {
			line = fmt.Sprintf("This reverts commit %s, reversing\nchanges made to %s.", c.Hash, c.ParentHashes[0])
		}
		lines = append(lines, line)
	}
	if len(q.Paths) > 0 {
		lines = append(lines, "Only below "+outbound.OneLine(strings.Join(q.Paths, ", "), 500)+".")
	}
	return m.format(lines...)
}

// Named returns commits of a branch's history, newest first. A commit that base
// does not contain is an error.
func (r *Repository) Named(ctx context.Context, base string, shas []string) (found []gitops.Commit, err error) {
	err = r.do(ctx, "read commits", func(ctx context.Context) error {
		found = nil
		head, err := r.ensure(ctx, base)
		if err != nil {
			return err
		}
		commits, err := r.named(ctx, shas)
		if err != nil {
			return err
		}
		for _, c := range commits {
			if err := r.on(ctx, c, head); err != nil {
				return err
			}
			d, err := r.describe(c)
			if err != nil {
				return err
			}
			found = append(found, d)
		}
		return nil
	})
	return found, err
}

// on refuses a commit that is not in the history of another one.
func (r *Repository) on(ctx context.Context, c, head *commit) error {
	is, err := r.contains(ctx, c.Hash, head.Hash)
	if err == nil && !is {
		err = &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("revert: commit %.10s is not on the branch of repository %s", c.Hash, r.at)}
	}
	return err
}

// reversal computes the changes that undo commits on a base.
func (r *Repository) reversal(ctx context.Context, base *commit, q RevertRequest) ([]*commit, map[string]change, error) {
	commits, err := r.named(ctx, q.Commits)
	if err != nil {
		return nil, nil, err
	}
	root, err := r.tree(base)
	if err != nil {
		return nil, nil, err
	}
	u := &undoing{r: r, base: base, root: root, changes: map[string]change{}}
	for _, c := range commits {
		if err := r.on(ctx, c, base); err != nil {
			return nil, nil, err
		}
		deltas, err := r.changed(c)
		if err != nil {
			return nil, nil, err
		}
		for _, d := range deltas {
			if !within(d.path, q.Paths) {
				continue
			}
			if err := u.undo(ctx, c, d); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(u.changes) == 0 {
		return nil, nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("revert: what the commits changed is already undone on the branch of repository %s", r.at)}
	}
	return commits, u.changes, nil
}

func within(p string, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(dir string) bool {
		return dir == "" || p == dir || strings.HasPrefix(p, dir+"/")
	})
}

// undoing is a revert under construction.
type undoing struct {
	r       *Repository
	base    *commit
	root    *object.Tree
	changes map[string]change // so far
}

// state is the current content of a path: the entry, or the result of an earlier
// step of the same revert.
func (u *undoing) state(p string) (object.TreeEntry, []byte, error) {
	if ch, ok := u.changes[p]; ok {
		if ch.deleted {
			return object.TreeEntry{}, nil, nil
		}
		if !ch.hash.IsZero() {
			return object.TreeEntry{Mode: ch.mode, Hash: ch.hash}, nil, nil
		}
		return object.TreeEntry{Mode: ch.mode, Hash: plumbing.ComputeHash(plumbing.BlobObject, ch.data)}, ch.data, nil
	}
	e, err := u.r.entry(u.root, p)
	return e, nil, err
}

// undo reverts one file: as a whole if it is still as the commit left it,
// otherwise line by line.
func (u *undoing) undo(ctx context.Context, c *commit, d delta) error {
	now, data, err := u.state(d.path)
	if err != nil {
		return err
	}
	switch {
	case now == d.from:
		return nil // undone already
	case now == d.to && d.from.Hash.IsZero():
		u.changes[d.path] = change{deleted: true}
		return nil
	case now == d.to:
		u.changes[d.path] = change{hash: d.from.Hash, mode: d.from.Mode}
		return nil
	}
	if !plain(now.Mode) || !plain(d.from.Mode) || !plain(d.to.Mode) || d.from.Mode != d.to.Mode {
		return u.clash(ctx, c, d, nil, nil, nil)
	}
	if data == nil {
		if data, err = u.r.blob(now.Hash); err != nil {
			return err
		}
	}
	left, err := u.r.blob(d.to.Hash)
	if err != nil {
		return err
	}
	before, err := u.r.blob(d.from.Hash)
	if err != nil {
		return err
	}
	merged, clashes := merge(left, data, before)
	if len(clashes) > 0 || binary(data) {
		return u.clash(ctx, c, d, left, before, clashes)
	}
	if !bytes.Equal(merged, data) {
		u.changes[d.path] = change{data: merged, mode: now.Mode}
	}
	return nil
}

func plain(m filemode.FileMode) bool { return m == filemode.Regular || m == filemode.Executable }

func binary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }

// clash returns an error that names the later commits that conflict.
func (u *undoing) clash(ctx context.Context, c *commit, d delta, left, before []byte, at []gitops.Hunk) error {
	by, err := u.r.changers(ctx, c.Hash, u.base.Hash, d.path)
	if err == nil && len(at) > 0 {
		by, err = u.r.culprit(by, d.path, left, before)
	}
	if err != nil {
		return err
	}
	return &fault.Error{
		Reason:  fault.Conflict,
		Message: fmt.Sprintf("revert: what commit %.10s changed was changed again", c.Hash),
		Err: &gitops.Divergence{
			Base: c.Hash.String(), Head: u.base.Hash.String(),
			Files: []gitops.DivergedFile{{Path: d.path, SameLines: true, Lines: spans(at), By: by}},
		},
	}
}
