package gitops

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// container is one container of a workload, or what stands for one.
type container struct {
	object    *object
	component string // of a graph or a set: decode, prefill, leader, worker, VllmDecodeWorker
	name      string
	path      string // for people
	node      *yaml.Node
	pod       *yaml.Node // its spec, with the volumes
	whole     bool       // args is one command line, which the operator gives to a shell
}

// template is where a kind keeps a pod.
type template struct {
	component string
	path      []string // to the pod's spec
}

// templates lists the kinds whose pods stand at fixed paths.
var templates = map[string][]template{
	"Deployment":        {{"", []string{"spec", "template", "spec"}}},
	"StatefulSet":       {{"", []string{"spec", "template", "spec"}}},
	"DaemonSet":         {{"", []string{"spec", "template", "spec"}}},
	"ReplicaSet":        {{"", []string{"spec", "template", "spec"}}},
	"Rollout":           {{"", []string{"spec", "template", "spec"}}},
	"ServingRuntime":    {{"", []string{"spec"}}},
	"LeaderWorkerSet":   {{"leader", lws("leaderTemplate")}, {"worker", lws("workerTemplate")}},
	"InferenceService":  {{"", []string{"spec", "predictor"}}, {"worker", []string{"spec", "predictor", "workerSpec"}}},
	llmInferenceService: llmTemplates,
	llmInferenceConfig:  llmTemplates,
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

// containers gives the containers of an object that run with its pods.
func (o *object) containers() []container {
	if o.kind == dynamoGraph {
		return o.graphContainers()
	}
	var out []container
	for _, t := range templates[o.kind] {
		pod := edit.Get(o.root, t.path...)
		out = append(out, o.podContainers(pod, t.component, strings.Join(t.path, "."))...)
		if model := edit.Get(pod, "model"); o.kind == "InferenceService" && edit.IsMap(model) {
			out = append(out, container{object: o, component: t.component, name: "kserve-container", path: strings.Join(t.path, ".") + ".model", node: model, pod: pod})
		}
	}
	return out
}

func (o *object) podContainers(pod *yaml.Node, component, at string) []container {
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
		out = append(out, container{object: o, component: component, name: name, path: fmt.Sprintf("%s.containers[%s]", at, label), node: c, pod: pod})
	}
	return out
}

// ofRuntime reports whether KServe takes the command line from a runtime, and
// puts the container's own arguments behind it.
func (c container) ofRuntime() bool {
	return c.object.kind == "InferenceService" && strings.HasSuffix(c.path, ".model")
}

// graphContainers gives those of a Dynamo graph: v1alpha1 keeps services in a
// mapping, v1beta1 components in a list.
func (o *object) graphContainers() []container {
	var out []container
	services := edit.Get(o.root, "spec", "services")
	for i := 0; edit.IsMap(services) && i+1 < len(services.Content); i += 2 {
		name, at := services.Content[i].Value, "spec.services."+services.Content[i].Value
		pod := edit.Get(services.Content[i+1], "extraPodSpec")
		if main := edit.Get(pod, "mainContainer"); edit.IsMap(main) {
			out = append(out, container{object: o, component: name, name: "main", path: at + ".extraPodSpec.mainContainer", node: main, pod: pod, whole: true})
		}
		out = append(out, o.podContainers(pod, name, at+".extraPodSpec")...)
	}
	for _, c := range edit.List(o.root, "spec", "components") {
		name := edit.Str(c, "name")
		for _, sub := range o.podContainers(edit.Get(c, "podTemplate", "spec"), name, "spec.components["+name+"].podTemplate.spec") {
			sub.whole = true
			out = append(out, sub)
		}
	}
	return out
}

// components lists the parts of an object that scale by themselves.
func (o *object) components() []string {
	var out []string
	services := edit.Get(o.root, "spec", "services")
	for i := 0; edit.IsMap(services) && i+1 < len(services.Content); i += 2 {
		out = append(out, services.Content[i].Value)
	}
	for _, c := range edit.List(o.root, "spec", "components") {
		out = append(out, edit.Str(c, "name"))
	}
	return out
}

// chosen narrows containers to those that the target may mean.
func (o *object) chosen(t Target, component string) []container {
	var out []container
	for _, c := range o.containers() {
		switch {
		case component != "" && !strings.EqualFold(c.component, component):
		case t.Container != "" && c.name != t.Container:
		default:
			out = append(out, c)
		}
	}
	return out
}

// untold refuses to take a flag of any component for the workload's, where the
// workload's name should tell which component it is of, and does not.
func (o *object) untold(t Target, component string, containers []container) error {
	var parts []string
	for _, c := range containers {
		if !slices.Contains(parts, c.component) {
			parts = append(parts, c.component)
		}
	}
	if t.Workload == "" || component != "" || len(parts) < 2 || o.kind != dynamoGraph && o.kind != llmInferenceService {
		return nil
	}
	return &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s has the components %s, and which of them %s is cannot be told by its name",
		o, strings.Join(parts, ", "), edit.Clip(t.Workload))}
}

// mentions reports whether any text of a container may speak of a flag.
func (c container) mentions(flag string) bool {
	found := false
	var walk func(n *yaml.Node, depth int)
	walk = func(n *yaml.Node, depth int) {
		if n == nil || depth > edit.MaxDepth || found {
			return
		}
		found = strings.Contains(dashes(n.Value), dashes(flag))
		for _, child := range n.Content {
			walk(child, depth+1)
		}
	}
	walk(c.node, 0)
	return found
}

// severalContainers is the error of a flag between whose containers, one of each
// site, nothing decides, with what to write so that it does.
func severalContainers(sites []*site, of []container, why string) error {
	var names, write []string
	for _, c := range of {
		if c.name != "" && !slices.Contains(names, c.name) {
			names, write = append(names, c.name), append(write, "container: "+edit.Clip(c.name))
		}
	}
	decides := "write " + strings.Join(write, " or ") + " in the service's catalog entry (--container where you look by hand)"
	switch o := of[0].object; {
	case len(names) == len(of):
	case o.kind == dynamoGraph || o.kind == llmInferenceService:
		decides = fmt.Sprintf("write the workload that is made of the component as workload of the service's catalog entry, and %s %s as its gitops.object", o.kind, o.name)
	default:
		decides = "by their names the containers cannot be told apart: give each its own, and write it as container: NAME in the service's catalog entry"
	}
	if !sites[0].place.Missing {
		decides += ", or leave the flag in one place only"
	}
	return undecided(placesOf(sites), why, decides)
}
