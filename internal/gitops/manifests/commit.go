package manifests

import (
	"context"
	"errors"
	"time"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/repository"
)

// Commit makes one commit of a proposal, in the requested delivery mode: on the
// branch, or on one of its own for which a pull request is opened. It is
// idempotent under the effect. A push that is refused because the branch is
// protected is an error with [gitops.ErrProtected] in it. It is remembered: from
// then on [Manifests.Delivery] returns another mode.
func (m *Manifests) Commit(ctx context.Context, r gitops.Request) (gitops.Landing, error) {
	b, err := m.branch(r.Proposal.Source)
	if err != nil {
		return gitops.Landing{}, err
	}
	if r.PullRequest {
		return b.request(ctx, r)
	}
	done, err := b.write(ctx, r, "")
	if errors.Is(err, gitops.ErrProtected) {
		b.refuses(time.Now())
	}
	return landed(done), err
}

// write pushes the commit; to is a branch to create, empty: the source's branch.
func (b *branch) write(ctx context.Context, r gitops.Request, to string) (gitops.Commit, error) {
	message := repository.Message{
		What: r.What, Why: r.Why, Alert: r.Alert, Run: r.Run, State: r.State, Plan: r.Digest, Effect: r.Effect, Drift: r.Drift,
	}
	p := r.Proposal
	if len(p.Reverts) > 0 {
		return b.repo.Revert(ctx, repository.RevertRequest{Base: p.Base, Branch: to, Commits: p.Reverts, Paths: p.Within, Message: message})
	}
	return b.repo.Commit(ctx, repository.CommitRequest{Base: p.Base, Branch: to, Files: p.Files, Deleted: p.Deleted, Message: message, TakesBack: p.TakesBack})
}

func landed(c gitops.Commit) gitops.Landing {
	return gitops.Landing{SHA: c.SHA, Plan: c.Trailers[gitops.TrailerPlan], Drift: c.Trailers[gitops.TrailerDrift]}
}

// remembered is how far back our own commits are searched: no run is longer.
const remembered = 14 * 24 * time.Hour

// Find returns the state of the commit with that key. If there is a forge, its
// pull requests are checked first: it knows which commit a squashed or rebased one
// became, whatever its trailers.
func (m *Manifests) Find(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error) {
	b, err := m.branch(src)
	if err != nil {
		return gitops.Landing{}, err
	}
	if b.remote.Forge != nil {
		pull, base, ok, err := b.pull(ctx, key)
		if err != nil {
			return gitops.Landing{}, err
		}
		if ok {
			return b.follow(ctx, pull, base), nil
		}
	}
	c, ok, err := b.repo.Find(ctx, "", key, time.Now().Add(-remembered))
	if err != nil || !ok {
		return gitops.Landing{}, err
	}
	return landed(c), nil
}
