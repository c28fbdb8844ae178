package git

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
)

// The value files of a chart are those of its source, and those that it takes from
// another source of the same repository. One of another repository is named as it is
// written: it is not found, and the change is refused.
func TestChartSource(t *testing.T) {
	const fleet, elsewhere = "https://git.example/fleet", "https://git.example/other"
	app := gitops.Application{
		Name:     "argocd/chat",
		Sources:  []gitops.Source{{Repository: fleet, Path: "charts/chat"}, {Repository: fleet + ".git"}, {Repository: elsewhere}},
		Refs:     []string{"", "values", "other"},
		Values:   [][]string{{"values.yaml", "$values/envs/prod.yaml", "$other/secret.yaml", "https://example.com/v.yaml"}, nil, nil},
		Releases: []string{"serve", "", ""},
	}
	if diff := cmp.Diff([]string{"charts/chat/values.yaml", "envs/prod.yaml", "$other/secret.yaml"}, valueFiles(app, 0)); diff != "" {
		t.Errorf("value files of the chart's source (-want +got):\n%s", diff)
	}
	for index, want := range []string{"serve", "chat"} {
		at := site{app: app, index: index}
		at.object.Release = releaseOf(app, index)
		if got := payloadAt(at, gitops.Proposal{}).target("serving"); at.object.Release != want || got.Release != want {
			t.Errorf("source %d: the release is %q, and the plan keeps %q, want %q", index, at.object.Release, got.Release, want)
		}
	}
}

// What is in the cluster alone, with the mark of an application, is not what a commit
// changes.
func TestManagesNothingThatGitHasNot(t *testing.T) {
	target := gitops.Target{Kind: "Deployment", Namespace: "serving", Name: "chat"}
	app := gitops.Application{Name: "argocd/chat", Resources: []gitops.Resource{{Kind: "Deployment", Namespace: "serving", Name: "chat"}}}
	if err := Manages(app, target); err != nil {
		t.Error(err)
	}
	app.Resources[0].Prune = true
	if err := Manages(app, target); err == nil {
		t.Error("an application manages what it would delete")
	}
}

// The chart of a HelmRelease is a directory beside what the Kustomization deploys. Its
// values are written in the HelmRelease, and what runs is read from the workload. Files
// of the chart are not reverted: Flux would not release them.
func TestChartOfHelmRelease(t *testing.T) {
	app := gitops.Application{
		Name: "flux-helm:serving/chat", Sources: []gitops.Source{{Repository: "https://git.example/fleet", Path: "clusters/prod"}},
		Refs: []string{""}, Values: [][]string{{"../../charts/engine"}}, Releases: []string{"prod"},
	}
	at := site{app: app, w: kube.Workload{Ref: kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "prod-engine"}}}
	at.object = gitops.Target{Kind: "Deployment", Namespace: "serving", Name: "prod-engine", ValueFiles: valueFiles(app, 0), Release: releaseOf(app, 0), HelmRelease: gitops.HelmReleaseOf(app.Name)}
	if diff := cmp.Diff([]string{"charts/engine"}, at.object.ValueFiles); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(at.object, payloadAt(at, gitops.Proposal{}).target("serving")); diff != "" {
		t.Errorf("the plan does not keep the target (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		made []gitops.Resource
		ok   bool
	}{
		{nil, true}, // the manifests tell
		{[]gitops.Resource{{Kind: "Deployment", Namespace: "serving", Name: "prod-engine"}}, true},
		{[]gitops.Resource{{Kind: "Deployment", Namespace: "serving", Name: "prod"}, {Kind: "StatefulSet", Namespace: "serving", Name: "prod-engine"}}, false},
	} {
		app.Made = tt.made
		if err := Manages(app, at.object); (err == nil) != tt.ok {
			t.Errorf("Helm made %v: %v", tt.made, err)
		}
	}
	for variable, path := range map[string]string{"--max-num-seqs": "vllmConfig.maxNumSeqs", "replicas": "replicaCount"} {
		l, why := liveOf(at, gitops.Touch{Variable: variable, Path: "HelmRelease chat: spec.values." + path, From: "2", To: "3"})
		if why != "" || l.Kind != "" || !l.Indirect {
			t.Errorf("%s is read from %+v %s, want the workload", variable, l, why)
		}
	}
	for path, refused := range map[string]bool{"clusters/prod/chat.yaml": false, "charts/engine/values.yaml": true, "charts/engine-2/values.yaml": false} {
		err := outsideChart(at, gitops.Proposal{Files: []gitops.File{{Path: path}}})
		if gone := outsideChart(at, gitops.Proposal{Deleted: []string{path}}); (err != nil) != refused || (gone != nil) != refused {
			t.Errorf("%s: %v, deleted: %v", path, err, gone)
		}
	}
}
