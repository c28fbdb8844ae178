package repository

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

// at makes git commit at a time.
func at(when time.Time) []string {
	return []string{"GIT_AUTHOR_DATE=" + when.Format(time.RFC3339), "GIT_COMMITTER_DATE=" + when.Format(time.RFC3339)}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// history pushes n commits, a minute apart; each even one touches a.yaml, each
// odd one b/b.yaml. It gives their SHAs.
func history(t *testing.T, s *gittest.Server, n int) []string {
	t.Helper()
	var shas []string
	for i := range n {
		name := "a.yaml"
		if i%2 == 1 {
			name = "b/b.yaml"
		}
		s.Write(map[string]string{name: fmt.Sprintf("n: %d\n", i)})
		s.Git("add", "--all")
		s.GitEnv(at(noon.Add(time.Duration(i)*time.Minute)), "commit", "--quiet", "--message", fmt.Sprintf("commit %d\n\nResponder-Effect: effect-%d", i, i))
		shas = append(shas, s.Git("rev-parse", "HEAD"))
	}
	s.Git("push", "--quiet", "origin", "HEAD:main")
	return shas
}

func TestLogDeepens(t *testing.T) {
	s := gittest.NewServer(t)
	shas := history(t, s, 30)
	r := open(t, s, func(o *Options) { o.Depth = 3 })
	log, err := r.Log(t.Context(), Window{Since: noon.Add(9 * time.Minute), Until: noon.Add(14 * time.Minute), Path: "b"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range log {
		got = append(got, c.SHA)
		if diff := cmp.Diff([]string{"b/b.yaml"}, c.Files); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff([]string{shas[13], shas[11], shas[9]}, got); diff != "" {
		t.Error(diff)
	}
	if log[0].Subject != "commit 13" || log[0].Author.Name != "Ada" || !log[0].At.Equal(noon.Add(13*time.Minute)) || log[0].Trailers[gitops.TrailerEffect] != "effect-13" {
		t.Errorf("the commit is %+v", log[0])
	}
	all, err := r.Log(t.Context(), Window{})
	if err != nil || len(all) != 30 {
		t.Errorf("the whole history has %d commits, %v", len(all), err)
	}
}

func TestLogBounded(t *testing.T) {
	s := gittest.NewServer(t)
	history(t, s, 30)
	r := open(t, s, func(o *Options) { o.Depth, o.Limits.History = 3, 10 })
	_, err := r.Log(t.Context(), Window{})
	wantError(t, err, fault.OutOfBounds, "limits.history")
}

func TestFindAndContains(t *testing.T) {
	s := gittest.NewServer(t)
	shas := history(t, s, 30)
	r := open(t, s, func(o *Options) { o.Depth = 3 })
	ctx := t.Context()
	c, ok, err := r.Find(ctx, "", "effect-2", noon)
	if err != nil || !ok || c.SHA != shas[2] {
		t.Errorf("found %v %v, %v", c.SHA, ok, err)
	}
	if _, ok, err = r.Find(ctx, "", "effect-99", noon); ok || err != nil {
		t.Errorf("found what is not there: %v, %v", ok, err)
	}
	if _, ok, err = r.Find(ctx, "responder/none", "effect-2", noon); ok || err != nil {
		t.Errorf("found on a branch that is not there: %v, %v", ok, err)
	}
	for _, test := range []struct {
		a, d string
		want bool
	}{{shas[0], shas[29], true}, {shas[29], shas[29], true}, {shas[29], shas[0], false}, {shas[7], shas[8], true}} {
		if got, err := r.Contains(ctx, test.a, test.d); err != nil || got != test.want {
			t.Errorf("%.7s led to %.7s: %v, %v", test.a, test.d, got, err)
		}
	}
	_, err = r.Contains(ctx, shas[0], "1234567890123456789012345678901234567890")
	wantError(t, err, fault.NotFound)
}

// TestFindMerged finds our commit behind a merge, where a pull request put it.
func TestFindMerged(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest})
	r := open(t, s)
	ours, err := r.Commit(t.Context(), CommitRequest{
		Base: head(t, r), Branch: "responder/01RUN/cap", Files: []gitops.File{{Path: "a.yaml", Data: []byte(lower(manifest))}}, Message: message("e"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if c, ok, err := r.Find(t.Context(), "responder/01RUN/cap", "e", time.Now()); err != nil || !ok || c.SHA != ours.SHA {
		t.Errorf("on the branch: %v %v, %v", c.SHA, ok, err)
	}
	if _, ok, err := r.Find(t.Context(), "", "e", time.Now()); err != nil || ok {
		t.Errorf("on main before the merge: %v, %v", ok, err)
	}
	s.Pull()
	s.Git("merge", "--quiet", "--no-ff", "--message", "Merge", ours.SHA)
	s.Git("push", "--quiet", "origin", "HEAD:main")
	if c, ok, err := r.Find(t.Context(), "", "e", time.Now()); err != nil || !ok || c.SHA != ours.SHA {
		t.Errorf("on main: %v %v, %v", c.SHA, ok, err)
	}
	log, err := r.Log(t.Context(), Window{Since: time.Now().Add(-time.Hour), Path: "a.yaml"})
	if err != nil || len(log) != 2 || len(log[0].Parents) != 2 || log[0].Files[0] != "a.yaml" {
		t.Errorf("the log is %+v, %v", log, err)
	}
}

func TestBranches(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest})
	r := open(t, s, func(o *Options) { o.Branch = "" }) // the default branch
	q := CommitRequest{Base: head(t, r), Branch: "responder/01RUN/cap", Files: []gitops.File{{Path: "a.yaml", Data: []byte(lower(manifest))}}, Message: message("e")}
	if name, err := r.Branch(t.Context()); err != nil || name != "main" {
		t.Errorf("the default branch is %q, %v", name, err)
	}
	done, err := r.Commit(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Commit(t.Context(), q); err != nil || again.SHA != done.SHA {
		t.Errorf("the same effect gave %s, %v", again.SHA, err)
	}
	q.Message.Effect = "other"
	_, err = r.Commit(t.Context(), q)
	wantError(t, err, fault.Conflict, "already")
	wantError(t, r.DeleteBranch(t.Context(), q.Branch, q.Base), fault.Conflict)
	for range 2 {
		if err := r.DeleteBranch(t.Context(), q.Branch, done.SHA); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Head(q.Branch); got != "" {
		t.Errorf("the branch is at %s", got)
	}
	if s.Head("main") != q.Base {
		t.Error("main was moved")
	}
}

// A commit of somebody whose clock is wrong does not hide those below it.
func TestFindBelowWrongClock(t *testing.T) {
	s := gittest.NewServer(t)
	now := time.Now()
	s.Write(map[string]string{"a.yaml": "n: 1\n"})
	s.Git("add", "--all")
	s.GitEnv(at(now), "commit", "--quiet", "--message", "ours\n\nResponder-Effect: ours")
	ours := s.Git("rev-parse", "HEAD")
	s.Write(map[string]string{"b.yaml": "n: 1\n"})
	s.Git("add", "--all")
	s.GitEnv(at(time.Unix(1000, 0)), "commit", "--quiet", "--message", "theirs")
	s.Git("push", "--quiet", "origin", "HEAD:main")
	r := open(t, s)
	found, ok, err := r.Find(t.Context(), "", "ours", now.Add(-14*24*time.Hour))
	if err != nil || !ok || found.SHA != ours {
		t.Errorf("found %s, %v, %v; want %s", found.SHA, ok, err, ours)
	}
}

// A commit that was made long before it was pushed came after those that were
// pushed before it; so did what a merge brought, and nothing that led to either.
func TestAfter(t *testing.T) {
	s := gittest.NewServer(t)
	shas := history(t, s, 8)
	deployed := shas[7]
	// Made a year before the others, and pushed on top of them.
	s.Write(map[string]string{"a.yaml": "n: old\n"})
	s.GitEnv(at(noon.AddDate(-1, 0, 0)), "commit", "--quiet", "--all", "--message", "old")
	old := s.Git("rev-parse", "HEAD")
	// A branch from before, merged so that its line is the first.
	s.Git("checkout", "--quiet", "-b", "side", shas[5])
	s.Write(map[string]string{"a.yaml": "n: side\n"})
	s.GitEnv(at(noon.Add(6*time.Minute)), "commit", "--quiet", "--all", "--message", "side")
	side := s.Git("rev-parse", "HEAD")
	s.GitEnv(at(noon.Add(time.Hour)), "merge", "--quiet", "--no-ff", "--strategy=ours", "--message", "merge", old)
	merge := s.Git("rev-parse", "HEAD")
	r := open(t, s, func(o *Options) { o.Depth = 2 })
	after := func(sha string, path string, want ...string) {
		t.Helper()
		log, err := r.After(t.Context(), sha, path)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range log {
			got = append(got, c.SHA)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %.8s in %q: %s", sha, path, diff)
		}
	}
	s.Git("push", "--quiet", "origin", old+":main")
	after(deployed, "a.yaml", old)
	after(shas[5], "a.yaml", old, shas[6])
	after(old, "a.yaml")
	after(deployed, "b")
	s.Git("push", "--quiet", "origin", merge+":main")
	after(deployed, "", merge, side)
	after(old, "", merge, side)
	after(side, "", merge)
	after(merge, "")
	if _, err := r.After(t.Context(), "1234567890123456789012345678901234567890", ""); err == nil {
		t.Error("a commit that is nowhere has something after it")
	}
}

// TestCommitsShowNoCredential: what people write into a commit's message or name reaches
// evidence, the page and channels, and so is redacted where it is read.
func TestCommitsShowNoCredential(t *testing.T) {
	s := gittest.NewServer(t)
	s.Write(map[string]string{"a/a.yaml": "n: 1\n"})
	s.Git("add", "--all")
	s.Git("-c", "user.name=Ada https://ada:canary@git.example.com/x", "commit", "--quiet", "--message", "chat: set HF_TOKEN=canary and hf_canaryCANARYcanary01 for eos_token_id=2\n\nbody")
	s.Git("push", "--quiet", "origin", "HEAD:main")
	log, err := open(t, s, func(*Options) {}).Log(t.Context(), Window{})
	if err != nil || len(log) == 0 {
		t.Fatal(log, err)
	}
	if got, want := log[0].Subject, "chat: set HF_TOKEN=(redacted) and (redacted) for eos_token_id=2"; got != want {
		t.Errorf("the subject is %q, want %q", got, want)
	}
	if got := log[0].Author.Name; strings.Contains(got, "canary") {
		t.Errorf("the author is %q", got)
	}
}
