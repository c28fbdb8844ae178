package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// recentCommits is how many commits are searched for an effect that was made
// before.
const recentCommits = 1000

// target is the branch that a commit goes to.
type target struct {
	name  plumbing.ReferenceName
	old   plumbing.Hash // what the branch must still be at; zero: it must not exist
	base  *commit       // what the change is built on
	moved bool          // the branch is not at what the change was made for
	done  *commit       // the effect is there already
}

// aim returns the branch's head, and whether there is anything to do.
func (r *Repository) aim(ctx context.Context, w write) (t *target, err error) {
	if w.branch != "" && w.branch != r.o.Branch {
		return r.aimNew(ctx, w)
	}
	at, err := r.fetchRef(ctx, r.o.Branch, 0)
	if err != nil {
		return nil, err
	}
	t = &target{name: at.Name(), old: at.Hash()}
	if t.done, err = r.recent(ctx, at.Hash(), w.effect); err != nil || t.done != nil {
		return t, err
	}
	if w.base == "" {
		t.base, err = r.commit(at.Hash())
		return t, err
	}
	t.moved = at.Hash().String() != w.base
	t.base, err = r.ensure(ctx, w.base)
	var known *fault.Error
	if t.moved && errors.As(err, &known) && known.Reason == fault.NotFound {
		return nil, &fault.Error{
			Reason: fault.Conflict, Message: fmt.Sprintf("commit: repository %s", r.at),
			Err: &gitops.Divergence{Base: w.base, Head: at.Hash().String(), Rewritten: true},
		}
	}
	return t, err
}

// aimNew is aim for a new branch that starts at Base. Base need not be the head of
// the configured branch: the pull request shows conflicts.
func (r *Repository) aimNew(ctx context.Context, w write) (*target, error) {
	t := &target{name: plumbing.NewBranchReferenceName(w.branch)}
	at, err := r.fetchRef(ctx, w.branch, 0)
	switch {
	case err == nil:
		if t.done, err = r.recent(ctx, at.Hash(), w.effect); err != nil || t.done != nil {
			return t, err
		}
		return nil, r.taken(w.branch, at.Hash())
	case !errors.Is(err, errNoBranch):
		return nil, err
	}
	if w.base == "" {
		h, err := r.fetchBranch(ctx, r.o.Branch, 0)
		if err != nil {
			return nil, err
		}
		w.base = h.String()
	}
	t.base, err = r.ensure(ctx, w.base)
	return t, err
}

func (r *Repository) taken(branch string, head plumbing.Hash) error {
	return &fault.Error{
		Reason:  fault.Conflict,
		Message: fmt.Sprintf("commit: repository %s has a branch %s already, at %.10s, without this effect: delete it if nobody needs it", r.at, branch, head),
	}
}

// recent looks for an effect among the last commits.
func (r *Repository) recent(ctx context.Context, head plumbing.Hash, effect string) (found *commit, err error) {
	_, err = r.walk(ctx, head, false, recentCommits, func(c *commit) (bool, error) {
		if strings.Contains(c.Message, effect) && trailers(c.Message)[gitops.TrailerEffect] == effect {
			found = c
		}
		return found != nil, nil
	})
	return found, err
}

// push moves the branch from old to the new commit. lost: somebody else moved it
// first.
func (r *Repository) push(ctx context.Context, t *target, p *pack) (lost bool, err error) {
	return r.move(ctx, "push", &packp.Command{Name: t.name, Old: t.old, New: p.commit}, p.bytes)
}

// move is one push of one command.
func (r *Repository) move(ctx context.Context, doing string, c *packp.Command, pack []byte) (lost bool, err error) {
	sent := false
	err = r.exchange(ctx, func(ctx context.Context, _ func()) error {
		s, err := r.carrier.push(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		adv, err := s.AdvertisedReferencesContext(ctx)
		if err != nil {
			return err
		}
		if adv.References[c.Name.String()] != c.Old { // not there: the zero hash
			lost = true
			return nil
		}
		sent = true
		output, report, err := r.swap(ctx, s, adv, c, pack)
		if err == nil || report == nil {
			return err
		}
		refused := r.refusal(c.Name, report, output)
		lost = refused.Reason == fault.Conflict
		if lost {
			return nil
		}
		return refused
	})
	if err != nil {
		return false, r.remoteError(doing, err, sent)
	}
	return lost, nil
}

// lostRace describes what came between our fetch and our push.
func (r *Repository) lostRace(ctx context.Context, w write, t *target, want map[string]change) (*commit, error) {
	at, err := r.fetchRef(ctx, t.name.Short(), 0)
	if err != nil {
		return nil, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("push: branch %s of repository %s moved meanwhile", t.name.Short(), r.at)}
	}
	if done, err := r.recent(ctx, at.Hash(), w.effect); err != nil || done != nil {
		return done, err
	}
	if t.old.IsZero() {
		return nil, r.taken(t.name.Short(), at.Hash())
	}
	return nil, r.conflict(ctx, t.base.Hash, at.Hash(), want)
}

// swap sends one command. The report is nil when no answer was read.
func (r *Repository) swap(ctx context.Context, s pushing, adv *packp.AdvRefs, c *packp.Command, pack []byte) (string, *packp.ReportStatus, error) {
	if !adv.Capabilities.Supports(capability.ReportStatus) {
		return "", nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("push: repository %s does not report whether a push succeeded", r.at)}
	}
	req := packp.NewReferenceUpdateRequestFromCapabilities(adv.Capabilities)
	req.Commands = []*packp.Command{c}
	var output limitedBuffer
	if adv.Capabilities.Supports(capability.Sideband64k) {
		_ = req.Capabilities.Set(capability.Sideband64k) // fails for arguments only
		req.Progress = &output
	}
	if pack != nil {
		req.Packfile = io.NopCloser(bytes.NewReader(pack))
	}
	report, err := s.ReceivePack(ctx, req)
	switch {
	case report == nil && err == nil:
		err = errStopped // an empty answer
	case report != nil && err == nil && len(report.CommandStatuses) == 0:
		report, err = nil, errStopped // it says nothing of our branch
	}
	return output.String(), report, err
}

// refusal explains a push that the remote read and refused.
func (r *Repository) refusal(name plumbing.ReferenceName, report *packp.ReportStatus, output string) *fault.Error {
	status := report.UnpackStatus
	if status == "ok" && len(report.CommandStatuses) > 0 {
		status = report.CommandStatuses[0].Status
	}
	text := r.shown(status)
	if output = r.shown(output); output != "" {
		text += ": " + output
	}
	e := &fault.Error{Message: fmt.Sprintf("push: repository %s refuses branch %s: %s", r.at, name.Short(), text)}
	lower := strings.ToLower(text)
	has := func(signs ...string) bool {
		for _, s := range signs {
			if strings.Contains(lower, s) {
				return true
			}
		}
		return false
	}
	switch {
	case report.UnpackStatus != "ok":
		e.Reason = fault.ServerError
	case has("protected", "gh006", "gh013", "rule violations", "not allowed to push", "tf402455", "changes must be made through a pull request"):
		e.Reason, e.Err = fault.Forbidden, gitops.ErrProtected
		e.Message += "; name the forge, for pull requests, or let this identity push"
	case has("hook declined", "hook"):
		e.Reason = fault.Forbidden
		e.Message += "; a hook of the server decides this: ask who runs it"
	case has("non-fast-forward", "fetch first", "failed to update ref", "failed to lock", "cannot lock ref", "incorrect old value", "stale info", "already exists", "reference has changed", "unable to lock"):
		e.Reason = fault.Conflict
	case has("denied", "permission", "not allowed", "prohibited", "deny"):
		e.Reason = fault.Forbidden
	default:
		e.Reason = fault.ServerError
	}
	return e
}

// DeleteBranch removes a branch if it is still at a commit, for example after a
// pull request was closed. A missing branch is no error.
func (r *Repository) DeleteBranch(ctx context.Context, branch, sha string) error {
	old, err := parseSHA(sha)
	if err != nil {
		return err
	}
	if err := validBranch(branch); err != nil {
		return err
	}
	if branch == r.o.Branch {
		return invalid("branch %s of repository %s is the configured one and is not deleted", branch, r.at)
	}
	return r.do(ctx, "delete branch", func(ctx context.Context) error {
		at, err := r.fetchRef(ctx, branch, 0)
		if errors.Is(err, errNoBranch) {
			return nil
		}
		if err != nil {
			return err
		}
		lost := at.Hash() != old
		if !lost {
			lost, err = r.move(ctx, "delete branch", &packp.Command{Name: at.Name(), Old: old}, nil)
		}
		if err == nil && lost {
			return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("delete branch: %s of repository %s is no longer at %.10s: somebody pushed to it", branch, r.at, old)}
		}
		return err
	})
}
