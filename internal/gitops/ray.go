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

// rayService is the kind whose spec.serveConfigV2 is a text of YAML with the
// applications of Ray Serve.
const rayService = "RayService"

// rayModel is the configuration of one model of Ray Serve LLM: a mapping that has
// engine_kwargs.
type rayModel struct {
	object *edit.Object // the service, as far as its serveConfigV2
	node   *yaml.Node
	path   string
	names  []string // of the application and of the model
}

// rayModels returns the models in the serveConfigV2 of a RayService.
func (tr *tree) rayModels(o *edit.Object) ([]rayModel, error) {
	text := edit.Get(o.Root, "spec", "serveConfigV2")
	outer := o.DocOf(text)
	if !edit.IsText(text) || outer == nil || !strings.Contains(text.Value, "engine_kwargs") {
		return nil, nil
	}
	d := tr.Nested(outer, text, "")
	root, err := d.Parse()
	if err != nil {
		return nil, err
	}
	in := *o
	in.Root, in.Docs = root, []*edit.Document{d}
	var out []rayModel
	for i, app := range edit.List(root, "applications") {
		name := edit.Str(app, "name")
		var walk func(n *yaml.Node, path string)
		walk = func(n *yaml.Node, path string) {
			if n = edit.Deref(n); n == nil || strings.Count(path, ".") > edit.MaxDepth {
				return
			}
			if edit.IsList(n) {
				for i, item := range n.Content {
					walk(item, fmt.Sprintf("%s[%d]", path, i))
				}
			}
			if !edit.IsMap(n) {
				return
			}
			if edit.IsMap(edit.Get(n, "engine_kwargs")) {
				out = append(out, rayModel{&in, n, path, []string{name, edit.Str(n, "model_loading_config", "model_id")}})
				return
			}
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(n.Content[i+1], path+"."+n.Content[i].Value)
			}
		}
		walk(app, fmt.Sprintf("spec.serveConfigV2.applications[%d]", i))
	}
	return out, nil
}

// inRay returns the site of a variable in a RayService, or nil if it configures no model.
func (tr *tree) inRay(o *edit.Object, component string, v Variable) (*edit.Site, error) {
	models, err := tr.rayModels(o)
	if err != nil || len(models) == 0 {
		return nil, err
	}
	var names []string
	for _, m := range models {
		names = append(names, strings.Trim(strings.Join(m.names, "/"), "/"))
	}
	if component != "" {
		models = slices.DeleteFunc(models, func(m rayModel) bool { return !slices.Contains(m.names, component) })
	}
	switch {
	case len(models) == 0:
		return nil, notFound("%s has no application or model %q (it has %s)", o, edit.Clip(component), edit.Clip(strings.Join(names, ", ")))
	case len(models) > 1:
		return nil, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s has the models %s: name the model or its application, as gitops.component of the service's catalog entry (--component where you look by hand)", o, edit.Clip(strings.Join(names, ", ")))}
	case v.Replicas:
		return models[0].replicas(v)
	case envName.MatchString(v.Flag):
		return nil, notFound("%s: variables of the environment of Ray Serve are not followed", o)
	}
	return models[0].flag(v)
}

// replicas returns the site of the number of replicas, or of a bound of Ray Serve's own
// autoscaler.
func (m rayModel) replicas(v Variable) (*edit.Site, error) {
	part := m.object.Part(m.node, m.path)
	if edit.IsMap(edit.Get(m.node, "deployment_config", "autoscaling_config")) {
		return part.Bound(v.Bound, "Ray Serve scales between the model's own bounds", []string{"deployment_config", "autoscaling_config"}, "min_replicas", "max_replicas")
	}
	return part.Number("no autoscaler of Ray Serve owns the replicas", "deployment_config", "num_replicas")
}

// flag returns the site of a flag among the arguments of the engine.
func (m rayModel) flag(v Variable) (*edit.Site, error) {
	kwargs := edit.Get(m.node, "engine_kwargs")
	d, key, path := m.object.DocOf(kwargs), strings.ReplaceAll(v.Flag, "-", "_"), m.path+".engine_kwargs"
	var found []int
	for i := 0; i+1 < len(kwargs.Content); i += 2 {
		if command.Dashes(kwargs.Content[i].Value) == command.Dashes(v.Flag) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		s := m.object.Site(d, kwargs, edit.Site{Path: path + "." + key, Form: "config", Engine: "vllm", Missing: true, Why: "not set; Ray Serve hands engine_kwargs to the engine"})
		s.Set = func(to string) (edit.Splice, error) { return d.AddScalar(kwargs, key, to) }
		return s, nil
	case 1:
	default:
		return nil, d.Invalid(kwargs, "sets "+v.String()+" twice")
	}
	name, value := kwargs.Content[found[0]].Value, edit.Deref(kwargs.Content[found[0]+1])
	if !edit.IsText(value) {
		return nil, d.Invalid(kwargs, edit.Clip(name)+" is not a value that can be set")
	}
	s := m.object.Site(d, value, edit.Site{Path: path + "." + name, Form: "config", Engine: "vllm", Value: value.Value, Why: "Ray Serve hands engine_kwargs to the engine"})
	s.Unset = func() (edit.Splice, error) { return d.RemoveKey(kwargs, name) }
	s.Set = func(to string) (edit.Splice, error) {
		if value.ShortTag() != "!!bool" {
			return d.SetAny(value, to)
		}
		if to != "true" && to != "false" {
			return edit.Splice{}, d.Invalid(value, fmt.Sprintf("takes true or false, not %q", edit.Clip(to)))
		}
		return d.SetScalar(value, to)
	}
	return s, nil
}
