package manifests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/repository"
)

// Changes returns the commits since a time that touched the manifests of the
// target, newest first.
func (m *Manifests) Changes(ctx context.Context, src gitops.Source, t gitops.Target, since time.Time) ([]gitops.Touched, error) {
	b, err := m.branch(src)
	if err != nil {
		return nil, err
	}
	r, err := b.head(ctx, src)
	if err != nil {
		return nil, err
	}
	log, err := b.repo.Log(ctx, repository.Window{Since: since, Path: r.path()})
	if err != nil {
		return nil, err
	}
	changes, err := b.touched(ctx, r, t, r.concerning(log))
	if err != nil {
		return nil, err
	}
	return changes, b.recognise(ctx, changes)
}

// Since returns the commits that came to the branch after a commit, whatever their
// dates. An empty target selects every workload of the source.
func (m *Manifests) Since(ctx context.Context, src gitops.Source, t gitops.Target, sha string) ([]gitops.Touched, error) {
	b, err := m.branch(src)
	if err != nil {
		return nil, err
	}
	changes, err := b.since(ctx, src, t, sha)
	if err != nil {
		return nil, err
	}
	return changes, b.recognise(ctx, changes)
}

// Contains reports whether a commit is in the history of another one.
func (m *Manifests) Contains(ctx context.Context, src gitops.Source, ancestor, descendant string) (bool, error) {
	b, err := m.branch(src)
	if err != nil {
		return false, err
	}
	return b.repo.Contains(ctx, ancestor, descendant)
}

// path returns the path whose history matters: the source's path, or everything if
// the source uses files elsewhere.
func (r reading) path() string {
	if len(r.beyond) > 0 {
		return ""
	}
	return strings.Trim(r.src.Path, "/.")
}

// concerning returns the commits of a log that changed files of the source.
func (r reading) concerning(log []gitops.Commit) []gitops.Commit {
	return slices.DeleteFunc(log, func(c gitops.Commit) bool { return !slices.ContainsFunc(c.Files, r.concerns) })
}

// concerns reports whether a path is one of the source's files.
func (r reading) concerns(p string) bool {
	return readable(p) && (under(p, strings.Trim(r.src.Path, "/.")) || slices.ContainsFunc(r.beyond, func(dir string) bool { return under(p, dir) }))
}

// since returns the commits after sha that touched the target, newest first.
func (b *branch) since(ctx context.Context, src gitops.Source, t gitops.Target, sha string) ([]gitops.Touched, error) {
	r, err := b.head(ctx, src)
	if err != nil {
		return nil, err
	}
	on, err := b.repo.Contains(ctx, sha, r.sha)
	if err != nil {
		return nil, err
	}
	if !on {
		return nil, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf(
			"commit %.10s is not in the history of %s: somebody pushed with force, or it is of another branch", sha, b.src.Repository)}
	}
	log, err := b.repo.After(ctx, sha, r.path())
	if err != nil {
		return nil, err
	}
	return b.touched(ctx, r, t, r.concerning(log))
}

// touched returns what each commit changed. Commits that changed nothing of the
// target are left out.
func (b *branch) touched(ctx context.Context, r reading, t gitops.Target, log []gitops.Commit) ([]gitops.Touched, error) {
	var out []gitops.Touched
	for _, c := range log {
		ch := gitops.Touched{Commit: c}
		var ours []string
		for _, p := range c.Files {
			if r.concerns(p) {
				ours = append(ours, p)
			} else {
				ch.Others = append(ch.Others, p)
			}
		}
		before, after, err := b.versions(ctx, c, ours)
		if err != nil {
			return nil, err
		}
		if ch.Touches = touches(before, after, t); len(ch.Touches) > 0 {
			out = append(out, ch)
		}
	}
	return out, nil
}

// versions returns files before and after a commit.
func (b *branch) versions(ctx context.Context, c gitops.Commit, paths []string) (before, after []gitops.File, err error) {
	for _, p := range paths {
		if after, err = b.one(ctx, c.SHA, p, after); err != nil {
			return nil, nil, err
		}
		if len(c.Parents) == 0 {
			continue
		}
		if before, err = b.one(ctx, c.Parents[0], p, before); err != nil {
			return nil, nil, err
		}
	}
	return before, after, nil
}

// one adds a file of a commit, if it exists.
func (b *branch) one(ctx context.Context, sha, p string, files []gitops.File) ([]gitops.File, error) {
	tree, err := b.repo.Files(ctx, repository.Query{SHA: sha, Path: p})
	if isNotFound(err) {
		return files, nil
	}
	return append(files, tree.Files...), err
}

func isNotFound(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Reason == fault.NotFound
}

// Reverting computes the change that reverts commits, within the source's files.
// It is refused if it would also change the workload of another service.
func (m *Manifests) Reverting(ctx context.Context, src gitops.Source, t gitops.Target, shas []string) (gitops.Proposal, error) {
	b, err := m.branch(src)
	if err != nil {
		return gitops.Proposal{}, err
	}
	r, err := b.head(ctx, src)
	if err != nil {
		return gitops.Proposal{}, err
	}
	p := r.proposal(b)
	if path := strings.Trim(src.Path, "/."); path != "" {
		p.Within = append([]string{path}, r.beyond...)
	}
	back, err := b.repo.PlanRevert(ctx, repository.RevertRequest{Base: r.sha, Commits: shas, Paths: p.Within})
	if err != nil {
		return gitops.Proposal{}, err
	}
	p.Reverts, p.Files, p.Deleted = shas, back.Files, back.Deleted
	var before []gitops.File
	for _, f := range r.files {
		if slices.Contains(back.Deleted, f.Path) || slices.ContainsFunc(back.Files, func(o gitops.File) bool { return o.Path == f.Path }) {
			before = append(before, f)
		}
	}
	p.Touches = touches(before, back.Files, t)
	after := r.after(back)
	p.Manifests, p.Plain = gitops.Plain(r.files, after, r.target(t))
	p.Plain = p.Plain && len(back.Deleted) == 0
	if all := touches(before, back.Files, gitops.Target{}); len(all) > len(p.Touches) {
		return gitops.Proposal{}, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"reverting %s would also change another workload: %s: revert it by hand", shortAll(shas), otherThan(all, p.Touches))}
	}
	if err := r.keeps(t, after); err != nil {
		return gitops.Proposal{}, err
	}
	if err := r.alone(t, after, shas); err != nil {
		return gitops.Proposal{}, err
	}
	if len(p.Touches) == 0 {
		return gitops.Proposal{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("reverting %s changes nothing of %s", shortAll(shas), t.Name)}
	}
	return p, nil
}

// keeps refuses a revert that would remove the target's manifest: a commit that
// created it is not a change of it.
func (r reading) keeps(t gitops.Target, after []gitops.File) error {
	replicas := gitops.Variable{Replicas: true}
	if _, err := gitops.Locate(r.files, r.target(t), replicas); err != nil {
		return nil // it cannot be told now either
	}
	if _, err := gitops.Locate(after, r.target(t), replicas); isNotFound(err) {
		return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("reverting would remove the manifest of %s %s", t.Kind, t.Name)}
	}
	return nil
}

// after returns the files as a revert leaves them.
func (r reading) after(back repository.Reversal) []gitops.File {
	return slices.DeleteFunc(overlaid(r.files, []gitops.Edit{{Files: back.Files}}), func(f gitops.File) bool { return slices.Contains(back.Deleted, f.Path) })
}

// alone refuses a revert of a file that another kustomization uses, too.
func (r reading) alone(t gitops.Target, after []gitops.File, shas []string) error {
	shared, err := gitops.Affected(r.files, after, r.target(t))
	if err != nil || len(shared) == 0 {
		return err
	}
	return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
		"reverting %s would change what %s deploys too: revert it by hand", shortAll(shas), strings.Join(shared, ", "))}
}

func shortAll(shas []string) string {
	var out []string
	for _, s := range shas {
		out = append(out, fmt.Sprintf("%.9s", s))
	}
	return strings.Join(out, ", ")
}

// otherThan returns the first of all that is not among ours.
func otherThan(all, ours []gitops.Touch) string {
	for _, t := range all {
		if !slices.Contains(ours, t) {
			return fmt.Sprintf("%s:%d %s", t.File, t.Line, t.Path)
		}
	}
	return ""
}
