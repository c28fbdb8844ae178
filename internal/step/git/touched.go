package git

import (
	"context"
	"fmt"
	"slices"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// withPods lists the kinds of objects that have pods of their own.
var withPods = []string{"Deployment", "StatefulSet", "Rollout", "DaemonSet", "LeaderWorkerSet", "Job", "CronJob"}

// touched returns what an application deploys beside the run's service. Argo CD
// moves all of an application, so a lever on it acts on all of these.
func (l argo) touched(ctx context.Context, svc playbook.Service, app gitops.Application) []machine.Touched {
	all := l.services()
	var objects []kube.Ref
	judged := map[string]bool{svc.Namespace: true} // namespaces of services that it deploys
	for _, s := range all {
		if step.RefOf(s) == step.RefOf(svc) {
			continue
		}
		if l.deploys(ctx, app, s) {
			objects, judged[s.Namespace] = append(objects, step.RefOf(s)), true
		}
	}
	for _, r := range slices.Concat(app.Resources, app.Made) {
		// The namespace of a service is judged with it. Objects without pods there are
		// taken for its own.
		if r.Namespace != "" && (!judged[r.Namespace] || slices.Contains(withPods, r.Kind)) {
			objects = append(objects, kube.Ref{Kind: r.Kind, Namespace: r.Namespace, Name: r.Name})
		}
	}
	out := step.Touched(svc, all, objects)
	for i := range out {
		out[i].App = app.Name
	}
	return out
}

// deploys reports whether an application deploys a service: by the catalog, by its
// workload, or by the object that owns the workload. One that cannot be read counts.
func (l argo) deploys(ctx context.Context, app gitops.Application, s playbook.Service) bool {
	if _, ok := listed(app, manifestOf(s, kube.Workload{})); ok || s.GitOps.Application == app.Name {
		return true
	}
	there := func(r gitops.Resource) bool { return r.Namespace == s.Namespace }
	if !unlisted(app) && !slices.ContainsFunc(slices.Concat(app.Resources, app.Made), there) {
		return false
	}
	w, err := l.w.Workload(ctx, step.RefOf(s))
	switch {
	case step.HasReason(err, fault.NotFound):
		return false
	case err != nil:
		return true // it cannot be told, so it is judged, too
	}
	return slices.ContainsFunc(w.Owners, func(o kube.Owner) bool { // whom it may name wrongly is judged, too
		_, ok := listed(app, gitops.Target{Kind: o.Kind, Namespace: s.Namespace, Name: o.Name})
		return ok || o.Kind == kube.FluxHelm && gitops.FluxHelmName(o.Namespace, o.Name) == app.Name
	})
}

// touchesStill refuses to act if the application deploys more than what the guards
// judged the lever for. A plan of an older journal was judged for its service alone.
func (l argo) touchesStill(ctx context.Context, in step.Input, plan machine.Plan, app gitops.Application) error {
	if more := step.TouchedSince(plan, l.touched(ctx, in.Service, app)); more != "" {
		return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: %s deploys more than when it was planned: %s", plan.Step, app.Name, more)}
	}
	return nil
}
