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

// sinceLastGood returns the commits to revert so that the variables that moved
// last are as they were last verified, newest first. The last good commit of
// each variable counts: verifying another variable later proves nothing about
// this one. A variable that was never verified cannot be reverted to. With a
// revision, only commits that it contains count.
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

// pastGood records variables that were considered and are not reverted.
type pastGood struct {
	never []string // nothing of it was ever verified
	good  []string // it is as it was verified
}

// movedWith returns the commits to the variables of one commit since each was
// last verified, including that commit, newest first. None: they are as
// verified.
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

// withoutRepairs returns the commits to revert, newest first. It leaves out a
// repair by Responder together with its cause if both would be reverted: that
// changes nothing. It refuses if a repair that is still in effect would be
// lost.
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
				"%s: going back %s would revert a repair by Responder, %s: gitops.revert with a window reverts what others changed and keeps the repair; revert a wrong repair by hand",
				stepName, to, commitText(c.Commit))}
		}
	}
	if len(out) == 0 {
		return nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf(
			"%s: going back %s changes nothing: repairs by Responder have reverted all later changes", stepName, to)}
	}
	return out, nil
}

// takenBack returns the commits that a later commit selected by the function by
// reverts, if that one is itself in effect: a commit whose revert was reverted
// is in effect again. Commits are newest first.
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

// variables returns the variables that a commit moved, each once.
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
