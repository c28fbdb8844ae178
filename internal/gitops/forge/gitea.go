package forge

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
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
	Updated     time.Time `json:"updated_at"`
	Merged      bool      `json:"merged"`
	MergeCommit string    `json:"merge_commit_sha"`
	Mergeable   *bool     `json:"mergeable"`
	MergedBy    struct {
		Login string `json:"login"`
	} `json:"merged_by"`
}

// giteaPages is how many pages are read; a page is the largest that a default
// server returns.
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
			// Gitea reports this while it is still checking, too, so it is no proof of a
			// conflict.
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

// list returns the pull requests of the branch. Gitea cannot list them by branch
// alone. If there is none into the base, its base was changed recently or it does
// not exist, so the most recently changed ones are searched. If there are several,
// Gitea returns any of them, so the newest of the repository are searched.
func (g *gitea) list(ctx context.Context, base, branch string) ([]Pull, bool, error) {
	var one giteaPull
	code, err := g.do(ctx, call{
		doing: "find pull request", method: http.MethodGet, out: &one,
		path: g.repository + "/pulls/" + url.PathEscape(base) + "/" + (&url.URL{Path: branch}).EscapedPath(),
	})
	if code == http.StatusNotFound { // 404 is also a repository that is not seen, which the listing tells
		return g.listed(ctx, branch, "recentupdate", time.Now().Add(-rebased))
	}
	if err != nil {
		return nil, false, err
	}
	pulls, whole, err := g.listed(ctx, branch, "", time.Time{})
	if err != nil {
		return nil, false, err
	}
	return newestFirst(append([]Pull{one.pull()}, pulls...)), whole, nil
}

// rebased is how far back a change of a base is searched: longer than our pull
// requests wait to be merged.
const rebased = 7 * 24 * time.Hour

// listed searches the pull requests of the repository for those of a branch, up to
// the first that was last changed before a time.
func (g *gitea) listed(ctx context.Context, branch, sort string, until time.Time) ([]Pull, bool, error) {
	var pulls []Pull
	for n := 1; n <= giteaPages; n++ {
		query := url.Values{"state": {"all"}, "page": {fmt.Sprint(n)}, "limit": {fmt.Sprint(page)}}
		if sort != "" {
			query.Set("sort", sort)
		}
		var out []giteaPull
		_, err := g.do(ctx, call{doing: "find pull request", method: http.MethodGet, path: g.repository + "/pulls", out: &out, query: query})
		if err != nil {
			return nil, false, err
		}
		for _, p := range out {
			if p.branch() == branch && p.Head.Repository == p.Base.Repository {
				pulls = append(pulls, p.pull())
			}
		}
		if len(out) == 0 || !out[len(out)-1].Updated.IsZero() && out[len(out)-1].Updated.Before(until) {
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
