package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

func (g *gitlab) protection(ctx context.Context, branch string) (Protection, error) {
	var out struct {
		Protected bool `json:"protected"`
		CanPush   bool `json:"can_push"` // this token's user
	}
	_, err := g.do(ctx, call{doing: "read branch", method: http.MethodGet, path: g.project + "/repository/branches/" + url.PathEscape(branch), out: &out})
	switch {
	case err != nil || out.CanPush:
		return Protection{}, err
	case out.Protected:
		return Protection{Protected: true, Why: "branch " + branch + " is protected"}, nil
	}
	return Protection{Protected: true, Why: "the token's user may not push to branch " + branch}, nil
}

// words translates GitLab's reasons for waiting; others are shown as they are.
var words = map[string]string{
	"not_approved":             "an approval is missing",
	"requested_changes":        "a reviewer asks for changes",
	"ci_must_pass":             "its pipeline has to succeed",
	"ci_still_running":         "its pipeline is not over",
	"discussions_not_resolved": "a discussion is not resolved",
	"draft_status":             "it is a draft",
	"need_rebase":              "it is behind the base branch",
	"status_checks_must_pass":  "an external check has to pass",
	"merge_request_blocked":    "it waits for another merge request",
	"checking":                 "GitLab is checking whether it can be merged",
	"unchecked":                "GitLab is checking whether it can be merged",
	"preparing":                "GitLab is checking whether it can be merged",
	"approvals_syncing":        "GitLab is checking whether it can be merged",
}

// needs expects a pull request that was read alone: a list has no pipeline.
func (g *gitlab) needs(ctx context.Context, p Pull) ([]string, error) {
	var out struct {
		Status   string `json:"detailed_merge_status"`
		Pipeline *struct {
			Status string `json:"status"`
		} `json:"head_pipeline"`
	}
	_, err := g.do(ctx, call{doing: "read merge request", method: http.MethodGet, path: fmt.Sprintf("%s/merge_requests/%d", g.project, p.Number), out: &out})
	if err != nil {
		return nil, err
	}
	var needs []string
	switch word := words[out.Status]; {
	case out.Status == "mergeable", p.Conflict:
	case word != "":
		needs = append(needs, word)
	default:
		needs = append(needs, "GitLab says "+orUnknown(out.Status))
	}
	if out.Pipeline != nil {
		switch out.Pipeline.Status {
		case "success", "skipped":
		case "failed", "canceled", "canceling":
			needs = append(needs, "its pipeline "+out.Pipeline.Status)
		default:
			needs = append(needs, "its pipeline is not over: "+orUnknown(out.Pipeline.Status))
		}
	}
	return needs, nil
}

func orUnknown(s string) string {
	if s == "" {
		return "nothing of its state"
	}
	return strings.ReplaceAll(s, "_", " ")
}

func (g *gitlab) of(ctx context.Context, sha string) ([]Pull, error) {
	var out []gitlabMerge
	_, err := g.do(ctx, call{doing: "find merge request of commit", method: http.MethodGet, path: g.project + "/repository/commits/" + sha + "/merge_requests", out: &out})
	var pulls []Pull
	for _, m := range out {
		if m.Source == m.Target {
			pulls = append(pulls, m.pull())
		}
	}
	return pulls, err
}
