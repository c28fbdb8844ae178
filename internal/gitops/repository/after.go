package repository

import (
	"container/heap"
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/inference-responder/responder/internal/gitops"
)

// After fetches and returns the commits that came to the branch after sha and
// changed something below the path, along the line of first parents, newest first.
// The order of commits counts, not their dates: a commit of last week that was
// pushed today came today. The branch must contain sha.
func (r *Repository) After(ctx context.Context, sha, path string) (log []gitops.Commit, err error) {
	path, err = cleanPath(path)
	if err != nil {
		return nil, err
	}
	err = r.do(ctx, "read history", func(ctx context.Context) error {
		head, err := r.fetchBranch(ctx, r.o.Branch, 0)
		if err != nil {
			return err
		}
		from, err := r.ensure(ctx, sha)
		if err != nil {
			return err
		}
		var old *ancestors
		return r.far(ctx, r.o.Branch, head, true, func() { log, old = nil, ancestorsOf(from) }, func(c *commit) (bool, error) {
			if is, err := old.hold(r, c); is || err != nil {
				return true, err
			}
			if !r.parentKnown(c) {
				return false, nil // the walk ends here and goes on with more history
			}
			if touched, err := r.touches(c, path); err != nil || !touched {
				return false, err
			}
			d, err := r.describe(c)
			log = append(log, d)
			return false, err
		})
	})
	return log, err
}

// ancestors is a commit and its ancestors, loaded on demand.
type ancestors struct {
	queue newest
	known map[plumbing.Hash]bool // in the queue, or taken out of it
}

func ancestorsOf(c *commit) *ancestors {
	return &ancestors{queue: newest{c}, known: map[plumbing.Hash]bool{c.Hash: true}}
}

// hold reports whether a commit is one of them. The answer is no after many older
// commits in a row: a single wrong clock must not hide what is below.
func (a *ancestors) hold(r *Repository, c *commit) (bool, error) {
	shallows, err := r.store.Shallow()
	if err != nil {
		return false, &damaged{err}
	}
	for older := 0; !a.known[c.Hash] && len(a.queue) > 0 && older < slack; {
		next := heap.Pop(&a.queue).(*commit)
		if older++; !next.Committer.When.Before(c.Committer.When.Add(-skew)) {
			older = 0
		}
		if slices.Contains(shallows, next.Hash) {
			continue // the walk ends early too, and begins anew with more history
		}
		for _, p := range next.ParentHashes {
			if a.known[p] {
				continue
			}
			parent, err := r.commit(p)
			if err != nil {
				return false, err
			}
			a.known[p] = true
			heap.Push(&a.queue, parent)
		}
	}
	return a.known[c.Hash], nil
}
