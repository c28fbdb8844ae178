package gitops

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/command"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// container is one container of a workload, or the values that a chart makes one of.
type container struct {
	command.Container
	tree      *tree
	component string     // of a graph or a set: decode, prefill, leader, worker, VllmDecodeWorker
	pod       *yaml.Node // its spec, with the volumes
}

// newContainer returns a container whose environment is looked up in the tree.
func (tr *tree) newContainer(c command.Container, component string, pod *yaml.Node) container {
	c.Environment = func(name string) (*edit.Value, error) { return tr.environment(c, name) }
	return container{Container: c, tree: tr, component: component, pod: pod}
}

// line is the command line of a container.
type line struct {
	*command.Line
	container container
}

// missing returns the site at which a flag that is not set would be added.
func (l line) missing(v Variable) (*edit.Site, error) {
	s, err := l.Missing(v.flag())
	if err != nil && !l.Hidden() {
		return nil, isUnset(err)
	}
	if s != nil {
		s.Engine = l.Program().Name
	}
	return s, err
}

// commandLine reads the container's command line.
func (c container) commandLine() (line, error) {
	l, err := command.ReadLine(c.Container)
	return line{l, c}, err
}

// template is where a kind keeps a pod.
type template struct {
	component string
	path      []string // to the pod's spec
}

// templates lists the kinds whose pods stand at fixed paths.
var templates = map[string][]template{
	"Deployment":            {{"", []string{"spec", "template", "spec"}}},
	"StatefulSet":           {{"", []string{"spec", "template", "spec"}}},
	"DaemonSet":             {{"", []string{"spec", "template", "spec"}}},
	"ReplicaSet":            {{"", []string{"spec", "template", "spec"}}},
	"Rollout":               {{"", []string{"spec", "template", "spec"}}},
	"ServingRuntime":        {{"", []string{"spec"}}},
	"ClusterServingRuntime": {{"", []string{"spec"}}},
	"LeaderWorkerSet":       {{"leader", lws("leaderTemplate")}, {"worker", lws("workerTemplate")}},
	"InferenceService":      {{"", []string{"spec", "predictor"}}, {"worker", []string{"spec", "predictor", "workerSpec"}}},
	llmInferenceService:     llmTemplates,
	llmInferenceConfig:      llmTemplates,
}

const (
	llmInferenceService = "LLMInferenceService"
	llmInferenceConfig  = "LLMInferenceServiceConfig"
	dynamoGraph         = "DynamoGraphDeployment"
)

var llmTemplates = []template{
	{"decode", []string{"spec", "template"}},
	{"worker", []string{"spec", "worker"}},
	{"prefill", []string{"spec", "prefill", "template"}},
	{"prefill-worker", []string{"spec", "prefill", "worker"}},
}

func lws(name string) []string { return []string{"spec", "leaderWorkerTemplate", name, "spec"} }

// containers returns the containers of an object's pods.
func (tr *tree) containers(o *edit.Object) []container {
	switch {
	case o.Kind == dynamoGraph:
		return tr.graphContainers(o)
	case o.Kind == "Model" && edit.IsMap(edit.Get(o.Root, "spec")):
		c := command.Container{Object: o, Name: "server", Path: "spec", Node: edit.Get(o.Root, "spec"), Backend: "vllm"}
		if engine := edit.Str(c.Node, "engine"); engine != "VLLM" {
			c.Backend, c.Other = "", engine+" of KubeAI"
		}
		return []container{tr.newContainer(c, "", nil)}
	}
	var out []container
	for _, t := range templates[o.Kind] {
		pod := edit.Get(o.Root, t.path...)
		out = append(out, tr.podContainers(o, pod, t.component, strings.Join(t.path, "."))...)
		if model := edit.Get(pod, "model"); o.Kind == "InferenceService" && edit.IsMap(model) {
			c := command.Container{Object: o, Name: "kserve-container", Path: strings.Join(t.path, ".") + ".model", Node: model}
			c.Backend, c.Other = command.RuntimeOf(model)
			c.Unknown = tr.unknownRuntime(o, model)
			out = append(out, tr.newContainer(c, t.component, pod))
		}
	}
	return out
}

func (tr *tree) podContainers(o *edit.Object, pod *yaml.Node, component, at string) []container {
	var out []container
	for i, c := range edit.List(pod, "containers") {
		if !edit.IsMap(c) {
			continue
		}
		name := edit.Str(c, "name")
		label := name
		if label == "" {
			label = fmt.Sprint(i)
		}
		out = append(out, tr.newContainer(command.Container{Object: o, Name: name, Path: fmt.Sprintf("%s.containers[%s]", at, label), Node: c}, component, pod))
	}
	return out
}

// graphContainers returns the containers of a Dynamo graph: v1alpha1 has services in a
// mapping, v1beta1 components in a list.
func (tr *tree) graphContainers(o *edit.Object) []container {
	var out []container
	services := edit.Get(o.Root, "spec", "services")
	for i := 0; edit.IsMap(services) && i+1 < len(services.Content); i += 2 {
		name, at := services.Content[i].Value, "spec.services."+services.Content[i].Value
		pod := edit.Get(services.Content[i+1], "extraPodSpec")
		if main := edit.Get(pod, "mainContainer"); edit.IsMap(main) {
			c := command.Container{Object: o, Name: "main", Path: at + ".extraPodSpec.mainContainer", Node: main, Whole: true}
			c.Backend, c.Other = graphProgram(o, services.Content[i+1])
			out = append(out, tr.newContainer(c, name, pod))
		}
		out = append(out, tr.podContainers(o, pod, name, at+".extraPodSpec")...)
	}
	for _, c := range edit.List(o.Root, "spec", "components") {
		name := edit.Str(c, "name")
		for _, sub := range tr.podContainers(o, edit.Get(c, "podTemplate", "spec"), name, "spec.components["+name+"].podTemplate.spec") {
			sub.Whole = true
			if sub.Name == "main" {
				sub.Backend, sub.Other = graphProgram(o, c)
			}
			out = append(out, sub)
		}
	}
	return out
}

// graphProgram returns what a component of a Dynamo graph runs: the graph's backend, or
// what stands beside the engines.
func graphProgram(o *edit.Object, component *yaml.Node) (backend, other string) {
	switch kind := strings.ToLower((graphPart{node: component}).kind()); kind {
	case "frontend", "planner", "epp", "router", "processor":
		return "", "a " + kind + " of Dynamo"
	}
	return edit.Str(o.Root, "spec", "backendFramework"), ""
}

// components lists the parts of an object that scale by themselves.
func components(o *edit.Object) []string {
	var out []string
	for _, p := range graphParts(o) {
		out = append(out, p.name)
	}
	return out
}

// matchingContainers returns the containers that the target may mean.
func (tr *tree) matchingContainers(o *edit.Object, t Target, component string) []container {
	var out []container
	for _, c := range tr.containers(o) {
		switch {
		case component != "" && !strings.EqualFold(c.component, component):
		case t.Container != "" && c.Name != t.Container:
		default:
			out = append(out, c)
		}
	}
	return out
}

// checkComponent returns an error if the containers are of several components and
// the workload's name does not tell which of them it is.
func checkComponent(o *edit.Object, t Target, component string, containers []container) error {
	var parts []string
	for _, c := range containers {
		if !slices.Contains(parts, c.component) {
			parts = append(parts, c.component)
		}
	}
	if t.Workload == "" || component != "" || len(parts) < 2 || o.Kind != dynamoGraph && o.Kind != llmInferenceService {
		return nil
	}
	return &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s has the components %s, and the name of %s does not tell which of them it is: name it as gitops.component of the service's catalog entry",
		o, strings.Join(parts, ", "), edit.Clip(t.Workload))}
}

// mentions reports whether any text of a container may name a flag.
func (c container) mentions(flag string) bool {
	found := false
	var walk func(n *yaml.Node, depth int)
	walk = func(n *yaml.Node, depth int) {
		if n == nil || depth > edit.MaxDepth || found {
			return
		}
		found = strings.Contains(command.Dashes(n.Value), command.Dashes(flag))
		for _, child := range n.Content {
			walk(child, depth+1)
		}
	}
	walk(c.Node, 0)
	return found
}

// severalContainers returns the error about a flag that several containers have, one
// for each site, with what to write so that one is chosen.
func severalContainers(sites []*edit.Site, of []container, why string) error {
	var names, write []string
	for _, c := range of {
		if c.Name != "" && !slices.Contains(names, c.Name) {
			names, write = append(names, c.Name), append(write, "container: "+edit.Clip(c.Name))
		}
	}
	decides := "write " + strings.Join(write, " or ") + " in the service's catalog entry (--container where you look by hand)"
	switch o := of[0].Object; {
	case len(names) == len(of):
	case o.Kind == dynamoGraph || o.Kind == llmInferenceService:
		decides = fmt.Sprintf("write the component as gitops.component of the service's catalog entry, and %s %s as its gitops.object (--component where you look by hand)", o.Kind, o.Name)
	default:
		decides = "by their names the containers cannot be told apart: give each its own, and write it as container: NAME in the service's catalog entry"
	}
	if !sites[0].Missing {
		decides += ", or leave the flag in one place only"
	}
	return undecided(placesOf(sites), why, decides)
}
