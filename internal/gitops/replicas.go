package gitops

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// replicas returns the site of an object's replicas: in its autoscaler, or in the
// object itself.
func (tr *tree) replicas(o *edit.Object, component string, v Variable, all []*edit.Object) (*edit.Site, error) {
	owners := scalers(o, component, all)
	if len(owners) > 1 {
		var places []Place
		for _, s := range owners {
			places = append(places, placeOf(s.Site(s.Docs[0], s.Root, edit.Site{Path: "spec.scaleTargetRef"})))
		}
		return nil, ambiguous(places, "several autoscalers own the replicas")
	}
	if len(owners) == 1 {
		return boundOf(owners[0], v, o)
	}
	const own = "no autoscaler in the tree owns the replicas"
	switch o.Kind {
	case "InferenceService":
		return o.Bound(v.Bound, "the service scales between its own bounds", []string{"spec", "predictor"}, "minReplicas", "maxReplicas")
	case llmInferenceService, llmInferenceConfig:
		return tr.llmReplicas(o, component, v)
	case dynamoGraph:
		return graphReplicas(o, component, v)
	case "Model":
		if edit.Str(o.Root, "spec", "autoscalingDisabled") != "true" {
			return o.Bound(v.Bound, "KubeAI scales between the model's own bounds", []string{"spec"}, "minReplicas", "maxReplicas")
		}
	}
	if v.Bound == "max" {
		return nil, notFound("%s: no autoscaler in the tree has an upper bound for it", o)
	}
	if slices.Contains(unscaled, o.Kind) {
		return nil, notFound("%s has no number of replicas: a %s has no spec.replicas", o, o.Kind)
	}
	s, err := o.Number(own, "spec", "replicas")
	if s != nil && s.Missing && !slices.Contains(scaled, o.Kind) {
		return nil, notFound("%s does not set spec.replicas, and whether the kind %s has it is not known", o, o.Kind)
	}
	return s, err
}

var (
	// scaled lists the kinds that have spec.replicas, which may be missing.
	scaled = []string{
		"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Rollout", "LeaderWorkerSet",
		"DynamoComponentDeployment", "StormService", "PodCliqueSet", "Playground", "Model",
	}
	// unscaled lists the kinds that ignore spec.replicas.
	unscaled = []string{
		"Pod", "Job", "CronJob", "DaemonSet", "Service", "RayService", "RayCluster", "RayJob",
		"ServingRuntime", "ClusterServingRuntime", "BackendRuntime", "VLLMRuntime",
	}
)

func (tr *tree) llmReplicas(o *edit.Object, component string, v Variable) (*edit.Site, error) {
	at := []string{"spec"}
	if component == "" && tr.target.Workload != "" && edit.IsMap(edit.Get(o.Root, "spec", "prefill")) {
		return nil, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s runs prefill and decode separately, and the name of %s does not tell which of them it is: name it as gitops.component of the service's catalog entry", o, edit.Clip(tr.target.Workload))}
	}
	if strings.HasPrefix(component, "prefill") {
		at = append(at, "prefill")
	}
	if edit.IsMap(edit.Get(o.Root, append(at, "scaling")...)) {
		return o.Bound(v.Bound, "the service scales between its own bounds", append(at, "scaling"), "minReplicas", "maxReplicas")
	}
	return o.Number("no autoscaler owns the replicas", append(at, "replicas")...)
}

// graphReplicas returns the site of the replicas of one component of a Dynamo graph.
func graphReplicas(o *edit.Object, component string, v Variable) (*edit.Site, error) {
	if component == "" {
		names := components(o)
		if len(names) != 1 {
			return nil, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s has the components %s: name the one to scale, as gitops.component of the service's catalog entry (--component where you look by hand)", o, strings.Join(names, ", "))}
		}
		component = names[0]
	}
	for _, p := range graphParts(o) {
		if p.kind() == "planner" && v.Bound == "max" {
			return nil, notFound("%s: the GPUs of its planner (max_gpu_budget) are of all components, and no upper bound of one", o)
		}
		if p.kind() == "planner" {
			return plannerBound(o, component)
		}
	}
	if services := edit.Get(o.Root, "spec", "services"); edit.IsMap(services) {
		for i := 0; i+1 < len(services.Content); i += 2 {
			if name := services.Content[i].Value; strings.EqualFold(name, component) {
				return graphNumber(o, services.Content[i+1], "spec", "services", name)
			}
		}
	}
	for i, c := range edit.List(o.Root, "spec", "components") {
		if strings.EqualFold(edit.Str(c, "name"), component) {
			return itemNumber(o, c, fmt.Sprintf("spec.components[%d]", i), "replicas")
		}
	}
	return nil, notFound("%s has no component %q (it has %s)", o, edit.Clip(component), strings.Join(components(o), ", "))
}

func graphNumber(o *edit.Object, service *yaml.Node, at ...string) (*edit.Site, error) {
	if edit.Str(service, "scalingAdapter", "enabled") == "true" {
		return nil, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s: a scaling adapter owns the replicas of %s: scale its DynamoGraphDeploymentScalingAdapter", o, at[len(at)-1])}
	}
	return o.Number("the graph itself says how many", append(at, "replicas")...)
}

// itemNumber returns the site of a number in a mapping that is an item of a list.
func itemNumber(o *edit.Object, m *yaml.Node, path, key string) (*edit.Site, error) {
	s, err := o.Part(m, path).Number("the graph itself says how many", key)
	if s != nil {
		s.Form = "field"
	}
	return s, err
}

// scalers returns the autoscalers of an object: those built with it, or else those
// elsewhere in the tree that belong to no other target. One that only says how many
// another one should ask for does not count beside that one.
func scalers(o *edit.Object, component string, all []*edit.Object) []*edit.Object {
	var near, far []*edit.Object
	for _, s := range all {
		switch {
		case s.Namespace != "" && o.Namespace != "" && s.Namespace != o.Namespace, !scales(s, o, component):
		case s.Builder == o.Builder:
			near = append(near, s)
		case !slices.ContainsFunc(all, func(other *edit.Object) bool {
			return other != o && other.Builder == s.Builder && scales(s, other, component)
		}):
			far = append(far, s)
		}
	}
	if len(near) == 0 {
		near = far
	}
	if len(near) > 1 {
		near = slices.DeleteFunc(near, func(s *edit.Object) bool { return s.Kind == variantAutoscaling })
	}
	return near
}

// variantAutoscaling is the kind of llm-d's autoscaler, which acts by way of another.
const variantAutoscaling = "VariantAutoscaling"

// scales reports whether an autoscaler, of whatever kind, names an object.
func scales(o *edit.Object, of *edit.Object, component string) bool {
	ref := edit.Get(o.Root, "spec", "scaleTargetRef")
	kind, name := edit.Str(ref, "kind"), edit.Str(ref, "name")
	switch o.Kind {
	case "ScaledObject":
		if kind == "" {
			kind = "Deployment"
		}
	case "DynamoGraphDeploymentScalingAdapter":
		ref = edit.Get(o.Root, "spec", "dgdRef")
		part := edit.Str(ref, "serviceName") + edit.Str(ref, "componentName")
		return of.Kind == dynamoGraph && of.Called(edit.Str(ref, "name")) && strings.EqualFold(part, component)
	case variantAutoscaling:
		if ref == nil {
			return of.Kind == "Deployment" && of.Called(o.Name)
		}
	}
	return kind == of.Kind && of.Called(name)
}

// boundOf returns the site of the bound of an autoscaler.
func boundOf(o *edit.Object, v Variable, of *edit.Object) (*edit.Site, error) {
	why := fmt.Sprintf("%s owns the replicas of %s", o, of)
	low, high := "minReplicas", "maxReplicas"
	switch o.Kind {
	case "HorizontalPodAutoscaler", "PodAutoscaler":
	case "ScaledObject":
		low, high = "minReplicaCount", "maxReplicaCount"
	case "DynamoGraphDeploymentScalingAdapter":
		return o.Number(why, "spec", "replicas")
	default:
		if spec := edit.Get(o.Root, "spec"); edit.Get(spec, low) == nil && edit.Get(spec, high) == nil {
			return nil, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s owns the replicas of %s, and has no bounds to set", o, of)}
		}
	}
	return o.Bound(v.Bound, why, []string{"spec"}, low, high)
}
