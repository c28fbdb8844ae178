package manifests

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

// Value files outside the path of a chart are part of its source: a change is made in
// them, and a commit to them voids a plan. Other files there are not.
func TestValueFiles(t *testing.T) {
	s := gittest.NewServer(t)
	const values = "decode:\n  replicas: 2\n  containers:\n  - name: vllm\n    image: vllm/vllm-openai:v0.11.0\n    args: [--max-num-seqs=64]\n"
	s.Push("all of it", map[string]string{
		"charts/ms/Chart.yaml": "apiVersion: v2\nname: ms\nversion: 0.1.0\n",
		"envs/prod.yaml":       values,
		"envs/staging.yaml":    values,
	})
	m := over(t, s)
	files := []string{"envs/prod.yaml"}
	w := gitops.Want{
		Source: gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "charts/ms", Values: files},
		Target: gitops.Target{Kind: "Deployment", Namespace: "serving", Name: "chat-decode", ValueFiles: files, Release: "chat"},
		Set:    []gitops.Assignment{{Variable: seqs, Value: "32"}},
	}
	first := propose(t, m, w)
	if len(first.Files) != 1 || first.Files[0].Path != "envs/prod.yaml" || !strings.Contains(string(first.Files[0].Data), "--max-num-seqs=32") {
		t.Errorf("the change is %v, want one of envs/prod.yaml", first.Files)
	}
	if !strings.Contains(first.Unbuilt, "responder-helm") {
		t.Errorf("without the program that renders charts the plan says %q", first.Unbuilt)
	}
	s.Push("others", map[string]string{"envs/staging.yaml": values + "# more\n"})
	if again := propose(t, m, w); again.Read != first.Read {
		t.Error("a commit to another environment voids the plan")
	}
	s.Push("ours", map[string]string{"envs/prod.yaml": values + "# more\n"})
	if again := propose(t, m, w); again.Read == first.Read {
		t.Error("a commit to the value file does not void the plan")
	}
}

// The chart of a HelmRelease is part of its source, though it stands outside of what the
// Kustomization deploys: it is rendered, and a commit to it voids a plan.
func TestChartOfHelmRelease(t *testing.T) {
	s := gittest.NewServer(t)
	const release = `kind: HelmRelease
metadata: {name: chat, namespace: serving}
spec:
  chart: {spec: {chart: ./charts/ms, sourceRef: {kind: GitRepository, name: fleet}}}
  values:
    fullnameOverride: chat
    decode: {replicas: 2, containers: [{name: vllm, args: [--max-num-seqs=64]}]}
`
	const chart = "apiVersion: v2\nname: ms\nversion: 0.1.0\n"
	s.Push("all of it", map[string]string{"charts/ms/Chart.yaml": chart, "charts/other/Chart.yaml": chart, "clusters/prod/chat.yaml": release})
	m := over(t, s)
	w := gitops.Want{
		Source: gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "clusters/prod", Values: []string{"charts/ms"}},
		Target: gitops.Target{Kind: "Deployment", Namespace: "serving", Name: "chat-decode", ValueFiles: []string{"charts/ms"}, Release: "chat", HelmRelease: "serving/chat", Listed: true},
		Set:    []gitops.Assignment{{Variable: seqs, Value: "32"}},
	}
	first := propose(t, m, w)
	if len(first.Files) != 1 || string(first.Files[0].Data) != strings.Replace(release, "seqs=64", "seqs=32", 1) {
		t.Errorf("the change is %v, want one of a flag in clusters/prod/chat.yaml", first.Files)
	}
	if !strings.Contains(first.Unbuilt, "responder-helm") {
		t.Errorf("the chart would not be rendered: %q", first.Unbuilt)
	}
	s.Push("others", map[string]string{"charts/other/Chart.yaml": chart + "# more\n"})
	if again := propose(t, m, w); again.Read != first.Read {
		t.Error("a commit to another chart voids the plan")
	}
	s.Push("ours", map[string]string{"charts/ms/Chart.yaml": chart + "# more\n"})
	if again := propose(t, m, w); again.Read == first.Read {
		t.Error("a commit to the chart does not void the plan")
	}
	back := w
	back.Set, back.TakeBack = nil, []string{s.Push("more at a time", map[string]string{"clusters/prod/chat.yaml": strings.Replace(release, "seqs=64", "seqs=128", 1)})}
	if p := propose(t, m, back); len(p.Files) != 1 || string(p.Files[0].Data) != release {
		t.Errorf("the release goes back to %v", p.Files)
	}
	other := w.Target
	other.Name, other.Listed = "other-decode", false
	if err := m.Made(t.Context(), w.Source, other); err == nil || !strings.Contains(err.Error(), "responder-helm") {
		t.Errorf("without rendering, another workload is of the release: %v", err)
	}
}

// A HelmRelease that a kustomization renames is read, changed and taken back as one.
func TestRenamedHelmRelease(t *testing.T) {
	s := gittest.NewServer(t)
	const release = `kind: HelmRelease
metadata: {name: rel, namespace: default}
spec:
  chart: {spec: {chart: vllm-stack, sourceRef: {kind: HelmRepository, name: vllm}}}
  values: {servingEngineSpec: {modelSpec: [{name: chat, replicaCount: 2}]}}
`
	s.Push("all", map[string]string{"prod/kustomization.yaml": "namespace: serving\nnamePrefix: prod-\nresources: [rel.yaml]\n", "prod/rel.yaml": release})
	m := over(t, s)
	src := gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "prod"}
	target := gitops.Target{Kind: "Deployment", Namespace: "serving", Name: "prod-rel-chat-deployment-vllm", Release: "prod-rel", HelmRelease: "serving/prod-rel"}
	more := s.Push("more", map[string]string{"prod/rel.yaml": strings.Replace(release, "replicaCount: 2", "replicaCount: 3", 1)})
	p, err := m.Reverting(t.Context(), src, target, []string{more})
	if err != nil || len(p.Touches) != 1 {
		t.Errorf("%v: %v", p.Touches, err)
	}
	if err := m.Made(t.Context(), src, target); err != nil {
		t.Error(err)
	}
	changes, err := m.Changes(t.Context(), src, target, time.Time{})
	if err != nil || len(changes) != 2 {
		t.Errorf("%d changes: %v", len(changes), err)
	}
}

// What Flux lists is not removed either, whatever its chart is.
func TestTakeBackOfListedRelease(t *testing.T) {
	s := gittest.NewServer(t)
	const release = "kind: HelmRelease\nmetadata: {name: rel, namespace: serving}\nspec: {chartRef: {kind: OCIRepository, name: x}, values: {servingEngineSpec: {modelSpec: [{name: code}]}}}\n"
	s.Push("nothing", map[string]string{"prod/README.md": "# Models\n"})
	m := over(t, s)
	w := gitops.Want{
		Source:   gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "prod"},
		Target:   gitops.Target{Kind: "Deployment", Namespace: "serving", Name: "rel-chat-deployment-vllm", Release: "rel", HelmRelease: "serving/rel", Listed: true},
		TakeBack: []string{s.Push("the release", map[string]string{"prod/rel.yaml": strings.Replace(release, "code", "chat", 1)})},
	}
	if _, err := m.Propose(t.Context(), w); !reasonIs(err, fault.OutOfBounds, "would remove") {
		t.Errorf("the release is taken away: %v", err)
	}
	s.Push("another model", map[string]string{"prod/rel.yaml": release})
	w.TakeBack = []string{s.Push("the model", map[string]string{"prod/rel.yaml": strings.Replace(release, "{name: code}", "{name: code}, {name: chat}", 1)})}
	if _, err := m.Propose(t.Context(), w); !reasonIs(err, fault.OutOfBounds, "would remove") {
		t.Errorf("the model is taken away: %v", err)
	}
}

// A commit that added the model is no change of it: taken back, the service would be gone.
func TestTakeBackOfModel(t *testing.T) {
	s := gittest.NewServer(t)
	const release = `kind: HelmRelease
metadata: {name: rel, namespace: serving}
spec:
  chart: {spec: {chart: vllm-stack, sourceRef: {kind: HelmRepository, name: vllm}}}
  values:
    servingEngineSpec:
      modelSpec:
      - name: code
        replicaCount: 1
`
	const model = "      - name: chat\n        replicaCount: 2\n"
	s.Push("code", map[string]string{"prod/rel.yaml": release})
	m := over(t, s)
	w := gitops.Want{
		Source:   gitops.Source{Repository: s.RepositoryURL(), Branch: "main", Path: "prod"},
		Target:   gitops.Target{Kind: "Deployment", Namespace: "serving", Name: "rel-chat-deployment-vllm", Release: "rel", HelmRelease: "serving/rel"},
		TakeBack: []string{s.Push("chat", map[string]string{"prod/rel.yaml": release + model})},
	}
	if err := m.Made(t.Context(), w.Source, w.Target); err != nil {
		t.Error(err)
	}
	if _, err := m.Propose(t.Context(), w); !reasonIs(err, fault.OutOfBounds, "would remove") {
		t.Errorf("the model is taken away: %v", err)
	}
	w.TakeBack[0] = s.Push("of both models", map[string]string{"prod/rel.yaml": strings.NewReplacer("replicaCount: 1", "replicaCount: 4\n        tag: new").Replace(release) + strings.Replace(model, "2", "2\n        tag: new", 1)})
	p := propose(t, m, w)
	if want := strings.NewReplacer("replicaCount: 1", "replicaCount: 4\n        tag: new").Replace(release) + model; len(p.Files) != 1 || string(p.Files[0].Data) != want {
		t.Errorf("the release of the model goes back to\n%s\nwant\n%s", p.Files, want)
	}
}
