package gitops

import (
	"fmt"
	"slices"
	"strconv"
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
	app    *yaml.Node // the application that it is a part of
	names  []string   // of the application and of the model
	shares bool       // the application has other models
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
				out = append(out, rayModel{&in, n, path, app, []string{name, edit.Str(n, "model_loading_config", "model_id")}, false})
				return
			}
			for i := 0; i+1 < len(n.Content); i += 2 {
				walk(n.Content[i+1], path+"."+n.Content[i].Value)
			}
		}
		before := len(out)
		walk(app, fmt.Sprintf("spec.serveConfigV2.applications[%d]", i))
		for k := before; k < len(out); k++ {
			out[k].shares = len(out)-before > 1
		}
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
		return models[0].env(v, o)
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

// env returns the site of an environment variable: of the model or, where only that has
// it, of its application. The model's own counts over the application's.
func (m rayModel) env(v Variable, o *edit.Object) (*edit.Site, error) {
	if setsEnv(edit.Get(o.Root, "spec", "rayClusterConfig"), v.Flag, 0) {
		return nil, notFound("%s: the containers of its rayClusterConfig set %s, for everything that runs in them: change it there by hand", o, v.Flag)
	}
	at := []string{"runtime_env", "env_vars"}
	for _, holder := range []*yaml.Node{m.node, m.app} {
		vars := edit.Get(holder, at...)
		value := edit.Get(vars, v.Flag)
		if value == nil {
			continue
		}
		d := m.object.DocOf(value)
		if !edit.IsText(value) || d == nil {
			return nil, m.object.Invalid(vars, v.Flag+" is not a value that can be set")
		}
		s := m.object.Site(d, value, edit.Site{Path: m.path + ".runtime_env.env_vars." + v.Flag, Form: "env", Engine: "vllm", Value: value.Value, Why: "Ray Serve hands it to the model"})
		s.Set = func(to string) (edit.Splice, error) { return d.SetScalar(value, to) }
		s.Unset = func() (edit.Splice, error) { return d.RemoveKey(vars, v.Flag) }
		if holder == m.app && m.shares {
			s.Set = func(string) (edit.Splice, error) {
				return edit.Splice{}, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s:%d:%d: %s is set for all models of the application %s: set it in the model's own runtime_env.env_vars by hand", s.File(), s.Line, s.Column, v.Flag, edit.Clip(m.names[0]))}
			}
		}
		if holder == m.app {
			s.Path, s.Why = "spec.serveConfigV2.applications.runtime_env.env_vars."+v.Flag, "Ray Serve hands it to the whole application"
		}
		return s, nil
	}
	parent, key, text := m.node, at[0], func(to string) string { return "{env_vars: {" + v.Flag + ": " + strconv.Quote(to) + "}}" }
	if runtime := edit.Get(m.node, at[0]); runtime != nil {
		parent, key, text = runtime, at[1], func(to string) string { return "{" + v.Flag + ": " + strconv.Quote(to) + "}" }
	}
	if vars := edit.Get(m.node, at...); vars != nil {
		parent, key, text = vars, v.Flag, strconv.Quote
	}
	d := m.object.DocOf(parent)
	if !edit.IsMap(parent) || d == nil {
		return nil, m.object.Invalid(m.node, "has a runtime_env that "+v.Flag+" cannot be added to")
	}
	s := m.object.Site(d, parent, edit.Site{Path: m.path + ".runtime_env.env_vars." + v.Flag, Form: "env", Engine: "vllm", Missing: true, Why: "not set; Ray Serve hands the variables of runtime_env to the model"})
	s.Set = func(to string) (edit.Splice, error) { return d.PutText(parent, key, text(to)) }
	return s, nil
}

// setsEnv reports whether a container in a tree sets an environment variable.
func setsEnv(n *yaml.Node, name string, depth int) bool {
	n = edit.Deref(n)
	if n == nil || depth > edit.MaxDepth {
		return false
	}
	for _, e := range edit.List(n, "env") {
		if edit.Str(e, "name") == name {
			return true
		}
	}
	return slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return setsEnv(c, name, depth+1) })
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
