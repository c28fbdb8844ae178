package gitops

import (
	"fmt"
	"strconv"

	"github.com/inference-responder/responder/internal/gitops/command"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// environment returns a variable of a container, or nil if it has none of that
// name. The last of several entries takes effect, as in Kubernetes.
func (tr *tree) environment(c command.Container, name string) (*edit.Value, error) {
	var found *edit.Value
	for _, e := range edit.List(c.Node, "env") {
		if edit.Str(e, "name") != name {
			continue
		}
		found = &edit.Value{Path: c.Path + ".env[" + name + "]"}
		if v := edit.Get(e, "value"); edit.IsText(v) {
			found.Node, found.Doc = v, c.Object.DocOf(v)
		} else if ref := edit.Get(e, "valueFrom", "configMapKeyRef"); edit.IsMap(ref) {
			v, err := tr.configValue(c.Object, edit.Str(ref, "name"), edit.Str(ref, "key"))
			if err != nil {
				return nil, err
			}
			if v != nil {
				v.ConfigMap, found = true, v
			}
		}
	}
	if found != nil {
		return found, nil
	}
	for _, from := range edit.List(c.Node, "envFrom") {
		ref := edit.Get(from, "configMapRef")
		if !edit.IsMap(ref) || edit.Str(from, "prefix") != "" {
			continue
		}
		v, err := tr.configValue(c.Object, edit.Str(ref, "name"), name)
		if err != nil {
			return nil, err
		}
		if v != nil {
			v.ConfigMap, found = true, v
		}
	}
	return found, nil
}

// envSite returns the site of an environment variable, or nil if it is not set.
func (c container) envSite(name string) (*edit.Site, error) {
	v, err := c.Environment(name)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		return nil, nil
	case v.Node == nil:
		return nil, c.Object.Invalid(c.Node, v.Path+" comes from a secret or from the running pod")
	}
	return v.Site(c.Object, "the container reads it at start"), nil
}

// addEnv returns the site of an environment variable that is not set.
func (c container) addEnv(name string) (*edit.Site, error) {
	env := edit.Get(c.Node, "env")
	if env == nil {
		return c.newEnv(name)
	}
	if !edit.IsList(env) || len(env.Content) == 0 || env.Style&yaml.FlowStyle != 0 {
		return nil, notFound("%s: %s has no env list to add %s to", c.Object, c.Path, name)
	}
	doc := c.Object.DocOf(env)
	if doc == nil {
		return nil, c.Object.Invalid(env, c.Path+".env is assembled by patches: add "+name+" in one of them")
	}
	s := c.Object.Site(doc, env, edit.Site{
		Path: c.Path + ".env[" + name + "]", Form: "env", Missing: true, Why: "not set; the last place of the list",
	})
	s.Set = func(to string) (edit.Splice, error) { return doc.AppendPair(env, name, to) }
	return s, nil
}

// newEnv returns the site of an environment variable in a list of its own.
func (c container) newEnv(name string) (*edit.Site, error) {
	doc := c.Object.DocOf(c.Node)
	if doc == nil {
		return nil, c.Object.Invalid(c.Node, c.Path+" is assembled by patches: add env in one of them")
	}
	s := c.Object.Site(doc, c.Node, edit.Site{Path: c.Path + ".env[" + name + "]", Form: "env", Missing: true, Why: "not set; the container has no env yet"})
	s.Set = func(to string) (edit.Splice, error) {
		return doc.AddText(c.Node, "env", fmt.Sprintf("[{name: %s, value: %s}]", name, strconv.Quote(to)))
	}
	return s, nil
}
