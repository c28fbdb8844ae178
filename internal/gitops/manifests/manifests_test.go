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
	"github.com/inference-responder/responder/internal/gitops/gittest"
	"github.com/inference-responder/responder/internal/gitops/repository"
)

const base = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat
spec:
  replicas: 3
  template:
    spec:
      containers:
        - name: vllm
          image: vllm:v0.11
          args:
            - --model=llama
            - --max-num-seqs=256 # measured in May
            - --port=8000
`

// fleet is a repository with a kustomize base and an overlay, a second service
// next to it, and other people's files.
func fleet(t *testing.T) (*gittest.Server, *Manifests, gitops.Source, gitops.Target) {
	t.Helper()
	s := gittest.NewServer(t)
	s.Push("all of it", map[string]string{
		"apps/chat/kustomization.yaml":        "namespace: serving\nresources: [../../base/chat]\n",
		"base/chat/kustomization.yaml":        "resources: [deployment.yaml]\n",
		"base/chat/deployment.yaml":           base,
		"apps/chat-canary/deployment.yaml":    strings.ReplaceAll(base, "name: chat", "name: chat-canary"),
		"apps/chat/README.md":                 "# chat\n",
		"elsewhere/" + strings.Repeat("x", 9): "not ours\n",
	})
	m := over(t, s)
	return s, m, gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "apps/chat"},
		gitops.Target{Kind: "Deployment", Namespace: "serving", Name: "chat", Container: "vllm"}
}

func over(t *testing.T, s *gittest.Server) *Manifests {
	t.Helper()
	m, err := New(Options{Dir: t.TempDir(), Remotes: []Remote{{
		Branch: "main", Repository: repository.Options{URL: s.RepositoryURL(), Author: gitops.Person{Name: "responder", Email: "r@example.com"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

var seqs = gitops.Variable{Flag: "max-num-seqs"}

func propose(t *testing.T, m *Manifests, w gitops.Want) gitops.Proposal {
	t.Helper()
	p, err := m.Propose(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func commit(t *testing.T, m *Manifests, p gitops.Proposal, effect string) string {
	t.Helper()
	l, err := m.Commit(t.Context(), gitops.Request{
		Proposal: p, What: "chat: set --max-num-seqs", Why: "The KV cache is full.", Alert: "KVCachePressure of chat",
		Run: "r-1", State: "cap", Digest: "sha256:abc", Effect: effect, Drift: "0a1b2c3d:-sb",
	})
	if err != nil {
		t.Fatal(err)
	}
	return l.SHA
}

func reasonIs(err error, want fault.Reason, words string) bool {
	var e *fault.Error
	return errors.As(err, &e) && e.Reason == want && strings.Contains(err.Error(), words)
}

// A flag is found through the overlay in its base, changed by one line, found
// again by its key and taken back, while what others push meanwhile stays.
func TestChangeAndRevert(t *testing.T) {
	s, m, src, target := fleet(t)
	places, err := m.Places(t.Context(), src, target, []gitops.Variable{seqs, {Replicas: true}})
	if err != nil || len(places) != 2 || places[0].File != "base/chat/deployment.yaml" || places[0].Line != 14 || places[0].Value != "256" || places[1].Value != "3" {
		t.Fatalf("places %+v, %v", places, err)
	}
	p := propose(t, m, gitops.Want{Source: src, Target: target, Set: []gitops.Assignment{{Variable: seqs, Value: "192"}}})
	if len(p.Touches) != 1 || p.Touches[0].From != "256" || p.Touches[0].To != "192" || p.Touches[0].Line != 14 || p.Base != s.Head("main") {
		t.Fatalf("proposal %+v", p)
	}
	made := commit(t, m, p, "r-1/cap#1/apply")
	if got := s.Show("main", "base/chat/deployment.yaml"); got != strings.Replace(base, "=256", "=192", 1) {
		t.Errorf("committed\n%s", got)
	}
	if l, err := m.Find(t.Context(), src, "r-1/cap#1/apply"); err != nil || l.SHA != made || l.Plan != "sha256:abc" || l.Drift != "0a1b2c3d:-sb" {
		t.Errorf("found %+v, %v", l, err)
	}
	if l, err := m.Find(t.Context(), src, "r-2/cap#1/apply"); err != nil || !l.None() {
		t.Errorf("another's %+v, %v", l, err)
	}
	// Neighbouring lines are left to people; lines further away merge.
	s.Push("scale", map[string]string{"base/chat/deployment.yaml": strings.NewReplacer("=256", "=192", "replicas: 3", "replicas: 4").Replace(base)})
	back, err := m.Reverting(t.Context(), src, target, []string{made})
	if err != nil || len(back.Touches) != 1 || back.Touches[0].To != "256" {
		t.Fatalf("reverting %+v, %v", back, err)
	}
	undone := commit(t, m, back, "r-1/cap#1/undo")
	if got := s.Show("main", "base/chat/deployment.yaml"); got != strings.Replace(base, "replicas: 3", "replicas: 4", 1) {
		t.Errorf("reverted\n%s", got)
	}
	if text := s.GitBare("log", "-1", "--format=%B", undone); !strings.Contains(text, "This reverts commit "+made+".") || !strings.Contains(text, "Responder-Effect: r-1/cap#1/undo") {
		t.Errorf("message\n%s", text)
	}
	if _, err := m.Reverting(t.Context(), src, target, []string{made}); !reasonIs(err, fault.NothingToDo, "") {
		t.Errorf("reverting again: %v", err)
	}
}

// A base that moved is a conflict; commits of others in between that concern the
// service wait to be deployed, and others do not.
func TestMovedAndAhead(t *testing.T) {
	s, m, src, target := fleet(t)
	deployed := s.Head("main")
	want := gitops.Want{Source: src, Target: target, Set: []gitops.Assignment{{Variable: seqs, Value: "192"}}, Deployed: deployed}
	p := propose(t, m, want)
	s.Push("not ours", map[string]string{"elsewhere/y": "1\n"})
	if _, err := m.Commit(t.Context(), gitops.Request{Proposal: p, What: "x", Effect: "e"}); !reasonIs(err, fault.Conflict, "moved") {
		t.Errorf("commit over a moved base: %v", err)
	}
	if again := propose(t, m, want); again.Read != p.Read || len(again.Ahead) > 0 || again.Base == p.Base {
		t.Errorf("other people's files change what was read: %+v", again)
	}
	s.Push("bump the image", map[string]string{"base/chat/deployment.yaml": strings.Replace(base, "v0.11", "v0.12", 1)})
	if again := propose(t, m, want); again.Read == p.Read || len(again.Ahead) != 1 || again.Ahead[0].Subject != "bump the image" {
		t.Errorf("the image is not ahead: %+v", again.Ahead)
	}
	if _, err := m.Since(t.Context(), src, target, strings.Repeat("a", 40)); err == nil {
		t.Error("a commit that nobody knows is in the history")
	}
}

// History returns what each commit changed of the service, and leaves out what
// changed nothing of it.
func TestChanges(t *testing.T) {
	s, m, src, target := fleet(t)
	start := s.Head("main")
	s.Push("words", map[string]string{"apps/chat/README.md": "# chat!\n"})
	s.Push("the canary", map[string]string{"apps/chat-canary/deployment.yaml": strings.ReplaceAll(strings.Replace(base, "=256", "=8", 1), "name: chat", "name: chat-canary")})
	flag := s.Push("fewer", map[string]string{"base/chat/deployment.yaml": strings.Replace(base, "=256", "=128", 1), "elsewhere/z": "1\n"})
	changes, err := m.Changes(t.Context(), src, target, time.Now().Add(-time.Hour))
	if err != nil || len(changes) != 2 {
		t.Fatalf("%d changes, %v: %+v", len(changes), err, changes)
	}
	c := changes[0]
	if c.Commit.SHA != flag || c.Commit.Author.Name != "Ada" || len(c.Touches) != 1 || c.Touches[0].Variable != "--max-num-seqs" || c.Touches[0].To != "128" || len(c.Others) != 1 {
		t.Errorf("%+v", c)
	}
	since, err := m.Since(t.Context(), src, target, start)
	if err != nil || len(since) != 1 || since[0].Commit.SHA != flag {
		t.Errorf("since the start: %+v, %v", since, err)
	}
	if since, err := m.Since(t.Context(), src, target, flag); err != nil || len(since) != 0 {
		t.Errorf("since the last: %+v, %v", since, err)
	}
}

// Taking back a commit that changed two services is for a person.
func TestRevertOfTwoServices(t *testing.T) {
	s := gittest.NewServer(t)
	both := base + "---\n" + strings.ReplaceAll(base, "name: chat", "name: code")
	s.Push("two", map[string]string{"apps/both.yaml": both})
	sha := s.Push("fewer of both", map[string]string{"apps/both.yaml": strings.ReplaceAll(both, "=256", "=128")})
	m := over(t, s)
	src := gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "apps"}
	_, err := m.Reverting(t.Context(), src, gitops.Target{Kind: "Deployment", Name: "chat"}, []string{sha})
	if !reasonIs(err, fault.Owned, "another workload") {
		t.Errorf("%v", err)
	}
}

// A base that another overlay builds from too is not changed along.
func TestSharedBase(t *testing.T) {
	s, m, src, target := fleet(t)
	s.Push("staging", map[string]string{"apps/staging/kustomization.yaml": "namespace: staging\nresources: [../../base/chat]\n"})
	_, err := m.Propose(t.Context(), gitops.Want{Source: src, Target: target, Set: []gitops.Assignment{{Variable: seqs, Value: "192"}}})
	if !reasonIs(err, fault.Owned, "apps/staging") {
		t.Errorf("%v", err)
	}
}

// The commit that made the manifest is not taken back.
func TestRevertOfTheFirst(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("nothing", map[string]string{"apps/README.md": "#\n"})
	sha := s.Push("first", map[string]string{"apps/chat.yaml": base})
	m := over(t, s)
	src := gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "apps"}
	_, err := m.Reverting(t.Context(), src, gitops.Target{Kind: "Deployment", Name: "chat"}, []string{sha})
	if !reasonIs(err, fault.OutOfBounds, "manifest of Deployment chat") {
		t.Errorf("%v", err)
	}
}

// Nor is it taken back along, unless nobody else's result changes.
func TestRevertOfSharedBase(t *testing.T) {
	s, m, src, target := fleet(t)
	fewer := strings.Replace(base, "=256", "=128", 1)
	sha := s.Push("fewer", map[string]string{"base/chat/deployment.yaml": fewer})
	if _, err := m.Reverting(t.Context(), src, target, []string{sha}); err != nil {
		t.Fatalf("of its own: %v", err)
	}
	s.Push("staging", map[string]string{"apps/staging/kustomization.yaml": "namespace: staging\nresources: [../../base/chat]\n"})
	if _, err := m.Reverting(t.Context(), src, target, []string{sha}); !reasonIs(err, fault.Owned, "apps/staging") {
		t.Errorf("shared: %v", err)
	}
	s.Push("staging has its own", map[string]string{"apps/staging/kustomization.yaml": `namespace: staging
resources: [../../base/chat]
patches:
  - target: {kind: Deployment}
    patch: |-
      - {op: replace, path: "/spec/template/spec/containers/0/args/1", value: "--max-num-seqs=8"}
`})
	if back, err := m.Reverting(t.Context(), src, target, []string{sha}); err != nil || len(back.Touches) != 1 {
		t.Errorf("shared and set elsewhere: %+v, %v", back, err)
	}
}

// A commit that changed another workload of the same source goes out along too.
func TestAheadOfOthers(t *testing.T) {
	s := gittest.NewServer(t)
	code := strings.ReplaceAll(base, "name: chat", "name: code")
	s.Push("two", map[string]string{"apps/chat.yaml": base, "apps/code.yaml": code})
	deployed := s.Head("main")
	s.Push("new image of the other", map[string]string{"apps/code.yaml": strings.Replace(code, "v0.11", "v0.12", 1)})
	m := over(t, s)
	src := gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "apps"}
	p := propose(t, m, gitops.Want{
		Source: src, Target: gitops.Target{Kind: "Deployment", Name: "chat"}, Deployed: deployed,
		Set: []gitops.Assignment{{Variable: seqs, Value: "192"}},
	})
	if len(p.Ahead) != 1 || p.Ahead[0].Subject != "new image of the other" {
		t.Errorf("ahead: %+v", p.Ahead)
	}
}

func TestUnknownRepository(t *testing.T) {
	_, m, src, target := fleet(t)
	src.Repository = "https://git.example/other"
	if _, err := m.Places(t.Context(), src, target, []gitops.Variable{seqs}); !reasonIs(err, fault.Invalid, "gitops.repositories") {
		t.Errorf("%v", err)
	}
}

// One repository has many addresses.
func TestRepositoryName(t *testing.T) {
	for _, a := range []string{
		"https://git.example/ml/serving", "https://git.example/ml/serving.git", "git@git.example:ml/serving.git",
		"ssh://git@git.example:2222/ml/serving", "https://GIT.example/ml/serving/",
	} {
		if got := gitops.RepositoryName(a); got != "git.example/ml/serving" {
			t.Errorf("%s is %s", a, got)
		}
	}
	if a, b := gitops.RepositoryName("http://127.0.0.1:1/x.git"), gitops.RepositoryName("http://127.0.0.1:2/x.git"); a == b {
		t.Errorf("two servers are one: %s", a)
	}
	if got := gitops.RepositoryName("file:///srv/git/fleet.git"); got != "srv/git/fleet" {
		t.Errorf("a directory is %s", got)
	}
}

// What is not read may set what is changed, so nothing is changed next to it.
func TestUnreadManifests(t *testing.T) {
	s, m, src, target := fleet(t)
	want := gitops.Want{Source: src, Target: target, Set: []gitops.Assignment{{Variable: seqs, Value: "192"}}}
	s.Push("a long one", map[string]string{"apps/chat/patch.yaml": "# " + strings.Repeat("x", maxFileBytes) + "\n"})
	if _, err := m.Propose(t.Context(), want); !reasonIs(err, fault.Invalid, "apps/chat/patch.yaml") {
		t.Errorf("next to a manifest of more than 8 MiB: %v", err)
	}
	s.Push("pointers", map[string]string{"apps/chat/patch.yaml": "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("a", 64) + "\nsize 12\n"})
	if _, err := m.Propose(t.Context(), want); !reasonIs(err, fault.Invalid, "LFS") {
		t.Errorf("next to a Git LFS pointer: %v", err)
	}

	dir := t.TempDir()
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "patch.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadDir(dir, ""); !reasonIs(err, fault.Invalid, "patch.yaml") {
		t.Errorf("a checkout with a symbolic link: %v", err)
	}
}
