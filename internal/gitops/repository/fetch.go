package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

// patience is the factor by which a transfer may exceed Timeout while data
// arrives.
const patience = 10

// Head fetches and returns the head of the branch.
func (r *Repository) Head(ctx context.Context) (string, error) {
	var head plumbing.Hash
	err := r.do(ctx, "fetch", func(ctx context.Context) (err error) {
		head, err = r.fetchBranch(ctx, r.o.Branch, 0)
		return err
	})
	if err != nil {
		return "", err
	}
	return head.String(), nil
}

// Branch returns the name of the branch: the configured one, or the remote's
// default branch.
func (r *Repository) Branch(ctx context.Context) (name string, err error) {
	err = r.do(ctx, "fetch", func(ctx context.Context) error {
		at, err := r.fetchRef(ctx, r.o.Branch, 0)
		if err == nil {
			name = at.Name().Short()
		}
		return err
	})
	return name, err
}

// errNoBranch means that the remote does not have the branch.
var errNoBranch = errors.New("no such branch")

// exchange runs one exchange with the remote under the time-outs. The callee calls
// beat when data arrives.
func (r *Repository) exchange(ctx context.Context, f func(ctx context.Context, beat func()) error) error {
	ctx, end := context.WithTimeout(ctx, patience*r.o.Timeout)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(r.o.Timeout, func() { cancel(context.DeadlineExceeded) })
	defer watchdog.Stop()
	err := f(ctx, func() { watchdog.Reset(r.o.Timeout) })
	var known *fault.Error
	if err != nil && ctx.Err() != nil && !isLocal(err) && !errors.As(err, &known) {
		return context.Cause(ctx)
	}
	return err
}

// fetchBranch fetches the branch's head into the clone and returns it.
func (r *Repository) fetchBranch(ctx context.Context, branch string, depth int) (plumbing.Hash, error) {
	at, err := r.fetchRef(ctx, branch, depth)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return at.Hash(), nil
}

// fetchRef is fetchBranch for a named branch. depth > 0 requests that many
// commits; 0 what is new.
func (r *Repository) fetchRef(ctx context.Context, branch string, depth int) (at *plumbing.Reference, err error) {
	err = r.exchange(ctx, func(ctx context.Context, beat func()) error {
		s, err := r.carrier.fetch(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		adv, err := s.AdvertisedReferencesContext(ctx)
		if err != nil {
			return err
		}
		if at, err = r.resolve(adv, branch); err != nil {
			return err
		}
		if there, err := r.has(at.Hash()); err != nil || (there && depth == 0) {
			return err
		}
		return r.receive(ctx, s, adv, at.Hash(), depth, beat)
	})
	if err != nil {
		return nil, r.fetchError(err)
	}
	return at, nil
}

func (r *Repository) fetchError(err error) error {
	var d *damaged
	switch {
	case errors.As(err, &d), errors.Is(err, errNoBranch):
		return err
	case isLocal(err):
		return r.localError("fetch", err)
	}
	return r.remoteError("fetch", err, false)
}

// resolve finds a branch among the references. Empty: the default branch.
func (r *Repository) resolve(adv *packp.AdvRefs, branch string) (*plumbing.Reference, error) {
	name, err := r.refName(adv, branch)
	if err != nil {
		return nil, err
	}
	if h, ok := adv.References[name.String()]; ok {
		return plumbing.NewHashReference(name, h), nil
	}
	return nil, &fault.Error{
		Reason:  fault.NotFound,
		Message: fmt.Sprintf("repository %s has no branch %s", r.at, name.Short()), Err: errNoBranch,
	}
}

// refName returns the full name of a branch.
func (r *Repository) refName(adv *packp.AdvRefs, branch string) (plumbing.ReferenceName, error) {
	if branch != "" {
		return plumbing.NewBranchReferenceName(branch), nil
	}
	refs, err := adv.AllReferences()
	if err != nil {
		return "", err
	}
	head, err := refs.Reference(plumbing.HEAD)
	if err != nil || head.Type() != plumbing.SymbolicReference || !head.Target().IsBranch() {
		return "", &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("repository %s names no default branch: configure the branch", r.at)}
	}
	return head.Target(), nil
}

// has reports whether a commit was fetched.
func (r *Repository) has(h plumbing.Hash) (bool, error) {
	switch _, err := r.store.EncodedObject(plumbing.CommitObject, h); {
	case err == nil:
		return true, nil
	case errors.Is(err, plumbing.ErrObjectNotFound):
		return false, nil
	default:
		return false, &damaged{err}
	}
}

// receive requests a commit's objects and stores them.
func (r *Repository) receive(ctx context.Context, s fetching, adv *packp.AdvRefs, want plumbing.Hash, depth int, beat func()) error {
	req := packp.NewUploadPackRequestFromCapabilities(adv.Capabilities)
	req.Wants = []plumbing.Hash{want}
	shallows, err := r.store.Shallow()
	if err != nil {
		return &damaged{err}
	}
	if req.Haves, err = r.haves(); err != nil {
		return err
	}
	if depth == 0 && len(req.Haves) == 0 {
		depth = r.o.Depth
	}
	if adv.Capabilities.Supports(capability.Shallow) {
		_ = req.Capabilities.Set(capability.Shallow) // fails for arguments only
		req.Depth, req.Shallows = packp.DepthCommits(depth), slices.Clone(shallows)
	}
	resp, err := s.UploadPack(ctx, req)
	if err != nil {
		return err
	}
	defer resp.Close()
	pack := outbound.Limit(beating{resp, beat}, r.o.Limits.Pack, errTooLarge)
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		pack = sideband.NewDemuxer(sideband.Sideband64k, pack)
	case req.Capabilities.Supports(capability.Sideband):
		pack = sideband.NewDemuxer(sideband.Sideband, pack)
	}
	if err := r.keep(pack); err != nil {
		return err
	}
	// Written after the objects: a missing boundary would hide what is missing, and
	// one too many is found as damage.
	if err := r.reshallow(shallows, resp.ShallowUpdate); err != nil {
		return err
	}
	if there, err := r.has(want); err != nil || !there {
		return cmp.Or(err, errStopped)
	}
	return r.remember(want)
}

type beating struct {
	io.Reader
	beat func()
}

func (b beating) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.beat()
	return n, err
}

// keep writes a pack into the clone.
func (r *Repository) keep(pack io.Reader) error {
	err := packfile.WritePackfileToObjectStorage(&r.store.ObjectStorage, pack)
	if errors.Is(err, packfile.ErrEmptyPackfile) {
		return nil
	}
	return err
}

// tip is our only reference: the last fetched commit, from which the next fetch
// starts.
const tip = plumbing.ReferenceName("refs/responder/tip")

func (r *Repository) remember(h plumbing.Hash) error {
	return r.store.SetReference(plumbing.NewHashReference(tip, h))
}

// haves returns commits that the remote need not send: the last head, and some of
// its ancestors in case the branch was rewritten.
func (r *Repository) haves() ([]plumbing.Hash, error) {
	ref, err := r.store.Reference(tip)
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, &damaged{err}
	}
	if there, err := r.has(ref.Hash()); err != nil || !there {
		return nil, &damaged{fmt.Errorf("commit %s is missing", ref.Hash())}
	}
	var haves []plumbing.Hash
	n, next := 0, 0
	_, err = r.walk(context.Background(), ref.Hash(), true, 256, func(c *commit) (bool, error) {
		if n == next {
			haves, next = append(haves, c.Hash), max(1, next*2)
		}
		n++
		return false, nil
	})
	return haves, err
}

func (r *Repository) reshallow(old []plumbing.Hash, u packp.ShallowUpdate) error {
	if len(u.Shallows)+len(u.Unshallows) == 0 {
		return nil
	}
	var now []plumbing.Hash
	for _, h := range append(slices.Clone(old), u.Shallows...) {
		if !slices.Contains(u.Unshallows, h) && !slices.Contains(now, h) {
			now = append(now, h)
		}
	}
	return r.store.SetShallow(now)
}

// ensure fetches until a commit is in the clone, deepening the history as needed.
func (r *Repository) ensure(ctx context.Context, sha string) (*commit, error) {
	h, err := parseSHA(sha)
	if err != nil {
		return nil, err
	}
	there, err := r.has(h)
	if err != nil {
		return nil, err
	}
	if !there {
		if err := r.search(ctx, h); err != nil {
			return nil, err
		}
	}
	return r.commit(h)
}

// search fetches ever more of the branch until a commit is there.
func (r *Repository) search(ctx context.Context, h plumbing.Hash) error {
	if _, err := r.fetchBranch(ctx, r.o.Branch, 0); err != nil {
		return err
	}
	for depth := 4 * r.o.Depth; ; depth *= 4 {
		if there, err := r.has(h); err != nil || there {
			return err
		}
		more, err := r.deepen(ctx, r.o.Branch, depth)
		if err != nil {
			return err
		}
		if !more {
			return notFound("repository %s has no commit %s on its branch", r.at, h)
		}
	}
}

// deepen requests more of a branch's history. It returns false if there is no
// more, and an error if there is more than we walk.
func (r *Repository) deepen(ctx context.Context, branch string, depth int) (bool, error) {
	shallows, err := r.store.Shallow()
	if err != nil {
		return false, &damaged{err}
	}
	if len(shallows) == 0 {
		return false, nil
	}
	if depth > 4*r.o.Limits.History {
		return false, bounded("repository %s: the answer is further back than %d commits (limits.history)", r.at, r.o.Limits.History)
	}
	if _, err := r.fetchBranch(ctx, branch, depth); err != nil {
		return false, err
	}
	return true, nil
}

func parseSHA(sha string) (plumbing.Hash, error) {
	if !plumbing.IsHash(sha) || len(sha) != 40 {
		return plumbing.ZeroHash, invalid("commit %q: want 40 hexadecimal digits", outbound.Cut(sha, 60))
	}
	return plumbing.NewHash(sha), nil
}
