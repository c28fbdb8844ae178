package manifests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/forge"
	"github.com/inference-responder/responder/internal/gitops/repository"
)

// Commit makes one commit of a proposal: on the branch, or on one of its own
// for which a pull request is opened. It is idempotent under the effect.
func (m *Manifests) Commit(ctx context.Context, r gitops.Request) (gitops.Landing, error) {
	b, err := m.branch(r.Proposal.Source)
	if err != nil {
		return gitops.Landing{}, err
	}
	if b.remote.Forge == nil {
		done, err := b.write(ctx, r, "")
		return landed(done), err
	}
	return b.request(ctx, r)
}

// write pushes the commit; to is a branch to make, empty: the branch itself.
func (b *branch) write(ctx context.Context, r gitops.Request, to string) (gitops.Commit, error) {
	message := repository.Message{
		What: r.What, Why: r.Why, Alert: r.Alert, Run: r.Run, State: r.State, Plan: r.Digest, Effect: r.Effect,
	}
	p := r.Proposal
	if len(p.Reverts) > 0 {
		return b.repo.Revert(ctx, repository.RevertRequest{Base: p.Base, Branch: to, Commits: p.Reverts, Paths: p.Within, Message: message})
	}
	return b.repo.Commit(ctx, repository.CommitRequest{Base: p.Base, Branch: to, Files: p.Files, Message: message})
}

// request pushes the commit to a branch of its own and opens a pull request.
func (b *branch) request(ctx context.Context, r gitops.Request) (gitops.Landing, error) {
	base, err := b.base(ctx)
	if err != nil {
		return gitops.Landing{}, err
	}
	name := branchOf(r.Effect)
	done, err := b.write(ctx, r, name)
	if err != nil {
		return gitops.Landing{}, err
	}
	pull, err := b.remote.Forge.Open(ctx, forge.Request{Branch: name, Base: base, Head: done.SHA, Title: r.What, Plan: r.Plan, Effect: r.Effect})
	if err != nil {
		var e *gitops.Error
		if errors.As(err, &e) && !e.Unknown {
			// The branch is there and nobody looks at it: a second attempt opens it.
			e.Message += fmt.Sprintf(" (branch %s is pushed)", name)
		}
		return gitops.Landing{}, err
	}
	return b.follow(pull, r.Digest), nil
}

// base is the branch that is merged into, by name.
func (b *branch) base(context.Context) (string, error) {
	if b.src.Branch == "" {
		return "", invalid("repository %s: pull requests need gitops.repositories[].branch, or a service's gitops.branch", b.src.Repository)
	}
	return b.src.Branch, nil
}

// branchOf is the branch of an effect: responder/RUN/STATE-VISIT-apply. It holds
// what git allows in a name.
func branchOf(effect string) string {
	return gitops.BranchPrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '/':
			return r
		default:
			return '-'
		}
	}, effect)
}

// follow is what a pull request has come to.
func (b *branch) follow(p forge.Pull, digest string) gitops.Landing {
	l := gitops.Landing{Plan: digest}
	switch p.State {
	case forge.Merged:
		l.SHA = p.Merged
	case forge.Closed:
		l.Closed = p.URL
	default:
		l.Waits = p.URL
		if p.Conflict {
			l.Waits += ", which no longer fits the branch"
		}
	}
	return l
}

func landed(c gitops.Commit) gitops.Landing {
	return gitops.Landing{SHA: c.SHA, Plan: c.Trailers[gitops.TrailerPlan]}
}

// remembered is how far back our own commits are looked for: no run is longer.
const remembered = 14 * 24 * time.Hour

// Find tells what became of the commit with that key. A pull request that was
// merged by squashing or rebasing is known by the forge; its commit carries
// our trailers all the same, or is named there.
func (m *Manifests) Find(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error) {
	b, err := m.branch(src)
	if err != nil {
		return gitops.Landing{}, err
	}
	if b.remote.Forge == nil {
		c, ok, err := b.repo.Find(ctx, "", key, time.Now().Add(-remembered))
		if err != nil || !ok {
			return gitops.Landing{}, err
		}
		return landed(c), nil
	}
	pull, ok, err := b.pull(ctx, key)
	if err != nil || !ok {
		return gitops.Landing{}, err
	}
	return b.follow(pull, ""), nil
}

func (b *branch) pull(ctx context.Context, key string) (forge.Pull, bool, error) {
	base, err := b.base(ctx)
	if err != nil {
		return forge.Pull{}, false, err
	}
	return b.remote.Forge.Find(ctx, base, branchOf(key), key)
}

// Withdraw closes the pull request of the commit with that key, if it is open,
// and deletes its branch while nobody else pushed to it.
func (m *Manifests) Withdraw(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error) {
	b, err := m.branch(src)
	if err != nil || b.remote.Forge == nil {
		return gitops.Landing{}, err
	}
	pull, ok, err := b.pull(ctx, key)
	if err != nil || !ok {
		return gitops.Landing{}, err
	}
	closed, err := b.remote.Forge.Close(ctx, pull.Number)
	if err != nil {
		return b.follow(closed, ""), err
	}
	// What is left of it harms nobody: the branch of a closed request. It is
	// deleted at our own commit only, so that nobody else's is lost with it.
	if own, err := b.own(ctx, pull, key); err == nil {
		_ = b.repo.DeleteBranch(ctx, pull.Branch, own)
	}
	return b.follow(closed, ""), nil
}

// own is our commit on the pull request's branch, whatever the branch is at now.
func (b *branch) own(ctx context.Context, p forge.Pull, key string) (string, error) {
	c, ok, err := b.repo.Find(ctx, p.Branch, key, time.Now().Add(-remembered))
	if err != nil {
		return "", err
	}
	if !ok {
		return "", &gitops.Error{Reason: gitops.Conflict, Message: fmt.Sprintf(
			"branch %s of %s no longer holds our commit: somebody rewrote it; close the pull request or merge it by hand", p.Branch, p.URL)}
	}
	return c.SHA, nil
}

// Merge merges the pull request of the commit with that key, where that is
// ours to do and the forge lets us. What people merge is left to them. It is
// merged at our own commit: what somebody pushed on top was approved by nobody,
// and the forge refuses with a Conflict.
func (m *Manifests) Merge(ctx context.Context, src gitops.Source, key string) error {
	b, err := m.branch(src)
	if err != nil || b.remote.Forge == nil || !b.remote.Merges {
		return err
	}
	pull, ok, err := b.pull(ctx, key)
	if err != nil || !ok || pull.State != forge.Open || pull.Conflict {
		return err
	}
	own, err := b.own(ctx, pull, key)
	if err != nil {
		return err
	}
	_, err = b.remote.Forge.Merge(ctx, pull.Number, own, "", gitops.TrailerEffect+": "+key)
	return err
}
