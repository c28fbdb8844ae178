package manifests

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

const hubSecret = `---
apiVersion: v1
kind: Secret
metadata: {name: hub}
stringData: {key: old}
`

// TestTakeBack holds a release that goes back to its fields: those of the target,
// of all its commits, and nothing else of the same files.
func TestTakeBack(t *testing.T) {
	edit := func(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }
	release := edit(base, "v0.11", "v0.12", "=256 #", "=512 #", "--port=8000\n", "--port=8000\n            - --kv-cache-dtype=fp8\n")
	other := strings.ReplaceAll(base, "name: chat", "name: code")
	two := func(ours, theirs string) string { return ours + "---\n" + theirs }
	for name, tt := range map[string]struct {
		first    string
		commits  []string // what the file is after each; one that begins with - does not go back
		want     string
		variable string // what moves
		stays    string
		reason   fault.Reason
		text     string
	}{
		"image and flags of one commit": {first: base, commits: []string{release}, want: base, variable: "image --max-num-seqs --kv-cache-dtype"},
		"two commits": {
			first: base, commits: []string{edit(base, "v0.11", "v0.12"), edit(base, "v0.11", "v0.12", "=256", "=512")},
			want: base, variable: "image --max-num-seqs",
		},
		"one field twice": {first: base, commits: []string{edit(base, "=256", "=512"), edit(base, "=256", "=1024")}, want: base, variable: "--max-num-seqs"},
		"replicas between": {
			first: base, commits: []string{edit(base, "v0.11", "v0.12"), "-" + edit(base, "v0.11", "v0.12", "replicas: 3", "replicas: 5"), edit(release, "replicas: 3", "replicas: 5")},
			want: edit(base, "replicas: 3", "replicas: 5"), variable: "image --max-num-seqs --kv-cache-dtype",
		},
		"replicas of the release scaled since": {
			first: base, commits: []string{edit(release, "replicas: 3", "replicas: 4"), "-" + edit(release, "replicas: 3", "replicas: 6")},
			want: edit(base, "replicas: 3", "replicas: 6"), variable: "image --max-num-seqs --kv-cache-dtype", stays: "replicas",
		},
		"replicas of the release": {first: base, commits: []string{edit(release, "replicas: 3", "replicas: 4")}, want: base, variable: "image --max-num-seqs --kv-cache-dtype replicas"},
		"another service in the file": { // moved by the same commit
			first: two(base, other), commits: []string{two(release, edit(other, "v0.11", "v0.13"))},
			want: two(base, edit(other, "v0.11", "v0.13")), variable: "image --max-num-seqs --kv-cache-dtype", stays: "image",
		},
		"a comment beside it changed since": {
			first: base, commits: []string{release, "-" + edit(release, "- --model=llama", "- --model=llama # the base")},
			want: edit(base, "- --model=llama", "- --model=llama # the base"), variable: "image --max-num-seqs --kv-cache-dtype",
		},
		"a Secret of the release": {
			first: base + hubSecret, commits: []string{release + edit(hubSecret, "old", "new")},
			want: base + edit(hubSecret, "old", "new"), variable: "image --max-num-seqs --kv-cache-dtype", stays: "Secret hub: stringData.key",
		},
		"changed again since": {
			first: base, commits: []string{release, "-" + edit(release, "=512", "=384")},
			reason: fault.Conflict, text: `set --max-num-seqs to "512", and it was changed again since: it is 384 now`,
		},
		"values, with replicas on the next line": {
			first: "replicaCount: 2\nimage:\n  tag: v1\nargs: [--a=1]\n", commits: []string{"replicaCount: 2\nimage:\n  tag: v2\nargs: [--a=2]\n", "-replicaCount: 4\nimage:\n  tag: v2\nargs: [--a=2]\n"},
			want: "replicaCount: 4\nimage:\n  tag: v1\nargs: [--a=1]\n", variable: "image --a",
		},
		"lines that depend on each other": {
			first: "env: {A: x}\nargs: [--a=1]\n", commits: []string{"env:\n  A: y\n  B: z\nargs: [--a=2]\n"},
			want: "env: {A: x}\nargs: [--a=1]\n", variable: "env.A env.B --a",
		},
		"a template": {
			first: "image: {{ .Values.image }}\n", commits: []string{"image: {{ .Values.other }}\n"},
			want: "image: {{ .Values.image }}\n", variable: "whole",
		},
		"taken back by hand": {first: base, commits: []string{release, "-" + base}, reason: fault.NothingToDo},
	} {
		t.Run(name, func(t *testing.T) {
			s := gittest.NewServer(t)
			s.Push("first", map[string]string{"apps/chat.yaml": tt.first})
			var shas []string
			for i, text := range tt.commits {
				kept, others := strings.CutPrefix(text, "-")
				sha := s.Push("commit", map[string]string{"apps/chat.yaml": kept, "docs/log": strings.Repeat("x", i+1)})
				if !others {
					shas = append(shas, sha)
				}
			}
			m := over(t, s)
			src := gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "apps"}
			target := gitops.Target{Kind: "Deployment", Namespace: "serving", Name: "chat"}
			p, err := m.Propose(t.Context(), gitops.Want{Source: src, Target: target, TakeBack: shas})
			if tt.reason != "" {
				if !reasonIs(err, tt.reason, tt.text) {
					t.Errorf("%+v, %v; want %s ...%s...", p.Touches, err, tt.reason, tt.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var moves, stays []string
			for _, x := range p.Touches {
				if x.Variable == "(the whole file)" {
					x.Variable = "whole"
				}
				moves = append(moves, x.Variable)
			}
			for _, x := range p.Stays {
				stays = append(stays, x.Variable)
			}
			want := map[string]bool{}
			for _, v := range strings.Fields(tt.variable) {
				want[v] = true
			}
			for _, v := range moves {
				if !want[v] {
					t.Errorf("%s goes back, want %s", v, tt.variable)
				}
			}
			if len(moves) != len(want) || strings.Join(stays, " ") != tt.stays {
				t.Errorf("%v go back and %v stay, want %s and %s", moves, stays, tt.variable, tt.stays)
			}
			if diff := cmp.Diff(tt.want, string(p.Files[0].Data)); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			released := s.Show("main", "apps/chat.yaml")
			made := commit(t, m, p, "r-1/back#1/apply")
			if got := s.Show("main", "apps/chat.yaml"); got != tt.want {
				t.Errorf("committed\n%s", got)
			}
			text := s.GitBare("log", "-1", "--format=%B", made)
			for _, sha := range shas {
				if !strings.Contains(text, "This reverts commit "+sha+".") {
					t.Errorf("the message does not name %s:\n%s", sha, text)
				}
			}
			undo, err := m.Reverting(t.Context(), src, target, []string{made})
			if err != nil {
				t.Fatal(err)
			}
			commit(t, m, undo, "r-1/back#1/undo")
			if got := s.Show("main", "apps/chat.yaml"); got != released {
				t.Errorf("after the undo\n%s\nwant\n%s", got, released)
			}
		})
	}
}

// TestTakeBackOfFiles: a file that the release added goes away and one that it
// removed comes back; what belongs to another service stays, wherever it is.
func TestTakeBackOfFiles(t *testing.T) {
	const settings = "kind: ConfigMap\nmetadata: {name: chat-settings}\ndata: {MODE: fast}\n"
	const migration = "kind: Job\nmetadata: {name: chat}\nspec: {parallelism: 1}\n"
	s, m, src, target := fleet(t)
	s.Push("old settings", map[string]string{"apps/chat/old.yaml": settings})
	canary := strings.ReplaceAll(strings.Replace(base, "v0.11", "v0.12", 1), "name: chat", "name: chat-canary")
	sha := s.Push("release", map[string]string{
		"base/chat/deployment.yaml": strings.NewReplacer("v0.11", "v0.12", "=256", "=512").Replace(base),
		"apps/chat/old.yaml":        "", "apps/chat/new.yaml": settings, "apps/chat/migrate.yaml": migration,
		"apps/chat-canary/deployment.yaml": canary,
	})
	p := propose(t, m, gitops.Want{Source: src, Target: target, TakeBack: []string{sha}})
	if len(p.Stays) == 0 || !strings.HasPrefix(p.Stays[0].Path, "Job chat: ") {
		t.Errorf("%+v stay, want the job", p.Stays)
	}
	released := s.Head("main")
	made := commit(t, m, p, "r-1/back#1/apply")
	for file, want := range map[string]string{
		"base/chat/deployment.yaml": base, "apps/chat/old.yaml": settings, "apps/chat/migrate.yaml": migration, "apps/chat-canary/deployment.yaml": canary,
	} {
		if got := s.Show("main", file); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", file, got, want)
		}
	}
	if list := s.GitBare("ls-tree", "--name-only", "main", "apps/chat/"); strings.Contains(list, "new.yaml") {
		t.Errorf("what the release added is still there: %s", list)
	}
	undo, err := m.Reverting(t.Context(), src, target, []string{made})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, m, undo, "r-1/back#1/undo")
	if diff := s.GitBare("diff", "--stat", released, "main"); diff != "" {
		t.Errorf("the undo leaves\n%s", diff)
	}
}

// TestTakeBackOfSharedKustomization: the other service's image in one
// kustomization stays, and an image of both is refused.
func TestTakeBackOfSharedKustomization(t *testing.T) {
	k := func(chat, code string) string {
		return "resources: [chat.yaml, code.yaml]\nimages:\n  - name: vllm\n    newTag: " + chat + "\n  - name: sglang\n    newTag: " + code + "\n"
	}
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{
		"apps/kustomization.yaml": k("v1", "v1"), "apps/chat.yaml": base,
		"apps/code.yaml": strings.NewReplacer("name: chat", "name: code", "image: vllm", "image: sglang").Replace(base),
	})
	images := s.Push("images", map[string]string{"apps/kustomization.yaml": k("v2", "v2")})
	m := over(t, s)
	src := gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "apps"}
	target := gitops.Target{Kind: "Deployment", Name: "chat"}
	p := propose(t, m, gitops.Want{Source: src, Target: target, TakeBack: []string{images}})
	if got := string(p.Files[0].Data); got != k("v1", "v2") || len(p.Stays) != 1 {
		t.Errorf("taken back\n%s\nwhat stays: %+v", got, p.Stays)
	}
	s.Push("one engine", map[string]string{"apps/code.yaml": strings.ReplaceAll(base, "name: chat", "name: code")})
	if _, err := m.Propose(t.Context(), gitops.Want{Source: src, Target: target, TakeBack: []string{images}}); !reasonIs(err, fault.Owned, "images[vllm]") {
		t.Errorf("an image of both: %v", err)
	}
}
