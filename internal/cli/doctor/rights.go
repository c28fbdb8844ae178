package doctor

import (
	"cmp"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// needless returns which resources a lever on a workload of a kind never touches: those of
// workloads of another kind and, to scale it, those of what does not have its replicas.
func needless(lever, kind string, owners []kube.Owner) func(resource string) bool {
	if lever != "kube.autoscaler" {
		return func(resource string) bool {
			return slices.Contains([]string{"deployments", "statefulsets", "rollouts"}, resource) && resource != strings.ToLower(kind)+"s"
		}
	}
	scalers := map[string]string{
		kube.HPA: "horizontalpodautoscalers", kube.ScaledObject: "scaledobjects",
		kube.InferenceService: "inferenceservices", kube.LeaderWorkerSet: "leaderworkersets", "DynamoComponentDeployment": "dynamographdeploymentscalingadapters",
	}
	needed := []string{scalers[kube.HPA], scalers[kube.ScaledObject]}
	if i := slices.IndexFunc(owners, func(o kube.Owner) bool { return kube.Makes(o.Kind) }); i >= 0 {
		needed = []string{scalers[owners[i].Kind]}
		if owners[i].Kind == "DynamoComponentDeployment" { // its graph may have a planner
			needed = append(needed, "dynamographdeployments")
		}
	}
	return func(resource string) bool { return !slices.Contains(needed, resource) }
}

// spaces returns the namespaces in which a lever writes for a service: its own, or those
// of the templates of Jobs that may run for it.
func (e *exam) spaces(lever string, s playbook.Service) []string {
	if lever != "job.run" {
		return []string{s.Namespace}
	}
	var out []string
	for _, d := range e.c.Jobs {
		if t, there := e.world.Deps.Templates.Template(d.Name); there && t.Fits(s.Name) {
			out = append(out, cmp.Or(d.Namespace, s.Namespace))
		}
	}
	if len(out) == 0 { // no template fits yet: one without a namespace would run here
		return []string{s.Namespace}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
