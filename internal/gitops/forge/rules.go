package forge

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/outbound"
)

// Protection is what a forge reports about pushes to a branch.
type Protection struct {
	Protected bool
	Why       string // in words; empty: it is not protected, as far as this token's user goes
}

// Protection returns whether a branch may be pushed to. If the forge reports it
// for the token's user, that counts. GitHub reports only that a branch is
// protected, not against whom.
func (c *Client) Protection(ctx context.Context, branch string) (Protection, error) {
	return c.api.protection(ctx, branch)
}

// Needs returns a pull request and what keeps an open one from being merged, as
// text: required reviews and checks, and checks that failed or are running,
// required or not. None: it can be merged now. An incomplete list is an error,
// never "none".
func (c *Client) Needs(ctx context.Context, number int64) (Pull, []string, error) {
	p, err := c.api.get(ctx, number)
	if err != nil || p.State != Open {
		return p, nil, err
	}
	needs, err := c.api.needs(ctx, p)
	if err != nil {
		return p, nil, err
	}
	if p.Blocked != "" && (len(needs) == 0 || p.Conflict) {
		needs = append([]string{p.Blocked}, needs...)
	}
	return p, few(needs), nil
}

// Of returns our merged pull request that a commit of a base branch came with. The
// forge knows it even if a squash or a rebase removed the trailers. False: there
// is none.
func (c *Client) Of(ctx context.Context, sha string) (Pull, bool, error) {
	pulls, err := c.api.of(ctx, sha)
	if err != nil {
		return Pull{}, false, err
	}
	for _, p := range pulls {
		if p.State == Merged && p.Effect != "" && strings.HasPrefix(p.Branch, gitops.BranchPrefix) {
			return p, true, nil
		}
	}
	return Pull{}, false, nil
}

// maxNeeds is how many are named; the rest are counted.
const maxNeeds = 5

func few(needs []string) []string {
	for i := range needs {
		needs[i] = outbound.OneLine(needs[i], 120)
	}
	slices.Sort(needs)
	needs = slices.Compact(needs)
	if n := len(needs); n > maxNeeds {
		needs = append(needs[:maxNeeds], fmt.Sprintf("and %d more", n-maxNeeds))
	}
	return needs
}

// check returns what a check blocks on: its name and the forge's words for its
// state. Empty: it does not block.
func check(name, state string) string {
	switch strings.ToLower(state) {
	case "success", "neutral", "skipped":
		return ""
	case "failure", "error", "cancelled", "timed_out", "action_required", "stale", "startup_failure", "warning":
		return fmt.Sprintf("check %s: %s", name, strings.ReplaceAll(state, "_", " "))
	case "":
		return fmt.Sprintf("check %s: its state is not known", name)
	default: // queued, in_progress, pending, and what this program does not know
		return fmt.Sprintf("check %s is not over: %s", name, strings.ReplaceAll(state, "_", " "))
	}
}

// verdicts returns who requests changes, from reviews in order of arrival: the
// last approval or rejection of a person counts.
func verdicts(reviews []review) (approved int, needs []string) {
	last := map[string]string{}
	var people []string
	for _, r := range reviews {
		switch r.State {
		case "APPROVED", "CHANGES_REQUESTED", "REQUEST_CHANGES", "DISMISSED":
			if _, known := last[r.User.Login]; !known {
				people = append(people, r.User.Login)
			}
			last[r.User.Login] = r.State
			if r.Dismissed {
				last[r.User.Login] = "DISMISSED"
			}
		}
	}
	for _, who := range people {
		switch last[who] {
		case "APPROVED":
			approved++
		case "CHANGES_REQUESTED", "REQUEST_CHANGES":
			needs = append(needs, who+" asks for changes")
		}
	}
	return approved, needs
}

// review is one review, as GitHub and Gitea report it.
type review struct {
	State     string `json:"state"`
	Dismissed bool   `json:"dismissed"` // Gitea's
	User      struct {
		Login string `json:"login"`
	} `json:"user"`
}
