package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/inference-responder/responder/internal/outbound"
)

// github implements GitHub's REST API, version 2022-11-28.
type github struct {
	*caller
	repository string
}

// page is how many pull requests of one branch are read.
const page = 50

type githubPull struct {
	Number int64  `json:"number"`
	URL    string `json:"html_url"`
	State  string `json:"state"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	Head   struct {
		Ref string `json:"ref"`
		SHA string `json:"sha"`
	} `json:"head"`
	Base struct {
		Ref string `json:"ref"`
	} `json:"base"`
	MergedAt string `json:"merged_at"`
	// Before the merge this is a trial merge on no branch.
	MergeCommit    string `json:"merge_commit_sha"`
	MergeableState string `json:"mergeable_state"`
	MergedBy       struct {
		Login string `json:"login"`
	} `json:"merged_by"`
}

func (g githubPull) pull() Pull {
	p := Pull{Number: g.Number, URL: g.URL, Branch: g.Head.Ref, Base: g.Base.Ref, Head: g.Head.SHA, Title: g.Title}
	p.own(g.Body)
	switch {
	case g.MergedAt != "":
		p.State, p.Merged, p.MergedBy = Merged, g.MergeCommit, g.MergedBy.Login
	case g.State == "open":
		p.State = Open
		p.Blocked, p.Conflict = mergeable(g.MergeableState)
	default:
		p.State = Closed
	}
	return p
}

// mergeable returns what blocks a merge, in GitHub's words. Only known good words
// mean "nothing"; missing or new words do not.
func mergeable(state string) (blocked string, conflict bool) {
	switch state {
	case "clean", "has_hooks":
		return "", false
	case "dirty":
		return "it conflicts with the base branch", true
	case "blocked":
		return "a required review or check is missing", false
	case "unstable":
		return "a check has not passed", false
	case "unknown":
		return "GitHub is working out whether it can be merged", false
	case "behind":
		return "it is behind the base branch", false
	case "draft":
		return "it is a draft", false
	case "":
		return "GitHub does not say whether it can be merged", false
	default:
		return "GitHub says that it is " + outbound.OneLine(state, 40) + ", which is not known to be mergeable", false
	}
}

func (g *github) open(ctx context.Context, q Request) (Pull, error) {
	var out githubPull
	_, err := g.do(ctx, call{
		doing: "open pull request", method: http.MethodPost, path: g.repository + "/pulls", out: &out,
		in: map[string]any{"title": q.Title, "head": q.Branch, "base": q.Base, "body": body(q)},
	})
	return out.pull(), err
}

func (g *github) list(ctx context.Context, _, branch string) ([]Pull, bool, error) {
	owner, _, _ := strings.Cut(strings.TrimPrefix(g.repository, "/repos/"), "/")
	var out []githubPull
	_, err := g.do(ctx, call{
		doing: "find pull request", method: http.MethodGet, path: g.repository + "/pulls", out: &out,
		query: url.Values{"head": {owner + ":" + branch}, "state": {"all"}, "sort": {"created"}, "direction": {"desc"}, "per_page": {fmt.Sprint(page)}},
	})
	if err != nil {
		return nil, false, err
	}
	var pulls []Pull
	for _, p := range out {
		pulls = append(pulls, p.pull())
	}
	return pulls, len(out) < page, nil
}

func (g *github) get(ctx context.Context, number int64) (Pull, error) {
	var out githubPull
	_, err := g.do(ctx, call{doing: "read pull request", method: http.MethodGet, path: fmt.Sprintf("%s/pulls/%d", g.repository, number), out: &out})
	return out.pull(), err
}

func (g *github) merge(ctx context.Context, p Pull, m Method, title, text string) error {
	code, err := g.do(ctx, call{
		doing: "merge pull request", method: http.MethodPut, path: fmt.Sprintf("%s/pulls/%d/merge", g.repository, p.Number),
		in: map[string]any{"sha": p.Head, "merge_method": m, "commit_title": title, "commit_message": text},
	})
	if err != nil {
		return refusedMerge(err, code, "; a review or a check is missing, or the repository does not allow this method")
	}
	return nil
}

func (g *github) close(ctx context.Context, number int64) error {
	_, err := g.do(ctx, call{
		doing: "close pull request", method: http.MethodPatch, path: fmt.Sprintf("%s/pulls/%d", g.repository, number),
		in: map[string]any{"state": "closed"},
	})
	return err
}
