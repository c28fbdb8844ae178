package manifests

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/forge"
)

// refusedFor is how long a refused push is remembered. After that the forge's
// answer counts again, or the next push shows it.
const refusedFor = time.Hour

// Delivery returns how a change of the source's branch is delivered now. If the forge
// cannot be asked, it is an error: otherwise a push that nobody may make would be
// planned.
func (m *Manifests) Delivery(ctx context.Context, src gitops.Source) (gitops.Delivery, error) {
	b, err := m.branch(src)
	if err != nil {
		return gitops.Delivery{}, err
	}
	r := b.remote
	switch {
	case r.Forge == nil, r.Delivery == Push:
		return gitops.Delivery{}, nil
	case r.Delivery == PullRequest:
		return b.byRequest("way is pull_request"), nil
	}
	base, err := b.base(ctx)
	if err != nil {
		return gitops.Delivery{}, err
	}
	if b.wasRefused(time.Now()) {
		return b.byRequest("branch " + base + " is protected"), nil
	}
	p, err := r.Forge.Protection(ctx, base)
	if err != nil || !p.Protected {
		return gitops.Delivery{}, err
	}
	return b.byRequest(p.Why), nil
}

func (b *branch) byRequest(why string) gitops.Delivery {
	return gitops.Delivery{PullRequest: true, Why: why, Forge: b.remote.Forge.String(), Within: cmp.Or(b.remote.Within, MergeWithin)}
}

// refuses remembers that a push was refused because the branch is protected.
func (b *branch) refuses(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = now
}

func (b *branch) wasRefused(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.refused.IsZero() && now.Sub(b.refused) < refusedFor
}

// request pushes the commit to a branch of its own and opens a pull request.
func (b *branch) request(ctx context.Context, r gitops.Request) (gitops.Landing, error) {
	if b.remote.Forge == nil {
		return gitops.Landing{}, invalid("repository %s: pull requests need gitops.repositories[].forge", b.src.Repository)
	}
	base, err := b.base(ctx)
	if err != nil {
		return gitops.Landing{}, err
	}
	name := branchOf(r.Effect)
	if pull, ok, err := b.remote.Forge.Find(ctx, base, name, r.Effect); err != nil || ok {
		return landing(pull, base), err // whatever plan it was opened for
	}
	done, err := b.writeAnew(ctx, r, name)
	if err != nil {
		return gitops.Landing{}, err
	}
	pull, err := b.remote.Forge.Open(ctx, forge.Request{Branch: name, Base: base, Head: done.SHA, Title: r.What, Plan: r.Plan, Digest: r.Digest, Effect: r.Effect})
	if err != nil {
		var e *fault.Error
		if errors.As(err, &e) && !e.Unknown {
			// The branch exists without a pull request: a second attempt opens it.
			e.Message += fmt.Sprintf(" (branch %s is pushed)", name)
		}
		return gitops.Landing{}, err
	}
	return landing(pull, base), nil
}

// writeAnew pushes the commit to a branch of its own. It replaces what an earlier
// plan left there without a pull request, because that was not approved now.
func (b *branch) writeAnew(ctx context.Context, r gitops.Request, name string) (gitops.Commit, error) {
	done, err := b.write(ctx, r, name)
	if err != nil || done.Trailers[gitops.TrailerPlan] == r.Digest {
		return done, err
	}
	if err := b.repo.DeleteBranch(ctx, name, done.SHA); err != nil {
		return gitops.Commit{}, err
	}
	return b.write(ctx, r, name)
}

// base returns the name of the branch that is merged into.
func (b *branch) base(ctx context.Context) (string, error) {
	if b.src.Branch != "" {
		return b.src.Branch, nil
	}
	return b.repo.Branch(ctx)
}

// branchOf returns the branch of an effect: responder/RUN/STATE-VISIT-apply, in
// characters that git allows in a name.
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

// landing returns what became of a pull request that was opened into a base. If
// somebody changed the base, it is no longer what was planned, and once merged it
// is on another branch than ours.
func landing(p forge.Pull, base string) gitops.Landing {
	l := gitops.Landing{Plan: p.Digest}
	moved := p.Base != base
	switch {
	case p.State == forge.Merged && !moved:
		l.SHA = p.Merged
	case p.State == forge.Open:
		l.Waits = p.URL
	default:
		l.Closed = p.URL
	}
	switch {
	case p.State == forge.Closed:
	case moved && p.State == forge.Merged:
		l.Changed = fmt.Sprintf("%s was merged into %s, not into %s: somebody changed its base", p.URL, p.Base, base)
	case moved:
		l.Changed = fmt.Sprintf("%s goes into %s, not into %s: somebody changed its base", p.URL, p.Base, base)
	case p.Commit != "" && p.Head != p.Commit:
		l.Changed = fmt.Sprintf("%s holds more than what was planned: its branch is at %.10s, ours was %.10s", p.URL, p.Head, p.Commit)
	}
	return l
}

// follow is landing, with what an open pull request waits for.
func (b *branch) follow(ctx context.Context, p forge.Pull, base string) gitops.Landing {
	l := landing(p, base)
	if l.Waits == "" || l.Changed != "" {
		return l
	}
	now, needs, err := b.remote.Forge.Needs(ctx, p.Number)
	switch {
	case err != nil:
		// It is followed all the same; it is not merged by us.
		l.Needs = []string{"what it waits for cannot be read: " + err.Error()}
		return l
	case now.State != forge.Open || now.Head != p.Head || now.Base != p.Base:
		return landing(now, base) // since it was listed
	}
	l.Needs = needs
	return l
}

// pull finds the pull request of the commit with that key, and the base that it
// was opened into.
func (b *branch) pull(ctx context.Context, key string) (p forge.Pull, base string, ok bool, err error) {
	if base, err = b.base(ctx); err != nil {
		return forge.Pull{}, "", false, err
	}
	p, ok, err = b.remote.Forge.Find(ctx, base, branchOf(key), key)
	return p, base, ok, err
}

// Withdraw closes the pull request of the commit with that key, if it is open,
// and deletes its branch while nobody else pushed to it. A branch that stays is no
// error: it harms nobody, and the landing says it.
func (m *Manifests) Withdraw(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error) {
	b, err := m.branch(src)
	if err != nil || b.remote.Forge == nil {
		return gitops.Landing{}, err
	}
	pull, base, ok, err := b.pull(ctx, key)
	if err != nil || !ok {
		return gitops.Landing{}, err
	}
	closed, err := b.remote.Forge.Close(ctx, pull.Number)
	if err != nil {
		return landing(closed, base), err
	}
	l := landing(closed, base)
	// It is deleted at our own commit only, so that nobody else's is lost with it.
	left := errors.New("the text of the pull request no longer names our commit")
	if pull.Commit != "" {
		left = b.repo.DeleteBranch(ctx, pull.Branch, pull.Commit)
	}
	if left != nil {
		l.Left = fmt.Sprintf("branch %s of %s stays: %v", pull.Branch, pull.URL, left)
	}
	return l, nil
}

// Merge merges the pull request of the commit with that key, as soon as nothing
// that is required is missing; what is missing is the error. It is merged at our
// own commit: what somebody pushed on top was approved by nobody, and is a
// Conflict, and so is a commit in its place. Whether that is ours to do the
// caller knows.
func (m *Manifests) Merge(ctx context.Context, src gitops.Source, key string) error {
	b, err := m.branch(src)
	if err != nil || b.remote.Forge == nil {
		return err
	}
	pull, base, ok, err := b.pull(ctx, key)
	if err != nil || !ok || pull.State != forge.Open {
		return err
	}
	if pull.Commit == "" {
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("the text of %s no longer names our commit: merge it by hand, or close it", pull.URL)}
	}
	_, err = b.remote.Forge.Merge(ctx, pull.Number, base, pull.Commit, "", gitops.TrailerEffect+": "+key)
	return err
}

// maxRecognised is how many commits of one history the forge is asked about.
const maxRecognised = 50

// associated is how long a forge may take to know what a commit came with: an
// earlier "nothing" is not remembered.
const associated = 10 * time.Minute

// recognise adds to commits that came with pull requests of ours the trailer that
// a squash, or whoever merged them, left out.
func (b *branch) recognise(ctx context.Context, log []gitops.Touched) error {
	if b.remote.Forge == nil {
		return nil
	}
	asked := 0
	for i := range log {
		c := &log[i].Commit
		if c.Trailers[gitops.TrailerEffect] != "" {
			continue
		}
		b.mu.Lock()
		effect, known := b.known[c.SHA]
		b.mu.Unlock()
		if !known {
			if asked++; asked > maxRecognised {
				return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
					"%s was asked %d times whose commits these are, and there are more: ask again to continue, or use a shorter window", b.remote.Forge, maxRecognised)}
			}
			pull, _, err := b.remote.Forge.Of(ctx, c.SHA)
			if err != nil {
				return err
			}
			if effect = pull.Effect; effect != "" || time.Since(c.At) > associated {
				b.mu.Lock()
				b.known[c.SHA] = effect
				b.mu.Unlock()
			}
		}
		if effect != "" {
			trailers := maps.Clone(c.Trailers)
			if trailers == nil {
				trailers = map[string]string{}
			}
			trailers[gitops.TrailerEffect] = effect
			c.Trailers = trailers
		}
	}
	return nil
}
