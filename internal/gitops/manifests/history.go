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
	"github.com/inference-responder/responder/internal/gitops/proposal"
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
	if len(r.Beyond) > 0 {
		return ""
	}
	return strings.Trim(r.Source.Path, "/.")
}

// concerning returns the commits of a log that changed files of the source.
func (r reading) concerning(log []gitops.Commit) []gitops.Commit {
	return slices.DeleteFunc(log, func(c gitops.Commit) bool { return !slices.ContainsFunc(c.Files, r.Concerns) })
}

// since returns the commits after sha that touched the target, newest first.
func (b *branch) since(ctx context.Context, src gitops.Source, t gitops.Target, sha string) ([]gitops.Touched, error) {
	r, err := b.head(ctx, src)
	if err != nil {
		return nil, err
	}
	on, err := b.repo.Contains(ctx, sha, r.SHA)
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
	if len(log) > 0 {
		t = r.Own(t)
	}
	for _, c := range log {
		v, err := b.version(ctx, r, c)
		if err != nil {
			return nil, err
		}
		if ch := r.Touched(v, t); len(ch.Touches) > 0 {
			out = append(out, ch)
		}
	}
	return out, nil
}

// version returns the source's files before and after a commit.
func (b *branch) version(ctx context.Context, r reading, c gitops.Commit) (v proposal.Version, err error) {
	v.Commit = c
	paths := slices.DeleteFunc(slices.Clone(c.Files), func(p string) bool { return !r.Concerns(p) })
	v.Before, v.After, err = b.versions(ctx, c, paths)
	return v, err
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
		p.Within = append([]string{path}, r.Beyond...)
	}
	back, err := b.repo.PlanRevert(ctx, repository.RevertRequest{Base: r.SHA, Commits: shas, Paths: p.Within})
	if err != nil {
		return gitops.Proposal{}, err
	}
	p.Reverts, p.Files, p.Deleted = shas, back.Files, back.Deleted
	if err := r.Revert(&p, t); err != nil {
		return gitops.Proposal{}, err
	}
	return p, nil
}
