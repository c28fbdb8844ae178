package repository

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/outbound"
)

// skew is how far committers' clocks may be wrong.
const skew = time.Hour

// slack is how many commits in a row must be older than a window before the walk
// stops: a commit may be much older than its push.
const slack = 50

type commit = object.Commit

// commit reads a commit that is in the clone.
func (r *Repository) commit(h plumbing.Hash) (*commit, error) {
	c, err := object.GetCommit(r.store, h)
	if err != nil {
		return nil, &damaged{err}
	}
	return c, nil
}

// newest is a heap of commits, the newest first.
type newest []*commit

func (q newest) Len() int           { return len(q) }
func (q newest) Less(i, j int) bool { return q[i].Committer.When.After(q[j].Committer.When) }
func (q newest) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push is for the heap.
func (q *newest) Push(x any) { *q = append(*q, x.(*commit)) }

// Pop is for the heap.
func (q *newest) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// extent is how a walk ended.
type extent int

const (
	stopped  extent = iota // by the visitor, or at its number of commits
	complete               // everything was seen
	shallow                // what comes before was not fetched
)

// walk visits a commit and what led to it, newest first; firstParent: only the
// line of first parents, which is what the branch was at one after another.
func (r *Repository) walk(ctx context.Context, from plumbing.Hash, firstParent bool, limit int, visit func(*commit) (bool, error)) (extent, error) {
	shallows, err := r.store.Shallow()
	if err != nil {
		return stopped, &damaged{err}
	}
	first, err := r.commit(from)
	if err != nil {
		return stopped, err
	}
	queue, seen, end := newest{first}, map[plumbing.Hash]bool{from: true}, complete
	for n := 0; len(queue) > 0; n++ {
		if err := ctx.Err(); err != nil {
			return stopped, &fault.Error{Reason: fault.Timeout, Message: "read history of " + r.at.String(), Err: err}
		}
		if n == limit {
			return stopped, nil
		}
		c := heap.Pop(&queue).(*commit)
		if stop, err := visit(c); stop || err != nil {
			return stopped, err
		}
		if slices.Contains(shallows, c.Hash) {
			end = shallow
			continue
		}
		for i, p := range c.ParentHashes {
			if seen[p] || (firstParent && i > 0) {
				continue
			}
			seen[p] = true
			parent, err := r.commit(p)
			if err != nil {
				return stopped, err
			}
			heap.Push(&queue, parent)
		}
	}
	return end, nil
}

// far is walk, but it fetches more of the history while the walk ends too early.
// reset is called before each new walk.
func (r *Repository) far(ctx context.Context, branch string, from plumbing.Hash, firstParent bool, reset func(), visit func(*commit) (bool, error)) error {
	for depth := 4 * r.o.Depth; ; depth *= 4 {
		reset()
		n := 0
		end, err := r.walk(ctx, from, firstParent, r.o.Limits.History, func(c *commit) (bool, error) {
			n++
			return visit(c)
		})
		if err != nil {
			return err
		}
		if n >= r.o.Limits.History {
			return bounded("repository %s: the answer is further back than %d commits (limits.history)", r.at, n)
		}
		if end != shallow {
			return nil
		}
		if more, err := r.deepen(ctx, branch, depth); err != nil || !more {
			return err
		}
	}
}

// Find returns the commit that carries the effect's trailer, on a branch (empty:
// the configured one) and back to since. It fetches first. False means that the
// commit is certainly not there; a branch of ours that does not exist has none.
func (r *Repository) Find(ctx context.Context, branch, effect string, since time.Time) (found gitops.Commit, ok bool, err error) {
	if effect == "" {
		return found, false, invalid("find: the effect is empty")
	}
	err = r.do(ctx, "find commit", func(ctx context.Context) error {
		ok = false
		head, err := r.fetchBranch(ctx, r.branchOr(branch), 0)
		if errors.Is(err, errNoBranch) && branch != "" && branch != r.o.Branch {
			return nil
		}
		if err != nil {
			return err
		}
		old := 0
		err = r.far(ctx, r.branchOr(branch), head, false, func() { old = 0 }, func(c *commit) (bool, error) {
			if trailers(c.Message)[gitops.TrailerEffect] == effect {
				ok = true
				found, err = r.describe(c)
				return true, err
			}
			if !c.Committer.When.Before(since.Add(-skew)) {
				old = 0
				return false, nil
			}
			old++ // one wrong clock on top must not hide what is below
			return old >= slack, nil
		})
		return err
	})
	return found, ok, err
}

func (r *Repository) branchOr(branch string) string {
	if branch == "" {
		return r.o.Branch
	}
	return branch
}

// Window selects a part of the history.
type Window struct {
	Since time.Time // committer's time; Git does not know when a commit was pushed
	Until time.Time // zero: now
	Path  string    // file or directory; empty: everything
}

// Log fetches and returns the commits of the branch's first-parent line within the
// window that changed something below the path, newest first. A merge is one
// commit with all that it brought. Missing history is an error.
func (r *Repository) Log(ctx context.Context, w Window) (log []gitops.Commit, err error) {
	path, err := cleanPath(w.Path)
	if err != nil {
		return nil, err
	}
	err = r.do(ctx, "read history", func(ctx context.Context) error {
		head, err := r.fetchBranch(ctx, r.o.Branch, 0)
		if err != nil {
			return err
		}
		old := 0
		err = r.far(ctx, r.o.Branch, head, true, func() { log, old = nil, 0 }, func(c *commit) (bool, error) {
			at := c.Committer.When
			if at.Before(w.Since) {
				old++
				return old >= slack, nil
			}
			old = 0
			if !w.Until.IsZero() && at.After(w.Until) {
				return false, nil
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
		return err
	})
	return log, err
}

// Contains reports whether a commit is an ancestor of another one, or the same.
func (r *Repository) Contains(ctx context.Context, ancestor, descendant string) (is bool, err error) {
	err = r.do(ctx, "compare commits", func(ctx context.Context) error {
		from, err := r.ensure(ctx, descendant)
		if err != nil {
			return err
		}
		a, err := parseSHA(ancestor)
		if err != nil {
			return err
		}
		is, err = r.contains(ctx, a, from.Hash)
		return err
	})
	return is, err
}

func (r *Repository) contains(ctx context.Context, ancestor, descendant plumbing.Hash) (is bool, err error) {
	err = r.far(ctx, r.o.Branch, descendant, false, func() {}, func(c *commit) (bool, error) {
		is = c.Hash == ancestor
		return is, nil
	})
	return is, err
}

// parentKnown reports whether the changes of a commit can be computed.
func (r *Repository) parentKnown(c *commit) bool {
	if len(c.ParentHashes) == 0 {
		return true
	}
	there, err := r.has(c.ParentHashes[0])
	return err == nil && there
}

// parentTree returns the tree of the first parent; nil for a first commit.
func (r *Repository) parentTree(c *commit) (*object.Tree, error) {
	if len(c.ParentHashes) == 0 {
		return &object.Tree{}, nil
	}
	p, err := r.commit(c.ParentHashes[0])
	if err != nil {
		return nil, err
	}
	return r.tree(p)
}

func (r *Repository) tree(c *commit) (*object.Tree, error) {
	t, err := object.GetTree(r.store, c.TreeHash)
	if err != nil {
		return nil, &damaged{err}
	}
	return t, nil
}

// touches reports whether a commit changed something below a path.
func (r *Repository) touches(c *commit, path string) (bool, error) {
	if path == "" {
		return true, nil
	}
	now, err := r.tree(c)
	if err != nil {
		return false, err
	}
	before, err := r.parentTree(c)
	if err != nil {
		return false, err
	}
	a, err := r.entry(before, path)
	if err != nil {
		return false, err
	}
	b, err := r.entry(now, path)
	return a != b, err
}

// describe converts a commit to our type, without what looks like a credential: its texts
// reach evidence, the page and channels.
func (r *Repository) describe(c *commit) (gitops.Commit, error) {
	subject, _, _ := strings.Cut(strings.TrimLeft(c.Message, "\n"), "\n")
	text := func(s string, most int) string { return outbound.OneLine(credential.Redact(s), most) }
	d := gitops.Commit{
		SHA:      c.Hash.String(),
		Author:   gitops.Person{Name: text(c.Author.Name, 100), Email: text(c.Author.Email, 100)},
		At:       c.Committer.When.UTC(),
		Subject:  text(subject, 200),
		Trailers: trailers(c.Message),
		Reverts:  reverts(c.Message),
	}
	for _, p := range c.ParentHashes {
		d.Parents = append(d.Parents, p.String())
	}
	if !r.parentKnown(c) {
		return d, nil
	}
	changes, err := r.changed(c)
	for _, ch := range changes {
		d.Files = append(d.Files, ch.path)
	}
	return d, err
}
