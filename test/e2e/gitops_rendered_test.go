//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// rendered is a layout of manifests, an edit of it, and what the edit changes in what
// kustomize itself builds.
type rendered struct {
	source, workload string
	set              []string          // what is set to which value
	files            map[string]string // besides the base
	want             []string          // lines of the rendered result, sorted; empty: the edit is refused
	refused          string
}

// engine is a Deployment of an engine.
func engine(name, args string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + "}\nspec:\n  replicas: 1\n  template:\n    spec:\n      containers:\n" +
		"      - name: vllm\n        image: vllm/vllm-openai:v0.11.0\n        args: " + args + "\n"
}

var renderedBase = map[string]string{
	"base/kustomization.yaml": "resources: [chat.yaml, embed.yaml]\n",
	"base/chat.yaml":          engine("chat", "[--model=m, --max-num-seqs=16]"),
	"base/embed.yaml":         engine("embed", "[--model=e, --max-num-seqs=16]"),
}

var (
	setSeqs     = []string{"--flag", "max-num-seqs", "--value", "48"}
	seqsChanged = []string{"+ - --max-num-seqs=48", "- - --max-num-seqs=32"}
)

var renderings = map[string]rendered{
	"a base": {"base", "chat", setSeqs, nil, []string{"+ - --max-num-seqs=48", "- - --max-num-seqs=16"}, ""},
	"a strategic patch": {"prod", "chat", setSeqs, map[string]string{
		"prod/kustomization.yaml": "namespace: serving\nresources: [../base]\npatches:\n- path: chat.yaml\n",
		"prod/chat.yaml":          engine("chat", "[--model=m, --max-num-seqs=32]"),
	}, seqsChanged, ""},
	"a JSON patch of one": {"prod", "chat", setSeqs, map[string]string{
		"prod/kustomization.yaml": "namespace: serving\nresources: [../base]\npatches:\n- target: {kind: Deployment, name: chat}\n  patch: |-\n" +
			"    - {op: replace, path: /spec/template/spec/containers/0/args/1, value: --max-num-seqs=32}\n",
	}, seqsChanged, ""},
	"a JSON patch of all": {"prod", "chat", setSeqs, map[string]string{
		"prod/kustomization.yaml": "namespace: serving\nresources: [../base]\npatches:\n- target: {kind: Deployment}\n  patch: |-\n" +
			"    - {op: replace, path: /spec/template/spec/containers/0/args/1, value: --max-num-seqs=32}\n",
	}, nil, "would also change Deployment serving/embed"},
	"a component": {"prod", "chat", setSeqs, map[string]string{
		"prod/kustomization.yaml":      "namespace: serving\nresources: [../base]\ncomponents: [seqs]\n",
		"prod/seqs/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- path: chat.yaml\n",
		"prod/seqs/chat.yaml":          engine("chat", "[--model=m, --max-num-seqs=32]"),
	}, seqsChanged, ""},
	"a flag that is added": {"prod", "chat", []string{"--flag", "max-num-batched-tokens", "--value", "4096"}, map[string]string{
		"prod/kustomization.yaml": "namespace: serving\nresources: [../base]\n",
	}, []string{"+ - --max-num-batched-tokens=4096"}, ""},
	"replicas by the prefixed name": {"outer", "b-a-chat", []string{"--replicas", "--value", "4"}, map[string]string{
		"prod/kustomization.yaml":  "namespace: serving\nnamePrefix: a-\nresources: [../base]\n",
		"outer/kustomization.yaml": "namePrefix: b-\nresources: [../prod]\nreplicas:\n- {name: a-chat, count: 3}\n",
	}, []string{"+ replicas: 4", "- replicas: 3"}, ""},
	"a namespace by replacement": {"prod", "chat", setSeqs, map[string]string{
		"prod/kustomization.yaml": "resources: [../base, settings.yaml]\nreplacements:\n- source: {kind: ConfigMap, name: settings, fieldPath: data.namespace}\n" +
			"  targets:\n  - select: {kind: Deployment}\n    fieldPaths: [metadata.namespace]\n    options: {create: true}\n",
		"prod/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {namespace: serving}\n",
	}, []string{"+ - --max-num-seqs=48", "- - --max-num-seqs=16"}, ""},
	"a generated ConfigMap": {"prod", "vision", setSeqs, map[string]string{
		"prod/kustomization.yaml": "namespace: serving\nresources: [vision.yaml]\nconfigMapGenerator:\n- name: vision\n  literals: [SEQS=32, LEN=1024]\n",
		"prod/vision.yaml":        engine("vision", "[\"--max-num-seqs=$(SEQS)\"]") + "        envFrom: [{configMapRef: {name: vision}}]\n",
	}, []string{"+ SEQS: \"48\"", "- SEQS: \"32\""}, ""},
	"a ConfigMap of two": {"prod", "vision", setSeqs, map[string]string{
		"prod/kustomization.yaml": "namespace: serving\nresources: [vision.yaml, text.yaml]\nconfigMapGenerator:\n- name: both\n  literals: [SEQS=32]\n",
		"prod/vision.yaml":        engine("vision", "[\"--max-num-seqs=$(SEQS)\"]") + "        envFrom: [{configMapRef: {name: both}}]\n",
		"prod/text.yaml":          engine("text", "[\"--max-num-seqs=$(SEQS)\"]") + "        envFrom: [{configMapRef: {name: both}}]\n",
	}, nil, "would also change Deployment serving/text"},
}

// TestGitopsRendered applies the difference that gitops set shows, and compares what
// kustomize builds before and after: it is the one variable that was asked for.
func TestGitopsRendered(t *testing.T) {
	responder, kustomize := rig.BuildResponder(t, false), rig.Kustomize(t)
	for name, r := range renderings {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, files := range []map[string]string{renderedBase, r.files} {
				writeTree(t, dir, files)
			}
			before := output(t, dir, "", kustomize, "build", r.source)
			args := slices.Concat([]string{"gitops", "set", "--path", ".", "--source", r.source, "--service", "serving/" + r.workload, "--engine", "vllm", "--dry-run", "-o", "json"}, r.set)
			if r.refused != "" {
				cmd := exec.CommandContext(t.Context(), responder, args...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), r.refused) {
					t.Fatalf("it ends with %v, want it refused: ...%s...\n%s", err, r.refused, out)
				}
				return
			}
			var shown struct{ Diff string }
			if err := json.Unmarshal([]byte(output(t, dir, "", responder, args...)), &shown); err != nil {
				t.Fatal(err)
			}
			output(t, dir, shown.Diff, "git", "apply", "-")
			after := output(t, dir, "", kustomize, "build", r.source)
			if diff := cmp.Diff(r.want, changedLines(before, after)); diff != "" {
				t.Errorf("what kustomize builds changes otherwise (-want +got):\n%s\n%s", diff, shown.Diff)
			}
		})
	}
}

func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// output is what a program prints.
func output(t *testing.T, dir, stdin, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, problems.String())
	}
	return string(out)
}

// hash is what kustomize adds to the names of generated ConfigMaps.
var hash = regexp.MustCompile(`(?m)(name: [a-z]+)-[a-z0-9]{10}$`)

// changedLines returns the lines that only one of two texts has, sorted.
func changedLines(before, after string) []string {
	var out []string
	counts := map[string]int{}
	for line := range strings.Lines(hash.ReplaceAllString(before, "$1")) {
		counts["- "+strings.TrimSpace(line)]++
	}
	for line := range strings.Lines(hash.ReplaceAllString(after, "$1")) {
		if was := "- " + strings.TrimSpace(line); counts[was] > 0 {
			counts[was]--
			continue
		}
		out = append(out, "+ "+strings.TrimSpace(line))
	}
	for line, n := range counts {
		for range n {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}
