package git

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/gitops"
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
