package forge

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// gitea speaks the REST API v1 of Gitea and Forgejo.
type gitea struct {
	*caller
	repository string
}

type giteaPull struct {
	Number int64  `json:"number"`
	URL    string `json:"html_url"`
	State  string `json:"state"`
	Title  string `json:"title"`
	Body   string `json:"body"`
	Head   struct {
		Label      string `json:"label"` // the branch, also after it was deleted
		Ref        string `json:"ref"`   // refs/pull/N/head then
		SHA        string `json:"sha"`
		Repository int64  `json:"repo_id"`
	} `json:"head"`
	Base struct {
		Ref        string `json:"ref"`
		Repository int64  `json:"repo_id"`
	} `json:"base"`
	Merged      bool   `json:"merged"`
	MergeCommit string `json:"merge_commit_sha"`
	Mergeable   *bool  `json:"mergeable"`
	MergedBy    struct {
		Login string `json:"login"`
	} `json:"merged_by"`
}

// giteaPages are gone through; a page is the most that a default server gives.
const giteaPages = 20

func (g giteaPull) branch() string {
	if strings.HasPrefix(g.Head.Ref, "refs/pull/") {
		return g.Head.Label[strings.LastIndex(g.Head.Label, ":")+1:]
	}
	return g.Head.Ref
}

func (g giteaPull) pull() Pull {
	p := Pull{Number: g.Number, URL: g.URL, Branch: g.branch(), Base: g.Base.Ref, Head: g.Head.SHA, Title: g.Title}
	p.own(g.Body)
	switch {
	case g.Merged:
		p.State, p.Merged, p.MergedBy = Merged, g.MergeCommit, g.MergedBy.Login
	case g.State == "open":
		p.State = Open
		if g.Mergeable != nil && !*g.Mergeable {
			// Also said while it is being checked, so that it is not known to be a conflict.
			p.Blocked = "it conflicts with the base branch, or is still being checked"
		}
	default:
		p.State = Closed
	}
	return p
}

func (g *gitea) open(ctx context.Context, q Request) (Pull, error) {
	var out giteaPull
	_, err := g.do(ctx, call{
		doing: "open pull request", method: http.MethodPost, path: g.repository + "/pulls", out: &out,
		in: map[string]any{"title": q.Title, "head": q.Branch, "base": q.Base, "body": body(q)},
	})
	return out.pull(), err
}

// list asks for one of the branch, which is certain when there is none; when
// there are several, Gitea gives any of them, so the newest of the repository
// are gone through.
func (g *gitea) list(ctx context.Context, base, branch string) ([]Pull, bool, error) {
	var one giteaPull
	code, err := g.do(ctx, call{
		doing: "find pull request", method: http.MethodGet, out: &one,
		path: g.repository + "/pulls/" + url.PathEscape(base) + "/" + (&url.URL{Path: branch}).EscapedPath(),
	})
	if code == http.StatusNotFound {
		return nil, true, g.exists(ctx) // 404 is also a repository that is not seen
	}
	if err != nil {
		return nil, false, err
	}
	pulls := []Pull{one.pull()}
	for n := 1; n <= giteaPages; n++ {
		var out []giteaPull
		_, err := g.do(ctx, call{
			doing: "find pull request", method: http.MethodGet, path: g.repository + "/pulls", out: &out,
			query: url.Values{"state": {"all"}, "page": {fmt.Sprint(n)}, "limit": {fmt.Sprint(page)}},
		})
		if err != nil {
			return nil, false, err
		}
		for _, p := range out {
			if p.branch() == branch && p.Head.Repository == p.Base.Repository {
				pulls = append(pulls, p.pull())
			}
		}
		if len(out) == 0 {
			return newestFirst(pulls), true, nil
		}
	}
	return newestFirst(pulls), false, nil
}

func newestFirst(pulls []Pull) []Pull {
	slices.SortStableFunc(pulls, func(a, b Pull) int { return cmp.Compare(b.Number, a.Number) })
	return pulls
}

func (g *gitea) exists(ctx context.Context) error {
	_, err := g.do(ctx, call{doing: "find repository", method: http.MethodGet, path: g.repository})
	return err
}

func (g *gitea) get(ctx context.Context, number int64) (Pull, error) {
	var out giteaPull
	_, err := g.do(ctx, call{doing: "read pull request", method: http.MethodGet, path: fmt.Sprintf("%s/pulls/%d", g.repository, number), out: &out})
	return out.pull(), err
}

func (g *gitea) merge(ctx context.Context, p Pull, m Method, title, text string) error {
	code, err := g.do(ctx, call{
		doing: "merge pull request", method: http.MethodPost, path: fmt.Sprintf("%s/pulls/%d/merge", g.repository, p.Number),
		in: map[string]any{"Do": m, "head_commit_id": p.Head, "MergeTitleField": title, "MergeMessageField": text},
	})
	if err != nil {
		return refusedMerge(err, code, "; a review or a check is missing, or the repository does not allow this method")
	}
	return nil
}

func (g *gitea) close(ctx context.Context, number int64) error {
	_, err := g.do(ctx, call{
		doing: "close pull request", method: http.MethodPatch, path: fmt.Sprintf("%s/pulls/%d", g.repository, number),
		in: map[string]any{"state": "closed"},
	})
	return err
}
