package git

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
)

// sinceGood are the commits to take back so that what moved last is as it was
// last verified, newest first. A variable's own last good commit counts: that
// another variable was verified later says nothing of this one, and what was
// never verified cannot be gone back to. With a revision, only what that has
// counts.
func (g Change) sinceLastGood(ctx context.Context, in step.Input, at site, stepName, revision string) ([]gitops.Touched, error) {
	all, err := g.h.Changes(ctx, at.src, at.object, in.Now.Add(-historyReach))
	if err == nil && revision != "" {
		all, err = g.deployedWith(ctx, at, all, revision)
	}
	if err != nil {
		return nil, err
	}
	var past pastGood
	repaired := takenBack(all, repairs)
	for _, c := range all {
		if repairs(c.Commit) || repaired[c.Commit.SHA] {
			continue
		}
		out, err := g.movedWith(ctx, in, at, c, &past)
		if err != nil {
			return nil, err
		}
		if len(out) > 0 {
			if revision != "" {
				if out, err = g.deployedWith(ctx, at, out, revision); err != nil {
					return nil, err
				}
			}
			return withoutRepairs(out, stepName, "to what was last verified")
		}
		// What moved last is the suspect: an older change is not taken back in its place.
		if vs := variables(c); len(vs) > 0 && !slices.ContainsFunc(vs, func(v string) bool { return !slices.Contains(past.never, v) }) {
			return nil, &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf(
				"%s: what moved last is %s, by commit %s, and no value of it was ever verified on service %s: 'responder gitops last-good' lists those that were",
				stepName, few(vs), commitText(c.Commit), in.Service.Name)}
		}
	}
	switch {
	case len(past.never) > 0:
		return nil, &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf(
			"%s: no value of %s was ever verified on service %s: 'responder gitops last-good' lists those that were", stepName, strings.Join(past.never, ", "), in.Service.Name)}
	case len(past.good) > 0:
		return nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("%s: %s is as it was last verified: %s", stepName, in.Service.Name, few(past.good))}
	}
	return nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf(
		"%s: no commit of the last %s touched the manifests of %s", stepName, step.DurationText(historyReach), in.Service.Name)}
}

// pastGood are variables that were looked at and are not gone back to.
type pastGood struct {
	never []string // nothing of it was ever verified
	good  []string // it is as it was verified
}

// movedWith are the commits that came to the variables of one commit since each
// was last verified, that commit among them, newest first. None: it is good.
func (g Change) movedWith(ctx context.Context, in step.Input, at site, c gitops.Touched, past *pastGood) ([]gitops.Touched, error) {
	var line []gitops.Touched // since the oldest of the verified commits
	moved := map[string]bool{}
	for _, v := range variables(c) {
		sha := ""
		if g.good != nil {
			_, sha, _ = g.good.LastGood(in.Service.Name, v)
		}
		if sha == "" {
			past.never = appendOnce(past.never, v)
			continue
		}
		after, err := g.h.Since(ctx, at.src, at.object, sha)
		if err != nil {
			return nil, err
		}
		if !contains(after, c) {
			past.good = appendOnce(past.good, fmt.Sprintf("%s at %s", v, short(sha)))
			continue
		}
		for _, a := range after {
			if slices.Contains(variables(a), v) {
				moved[a.Commit.SHA] = true
			}
		}
		if len(after) > len(line) {
			line = after
		}
	}
	return slices.DeleteFunc(line, func(a gitops.Touched) bool { return !moved[a.Commit.SHA] }), nil
}

// withoutRepairs returns what going back takes back, of commits newest first. A
// repair of Responder's own whose cause goes back along with it is left out, and
// the cause too: both together change nothing. Any other repair that is still
// in effect would be lost, so going back is refused.
func withoutRepairs(changes []gitops.Touched, stepName, to string) ([]gitops.Touched, error) {
	var out []gitops.Touched
	back := takenBack(changes, func(gitops.Commit) bool { return true })
	left := map[string]bool{} // reverted by a repair that is left out
	for _, c := range changes {
		among := func(sha string) bool {
			return !left[sha] && slices.ContainsFunc(changes, func(o gitops.Touched) bool { return o.Commit.SHA == sha })
		}
		reverts := c.Commit.Reverts
		switch {
		case left[c.Commit.SHA]:
		case !repairs(c.Commit) || back[c.Commit.SHA]:
			out = append(out, c)
		case len(reverts) > 0 && !slices.ContainsFunc(reverts, func(sha string) bool { return !among(sha) }):
			for _, sha := range reverts {
				left[sha] = true
			}
		default:
			return nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf(
				"%s: going back %s would take back a repair of Responder's own, %s: gitops.revert with a window takes back what others changed and leaves it; a repair that is wrong is reverted by hand",
				stepName, to, commitText(c.Commit))}
		}
	}
	if len(out) == 0 {
		return nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf(
			"%s: going back %s changes nothing: what came since was taken back already by repairs of Responder's own", stepName, to)}
	}
	return out, nil
}

// takenBack are those of the commits, newest first, that a later one of a kind
// reverts which is itself in effect: a commit whose revert was reverted is in
// effect again.
func takenBack(changes []gitops.Touched, by func(gitops.Commit) bool) map[string]bool {
	back := map[string]bool{}
	for _, c := range changes {
		if back[c.Commit.SHA] || !by(c.Commit) {
			continue
		}
		for _, sha := range c.Commit.Reverts {
			back[sha] = true
		}
	}
	return back
}

// variables are what a commit moved, each once.
func variables(c gitops.Touched) []string {
	var out []string
	for _, t := range c.Touches {
		out = appendOnce(out, t.Variable)
	}
	return out
}

func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func contains(list []gitops.Touched, c gitops.Touched) bool {
	return slices.ContainsFunc(list, func(o gitops.Touched) bool { return o.Commit.SHA == c.Commit.SHA })
}
