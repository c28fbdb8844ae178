package gitops

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// number is the place of a number of the object; a missing one is added to the
// mapping that would hold it.
func (o *object) number(why string, at ...string) (*site, error) {
	key := at[len(at)-1]
	parent := edit.Get(o.root, at[:len(at)-1]...)
	if o.why != "" {
		why += "; " + o.why
	}
	if !edit.IsMap(parent) || len(parent.Content) == 0 {
		return nil, notFound("%s has no %s", o, strings.Join(at[:len(at)-1], "."))
	}
	n := edit.Get(parent, key)
	place := Place{Path: o.prefix + strings.Join(at, "."), Form: "field", Why: why}
	if o.prefix != "" {
		place.Form = "values"
	}
	if n == nil {
		doc := o.docOf(parent)
		if doc == nil {
			doc, parent = o.firstHolder(at[:len(at)-1])
		}
		if doc == nil {
			return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: %s is put together by patches: add %s in one of them", o, strings.Join(at[:len(at)-1], "."), key)}
		}
		place.Missing = true
		s := o.site(doc, parent, place)
		s.set = func(v string) (edit.Splice, error) {
			return doc.AddScalar(parent, key, v)
		}
		return s, nil
	}
	doc := o.docOf(n)
	if n.Kind != yaml.ScalarNode || doc == nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: %s is not a number (a template?)", o, strings.Join(at, "."))}
	}
	if _, err := strconv.Atoi(n.Value); err != nil {
		return nil, doc.Invalid(n, strings.Join(at, ".")+" is not a whole number")
	}
	place.Value = n.Value
	s := o.site(doc, n, place)
	s.set = func(v string) (edit.Splice, error) { return doc.SetScalar(n, v) }
	s.unset = func() (edit.Splice, error) { return doc.RemoveKey(parent, key) }
	return s, nil
}

// firstHolder finds a mapping in the manifests that an object was put together
// from: the last layer that has it.
func (o *object) firstHolder(at []string) (*edit.Document, *yaml.Node) {
	for i := len(o.docs) - 1; i >= 0; i-- {
		root, err := o.docs[i].Parse()
		if n := edit.Get(root, at...); err == nil && edit.IsMap(n) && len(n.Content) > 0 {
			return o.docs[i], n
		}
	}
	return nil, nil
}

// replicas is where the number of an object's replicas is decided: by what
// scales it, or by the object itself.
func (o *object) replicas(component string, v Variable, all []*object) (*site, error) {
	scalers := o.scalers(component, all)
	if len(scalers) > 1 {
		var places []Place
		for _, s := range scalers {
			places = append(places, s.site(s.docs[0], s.root, Place{Path: "spec.scaleTargetRef"}).place)
		}
		return nil, ambiguous(places, "several autoscalers own the replicas")
	}
	if len(scalers) == 1 {
		return scalers[0].bound(v, o)
	}
	const own = "no autoscaler in the tree owns the replicas"
	switch o.kind {
	case "InferenceService":
		return o.bounds(v, "the service scales between its own bounds", []string{"spec", "predictor"}, "minReplicas", "maxReplicas")
	case llmInferenceService, llmInferenceConfig:
		return o.llmReplicas(component, v)
	case dynamoGraph:
		return o.graphReplicas(component)
	}
	if v.Bound == "max" {
		return nil, notFound("%s: no autoscaler in the tree has an upper bound for it", o)
	}
	return o.number(own, "spec", "replicas")
}

func (o *object) llmReplicas(component string, v Variable) (*site, error) {
	at := []string{"spec"}
	if component == "" && o.tree.target.Workload != "" && edit.IsMap(edit.Get(o.root, "spec", "prefill")) {
		return nil, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s serves prefill and decode apart, and which of them %s is cannot be told by its name", o, edit.Clip(o.tree.target.Workload))}
	}
	if strings.HasPrefix(component, "prefill") {
		at = append(at, "prefill")
	}
	if edit.IsMap(edit.Get(o.root, append(at, "scaling")...)) {
		return o.bounds(v, "the service scales between its own bounds", append(at, "scaling"), "minReplicas", "maxReplicas")
	}
	return o.number("no autoscaler owns the replicas", append(at, "replicas")...)
}

// graphReplicas is the number of one component of a Dynamo graph.
func (o *object) graphReplicas(component string) (*site, error) {
	if component == "" {
		names := o.components()
		if len(names) != 1 {
			return nil, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s has the components %s: name the one to scale", o, strings.Join(names, ", "))}
		}
		component = names[0]
	}
	if name := o.planner(); name != "" {
		return nil, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s: the planner %s sets the replicas of its components by itself", o, edit.Clip(name))}
	}
	if services := edit.Get(o.root, "spec", "services"); edit.IsMap(services) {
		for i := 0; i+1 < len(services.Content); i += 2 {
			if name := services.Content[i].Value; strings.EqualFold(name, component) {
				return o.graphNumber(services.Content[i+1], "spec", "services", name)
			}
		}
	}
	for i, c := range edit.List(o.root, "spec", "components") {
		if strings.EqualFold(edit.Str(c, "name"), component) {
			return o.itemNumber(c, fmt.Sprintf("spec.components[%d]", i), "replicas")
		}
	}
	return nil, notFound("%s has no component %q (it has %s)", o, edit.Clip(component), strings.Join(o.components(), ", "))
}

// planner is the component of a graph that scales the others; empty: none.
func (o *object) planner() string {
	services := edit.Get(o.root, "spec", "services")
	for i := 0; edit.IsMap(services) && i+1 < len(services.Content); i += 2 {
		if edit.Str(services.Content[i+1], "componentType") == "planner" {
			return services.Content[i].Value
		}
	}
	for _, c := range edit.List(o.root, "spec", "components") {
		if edit.Str(c, "type") == "planner" || edit.Str(c, "componentType") == "planner" {
			return edit.Str(c, "name")
		}
	}
	return ""
}

func (o *object) graphNumber(service *yaml.Node, at ...string) (*site, error) {
	if edit.Str(service, "scalingAdapter", "enabled") == "true" {
		return nil, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s: a scaling adapter owns the replicas of %s: scale its DynamoGraphDeploymentScalingAdapter", o, at[len(at)-1])}
	}
	return o.number("the graph itself says how many", append(at, "replicas")...)
}

// itemNumber is a number in a mapping that is an item of a list.
func (o *object) itemNumber(m *yaml.Node, path, key string) (*site, error) {
	s, err := o.below(m, path).number("the graph itself says how many", key)
	if s != nil {
		s.place.Form = "field"
	}
	return s, err
}

// scalers finds the autoscalers of an object: those built along with it, or
// else those that stand elsewhere in the tree and belong to no other target.
func (o *object) scalers(component string, all []*object) []*object {
	var near, far []*object
	for _, s := range all {
		switch {
		case s.namespace != "" && o.namespace != "" && s.namespace != o.namespace, !s.scales(o, component):
		case s.root0 == o.root0:
			near = append(near, s)
		case !slices.ContainsFunc(all, func(other *object) bool { return other != o && other.root0 == s.root0 && s.scales(other, component) }):
			far = append(far, s)
		}
	}
	if len(near) > 0 {
		return near
	}
	return far
}

// scales reports whether an autoscaler names an object.
func (o *object) scales(of *object, component string) bool {
	ref := edit.Get(o.root, "spec", "scaleTargetRef")
	kind, name := edit.Str(ref, "kind"), edit.Str(ref, "name")
	switch o.kind {
	case "HorizontalPodAutoscaler":
	case "ScaledObject":
		if kind == "" {
			kind = "Deployment"
		}
	case "DynamoGraphDeploymentScalingAdapter":
		ref = edit.Get(o.root, "spec", "dgdRef")
		part := edit.Str(ref, "serviceName") + edit.Str(ref, "componentName")
		return of.kind == dynamoGraph && edit.Str(ref, "name") == of.written && strings.EqualFold(part, component)
	default:
		return false
	}
	return kind == of.kind && (name == of.name || name == of.written)
}

// bound is the bound of an autoscaler.
func (o *object) bound(v Variable, of *object) (*site, error) {
	why := fmt.Sprintf("%s owns the replicas of %s", o, of)
	switch o.kind {
	case "ScaledObject":
		return o.bounds(v, why, []string{"spec"}, "minReplicaCount", "maxReplicaCount")
	case "DynamoGraphDeploymentScalingAdapter":
		return o.number(why, "spec", "replicas")
	}
	return o.bounds(v, why, []string{"spec"}, "minReplicas", "maxReplicas")
}

// bounds is the lower or upper bound; one never crosses the other.
func (o *object) bounds(v Variable, why string, at []string, low, high string) (*site, error) {
	mine, other := low, high
	if v.Bound == "max" {
		mine, other = high, low
	}
	s, err := o.number(why, append(at[:len(at):len(at)], mine)...)
	if err != nil {
		return nil, err
	}
	set := s.set
	s.set = func(value string) (edit.Splice, error) {
		n := edit.Get(o.root, append(at[:len(at):len(at)], other)...)
		wanted, _ := strconv.Atoi(value)
		if n != nil {
			limit, err := strconv.Atoi(n.Value)
			if err != nil || mine == low && wanted > limit || mine == high && wanted < limit {
				return edit.Splice{}, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: %s: %s cannot be %s while %s is %s: change that first", s.place.File, o, mine, value, other, edit.Clip(n.Value))}
			}
		}
		return set(value)
	}
	return s, nil
}
