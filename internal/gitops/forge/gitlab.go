package forge

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/inference-responder/responder/internal/outbound"
)

// gitlab implements GitLab's REST API v4, in which a pull request is a merge
// request.
type gitlab struct {
	*caller
	project string
}

type gitlabMerge struct {
	Number   int64  `json:"iid"`
	URL      string `json:"web_url"`
	State    string `json:"state"` // opened, closed, locked, merged
	Title    string `json:"title"`
	Text     string `json:"description"`
	Branch   string `json:"source_branch"`
	Base     string `json:"target_branch"`
	Source   int64  `json:"source_project_id"`
	Target   int64  `json:"target_project_id"`
	SHA      string `json:"sha"`
	MergeSHA string `json:"merge_commit_sha"`
	Squashed string `json:"squash_commit_sha"`
	Status   string `json:"detailed_merge_status"`
	Clash    bool   `json:"has_conflicts"`
	MergedBy struct {
		Username string `json:"username"`
	} `json:"merge_user"`
}

// free are the states in which nothing known blocks a merge.
var free = map[string]bool{"": true, "mergeable": true, "checking": true, "unchecked": true, "preparing": true, "approvals_syncing": true}

func (g gitlabMerge) pull() Pull {
	p := Pull{Number: g.Number, URL: g.URL, Branch: g.Branch, Base: g.Base, Head: g.SHA, Title: g.Title}
	p.own(g.Text)
	switch g.State {
	case "merged":
		// A fast-forward makes neither commit: the branch's own commit is then on the
		// base.
		p.State, p.Merged, p.MergedBy = Merged, cmp.Or(g.MergeSHA, g.Squashed, g.SHA), g.MergedBy.Username
	case "opened", "locked": // locked while it is being merged
		p.State = Open
		if !free[g.Status] {
			p.Blocked = outbound.OneLine(g.Status, 100)
		}
		if p.Conflict = g.Clash || g.Status == "conflict" || g.Status == "broken_status"; p.Conflict {
			p.Blocked = "it conflicts with the base branch"
		}
	default:
		p.State = Closed
	}
	return p
}

func (g *gitlab) open(ctx context.Context, q Request) (Pull, error) {
	var out gitlabMerge
	_, err := g.do(ctx, call{
		doing: "open merge request", method: http.MethodPost, path: g.project + "/merge_requests", out: &out,
		in: map[string]any{"title": q.Title, "source_branch": q.Branch, "target_branch": q.Base, "description": body(q)},
	})
	return out.pull(), err
}

func (g *gitlab) list(ctx context.Context, _, branch string) ([]Pull, bool, error) {
	var out []gitlabMerge
	_, err := g.do(ctx, call{
		doing: "find merge request", method: http.MethodGet, path: g.project + "/merge_requests", out: &out,
		query: url.Values{"source_branch": {branch}, "state": {"all"}, "order_by": {"created_at"}, "sort": {"desc"}, "per_page": {fmt.Sprint(page)}},
	})
	if err != nil {
		return nil, false, err
	}
	var pulls []Pull
	for _, m := range out {
		if m.Source == m.Target { // a fork's branch of the same name is somebody else's
			pulls = append(pulls, m.pull())
		}
	}
	return pulls, len(out) < page, nil
}

func (g *gitlab) get(ctx context.Context, number int64) (Pull, error) {
	var out gitlabMerge
	_, err := g.do(ctx, call{doing: "read merge request", method: http.MethodGet, path: fmt.Sprintf("%s/merge_requests/%d", g.project, number), out: &out})
	return out.pull(), err
}

func (g *gitlab) merge(ctx context.Context, p Pull, m Method, title, text string) error {
	key := "merge_commit_message"
	if m == MethodSquash {
		key = "squash_commit_message"
	}
	code, err := g.do(ctx, call{
		doing: "merge merge request", method: http.MethodPut, path: fmt.Sprintf("%s/merge_requests/%d/merge", g.project, p.Number),
		in: map[string]any{"sha": p.Head, "squash": m == MethodSquash, key: title + "\n\n" + text},
	})
	if code == http.StatusUnauthorized {
		code = http.StatusMethodNotAllowed // GitLab's word for a user who may not merge here
	}
	if err != nil {
		return refusedMerge(err, code, "; an approval or a pipeline is missing, or this user may not merge")
	}
	return nil
}

func (g *gitlab) close(ctx context.Context, number int64) error {
	_, err := g.do(ctx, call{
		doing: "close merge request", method: http.MethodPut, path: fmt.Sprintf("%s/merge_requests/%d", g.project, number),
		in: map[string]any{"state_event": "close"},
	})
	return err
}
