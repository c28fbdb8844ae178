package manifests

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// asking is a change by pull request, of that plan.
func asking(t *testing.T, m *Manifests, src gitops.Source, value, digest string) gitops.Request {
	t.Helper()
	p := propose(t, m, gitops.Want{Source: src, Target: chat, Set: []gitops.Assignment{{Variable: seqs, Value: value}}})
	return gitops.Request{Proposal: p, What: "chat: " + value, Plan: "256 -> " + value, Run: "r-01ABC", State: "cap", Digest: digest, Effect: effect, PullRequest: true}
}

// TestPullRequestOfAnEarlierPlan: what was approved is what is asked for. A
// branch that an earlier plan left without a pull request gives way, and a pull
// request of an earlier plan says so.
func TestPullRequestOfAnEarlierPlan(t *testing.T) {
	for _, kind := range []string{"github", "gitlab", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, f, m, src := protected(t, kind)
			f.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodPost {
					w.WriteHeader(http.StatusForbidden)
					fmt.Fprint(w, `{"message": "not now"}`)
					return
				}
				next.ServeHTTP(w, r)
			})
			if _, err := m.Commit(t.Context(), asking(t, m, src, "192", "sha256:one")); !reasonIs(err, fault.Forbidden, "is pushed") {
				t.Fatalf("opened: %v", err)
			}
			f.Intercept(nil)
			l, err := m.Commit(t.Context(), asking(t, m, src, "128", "sha256:two"))
			if err != nil || l.Waits == "" || l.Plan != "sha256:two" || l.Changed != "" {
				t.Fatalf("the second plan: %+v, %v", l, err)
			}
			if got := s.Show(branchOf(effect), "apps/chat.yaml"); !strings.Contains(got, "=128") {
				t.Errorf("what is to be merged is not what was approved:\n%s", got)
			}
			l, err = m.Commit(t.Context(), asking(t, m, src, "64", "sha256:three"))
			if err != nil || l.Plan != "sha256:two" || len(f.Pulls()) != 1 {
				t.Errorf("the third: %+v, %v", l, err)
			}
			if l, err = m.Find(t.Context(), src, effect); err != nil || l.Plan != "sha256:two" || l.Waits == "" {
				t.Errorf("found: %+v, %v", l, err)
			}
		})
	}
}

// TestPullRequestRewritten: a commit that a person put in the place of ours, with
// its message, is not merged and not deleted.
func TestPullRequestRewritten(t *testing.T) {
	for name, text := range map[string]func(string) string{
		"the text as it was":  func(s string) string { return s },
		"without our commit":  func(s string) string { return s[strings.LastIndex(s, "Responder-Effect"):] },
		"and something added": func(s string) string { return s + "\nwatch out" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, f, m, src := protected(t, "github")
			request(t, m, src)
			s.Git("fetch", "--quiet", "origin")
			s.Git("checkout", "--quiet", "-B", "theirs", "origin/"+branchOf(effect))
			s.Write(map[string]string{"apps/chat.yaml": strings.Replace(base, "256", "9", 1)})
			s.Git("commit", "--quiet", "--all", "--amend", "--no-edit")
			s.Git("push", "--quiet", "--force", "origin", "HEAD:"+branchOf(effect))
			f.Edit(1, text(f.Pulls()[0].Text))
			theirs, main := s.Head(branchOf(effect)), s.Head("main")
			if err := m.Merge(t.Context(), src, effect); !reasonIs(err, fault.Conflict, "") || s.Head("main") != main {
				t.Errorf("merged: %v", err)
			}
			if l, err := m.Withdraw(t.Context(), src, effect); err != nil || l.Closed == "" || s.Head(branchOf(effect)) != theirs {
				t.Errorf("withdrawn: %+v, %v, and their branch is at %q", l, err, s.Head(branchOf(effect)))
			}
		})
	}
}
