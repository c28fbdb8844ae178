package repository

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

const manifest = `# serves llama
args:
  - --model=llama
  - --max-num-seqs=256
  - --block-size=16
  - --seed=1
  - --port=8000
`

func lower(s string) string { return strings.Replace(s, "seqs=256", "seqs=192", 1) }

// open opens a repository with defaults that suit tests.
func open(t testing.TB, s *gittest.Server, set ...func(*Options)) *Repository {
	t.Helper()
	o := Options{
		URL: s.RepositoryURL(), Branch: "main", Dir: t.TempDir(),
		Author: gitops.Person{Name: "responder", Email: "responder@example.com"},
	}
	for _, f := range set {
		f(&o)
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func message(effect string) Message {
	return Message{
		What: "max-num-seqs 256 -> 192 for prod/llama", Why: "Preemptions rise while the KV cache is full.",
		Alert: "InferencePreemptionThrash (prod/llama)", Run: "01RUN", State: "cap-concurrency", Plan: "sha256:abc", Effect: effect,
	}
}

func head(t testing.TB, r *Repository) string {
	t.Helper()
	sha, err := r.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

// wantError checks an error's reason and words.
func wantError(t testing.TB, err error, reason fault.Reason, contains ...string) {
	t.Helper()
	_ = asError(t, err, reason, contains...)
}

// asError is wantError, and gives the error.
func asError(t testing.TB, err error, reason fault.Reason, contains ...string) *fault.Error {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v (%T), want a *fault.Error with reason %s", err, err, reason)
	}
	if e.Reason != reason {
		t.Fatalf("reason %s, want %s: %v", e.Reason, reason, err)
	}
	for _, c := range contains {
		if !strings.Contains(err.Error(), c) {
			t.Errorf("error %q does not say %q", err, c)
		}
	}
	return e
}

func TestCommit(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"prod/llama/deploy.yaml": manifest, "README.md": "fleet\n", "prod/other.yaml": "a: 1\n"})
	r := open(t, s)
	base := head(t, r)
	done, err := r.Commit(t.Context(), CommitRequest{
		Base: base, Files: []gitops.File{{Path: "prod/llama/deploy.yaml", Data: []byte(lower(manifest))}}, Message: message("01RUN/cap/apply"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Head("main"); got != done.SHA {
		t.Errorf("main is at %s, want %s", got, done.SHA)
	}
	if got := s.GitBare("show", "--format=%an <%ae>%n%B", "--stat=200", done.SHA); got != `responder <responder@example.com>
max-num-seqs 256 -> 192 for prod/llama

Preemptions rise while the KV cache is full.

Alert: InferencePreemptionThrash (prod/llama)

Responder-Run: 01RUN
Responder-State: cap-concurrency
Responder-Plan: sha256:abc
Responder-Effect: 01RUN/cap/apply


 prod/llama/deploy.yaml | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)` {
		t.Errorf("git shows:\n%s", got)
	}
	s.GitBare("fsck", "--strict")
	if got := s.Show("main", "prod/llama/deploy.yaml"); got != lower(manifest) {
		t.Errorf("the file is\n%s", got)
	}
	again, err := r.Commit(t.Context(), CommitRequest{
		Base: base, Files: []gitops.File{{Path: "prod/llama/deploy.yaml", Data: []byte("other\n")}}, Message: message("01RUN/cap/apply"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(done, again); diff != "" {
		t.Errorf("the same effect gave another commit:\n%s", diff)
	}
	found, ok, err := r.Find(t.Context(), "", "01RUN/cap/apply", time.Now().Add(-time.Minute))
	if err != nil || !ok {
		t.Fatalf("find: %v, %v", ok, err)
	}
	if diff := cmp.Diff(done, found); diff != "" {
		t.Errorf("find gave another commit:\n%s", diff)
	}
}

func TestCommitNothingToDo(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest})
	r := open(t, s)
	_, err := r.Commit(t.Context(), CommitRequest{Base: head(t, r), Files: []gitops.File{{Path: "a.yaml", Data: []byte(manifest)}}, Message: message("e")})
	wantError(t, err, fault.NothingToDo)
}

func TestCommitMoved(t *testing.T) {
	for name, test := range map[string]struct {
		files     map[string]string
		same      bool
		wantFiles []gitops.DivergedFile
	}{
		"other file":  {map[string]string{"b.yaml": "b: 1\n"}, false, nil},
		"other lines": {map[string]string{"a.yaml": strings.Replace(manifest, "8000", "8001", 1)}, false, []gitops.DivergedFile{{Path: "a.yaml", Lines: "7"}}},
		"same line":   {map[string]string{"a.yaml": strings.Replace(manifest, "256", "128", 1)}, true, []gitops.DivergedFile{{Path: "a.yaml", Lines: "4", SameLines: true}}},
		"file gone":   {map[string]string{"a.yaml": ""}, true, []gitops.DivergedFile{{Path: "a.yaml", SameLines: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := gittest.NewServer(t)
			s.Push("first", map[string]string{"a.yaml": manifest})
			r := open(t, s)
			base := head(t, r)
			theirs := s.Push("somebody", test.files)
			_, err := r.Commit(t.Context(), CommitRequest{Base: base, Files: []gitops.File{{Path: "a.yaml", Data: []byte(lower(manifest))}}, Message: message("e")})
			wantError(t, err, fault.Conflict, theirs[:10])
			var m *gitops.Divergence
			if !errors.As(err, &m) {
				t.Fatalf("no cause in %v", err)
			}
			for i := range m.Files {
				if len(m.Files[i].By) != 1 || m.Files[i].By[0].SHA != theirs || m.Files[i].By[0].Author.Name != "Ada" {
					t.Errorf("changed by %v, want %s by Ada", m.Files[i].By, theirs)
				}
				m.Files[i].By = nil
			}
			if diff := cmp.Diff(&gitops.Divergence{Base: base, Head: theirs, Files: test.wantFiles}, m); diff != "" {
				t.Error(diff)
			}
			if m.SameLines() != test.same {
				t.Errorf("same lines: %v", m.SameLines())
			}
			if s.Head("main") != theirs {
				t.Error("the branch was moved")
			}
		})
	}
}

// TestCommitLostRace lets somebody push between our fetch and our push.
func TestCommitLostRace(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest})
	r := open(t, s)
	base := head(t, r)
	theirs := ""
	r.carrier = hooked{r.carrier, func() {
		theirs = s.Push("somebody", map[string]string{"b.yaml": "b: 1\n"})
	}}
	_, err := r.Commit(t.Context(), CommitRequest{Base: base, Files: []gitops.File{{Path: "a.yaml", Data: []byte(lower(manifest))}}, Message: message("e")})
	wantError(t, err, fault.Conflict)
	if s.Head("main") != theirs {
		t.Error("somebody's commit was lost")
	}
}

// hooked does something before a push session.
type hooked struct {
	carrier
	before func()
}

func (h hooked) push(ctx context.Context) (pushing, error) {
	h.before()
	return h.carrier.push(ctx)
}

func TestCommitForcePushedBase(t *testing.T) {
	s := gittest.NewServer(t)
	first := s.Push("first", map[string]string{"a.yaml": manifest})
	s.Push("second", map[string]string{"b.yaml": "b: 1\n"})
	r := open(t, s)
	base := head(t, r)
	s.Git("reset", "--quiet", "--hard", first)
	s.Write(map[string]string{"c.yaml": "c: 1\n"})
	s.Git("add", "--all")
	s.Git("commit", "--quiet", "--message", "rewritten")
	s.Git("push", "--quiet", "--force", "origin", "HEAD:main")
	_, err := r.Commit(t.Context(), CommitRequest{Base: base, Files: []gitops.File{{Path: "a.yaml", Data: []byte(lower(manifest))}}, Message: message("e")})
	wantError(t, err, fault.Conflict, "force")
	var m *gitops.Divergence
	if !errors.As(err, &m) || !m.Rewritten {
		t.Errorf("cause %v, want a rewritten branch", err)
	}
}
