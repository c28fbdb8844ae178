package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/inference-responder/responder/internal/dynamo"
)

// DynamoGraph is a graph of Dynamo. As an autoscaler it is its planner, for one component: its
// name is GRAPH/COMPONENT.
const DynamoGraph = "DynamoGraphDeployment"

// plannedBy returns the planner of the graph of a component, if it has one or may have one;
// else the maker.
func (c *Client) plannedBy(ctx context.Context, maker, component Ref) (Ref, error) {
	graph, err := c.scaler(ctx, component)
	if err != nil {
		return Ref{}, err
	}
	if name, err := planner(graph); err == nil && name == "" {
		return maker, nil
	}
	return component, nil
}

// planner returns the name of the planner of a graph; empty: it has none.
func planner(graph *unstructured.Unstructured) (string, error) {
	all, err := graphComponents(graph)
	if err != nil {
		return "", err
	}
	return dynamo.Find(all)
}

// plan fills in the planner of a graph for a component, with the marks of that component: each
// has loans of its own on the same object.
func (a *Autoscaler) plan(graph *unstructured.Unstructured) {
	_, component, _ := strings.Cut(a.Ref.Name, "/")
	for _, mark := range []string{AnnotationRun, AnnotationEffect} {
		if v, ok := a.Annotations[partMark(mark, component)]; ok {
			a.Annotations[mark] = v
		} else {
			delete(a.Annotations, mark)
		}
	}
	p, why := readPlanner(graph, component)
	a.planner, a.Bounds, a.Inert = &p, Bounds{Min: p.Floor}, why
	if p.Limit != "" {
		a.Ceiling = &Ceiling{Most: p.Most, Starts: p.Starts, Why: p.Limit}
	}
	a.Owners = declaredOwners(Ref{Kind: DynamoGraph, Namespace: a.Ref.Namespace, Name: graph.GetName()}, metav1.ObjectMeta{
		OwnerReferences: graph.GetOwnerReferences(), Annotations: graph.GetAnnotations(), Labels: graph.GetLabels(), ManagedFields: graph.GetManagedFields(),
	})
}

// readPlanner reads what the planner of a graph has for a component, and why its lower bound
// is not raised; empty: it may be.
func readPlanner(graph *unstructured.Unstructured, component string) (p dynamo.Planner, why string) {
	p.At = -1
	all, err := graphComponents(graph)
	if err != nil {
		return p, err.Error()
	}
	name, err := dynamo.Find(all)
	switch {
	case err != nil:
		return p, err.Error()
	case name == "":
		return p, fmt.Sprintf("%s %s has no planner any more", DynamoGraph, graph.GetName())
	case len(validation.IsQualifiedName(partMark(AnnotationEffect, component))) > 0:
		return p, "no mark can be set for a component of the name " + clip(component)
	}
	args, _, err := unstructured.NestedStringSlice(graph.Object, "spec", "services", name, "extraPodSpec", "mainContainer", "args")
	if err != nil {
		return p, "the arguments of its planner cannot be read"
	}
	p = dynamo.Read(name, args, plannerEnvironment(graph, name), all, component)
	if p.Fixed != "" {
		why = fmt.Sprintf("the planner %s of %s %s sets the replicas of its components: %s", name, DynamoGraph, graph.GetName(), p.Fixed)
	}
	return p, why
}

// plannerEnvironment returns what of its environment may set flags of a planner; empty: nothing.
func plannerEnvironment(graph *unstructured.Unstructured, service string) string {
	own := []string{"spec", "services", service}
	main := append(slices.Clone(own), "extraPodSpec", "mainContainer")
	for _, at := range [][]string{{"spec", "envs"}, append(slices.Clone(own), "envs"), append(slices.Clone(main), "env")} {
		list, _, err := unstructured.NestedSlice(graph.Object, at...)
		if err != nil {
			return "variables that cannot be read"
		}
		for _, v := range list {
			fields, readable := v.(map[string]any)
			name, named, err := unstructured.NestedString(fields, "name")
			switch {
			case !readable || !named || err != nil:
				return "variables that cannot be read"
			case strings.HasPrefix(name, "PLANNER_"):
				return "its variable " + clip(name)
			}
		}
	}
	for _, at := range [][]string{append(own, "envFromSecret"), append(slices.Clone(main), "envFrom")} {
		if _, found, err := unstructured.NestedFieldNoCopy(graph.Object, at...); found || err != nil {
			return "variables of another object (" + at[len(at)-1] + ")"
		}
	}
	command, _, err := unstructured.NestedStringSlice(graph.Object, append(main, "command")...)
	if err != nil || slices.ContainsFunc(command, func(s string) bool { return strings.HasPrefix(s, "--") }) {
		return "its command"
	}
	return ""
}

// graphComponents returns the components of a graph.
func graphComponents(graph *unstructured.Unstructured) ([]dynamo.Component, error) {
	services, found, err := unstructured.NestedMap(graph.Object, "spec", "services")
	if err != nil || !found {
		return nil, fmt.Errorf("%w: %s %s has no spec.services that can be read", dynamo.ErrUnread, DynamoGraph, graph.GetName())
	}
	var out []dynamo.Component
	for _, name := range slices.Sorted(maps.Keys(services)) {
		fields, readable := services[name].(map[string]any)
		c := dynamo.Component{Name: name}
		var errs [3]error
		var replicas int64
		var written bool
		c.Type, _, errs[0] = unstructured.NestedString(fields, "componentType")
		c.Sub, _, errs[1] = unstructured.NestedString(fields, "subComponentType")
		replicas, written, errs[2] = unstructured.NestedInt64(fields, "replicas")
		if !readable || errors.Join(errs[:]...) != nil {
			return nil, fmt.Errorf("%w: spec.services.%s of %s %s cannot be read", dynamo.ErrUnread, name, DynamoGraph, graph.GetName())
		}
		if written {
			c.Replicas = new(int(replicas))
		}
		c.GPUs, c.Unknown = gpusOf(fields)
		out = append(out, c)
	}
	return out, nil
}

// gpusOf returns the GPUs of one replica of a component of a graph, or why they are not known.
func gpusOf(service map[string]any) (n int, unknown string) {
	for _, at := range []string{"limits", "requests"} {
		v, found, _ := unstructured.NestedFieldNoCopy(service, "resources", at, "gpu")
		if !found {
			continue
		}
		n, err := strconv.Atoi(fmt.Sprint(v))
		if err != nil || n < 1 {
			return 0, fmt.Sprintf("resources.%s.gpu is no number of GPUs", at)
		}
		nodes, several, err := unstructured.NestedInt64(service, "multinode", "nodeCount")
		if err != nil || several && nodes < 1 {
			return 0, "multinode.nodeCount is no number of nodes"
		}
		beside, _, err := unstructured.NestedSlice(service, "extraPodSpec", "containers")
		if err != nil || strings.Contains(fmt.Sprint(beside), "gpu") {
			return 0, "other containers of its pods may take GPUs, too"
		}
		return n * max(int(nodes), 1), ""
	}
	return 0, "resources.limits.gpu is not written"
}

// partMark returns the annotation of a mark on a part of an object.
func partMark(mark, part string) string { return mark + "." + part }
