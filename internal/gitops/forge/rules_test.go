package forge

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
)

// TestProtection: a branch that the token's user may not push to is told apart,
// and one that cannot be asked about is neither.
func TestProtection(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		if p, err := w.c.Protection(t.Context(), "main"); err != nil || p.Protected {
			t.Errorf("open to pushes: %+v, %v", p, err)
		}
		w.Protect("main")
		if p, err := w.c.Protection(t.Context(), "main"); err != nil || !p.Protected || !strings.Contains(p.Why, "main is protected") {
			t.Errorf("protected: %+v, %v", p, err)
		}
		w.Intercept(func(rw http.ResponseWriter, _ *http.Request, _ http.Handler) { rw.WriteHeader(http.StatusForbidden) })
		_, err := w.c.Protection(t.Context(), "main")
		wantError(t, err, fault.Forbidden, false, "token")
	})
}

// TestNeverMergesOver: what is missing is named, and not merged over even by a
// token that the forge lets past it.
func TestNeverMergesOver(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*world)
		says map[Kind]string
	}{
		"failing check": {func(w *world) { w.Check("ci/build", "failure") }, map[Kind]string{GitHub: "check ci/build: failure", GitLab: "its pipeline failed", Gitea: "check ci/build: failure"}},
		"check under way": {func(w *world) { w.Check("ci/build", "pending") }, map[Kind]string{
			GitHub: "check ci/build is not over: in progress", GitLab: "pipeline", Gitea: "check ci/build is not over: pending",
		}},
		"review": {func(w *world) { w.Review("eve", "APPROVED"); w.Review("ada", "CHANGES_REQUESTED") }, map[Kind]string{
			GitHub: "ada asks for changes", GitLab: "a reviewer asks for changes", Gitea: "ada asks for changes",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.open(t)
				w.Bypass()
				test.do(w)
				main := w.git.Head("main")
				_, needs, err := w.c.Needs(t.Context(), 1)
				if err != nil || !strings.Contains(strings.Join(needs, "; "), test.says[w.c.o.Kind]) {
					t.Errorf("needs %q, %v", needs, err)
				}
				_, err = w.c.Merge(t.Context(), 1, "main", w.head, "x", "")
				wantError(t, err, fault.Forbidden, false, test.says[w.c.o.Kind])
				if w.git.Head("main") != main {
					t.Error("merged over it")
				}
			})
		})
	}
	each(t, func(t *testing.T, w *world) {
		w.open(t)
		w.Check("ci/build", "success")
		w.Review("ada", "CHANGES_REQUESTED")
		w.Review("ada", "APPROVED")
		if w.c.o.Kind == GitLab {
			return // it sums reviews up by itself
		}
		if _, needs, err := w.c.Needs(t.Context(), 1); err != nil || len(needs) > 0 {
			t.Errorf("needs %q, %v", needs, err)
		}
	})
}

// TestNeedsUnread: a list that cannot be read is not an empty one.
func TestNeedsUnread(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.open(t)
		main := w.git.Head("main")
		w.Intercept(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			if path := r.URL.Path; r.Method == http.MethodGet && (strings.HasSuffix(path, "/status") || strings.HasSuffix(path, "/merge_requests/1")) {
				rw.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(rw, r)
		})
		_, err := w.c.Merge(t.Context(), 1, "main", w.head, "x", "")
		wantError(t, err, fault.Forbidden, false, "rights")
		if w.git.Head("main") != main {
			t.Error("merged")
		}
	})
}

// TestOf: a commit without trailers is known by the pull request that it came
// with; other people's are not ours.
func TestOf(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.git.Head("main")
		w.open(t)
		sha := w.MergeAs(t, "ada", 1, "squash")
		p, found, err := w.c.Of(t.Context(), sha)
		if err != nil || !found || p.Effect != "01RUN/cap/apply" || p.Merged != sha {
			t.Errorf("found %+v %v, %v", p, found, err)
		}
		if p, found, err := w.c.Of(t.Context(), first); found || err != nil {
			t.Errorf("an older commit: %+v, %v", p, err)
		}
	})
}

// TestMergeable: GitHub's word lets a pull request be merged only when it is
// known to be good.
func TestMergeable(t *testing.T) {
	for state, says := range map[string]string{
		"clean": "", "has_hooks": "", "dirty": "conflicts", "blocked": "required", "unstable": "check", "behind": "behind", "draft": "draft",
		"unknown": "working out", "": "does not say", "word_of_next_year": "word_of_next_year, which is not known",
	} {
		p := githubPull{State: "open", MergeableState: state}.pull()
		if (says == "") != (p.Blocked == "") || !strings.Contains(p.Blocked, says) || p.Conflict != (state == "dirty") {
			t.Errorf("%q: %q, conflict %v, want %q", state, p.Blocked, p.Conflict, says)
		}
	}
}

func TestChecks(t *testing.T) {
	for state, says := range map[string]string{
		"success": "", "neutral": "", "skipped": "", "failure": "check b: failure", "timed_out": "check b: timed out",
		"queued": "not over", "a word of next year": "not over", "": "not known",
	} {
		if got := check("b", state); (says == "") != (got == "") || !strings.Contains(got, says) {
			t.Errorf("%q: %q, want %q", state, got, says)
		}
	}
	many := few([]string{"g", "f", "e", "d", "c", "b", "a", "a"})
	if !slices.Equal(many, []string{"a", "b", "c", "d", "e", "and 2 more"}) {
		t.Errorf("%q", many)
	}
}
