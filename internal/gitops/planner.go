package gitops

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/dynamo"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// graphPart is one component of a Dynamo graph: v1alpha1 has services in a mapping, v1beta1 components
// in a list.
type graphPart struct {
	name string
	node *yaml.Node
}

func graphParts(o *edit.Object) []graphPart {
	var out []graphPart
	services := edit.Get(o.Root, "spec", "services")
	for i := 0; edit.IsMap(services) && i+1 < len(services.Content); i += 2 {
		out = append(out, graphPart{services.Content[i].Value, services.Content[i+1]})
	}
	for _, c := range edit.List(o.Root, "spec", "components") {
		out = append(out, graphPart{edit.Str(c, "name"), c})
	}
	return out
}

// kind returns the type of a component.
func (p graphPart) kind() string {
	return edit.Str(p.node, "componentType") + edit.Str(p.node, "type")
}

// main returns the container of a component, and its path.
func (p graphPart) main() (*yaml.Node, string) {
	if c := edit.Get(p.node, "extraPodSpec", "mainContainer"); edit.IsMap(c) {
		return c, "spec.services." + p.name + ".extraPodSpec.mainContainer"
	}
	for _, c := range edit.List(p.node, "podTemplate", "spec", "containers") {
		if edit.Str(c, "name") == "main" {
			return c, "spec.components[" + p.name + "].podTemplate.spec.containers[main]"
		}
	}
	return nil, ""
}

// plannerBound returns the site of the lower bound that the planner of a graph has for a component, in its
// arguments. One that is not written is Dynamo's default.
func plannerBound(o *edit.Object, component string) (*edit.Site, error) {
	var all []dynamo.Component
	var at graphPart
	for _, p := range graphParts(o) {
		c := dynamo.Component{Name: p.name, Type: p.kind(), Sub: edit.Str(p.node, "subComponentType")}
		if strings.EqualFold(p.name, component) {
			component = p.name
		}
		if c.Type == "planner" {
			at = p
		}
		all = append(all, c)
	}
	name, err := dynamo.Find(all)
	owned := func(why string) error {
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s: the planner %s sets the replicas of its components: %s", o, edit.Clip(at.name), why)}
	}
	if err != nil {
		return nil, owned(err.Error())
	}
	main, path := at.main()
	var args []string
	for _, n := range edit.List(main, "args") {
		args = append(args, n.Value)
	}
	p := dynamo.Read(name, args, plannerVariables(o.Root, at.node, main), all, component)
	if p.At < 0 {
		return nil, owned(p.Fixed)
	}
	n := edit.List(main, "args")[p.At]
	doc := o.DocOf(n)
	if n.Kind != yaml.ScalarNode || doc == nil {
		return nil, o.Invalid(n, "is not written as one text in one manifest")
	}
	now := 1
	if p.Floor != nil {
		now = *p.Floor
	}
	s := o.Site(doc, n, edit.Site{Path: path + ".args." + p.Name, Form: "argument", Value: strconv.Itoa(now), Container: "main", Why: "the planner " + name + " has at least so many replicas of " + component})
	s.Set = func(value string) (edit.Splice, error) {
		to, err := strconv.Atoi(value)
		if err != nil {
			return edit.Splice{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: %q is no number of replicas", p.Name, edit.Clip(value))}
		}
		if to > now && p.Fixed != "" {
			return edit.Splice{}, owned(p.Fixed)
		}
		text, err := p.With(&to)
		if err != nil {
			return edit.Splice{}, o.Invalid(n, err.Error())
		}
		from, end, with := difference(n.Value, text)
		return doc.ReplaceText(n, from, end, with)
	}
	return s, nil
}

// plannerVariables returns what of its environment may set flags of a planner; empty: nothing.
func plannerVariables(graph, service, main *yaml.Node) string {
	for _, list := range [][]*yaml.Node{edit.List(graph, "spec", "envs"), edit.List(graph, "spec", "env"), edit.List(service, "envs"), edit.List(main, "env")} {
		for _, v := range list {
			if name := edit.Str(v, "name"); strings.HasPrefix(name, "PLANNER_") {
				return "its variable " + edit.Clip(name)
			}
		}
	}
	if edit.Get(service, "envFromSecret") != nil || edit.Get(main, "envFrom") != nil {
		return "variables of another object"
	}
	for _, word := range edit.List(main, "command") {
		if strings.HasPrefix(word.Value, "--") {
			return "its command"
		}
	}
	return ""
}

// difference returns the bytes of a text that another one has something else for.
func difference(a, b string) (from, end int, with string) {
	for from < len(a) && from < len(b) && a[from] == b[from] {
		from++
	}
	end, to := len(a), len(b)
	for end > from && to > from && a[end-1] == b[to-1] {
		end, to = end-1, to-1
	}
	return from, end, b[from:to]
}
