package proposal

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// Revert completes the proposal that reverts commits, whose files are set already. It is
// refused if it would also change another workload.
func (r Reading) Revert(p *gitops.Proposal, t gitops.Target) error {
	t = r.Own(t)
	var before []gitops.File
	for _, f := range r.Files {
		if slices.Contains(p.Deleted, f.Path) || slices.ContainsFunc(p.Files, func(o gitops.File) bool { return o.Path == f.Path }) {
			before = append(before, f)
		}
	}
	p.Touches = touches(before, p.Files, t)
	after := r.after(p.Files, p.Deleted)
	p.Manifests, p.Plain = gitops.Plain(r.Files, after, r.Target(t))
	p.Plain = p.Plain && len(p.Deleted) == 0
	if all := touches(before, p.Files, gitops.Target{}); len(all) > len(p.Touches) {
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"reverting %s would also change another workload: %s: revert it by hand", shortAll(p.Reverts), otherThan(all, p.Touches))}
	}
	if err := r.keeps(t, after); err != nil {
		return err
	}
	if err := r.alone(t, after, p.Reverts); err != nil {
		return err
	}
	if len(p.Touches) == 0 {
		return &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("reverting %s changes nothing of %s", shortAll(p.Reverts), t.Name)}
	}
	return nil
}

// Unpick returns a file without what a commit changed in it, and what later commits
// changed; false: they changed the same lines.
func Unpick(before, after, now []byte) ([]byte, bool) {
	moved, ok := carried(pieces(string(after), string(before)), gitops.Hunks(string(after), string(now)))
	if !ok {
		return nil, false
	}
	return []byte(joined(lines(string(now)), moved)), true
}

// keeps refuses a revert that would remove the target's manifest: a commit that
// created it is not a change of it.
func (r Reading) keeps(t gitops.Target, after []gitops.File) error {
	removed := &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("reverting would remove the manifest of %s %s", t.Kind, t.Name)}
	if t.HelmRelease != "" {
		if gitops.Removed(r.Files, after, r.Target(t)) {
			return removed
		}
		return nil
	}
	replicas := gitops.Variable{Replicas: true}
	if _, err := gitops.Locate(r.Files, r.Target(t), replicas); err != nil {
		return nil // it cannot be told now either
	}
	if _, err := gitops.Locate(after, r.Target(t), replicas); isNotFound(err) {
		return removed
	}
	return nil
}

// after returns the files as a revert leaves them.
func (r Reading) after(files []gitops.File, deleted []string) []gitops.File {
	return slices.DeleteFunc(overlaid(r.Files, []gitops.Edit{{Files: files}}), func(f gitops.File) bool { return slices.Contains(deleted, f.Path) })
}

// alone refuses a revert of a file that another kustomization uses, too.
func (r Reading) alone(t gitops.Target, after []gitops.File, shas []string) error {
	shared, err := gitops.Affected(r.Files, after, r.Target(t))
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

func isNotFound(err error) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Reason == fault.NotFound
}
