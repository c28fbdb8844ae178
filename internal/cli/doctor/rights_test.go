package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/jobs"
	"github.com/inference-responder/responder/internal/kube/kubetest"
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

// TestRolloutIsHeld: of a Rollout of Argo Rollouts the hold is possible, and what is refused
// on it disarms a playbook.
func TestRolloutIsHeld(t *testing.T) {
	s := kubetest.New(t)
	chat := kube.Ref{Kind: kube.Rollout, Namespace: "serving", Name: "chat"}
	s.Workload(t, chat, 2, kubetest.Template("chat", "vllm:v1"))
	e := &exam{cluster: s.Client(t)}
	svc := playbook.Service{Name: "serving/chat", Namespace: "serving", Workload: playbook.Workload{Kind: chat.Kind, Name: chat.Name}}
	if f := e.workload(t.Context(), svc); !strings.Contains(f.Detail, "2 of 2 replicas ready") {
		t.Errorf("%+v", f)
	}
	for lever, held := range map[string]bool{"rollout.hold": true, "kube.scale": true, "kube.rollout_undo": false, "kube.restart": false, "service.rollback": false} {
		if why := e.barred(svc.Name, lever); (why == "") != held {
			t.Errorf("%s: %q", lever, why)
		}
	}
}
