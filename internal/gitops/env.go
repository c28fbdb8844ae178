package gitops

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// envVar is an environment variable of a container.
type envVar struct {
	doc   *document
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
	for _, e := range list(c.node, "env") {
		if str(e, "name") != name {
			continue
		}
		found = &envVar{path: c.path + ".env[" + name + "]"}
		if v := get(e, "value"); isText(v) {
			found.node, found.doc = v, c.object.docOf(v)
		} else if ref := get(e, "valueFrom", "configMapKeyRef"); isMap(ref) {
			v, err := c.object.tree.configValue(c.object, str(ref, "name"), str(ref, "key"))
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
	for _, from := range list(c.node, "envFrom") {
		ref := get(from, "configMapRef")
		if !isMap(ref) || str(from, "prefix") != "" {
			continue
		}
		v, err := c.object.tree.configValue(c.object, str(ref, "name"), name)
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
	s.set = func(to string) (splice, error) {
		if v.begin > 0 {
			return v.doc.replaceText(v.node, v.begin, len(v.node.Value)-v.after, to)
		}
		return v.doc.setScalar(v.node, to)
	}
	s.at(v.begin)
	return s
}

// addEnv is where an environment variable that is not there would be added.
func (c container) addEnv(name string) (*site, error) {
	env := get(c.node, "env")
	if !isList(env) || len(env.Content) == 0 || env.Style&yaml.FlowStyle != 0 {
		return nil, notFound("%s: %s has no env list to add %s to", c.object, c.path, name)
	}
	doc := c.object.docOf(env)
	if doc == nil {
		return nil, c.bad(env, c.path+".env is put together by patches: add "+name+" in one of them")
	}
	s := c.object.site(doc, env, Place{
		Path: c.path + ".env[" + name + "]", Form: "env", Missing: true, Why: "not set; the last place of the list",
	})
	s.set = func(to string) (splice, error) { return doc.entry(env, name, to) }
	return s, nil
}

// entry adds name and value to a list of such pairs.
func (d *document) entry(seq *yaml.Node, name, value string) (splice, error) {
	last := seq.Content[len(seq.Content)-1]
	if err := d.unshared(seq); err != nil {
		return splice{}, err
	}
	dash, gap, err := d.dash(last)
	if err != nil {
		return splice{}, err
	}
	end, err := d.end(last)
	if err != nil {
		return splice{}, err
	}
	scalar := func(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
	want := d.altered(seq, func(c *yaml.Node) {
		c.Content = append(c.Content, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{
			scalar("name"), scalar(name), scalar("value"), scalar(value),
		}})
	})
	style, quote := yaml.Style(0), ""
	if v := get(last, "value"); isText(v) {
		style = v.Style
		if style&yaml.SingleQuotedStyle != 0 {
			quote = "'"
		}
	}
	indent := d.columnOf(dash)
	with := fmt.Sprintf("%s%*s-%sname: %s", d.newline(), indent, "", gap, name)
	with += fmt.Sprintf("%s%*svalue: %s", d.newline(), indent+1+len(gap), "", written(value, style, "!!str", quote))
	if last.Style&yaml.FlowStyle != 0 {
		with = fmt.Sprintf("%s%*s-%s{name: %s, value: %s}", d.newline(), indent, "", gap, name, written(value, style, "!!str", quote))
	}
	at := d.lineEnd(end)
	return splice{start: at, end: at, with: with, want: want}, nil
}
