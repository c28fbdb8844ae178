package gitops

import (
	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// envVar is an environment variable of a container.
type envVar struct {
	doc   *edit.Document
	node  *yaml.Node // the scalar of its value; nil: only known when the pod runs
	begin int        // of the value in the scalar's text: KEY=value in a list of literals or in a file of lines
	after int        // bytes of the scalar's text behind the value
	path  string
	file  string // the value is this whole file; node is then nil
	held  bool   // by a ConfigMap, in which Kubernetes fills in no $(NAME)
}

// value is the variable's value as the manifest has it.
func (v *envVar) value() string { return v.node.Value[v.begin : len(v.node.Value)-v.after] }

// environment finds a variable of a container: nil when it has none of that
// name. Of several entries the last one counts, as in Kubernetes.
func (c container) environment(name string) (*envVar, error) {
	var found *envVar
	for _, e := range edit.List(c.node, "env") {
		if edit.Str(e, "name") != name {
			continue
		}
		found = &envVar{path: c.path + ".env[" + name + "]"}
		if v := edit.Get(e, "value"); edit.IsText(v) {
			found.node, found.doc = v, c.object.docOf(v)
		} else if ref := edit.Get(e, "valueFrom", "configMapKeyRef"); edit.IsMap(ref) {
			v, err := c.object.tree.configValue(c.object, edit.Str(ref, "name"), edit.Str(ref, "key"))
			if err != nil {
				return nil, err
			}
			if v != nil {
				v.held, found = true, v
			}
		}
	}
	if found != nil {
		return found, nil
	}
	for _, from := range edit.List(c.node, "envFrom") {
		ref := edit.Get(from, "configMapRef")
		if !edit.IsMap(ref) || edit.Str(from, "prefix") != "" {
			continue
		}
		v, err := c.object.tree.configValue(c.object, edit.Str(ref, "name"), name)
		if err != nil {
			return nil, err
		}
		if v != nil {
			v.held, found = true, v
		}
	}
	return found, nil
}

// envSite is where a variable that is itself an environment variable stands.
func (c container) envSite(name string) (*site, error) {
	v, err := c.environment(name)
	switch {
	case err != nil:
		return nil, err
	case v == nil:
		return nil, nil
	case v.node == nil:
		return nil, c.bad(c.node, v.path+" comes from a secret or from the running pod")
	}
	return v.site(c.object, "the container reads it at start"), nil
}

func (v *envVar) site(o *object, why string) *site {
	s := o.site(v.doc, v.node, Place{Path: v.path, Form: "env", Value: v.value(), Why: why})
	s.set = func(to string) (edit.Splice, error) {
		if v.begin > 0 {
			return v.doc.ReplaceText(v.node, v.begin, len(v.node.Value)-v.after, to)
		}
		return v.doc.SetScalar(v.node, to)
	}
	s.at(v.begin)
	return s
}

// addEnv is where an environment variable that is not there would be added.
func (c container) addEnv(name string) (*site, error) {
	env := edit.Get(c.node, "env")
	if !edit.IsList(env) || len(env.Content) == 0 || env.Style&yaml.FlowStyle != 0 {
		return nil, notFound("%s: %s has no env list to add %s to", c.object, c.path, name)
	}
	doc := c.object.docOf(env)
	if doc == nil {
		return nil, c.bad(env, c.path+".env is put together by patches: add "+name+" in one of them")
	}
	s := c.object.site(doc, env, Place{
		Path: c.path + ".env[" + name + "]", Form: "env", Missing: true, Why: "not set; the last place of the list",
	})
	s.set = func(to string) (edit.Splice, error) { return doc.AppendPair(env, name, to) }
	return s, nil
}
