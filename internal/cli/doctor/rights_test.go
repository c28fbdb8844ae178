package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/kube/jobs"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestSpacesOfJobs: rights to Jobs are asked about where the templates run that may run for
// the service, and not elsewhere.
func TestSpacesOfJobs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	manifest := "apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {containers: [{name: work, image: 'cachectl:v1'}]}}}\n"
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &exam{c: config.Config{Jobs: []jobs.Declaration{
		{Name: "dump", File: file, Namespace: "tools", ReadOnly: true},
		{Name: "clear", File: file, ReadOnly: true},
		{Name: "warm", File: file, Namespace: "tools", ReadOnly: true},
		{Name: "other", File: file, Namespace: "batch", ReadOnly: true, Services: []string{"serving/other"}},
	}}}
	var err error
	if e.world.Deps.Templates, err = jobs.Open(e.c.Jobs); err != nil {
		t.Fatal(err)
	}
	svc := playbook.Service{Name: "serving/chat", Namespace: "serving"}
	if got := e.spaces("job.run", svc); !slices.Equal(got, []string{"serving", "tools"}) {
		t.Errorf("Jobs run in %q", got)
	}
	if got := e.spaces("kube.scale", svc); !slices.Equal(got, []string{"serving"}) {
		t.Errorf("it is scaled in %q", got)
	}
}

// TestNeedless: a lever is asked for rights to the kind of the service's workload alone.
func TestNeedless(t *testing.T) {
	for kind, needs := range map[string]string{"Deployment": "deployments", "StatefulSet": "statefulsets", "Rollout": "rollouts"} {
		skip := needless("kube.scale", kind, nil)
		for _, resource := range []string{"deployments", "statefulsets", "rollouts"} {
			if skip(resource) != (resource != needs) {
				t.Errorf("%s of a %s are skipped: %t", resource, kind, skip(resource))
			}
		}
	}
}
