package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

type giteaBranch struct {
	Protected bool `json:"protected"`
	CanPush   bool `json:"user_can_push"` // this token's user
	Approvals int  `json:"required_approvals"`
}

func (g *gitea) branchRules(ctx context.Context, branch string) (giteaBranch, error) {
	var out giteaBranch
	_, err := g.do(ctx, call{doing: "read branch", method: http.MethodGet, path: g.repository + "/branches/" + (&url.URL{Path: branch}).EscapedPath(), out: &out})
	return out, err
}

func (g *gitea) protection(ctx context.Context, branch string) (Protection, error) {
	b, err := g.branchRules(ctx, branch)
	switch {
	case err != nil || b.CanPush:
		return Protection{}, err
	case b.Protected:
		return Protection{Protected: true, Why: "branch " + branch + " is protected"}, nil
	}
	return Protection{Protected: true, Why: "the token's user may not push to branch " + branch}, nil
}

func (g *gitea) needs(ctx context.Context, p Pull) ([]string, error) {
	var reviews []review
	_, err := g.do(ctx, call{
		doing: "read reviews", method: http.MethodGet, path: fmt.Sprintf("%s/pulls/%d/reviews", g.repository, p.Number), out: &reviews,
		query: url.Values{"limit": {fmt.Sprint(page)}},
	})
	if err != nil {
		return nil, err
	}
	approved, needs := verdicts(reviews)
	if len(reviews) >= page {
		needs = append(needs, "it has more reviews than are looked through")
	}
	b, err := g.branchRules(ctx, p.Base)
	if err != nil {
		return nil, err
	}
	if missing := b.Approvals - approved; missing > 0 {
		needs = append(needs, fmt.Sprintf("%d more approval(s) needed", missing))
	}
	var status struct {
		State string `json:"state"` // of all together
		Total int    `json:"total_count"`
		List  []struct {
			Context string `json:"context"`
			State   string `json:"status"`
		} `json:"statuses"`
	}
	_, err = g.do(ctx, call{doing: "read checks", method: http.MethodGet, path: g.repository + "/commits/" + p.Head + "/status", out: &status})
	if err != nil {
		return nil, err
	}
	named := len(needs)
	for _, s := range status.List {
		if why := check(s.Context, s.State); why != "" {
			needs = append(needs, why)
		}
	}
	if named == len(needs) && status.Total > 0 {
		if why := check("of the commit", status.State); why != "" {
			needs = append(needs, why)
		}
	}
	return needs, nil
}

// Gitea answers 404 for a commit without a pull request. An invisible repository
// is distinguished from that.
func (g *gitea) of(ctx context.Context, sha string) ([]Pull, error) {
	var out giteaPull
	code, err := g.do(ctx, call{doing: "find pull request of commit", method: http.MethodGet, path: g.repository + "/commits/" + sha + "/pull", out: &out})
	switch {
	case code == http.StatusNotFound:
		return nil, g.exists(ctx)
	case err != nil:
		return nil, err
	}
	return []Pull{out.pull()}, nil
}
