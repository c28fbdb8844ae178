package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// This file holds the planner of Dynamo. It sets the replicas of the components of its
// graph by itself, within bounds that stand in its own arguments. Sources: PlannerConfig in the
// documentation of Dynamo, and the flags of the versions before it.

// DynamoGraph is a graph of Dynamo. As an autoscaler it is its planner, for one component: its
// name is GRAPH/COMPONENT.
const DynamoGraph = "DynamoGraphDeployment"

// Defaults of PlannerConfig.
const (
	plannerFloor  = 1
	plannerBudget = 8
)

// planner is the planner of a graph, for one component of it.
type planner struct {
	service string // its name in spec.services
	args    []string
	at      int    // index of the argument that holds the lower bound
	prefix  string // what stands before the value in that argument: --config=
	key     string // of the lower bound in the JSON document; empty: the argument holds the number
	name    string // of the lower bound, for people
	floor   *int   // lower bound; nil: not written
	most    int    // replicas of the component that its GPUs allow; -1: not known
	budget  string // what allows no more, for people; empty: nothing limits them
}

// plannerSettings are the fields of PlannerConfig that tell what may be changed.
type plannerSettings struct {
	Environment string `json:"environment"`
	Advises     bool   `json:"no_operation"`
	Budget      *int   `json:"max_gpu_budget"` // GPUs of all components; negative: without an end
	Floor       *int   `json:"min_endpoint"`   // replicas of each component
	Prefill     *int   `json:"prefill_min_endpoint"`
	Decode      *int   `json:"decode_min_endpoint"`
}

// plannerOf returns the name of the planner in the services of a graph; empty: it has none.
// The error is the end of a sentence.
func plannerOf(graph *unstructured.Unstructured) (string, error) {
	services, found, err := unstructured.NestedMap(graph.Object, "spec", "services")
	if err != nil || !found {
		return "", fmt.Errorf("whether a planner sets them is not known: %s %s has no spec.services that can be read", DynamoGraph, graph.GetName())
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(services)) {
		kind, readable := componentType(services[name])
		if !readable {
			return "", fmt.Errorf("whether a planner sets them is not known: spec.services.%s of %s %s cannot be read", name, DynamoGraph, graph.GetName())
		}
		if kind == "planner" {
			out = append(out, name)
		}
	}
	if len(out) > 1 {
		return "", fmt.Errorf("several planners set them: %s of %s %s", strings.Join(out, " and "), DynamoGraph, graph.GetName())
	}
	return strings.Join(out, ""), nil
}

func componentType(service any) (kind string, readable bool) {
	fields, readable := service.(map[string]any)
	kind, _, err := unstructured.NestedString(fields, "componentType")
	return kind, readable && err == nil
}

// plannedBy returns the planner of the graph of a component, if it has one or may have one;
// else the maker.
func (c *Client) plannedBy(ctx context.Context, maker, component Ref) (Ref, error) {
	graph, err := c.scaler(ctx, component)
	if err != nil {
		return Ref{}, err
	}
	if name, err := plannerOf(graph); err == nil && name == "" {
		return maker, nil
	}
	return component, nil
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
	p, err := readPlanner(graph, component)
	if err != nil {
		a.Inert = err.Error()
	}
	a.planner, a.Bounds = &p, Bounds{Min: p.floor}
	if p.budget != "" {
		a.Ceiling = &Ceiling{Most: p.most, Why: p.budget}
	}
	a.Owners = declaredOwners(Ref{Kind: DynamoGraph, Namespace: a.Ref.Namespace, Name: graph.GetName()}, metav1.ObjectMeta{
		OwnerReferences: graph.GetOwnerReferences(), Annotations: graph.GetAnnotations(), Labels: graph.GetLabels(), ManagedFields: graph.GetManagedFields(),
	})
}

// partMark returns the annotation of a mark on a part of an object.
func partMark(mark, part string) string { return mark + "." + part }

// path returns where the lower bound stands in the spec of the graph.
func (p *planner) path() string {
	return "services." + p.service + ".extraPodSpec.mainContainer.args." + p.name
}

// readPlanner reads what the planner of a graph has for a component. The error is the end
// of a sentence: why its bounds cannot be changed.
func readPlanner(graph *unstructured.Unstructured, component string) (planner, error) {
	name, err := plannerOf(graph)
	if err != nil {
		return planner{}, err
	}
	p := planner{service: name}
	if err := p.read(graph, component); err != nil {
		return p, fmt.Errorf("the planner %s of %s %s sets the replicas of its components by itself, and %w", name, DynamoGraph, graph.GetName(), err)
	}
	return p, nil
}

func (p *planner) read(graph *unstructured.Unstructured, component string) error {
	services, _, _ := unstructured.NestedMap(graph.Object, "spec", "services") // read before
	var err error
	fields, _ := services[p.service].(map[string]any)
	if p.args, _, err = unstructured.NestedStringSlice(fields, "extraPodSpec", "mainContainer", "args"); err != nil {
		return errors.New("its arguments cannot be read")
	}
	settings, err := p.settings()
	switch {
	case err != nil:
		return err
	case settings.Environment != "" && settings.Environment != "kubernetes":
		return fmt.Errorf("its environment is %s, so that something else decides", clip(settings.Environment))
	case settings.Advises:
		return errors.New("scales nothing: its no_operation is set")
	case len(validation.IsQualifiedName(partMark(AnnotationEffect, component))) > 0:
		return fmt.Errorf("no mark can be set for a component of the name %s", clip(component))
	}
	fleet := workers(services)
	if err := p.lowest(settings, fleet, services[component], component); err != nil {
		return err
	}
	p.room(settings, fleet, component)
	return nil
}

// workers returns the components of a graph that its planner scales.
func workers(services map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	for name, s := range services {
		if kind, _ := componentType(s); slices.Contains([]string{"worker", "prefill", "decode"}, kind) {
			out[name], _ = s.(map[string]any)
		}
	}
	return out
}

// settings reads the configuration that stands in --config, or the flags of the versions
// before it.
func (p *planner) settings() (plannerSettings, error) {
	var out plannerSettings
	document, n := p.flag("--config")
	switch {
	case n > 1:
		return out, errors.New("has --config more than once")
	case n == 1:
		text := strings.TrimSpace(document)
		if strings.Contains(text, "$(") || !strings.HasPrefix(text, "{") {
			return out, fmt.Errorf("its bounds are not in its arguments, but in %s: change them there", clip(text))
		}
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			return out, errors.New("its --config is no JSON that can be read")
		}
		p.key = "min_endpoint"
		return out, nil
	}
	for name, into := range map[string]**int{"--max-gpu-budget": &out.Budget, "--min-endpoint": &out.Floor} {
		if v, n := p.flag(name); n > 0 {
			number, err := strconv.Atoi(v)
			if err != nil || n > 1 {
				return out, fmt.Errorf("its %s is no one number", name)
			}
			*into = &number
		}
	}
	out.Environment, _ = p.flag("--environment")
	out.Advises = slices.Contains(p.args, "--no-operation")
	if _, n := p.flag("--min-endpoint"); n == 0 { // also the place of it
		return out, errors.New("its lower bound is not in its arguments (--config with a JSON document, or --min-endpoint): set it there first")
	}
	return out, nil
}

// flag returns the value of a flag and how often it is given. It keeps its place.
func (p *planner) flag(name string) (value string, times int) {
	for i, arg := range p.args {
		joined, ok := strings.CutPrefix(arg, name+"=")
		switch {
		case ok:
			p.at, p.prefix, value, times = i, name+"=", joined, times+1
		case arg == name && i+1 < len(p.args):
			p.at, p.prefix, value, times = i+1, "", p.args[i+1], times+1
		}
	}
	return value, times
}

// lowest finds the lower bound of the component alone.
func (p *planner) lowest(s plannerSettings, fleet map[string]map[string]any, service any, component string) error {
	if _, scaled := fleet[component]; !scaled {
		return fmt.Errorf("%s is not known as a component that it scales, by its componentType", clip(component))
	}
	role, _ := componentType(service)
	if sub, _, err := unstructured.NestedString(fleet[component], "subComponentType"); err != nil || sub != "" {
		role = sub
	}
	switch {
	case p.key != "" && role == "prefill" && s.Prefill != nil, p.key != "" && role == "decode" && s.Decode != nil:
		p.key = role + "_min_endpoint"
		p.floor = map[string]*int{"prefill": s.Prefill, "decode": s.Decode}[role]
	case len(fleet) == 1:
		p.floor = s.Floor
	default:
		return fmt.Errorf("its min_endpoint is of %s alike: set prefill_min_endpoint and decode_min_endpoint in its --config, if its version has them",
			strings.Join(slices.Sorted(maps.Keys(fleet)), " and "))
	}
	p.name = "--min-endpoint"
	if p.key != "" {
		p.name = p.key
	}
	return nil
}

// room finds how many replicas of the component its GPUs allow. All components share them.
func (p *planner) room(s plannerSettings, fleet map[string]map[string]any, component string) {
	budget := plannerBudget
	if s.Budget != nil {
		budget = *s.Budget
	}
	if budget < 0 {
		return
	}
	p.most = -1
	left, each := budget, 0
	for _, name := range slices.Sorted(maps.Keys(fleet)) {
		gpus, err := gpusOf(fleet[name])
		if err != nil {
			p.budget = fmt.Sprintf("whether its %d GPUs (max_gpu_budget) have room is not known: spec.services.%s.%v", budget, name, err)
			return
		}
		if name == component {
			each = gpus
			continue
		}
		replicas, found, err := unstructured.NestedInt64(fleet[name], "replicas")
		if err != nil || !found {
			p.budget = fmt.Sprintf("whether its %d GPUs (max_gpu_budget) have room is not known: spec.services.%s.replicas is not written", budget, name)
			return
		}
		left -= int(replicas) * gpus
	}
	p.most = max(left, 0) / each
	p.budget = fmt.Sprintf("its %d GPUs (max_gpu_budget) have room for %d replicas of %s, of %d GPUs each", budget, p.most, component, each)
}

// gpusOf returns the GPUs of one replica of a component of a graph. The error begins with
// a path below it.
func gpusOf(service map[string]any) (int, error) {
	for _, at := range []string{"limits", "requests"} {
		v, found, _ := unstructured.NestedFieldNoCopy(service, "resources", at, "gpu")
		if !found {
			continue
		}
		n, err := strconv.Atoi(fmt.Sprint(v))
		if err != nil || n < 1 {
			return 0, fmt.Errorf("resources.%s.gpu is no number of GPUs", at)
		}
		nodes, several, err := unstructured.NestedInt64(service, "multinode", "nodeCount")
		if err != nil || several && nodes < 1 {
			return 0, errors.New("multinode.nodeCount is no number of nodes")
		}
		return n * max(int(nodes), 1), nil
	}
	return 0, errors.New("resources.limits.gpu is not written")
}

// with returns the argument that holds the lower bound, with another one.
func (p *planner) with(floor *int) (string, error) {
	if p.key == "" {
		if floor == nil {
			return "", errors.New("a flag cannot be unset")
		}
		return p.prefix + strconv.Itoa(*floor), nil
	}
	text, err := spliceNumber(strings.TrimPrefix(p.args[p.at], p.prefix), p.key, floor)
	return p.prefix + text, err
}

// spliceNumber sets a field of a JSON object to a number, or takes it out, and leaves the
// rest of the text as it is.
func spliceNumber(text, key string, n *int) (string, error) {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') || !json.Valid([]byte(text)) {
		return "", errors.New("no JSON object")
	}
	open := int(d.InputOffset())
	out, times := "", 0
	for first := true; d.More(); first = false {
		begin := int(d.InputOffset())
		name, err := d.Token()
		if err != nil {
			return "", err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return "", err
		}
		end := int(d.InputOffset())
		if name != key {
			continue
		}
		times++
		rest, more := strings.CutPrefix(strings.TrimLeft(text[end:], " \t\r\n"), ",")
		switch {
		case n != nil:
			out = text[:end-len(value)] + strconv.Itoa(*n) + text[end:]
		case !first:
			out = text[:begin] + text[end:]
		case more: // the comma behind it goes
			out = text[:open] + strings.TrimPrefix(rest, " ")
		default:
			out = text[:open] + text[end:]
		}
	}
	switch {
	case times > 1:
		return "", fmt.Errorf("%s stands there more than once", key)
	case times == 1:
		return out, nil
	case n == nil:
		return text, nil
	}
	added := fmt.Sprintf("%q: %d", key, *n)
	if strings.TrimLeft(text[open:], " \t\r\n")[0] != '}' {
		added += ", "
	}
	return text[:open] + added + text[open:], nil
}
