package manifests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/forge"
	"github.com/inference-responder/responder/internal/gitops/gittest"
	"github.com/inference-responder/responder/internal/gitops/repository"
)

// protected is a fleet whose branch is protected, as its forge says.
func protected(t *testing.T, kind string, set ...func(*Remote)) (*gittest.Server, *gittest.Forge, *Manifests, gitops.Source) {
	t.Helper()
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"apps/chat.yaml": base})
	f := gittest.NewForge(t, s, kind, "token")
	f.Protect("main")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := forge.New(forge.Options{Kind: forge.Kind(kind), API: f.API(), Repository: f.Repository(), TokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	remote := Remote{
		Branch: "main", Forge: client,
		Repository: repository.Options{URL: s.RepositoryURL(), Author: gitops.Person{Name: "responder", Email: "r@example.com"}},
	}
	for _, f := range set {
		f(&remote)
	}
	m, err := New(Options{Dir: t.TempDir(), Remotes: []Remote{remote}})
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
	l, err := m.Commit(t.Context(), gitops.Request{Proposal: p, What: "chat: fewer", Plan: "256 -> 192", Run: "r-01ABC", State: "cap", Digest: "sha256:abc", Effect: effect, PullRequest: true})
	if err != nil || l.SHA != "" || l.Waits == "" {
		t.Fatalf("asked for: %+v, %v", l, err)
	}
	return l
}

// A change that people merge, however they do, is found as the commit it became,
// is known to be ours, and is taken back by a pull request in its turn.
func TestPullRequestMergedByPeople(t *testing.T) {
	for _, kind := range []string{"github", "gitlab", "gitea"} {
		for _, method := range []string{"merge", "squash", "rebase"} {
			t.Run(kind+" "+method, func(t *testing.T) {
				t.Parallel()
				s, f, m, src := protected(t, kind)
				first := s.Head("main")
				waits := request(t, m, src)
				if again := request(t, m, src); again.Waits != waits.Waits || len(f.Pulls()) != 1 {
					t.Errorf("asked for again: %+v, %d requests", again, len(f.Pulls()))
				}
				sha := f.MergeAs(t, "ada", 1, method)
				s.GitBare("update-ref", "-d", "refs/heads/"+branchOf(effect)) // as forges do
				l, err := m.Find(t.Context(), src, effect)
				if err != nil || l.SHA != sha || l.Waits != "" || l.Changed != "" {
					t.Fatalf("merged: %+v, %v", l, err)
				}
				changes, err := m.Changes(t.Context(), src, chat, time.Now().Add(-time.Hour))
				if err != nil || len(changes) != 2 || changes[0].Commit.SHA != sha || changes[0].Commit.Trailers[gitops.TrailerEffect] != effect || changes[1].Commit.Trailers[gitops.TrailerEffect] != "" {
					t.Errorf("the history: %+v, %v", changes, err)
				}
				all, err := m.Since(t.Context(), src, gitops.Target{}, first)
				if err != nil || len(all) == 0 || all[0].Commit.SHA != sha || all[0].Commit.Trailers[gitops.TrailerEffect] != effect {
					t.Errorf("of every workload: %+v, %v", all, err)
				}
				back, err := m.Reverting(t.Context(), src, chat, []string{sha})
				if err != nil {
					t.Fatal(err)
				}
				undo, err := m.Commit(t.Context(), gitops.Request{Proposal: back, What: "back", Run: "r-01ABC", State: "cap", Effect: "r-01ABC/cap#1/undo", PullRequest: true})
				if err != nil || undo.Waits == "" || undo.Waits == waits.Waits {
					t.Fatalf("taken back: %+v, %v", undo, err)
				}
				f.MergeAs(t, "ada", 2, method)
				if got := s.Show("main", "apps/chat.yaml"); got != base {
					t.Errorf("after both:\n%s", got)
				}
			})
		}
	}
}

// What a person pushed to the branch of a request is seen, before and after it
// is merged.
func TestPullRequestChangedByPeople(t *testing.T) {
	for _, kind := range []string{"github", "gitlab", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, f, m, src := protected(t, kind)
			request(t, m, src)
			if l, err := m.Find(t.Context(), src, effect); err != nil || l.Changed != "" {
				t.Errorf("as we left it: %+v, %v", l, err)
			}
			s.Git("fetch", "--quiet", "origin")
			s.Git("checkout", "--quiet", "-B", "theirs", "origin/"+branchOf(effect))
			s.Git("commit", "--quiet", "--allow-empty", "--message", "and something more")
			s.Git("push", "--quiet", "origin", "HEAD:"+branchOf(effect))
			if l, err := m.Find(t.Context(), src, effect); err != nil || l.Waits == "" || !strings.Contains(l.Changed, "more than what was planned") {
				t.Errorf("changed: %+v, %v", l, err)
			}
			f.MergeAs(t, "ada", 1, "squash")
			s.GitBare("update-ref", "-d", "refs/heads/"+branchOf(effect))
			if l, err := m.Find(t.Context(), src, effect); err != nil || l.SHA == "" || l.Changed == "" {
				t.Errorf("changed and merged: %+v, %v", l, err)
			}
		})
	}
}

// A request whose base a person changed is no longer what was planned: it is found,
// said to be theirs, not merged, and a merge of it is none into our branch.
func TestPullRequestBaseChanged(t *testing.T) {
	for _, kind := range []string{"github", "gitlab", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, f, m, src := protected(t, kind)
			waits := request(t, m, src)
			s.GitBare("update-ref", "refs/heads/release", "main")
			f.Rebase(1, "release")
			l, err := m.Find(t.Context(), src, effect)
			if err != nil || l.Waits != waits.Waits || !strings.Contains(l.Changed, "goes into release, not into main: somebody changed its base") {
				t.Errorf("found: %+v, %v", l, err)
			}
			if again := request(t, m, src); again.Changed == "" || len(f.Pulls()) != 1 {
				t.Errorf("asked for again: %+v, %d requests", again, len(f.Pulls()))
			}
			if err := m.Merge(t.Context(), src, effect); !reasonIs(err, fault.Conflict, "somebody changed its base") {
				t.Errorf("merged: %v", err)
			}
			f.MergeAs(t, "ada", 1, "merge")
			l, err = m.Find(t.Context(), src, effect)
			if err != nil || l.None() || l.SHA != "" || l.Waits != "" || !strings.Contains(l.Changed, "was merged into release, not into main") {
				t.Errorf("merged elsewhere: %+v, %v", l, err)
			}
			if got := s.Show("main", "apps/chat.yaml"); got != base {
				t.Errorf("main has\n%s", got)
			}
		})
	}
}

// What nobody merged is withdrawn, and what a person closed stays closed.
func TestPullRequestWithdrawn(t *testing.T) {
	s, _, m, src := protected(t, "github")
	request(t, m, src)
	for range 2 {
		l, err := m.Withdraw(t.Context(), src, effect)
		if err != nil || l.Closed == "" || l.Left != "" || l.Waits != "" || l.SHA != "" {
			t.Fatalf("withdrawn: %+v, %v", l, err)
		}
	}
	if s.Show("main", "apps/chat.yaml") != base || s.Head(branchOf(effect)) != "" {
		t.Error("something of it is left")
	}
	s, _, m, src = protected(t, "gitlab")
	request(t, m, src)
	s.Hook("update", `echo 'deleting branches is for maintainers' >&2; exit 1`)
	if l, err := m.Withdraw(t.Context(), src, effect); err != nil || l.Closed == "" || !strings.Contains(l.Left, branchOf(effect)) || !strings.Contains(l.Left, "deleting branches is for maintainers") {
		t.Errorf("its branch stays: %+v, %v", l, err)
	}
	_, f, m, src := protected(t, "gitea")
	request(t, m, src)
	f.CloseAs(1)
	if l, err := m.Find(t.Context(), src, effect); err != nil || l.Closed == "" {
		t.Errorf("closed by a person: %+v, %v", l, err)
	}
}

// Where we merge, it is merged as soon as the forge's rules let us.
func TestPullRequestMergedByUs(t *testing.T) {
	s, f, m, src := protected(t, "github")
	request(t, m, src)
	f.Block("needs a review")
	if l, err := m.Find(t.Context(), src, effect); err != nil || len(l.Needs) != 1 || !strings.Contains(l.Needs[0], "required review") {
		t.Errorf("it waits for %+v, %v", l, err)
	}
	if err := m.Merge(t.Context(), src, effect); !reasonIs(err, fault.Forbidden, "") {
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

// TestDelivery: a change is pushed or asked for as the forge, the configuration or
// the last push says, and nothing is guessed where the forge does not answer.
func TestDelivery(t *testing.T) {
	for _, kind := range []string{"github", "gitlab", "gitea"} {
		for _, test := range []struct {
			branch, way string
			pull        bool
			why         string
		}{
			{"main", "", true, "main is protected"},
			{"main", "auto", true, "main is protected"},
			{"main", "push", false, ""},
			{"other", "auto", false, ""},
			{"other", "pull_request", true, "way is pull_request"},
		} {
			_, f, m, src := protected(t, kind, func(r *Remote) { r.Delivery, r.Branch = Mode(test.way), test.branch })
			src.Branch = test.branch
			w, err := m.Delivery(t.Context(), src)
			if err != nil || w.PullRequest != test.pull || !strings.Contains(w.Why, test.why) || test.pull && (w.Within != time.Hour || w.Forge == "") {
				t.Errorf("%s %+v: %+v, %v", kind, test, w, err)
			}
			f.Close()
			if _, err := m.Delivery(t.Context(), src); (err != nil) != (test.way == "" || test.way == "auto") {
				t.Errorf("%s %+v: without an answer: %v", kind, test, err)
			}
		}
	}
}

// TestOnlyThePushTells: a push that is refused because of a protection that the
// API does not tell changes nothing but the way of the next attempt.
func TestOnlyThePushTells(t *testing.T) {
	s, f, m, src := protected(t, "github", func(r *Remote) { r.Branch = "" })
	src.Branch = "" // the default one is found out
	f.Unprotect("main")
	s.Hook("update", `test "$1" != refs/heads/main || { echo 'error: GH006: Protected branch update failed for refs/heads/main.' >&2; exit 1; }`)
	if w, err := m.Delivery(t.Context(), src); err != nil || w.PullRequest {
		t.Fatalf("before: %+v, %v", w, err)
	}
	p := propose(t, m, gitops.Want{Source: src, Target: chat, Set: []gitops.Assignment{{Variable: seqs, Value: "192"}}})
	r := gitops.Request{Proposal: p, What: "chat: fewer", Run: "r-01ABC", State: "cap", Digest: "sha256:abc", Effect: effect}
	if _, err := m.Commit(t.Context(), r); !errors.Is(err, gitops.ErrProtected) || !reasonIs(err, fault.Forbidden, "GH006") {
		t.Fatalf("pushed: %v", err)
	}
	if l, err := m.Find(t.Context(), src, effect); err != nil || !l.None() || len(f.Pulls()) > 0 {
		t.Errorf("left behind: %+v, %v", l, err)
	}
	if w, err := m.Delivery(t.Context(), src); err != nil || !w.PullRequest || !strings.Contains(w.Why, "main is protected") {
		t.Errorf("after: %+v, %v", w, err)
	}
	r.PullRequest = true
	if l, err := m.Commit(t.Context(), r); err != nil || l.Waits == "" {
		t.Errorf("asked for: %+v, %v", l, err)
	}
}

// TestCheckReportsDelivery: people learn before the first incident how a change
// would be made, and that the forge's token may ask.
func TestCheckReportsDelivery(t *testing.T) {
	_, f, m, _ := protected(t, "gitlab")
	if all := m.Check(t.Context()); len(all) != 1 || all[0].Err != nil || all[0].Forge || !all[0].Delivery.PullRequest || all[0].Head == "" {
		t.Errorf("checked: %+v", all)
	}
	f.Close()
	if all := m.Check(t.Context()); len(all) != 1 || !all[0].Forge || !reasonIs(all[0].Err, fault.Unreachable, "read branch") {
		t.Errorf("checked without a forge: %+v", all)
	}
}
