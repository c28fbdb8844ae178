package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
)

// sinceGood are the commits to take back so that what moved last is as it was
// last verified, newest first. A variable's own last good commit counts: that
// another variable was verified later says nothing of this one, and what was
// never verified cannot be gone back to.
func (l gitopsRevert) sinceGood(ctx context.Context, in Input, at site) ([]gitops.Touched, error) {
	all, err := l.h.Changes(ctx, at.src, at.object, in.Now.Add(-historyReach))
	if err != nil {
		return nil, err
	}
	var never, good []string
	for _, c := range all {
		if repairs(c.Commit) || repaired(c.Commit, all) {
			continue
		}
		var out []gitops.Touched
		for _, v := range variables(c) {
			sha := ""
			if l.good != nil {
				_, sha, _ = l.good.LastGood(in.Service.Name, v)
			}
			if sha == "" {
				never = appendOnce(never, v)
				continue
			}
			after, err := l.h.Since(ctx, at.src, at.object, sha)
			if err != nil {
				return nil, err
			}
			if !contains(after, c) {
				good = appendOnce(good, fmt.Sprintf("%s at %s", v, short(sha)))
				continue
			}
			for _, a := range after {
				if slices.Contains(variables(a), v) && !contains(out, a) {
					out = append(out, a)
				}
			}
		}
		if len(out) > 0 {
			slices.SortStableFunc(out, func(a, b gitops.Touched) int { return b.Commit.At.Compare(a.Commit.At) })
			return out, nil
		}
	}
	switch {
	case len(never) > 0:
		return nil, &Error{Reason: machine.ReasonNoData, Message: fmt.Sprintf(
			"gitops.revert: no value of %s was ever verified on service %s: 'responder gitops last-good' lists those that were", strings.Join(never, ", "), in.Service.Name)}
	case len(good) > 0:
		return nil, &Error{Reason: machine.ReasonNothingToDo, Message: fmt.Sprintf("gitops.revert: %s is as it was last verified: %s", in.Service.Name, few(good))}
	}
	return nil, &Error{Reason: machine.ReasonNothingToDo, Message: fmt.Sprintf(
		"gitops.revert: no commit of the last %s touched the manifests of %s", span(historyReach), in.Service.Name)}
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
