package git

import (
	"context"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// labelled answers with workloads that say which HelmRelease makes them.
type labelled map[string]string

func (l labelled) Workload(_ context.Context, r kube.Ref) (kube.Workload, error) {
	name, ok := l[r.Name]
	switch {
	case !ok:
		return kube.Workload{}, &fault.Error{Reason: fault.NotFound, Message: "no such workload"}
	case name == "":
		return kube.Workload{}, &fault.Error{Reason: fault.Unreachable, Message: "no answer"}
	}
	return kube.Workload{Ref: r, Owners: []kube.Owner{{Field: "*", Kind: kube.FluxHelm, Namespace: "serving", Name: name}}}, nil
}

func (labelled) Revisions(context.Context, kube.Ref) ([]kube.Revision, error) { return nil, nil }
func (labelled) Nodes(context.Context, kube.Ref) ([]kube.Node, error)         { return nil, nil }

// TestDeploys: whom a lever on an application also acts on. Of a HelmRelease that is what
// it lists, or where it lists nothing what says that it is made by it; what an
// application would delete counts, too.
func TestDeploys(t *testing.T) {
	l := argo{w: labelled{"chat": "models", "code": "others", "silent": "", "gone-from-git": "others"}}
	for _, tt := range []struct {
		app  gitops.Application
		want string
	}{
		{gitops.Application{Name: "flux-helm:serving/models"}, "chat silent"},
		{gitops.Application{Name: "flux-helm:serving/models", Made: []gitops.Resource{{Kind: "Deployment", Namespace: "serving", Name: "code"}}}, "chat code silent"},
		{gitops.Application{Name: "argocd/models", Resources: []gitops.Resource{{Kind: "Deployment", Namespace: "serving", Name: "gone-from-git", Prune: true}}}, "silent gone-from-git"},
		{gitops.Application{Name: "argocd/models", Resources: []gitops.Resource{{Kind: "Deployment", Namespace: "elsewhere", Name: "chat"}}}, ""},
	} {
		var got []string
		for _, name := range []string{"chat", "code", "silent", "gone-from-git", "deleted"} {
			if l.deploys(t.Context(), tt.app, playbook.Service{Name: name, Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: name}}) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s %v deploys %v, want %s", tt.app.Name, tt.app.Made, got, tt.want)
		}
	}
}

var _ step.Workloads = labelled{}
