package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// most is how many checks or reviews of one pull request are read.
const most = 100

func (g *github) protection(ctx context.Context, branch string) (Protection, error) {
	var out struct {
		Protected bool `json:"protected"` // by a rule of the branch, or a ruleset
	}
	_, err := g.do(ctx, call{doing: "read branch", method: http.MethodGet, path: g.repository + "/branches/" + url.PathEscape(branch), out: &out})
	if err != nil || !out.Protected {
		return Protection{}, err
	}
	return Protection{Protected: true, Why: "branch " + branch + " is protected"}, nil
}

func (g *github) needs(ctx context.Context, p Pull) ([]string, error) {
	var reviews []review
	if err := g.list100(ctx, fmt.Sprintf("%s/pulls/%d/reviews", g.repository, p.Number), &reviews); err != nil {
		return nil, err
	}
	_, needs := verdicts(reviews)
	if len(reviews) == most {
		needs = append(needs, "it has more reviews than are looked through")
	}
	var checks struct {
		Total int `json:"total_count"`
		Runs  []struct {
			Name       string `json:"name"`
			Status     string `json:"status"`
			Conclusion string `json:"conclusion"`
		} `json:"check_runs"`
	}
	if err := g.list100(ctx, g.repository+"/commits/"+p.Head+"/check-runs", &checks); err != nil {
		return nil, err
	}
	for _, r := range checks.Runs {
		state := r.Status
		if r.Status == "completed" {
			state = r.Conclusion
		}
		if why := check(r.Name, state); why != "" {
			needs = append(needs, why)
		}
	}
	var statuses struct {
		Total int `json:"total_count"`
		List  []struct {
			Context string `json:"context"`
			State   string `json:"state"`
		} `json:"statuses"`
	}
	if err := g.list100(ctx, g.repository+"/commits/"+p.Head+"/status", &statuses); err != nil {
		return nil, err
	}
	for _, s := range statuses.List {
		if why := check(s.Context, s.State); why != "" {
			needs = append(needs, why)
		}
	}
	if checks.Total > len(checks.Runs) || statuses.Total > len(statuses.List) {
		needs = append(needs, "it has more checks than are looked through")
	}
	return needs, nil
}

func (g *github) list100(ctx context.Context, path string, out any) error {
	_, err := g.do(ctx, call{doing: "read reviews and checks", method: http.MethodGet, path: path, out: out, query: url.Values{"per_page": {fmt.Sprint(most)}}})
	return err
}

func (g *github) of(ctx context.Context, sha string) ([]Pull, error) {
	var out []githubPull
	_, err := g.do(ctx, call{doing: "find pull request of commit", method: http.MethodGet, path: g.repository + "/commits/" + sha + "/pulls", out: &out})
	var pulls []Pull
	for _, p := range out {
		pulls = append(pulls, p.pull())
	}
	return pulls, err
}
