package manifests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/forge"
	"github.com/inference-responder/responder/internal/gitops/gittest"
	"github.com/inference-responder/responder/internal/gitops/repository"
)

// protected is a fleet whose changes go through pull requests.
func protected(t *testing.T, kind string, merges bool) (*gittest.Server, *gittest.Forge, *Manifests, gitops.Source) {
	t.Helper()
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"apps/chat.yaml": base})
	f := gittest.NewForge(t, s, kind, "token")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := forge.New(forge.Options{Kind: forge.Kind(kind), API: f.API(), Repository: f.Repository(), TokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Options{Dir: t.TempDir(), Remotes: []Remote{{
		Branch: "main", Forge: client, Merges: merges,
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
	return s, f, m, gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "apps"}
}

var chat = gitops.Target{Kind: "Deployment", Name: "chat"}

const effect = "r-01ABC/cap#1/apply"

// request asks for 192 sequences, by a pull request.
func request(t *testing.T, m *Manifests, src gitops.Source) gitops.Landing {
	t.Helper()
	p := propose(t, m, gitops.Want{Source: src, Target: chat, Set: []gitops.Assignment{{Variable: seqs, Value: "192"}}})
	l, err := m.Commit(t.Context(), gitops.Request{Proposal: p, What: "chat: fewer", Plan: "256 -> 192", Run: "r-01ABC", State: "cap", Digest: "sha256:abc", Effect: effect})
	if err != nil || l.SHA != "" || l.Waits == "" {
		t.Fatalf("asked for: %+v, %v", l, err)
	}
	return l
}

// A change that people merge, however they do, is found as the commit it became
// and taken back by a pull request in its turn.
func TestPullRequestMergedByPeople(t *testing.T) {
	for _, kind := range []string{"github", "gitlab", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, f, m, src := protected(t, kind, false)
			waits := request(t, m, src)
			if again := request(t, m, src); again.Waits != waits.Waits || len(f.Pulls()) != 1 {
				t.Errorf("asked for again: %+v, %d requests", again, len(f.Pulls()))
			}
			if err := m.Merge(t.Context(), src, effect); err != nil || strings.Contains(s.Show("main", "apps/chat.yaml"), "192") {
				t.Errorf("we merged what people merge: %v", err)
			}
			sha := f.MergeAs(t, "ada", 1, "squash")
			l, err := m.Find(t.Context(), src, effect)
			if err != nil || l.SHA != sha || l.Waits != "" {
				t.Fatalf("merged: %+v, %v", l, err)
			}
			back, err := m.Reverting(t.Context(), src, chat, []string{sha})
			if err != nil {
				t.Fatal(err)
			}
			undo, err := m.Commit(t.Context(), gitops.Request{Proposal: back, What: "back", Run: "r-01ABC", State: "cap", Effect: "r-01ABC/cap#1/undo"})
			if err != nil || undo.Waits == "" || undo.Waits == waits.Waits {
				t.Fatalf("taken back: %+v, %v", undo, err)
			}
			f.MergeAs(t, "ada", 2, "merge")
			if got := s.Show("main", "apps/chat.yaml"); got != base {
				t.Errorf("after both:\n%s", got)
			}
		})
	}
}

// What nobody merged is withdrawn, and what a person closed stays closed.
func TestPullRequestWithdrawn(t *testing.T) {
	s, _, m, src := protected(t, "github", false)
	request(t, m, src)
	for range 2 {
		l, err := m.Withdraw(t.Context(), src, effect)
		if err != nil || l.Closed == "" || l.Waits != "" || l.SHA != "" {
			t.Fatalf("withdrawn: %+v, %v", l, err)
		}
	}
	if s.Show("main", "apps/chat.yaml") != base || s.Head(branchOf(effect)) != "" {
		t.Error("something of it is left")
	}
	_, f, m, src := protected(t, "gitea", false)
	request(t, m, src)
	f.CloseAs(1)
	if l, err := m.Find(t.Context(), src, effect); err != nil || l.Closed == "" {
		t.Errorf("closed by a person: %+v, %v", l, err)
	}
}

// Where we merge, it is merged as soon as the forge's rules let us.
func TestPullRequestMergedByUs(t *testing.T) {
	s, f, m, src := protected(t, "github", true)
	request(t, m, src)
	f.Block("needs a review")
	if err := m.Merge(t.Context(), src, effect); !reasonIs(err, gitops.Forbidden, "") {
		t.Errorf("a blocked one: %v", err)
	}
	f.Block("")
	if err := m.Merge(t.Context(), src, effect); err != nil {
		t.Fatal(err)
	}
	if l, err := m.Find(t.Context(), src, effect); err != nil || l.SHA != s.Head("main") {
		t.Errorf("merged: %+v, %v", l, err)
	}
}
