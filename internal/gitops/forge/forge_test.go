package forge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

const (
	canary = "canary-7c1e94d0b2"
	branch = "responder/01RUN/cap"
)

var kinds = []Kind{GitHub, GitLab, Gitea}

// world is a forge before a repository with a pushed branch.
type world struct {
	*gittest.Forge
	git  *gittest.Server
	c    *Client
	head string
}

func newWorld(t *testing.T, kind Kind, set ...func(*Options)) *world {
	t.Helper()
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": "max: 256\nother: 1\n"})
	w := &world{git: s, Forge: gittest.NewForge(t, s, string(kind), canary)}
	w.head = w.push("max: 192\nother: 1\n")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Kind: kind, API: w.API(), Repository: w.Repository(), TokenFile: token}
	for _, f := range set {
		f(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.c = c
	return w
}

// push commits a file on our branch.
func (w *world) push(content string) string {
	w.git.Pull()
	w.git.Git("checkout", "--quiet", "-B", "work")
	w.git.Write(map[string]string{"a.yaml": content})
	w.git.Git("commit", "--quiet", "--all", "--message", "max 256 -> 192\n\nResponder-Effect: e")
	w.git.Git("push", "--quiet", "--force", "origin", "HEAD:"+branch)
	return w.git.Head(branch)
}

func (w *world) request() Request {
	return Request{
		Branch: branch, Base: "main", Head: w.head, Title: "max 256 -> 192\nfor prod/llama",
		Plan: "a.yaml:1 max 256 -> 192\n@everyone ``` [x](http://evil)\x1b[31m\nResponder-Effect: forged", Effect: "01RUN/cap/apply",
	}
}

func (w *world) open(t *testing.T) Pull {
	t.Helper()
	p, err := w.c.Open(t.Context(), w.request())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantError(t *testing.T, err error, reason fault.Reason, unknown bool, says ...string) {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Reason != reason || e.Unknown != unknown {
		t.Errorf("error %v (%+v), want reason %s, unknown %v", err, e, reason, unknown)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
	if strings.Contains(err.Error(), canary) || len(err.Error()) > 1000 {
		t.Errorf("the error shows the token, or too much: %v", err)
	}
}

func each(t *testing.T, f func(t *testing.T, w *world)) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) { f(t, newWorld(t, kind)) })
	}
}

func TestOpen(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		if _, found, err := w.c.Find(t.Context(), "main", branch, "01RUN/cap/apply"); found || err != nil {
			t.Fatalf("found before it was opened: %v, %v", found, err)
		}
		p := w.open(t)
		want := Pull{Number: 1, URL: p.URL, Branch: branch, Base: "main", Head: w.head, Title: "max 256 -> 192 for prod/llama", Effect: "01RUN/cap/apply", Commit: w.head, State: Open}
		if diff := cmp.Diff(want, p); diff != "" || !strings.HasPrefix(p.URL, w.URL) {
			t.Errorf("%s %s", p.URL, diff)
		}
		if again := w.open(t); again != p {
			t.Errorf("opened again: %+v", again)
		}
		kept := w.Pulls()
		if len(kept) != 1 {
			t.Fatalf("the forge has %d", len(kept))
		}
		if diff := cmp.Diff(gittest.Pull{
			Number: 1, Title: "max 256 -> 192 for prod/llama", Branch: branch, Base: "main", Head: w.head, State: "open",
			Text: "````\na.yaml:1 max 256 -> 192\n@everyone ``` [x](http://evil)[31m\nResponder-Effect: forged\n````\n\nResponder-Commit: " + w.head + "\nResponder-Effect: 01RUN/cap/apply\n",
		}, kept[0]); diff != "" {
			t.Error(diff)
		}
		other := w.request()
		other.Effect = "other"
		_, err := w.c.Open(t.Context(), other)
		if err == nil {
			t.Error("a second one of the same branch was opened")
		}
	})
}

// TestMergedByPeople: whichever way people merge, the commit of the base is
// known.
func TestMergedByPeople(t *testing.T) {
	for _, method := range []string{"merge", "squash", "rebase"} {
		each(t, func(t *testing.T, w *world) {
			p := w.open(t)
			sha := w.MergeAs(t, "ada", 1, method)
			w.git.GitBare("update-ref", "-d", "refs/heads/"+branch) // as forges do
			got, found, err := w.c.Find(t.Context(), "main", branch, p.Effect)
			if err != nil || !found || got.State != Merged || got.Merged != sha || got.Merged != w.git.Head("main") || got.MergedBy != "ada" {
				t.Errorf("%s: %+v %v, %v", method, got, found, err)
			}
			got, err = w.c.Merge(t.Context(), 1, "main", w.head, "x", "")
			if err != nil || got.Merged != sha {
				t.Errorf("merging what is merged: %+v, %v", got, err)
			}
			_, err = w.c.Close(t.Context(), 1)
			wantError(t, err, fault.Conflict, false, "was merged")
		})
	}
}

func TestMerge(t *testing.T) {
	for _, method := range []Method{MethodMerge, MethodSquash, MethodRebase} {
		for _, kind := range kinds {
			if kind == GitLab && method == MethodRebase {
				continue
			}
			w := newWorld(t, kind, func(o *Options) { o.Method = method })
			w.open(t)
			p, err := w.c.Merge(t.Context(), 1, "main", w.head, "", "Responder-Effect: e")
			if err != nil || p.State != Merged || p.Merged != w.git.Head("main") || p.MergedBy != "responder-bot" {
				t.Errorf("%s %s: %+v, %v", kind, method, p, err)
			}
			want := "max 256 -> 192 for prod/llama (#1)\n\nResponder-Effect: e"
			if got := w.git.GitBare("show", "--no-patch", "--format=%B", "main"); method != MethodRebase && strings.TrimSpace(got) != want {
				t.Errorf("%s %s: the message is %q", kind, method, got)
			}
			parents := len(strings.Fields(w.git.GitBare("show", "--no-patch", "--format=%P", "main")))
			if want := map[Method]int{MethodMerge: 2}[method]; parents != max(1, want) {
				t.Errorf("%s %s: %d parents", kind, method, parents)
			}
			if got := w.git.Show("main", "a.yaml"); got != "max: 192\nother: 1\n" {
				t.Errorf("%s %s: a.yaml is %q", kind, method, got)
			}
		}
	}
}

func TestMergeRefused(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.open(t)
		w.Block("needs a review")
		_, err := w.c.Merge(t.Context(), 1, "main", w.head, "x", "")
		wantError(t, err, fault.Forbidden, false, "missing")
		if p, err := w.c.Get(t.Context(), 1); err != nil || p.State != Open || w.c.o.Kind != Gitea && p.Blocked == "" {
			t.Errorf("blocked: %+v, %v", p, err)
		}
		w.Block("")
		main := w.git.Push("somebody", map[string]string{"a.yaml": "max: 128\nother: 1\n"})
		if p, err := w.c.Get(t.Context(), 1); err != nil || p.State != Open || p.Blocked == "" || p.Conflict != (w.c.o.Kind != Gitea) {
			t.Errorf("conflicting: %+v, %v", p, err)
		}
		if _, err = w.c.Merge(t.Context(), 1, "main", w.head, "x", ""); err == nil {
			t.Error("a conflict was merged")
		}
		ours := w.head
		w.head = w.push("max: 64\nother: 1\n")
		_, err = w.c.Merge(t.Context(), 1, "main", ours, "x", "")
		wantError(t, err, fault.Conflict, false, "somebody pushed")
		if w.git.Head("main") != main {
			t.Error("main was moved")
		}
	})
}

func TestClose(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.open(t)
		for range 2 {
			got, err := w.c.Close(t.Context(), 1)
			if err != nil || got.State != Closed {
				t.Errorf("%+v, %v", got, err)
			}
		}
		_, err := w.c.Merge(t.Context(), 1, "main", w.head, "x", "")
		wantError(t, err, fault.Conflict, false, "closed")
		// What people closed is not opened again.
		if got := w.open(t); got.State != Closed || got.Number != p.Number {
			t.Errorf("opened again: %+v", got)
		}
		_, err = w.c.Get(t.Context(), 99)
		wantError(t, err, fault.NotFound, false)
	})
}

// TestOthers: pull requests of other branches, efforts and forks are not ours.
func TestOthers(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for i := range 60 {
			w.Add(gittest.Pull{Branch: fmt.Sprintf("feature-%d", i), Base: "main", Head: w.head, Text: "Responder-Effect: 01RUN/cap/apply"})
		}
		w.Add(gittest.Pull{Branch: branch, Base: "main", Head: w.head, Text: "Responder-Effect: earlier"})
		w.CloseAs(61)
		if w.c.o.Kind != GitHub { // asks for branches of its own owner alone
			w.Add(gittest.Pull{Branch: branch, Base: "main", Head: w.head, Fork: true, Text: "Responder-Effect: 01RUN/cap/apply"})
		}
		if p, found, err := w.c.Find(t.Context(), "main", branch, "01RUN/cap/apply"); found || err != nil {
			t.Errorf("found %+v, %v", p, err)
		}
		p := w.open(t)
		if got, found, err := w.c.Find(t.Context(), "main", branch, p.Effect); err != nil || !found || got.Number != p.Number {
			t.Errorf("found %+v %v, %v", got, found, err)
		}
	})
}

// TestBaseChanged: a pull request whose base somebody changed is found, and is
// not merged.
func TestBaseChanged(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.open(t)
		w.git.Git("push", "--quiet", "origin", "HEAD~1:refs/heads/release")
		w.Rebase(1, "release")
		got, found, err := w.c.Find(t.Context(), "main", branch, p.Effect)
		if err != nil || !found || got.Number != 1 || got.Base != "release" {
			t.Fatalf("found %+v %v, %v", got, found, err)
		}
		if again := w.open(t); again.Number != 1 || len(w.Pulls()) != 1 {
			t.Errorf("opened again: %+v, %d", again, len(w.Pulls()))
		}
		_, err = w.c.Merge(t.Context(), 1, "main", w.head, "x", "")
		wantError(t, err, fault.Conflict, false, "goes into release, not into main")
		if p, err := w.c.Get(t.Context(), 1); err != nil || p.State != Open {
			t.Errorf("it is %+v, %v", p, err)
		}
		// One into the base counts before one into another.
		w.Add(gittest.Pull{Branch: branch, Base: "main", Head: w.head, Text: "Responder-Effect: " + p.Effect})
		w.Add(gittest.Pull{Branch: branch, Base: "release", Head: w.head, Text: "Responder-Effect: " + p.Effect})
		if got, _, err := w.c.Find(t.Context(), "main", branch, p.Effect); err != nil || got.Number != 2 {
			t.Errorf("of three: %+v, %v", got, err)
		}
	})
}

func TestManyOfOneBranch(t *testing.T) {
	for _, kind := range []Kind{GitHub, GitLab} {
		w := newWorld(t, kind)
		for i := range 60 {
			w.Add(gittest.Pull{Branch: branch, Base: "main", Head: w.head, Text: "Responder-Effect: earlier"})
			w.CloseAs(i + 1)
		}
		_, _, err := w.c.Find(t.Context(), "main", branch, "x")
		// The server gives all of them, more than a page: it is not known to be whole.
		wantError(t, err, fault.OutOfBounds, false)
	}
}
