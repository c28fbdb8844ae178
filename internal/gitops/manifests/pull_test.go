package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/forge"
	"github.com/inference-responder/responder/internal/gitops/gittest"
	"github.com/inference-responder/responder/internal/gitops/repository"
)

// requesting is over, by pull requests that we merge.
func requesting(t *testing.T, s *gittest.Server) (*Manifests, *gittest.Forge) {
	t.Helper()
	const token = "forge-token"
	f := gittest.NewForge(t, s, "github", token)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := forge.New(forge.Options{Kind: "github", API: f.API(), Repository: f.Repository(), TokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Options{Dir: t.TempDir(), Remotes: []Remote{{
		Branch: "main", Forge: c, Delivery: PullRequest,
		Repository: repository.Options{URL: s.RepositoryURL(), Author: gitops.Person{Name: "responder", Email: "r@example.com"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, f
}

// What was approved is merged, and nothing that somebody pushed on top of it;
// nor is that deleted when the request is withdrawn.
func TestPullRequestHoldsOurCommitOnly(t *testing.T) {
	for _, pushed := range []bool{false, true} {
		s, _, src, target := fleet(t)
		m, _ := requesting(t, s)
		const effect = "r-1/cap#1/apply"
		branch := branchOf(effect)
		p := propose(t, m, gitops.Want{Source: src, Target: target, Set: []gitops.Assignment{{Variable: seqs, Value: "192"}}})
		asked, err := m.Commit(t.Context(), gitops.Request{Proposal: p, What: "chat: fewer", Run: "r-1", State: "cap", Effect: effect, PullRequest: true})
		if err != nil || asked.SHA != "" {
			t.Fatalf("landed before it was merged: %+v, %v", asked, err)
		}
		if l, err := m.Find(t.Context(), src, effect); err != nil || l.Waits == "" || l.SHA != "" {
			t.Fatalf("waiting is %+v, %v", l, err)
		}
		if !pushed {
			if err := m.Merge(t.Context(), src, effect); err != nil {
				t.Fatal(err)
			}
			l, err := m.Find(t.Context(), src, effect)
			if err != nil || l.SHA == "" || !strings.Contains(s.Show(l.SHA, "base/chat/deployment.yaml"), "=192") {
				t.Errorf("merged is %+v, %v", l, err)
			}
			continue
		}
		s.Git("fetch", "--quiet", "origin")
		s.Git("checkout", "--quiet", "-B", "theirs", "origin/"+branch)
		s.Git("commit", "--quiet", "--allow-empty", "--message", "and something more")
		s.Git("push", "--quiet", "origin", "HEAD:"+branch)
		theirs, before := s.Head(branch), s.Head("main")
		if err := m.Merge(t.Context(), src, effect); !reasonIs(err, fault.Conflict, "") || s.Head("main") != before {
			t.Errorf("merged what nobody approved: %v", err)
		}
		if l, err := m.Withdraw(t.Context(), src, effect); err != nil || l.Closed == "" || s.Head(branch) != theirs || !strings.Contains(l.Left, branch) || !strings.Contains(l.Left, "somebody pushed to it") {
			t.Errorf("withdrawn %+v, %v; their branch is at %q", l, err, s.Head(branch))
		}
	}
}
