package edit

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxCompared limits the keys and items that one merge compares.
const maxCompared = 2_000_000

// mergeKeys has the lists of built-in kinds that merge item by item, and the key
// that identifies an item.
var mergeKeys = map[string]string{
	"containers": "name", "initContainers": "name", "env": "name", "volumes": "name",
	"volumeMounts": "mountPath", "ports": "containerPort", "imagePullSecrets": "name",
}

// merger counts what one merge compares: with aliases, a few lines can stand for
// millions of nodes.
type merger struct {
	d    *Document // of the patch
	left int
}

// Merge merges a patch into base: strategically, item by item in the lists of
// built-in kinds, or else only mappings. The result shares the nodes of both, so
// that each node still belongs to the document it is written in. The result is
// nil if the patch deletes base.
func Merge(d *Document, base, patch *yaml.Node, strategic bool) (*yaml.Node, error) {
	m := merger{d: d, left: maxCompared}
	return m.node(base, patch, "", strategic, 0)
}

func (m *merger) node(base, patch *yaml.Node, key string, strategic bool, depth int) (*yaml.Node, error) {
	base, patch = Deref(base), Deref(patch)
	if depth > MaxDepth {
		return nil, m.d.Invalid(patch, "is nested too deep")
	}
	if base != nil && patch != nil {
		m.left -= 1 + len(base.Content)*len(patch.Content)
	}
	if m.left < 0 {
		return nil, m.d.Invalid(patch, "is too large to be merged")
	}
	switch {
	case IsMap(patch) && Str(patch, "$patch") == "delete":
		return nil, nil
	case IsMap(patch) && Str(patch, "$patch") == "replace":
		return patch, nil
	case IsMap(base) && IsMap(patch):
		return m.mapping(base, patch, strategic, depth)
	case IsList(base) && IsList(patch) && strategic && mergeKeys[key] != "":
		return m.list(base, patch, mergeKeys[key], depth)
	}
	return patch, nil
}

func (m *merger) mapping(base, patch *yaml.Node, strategic bool, depth int) (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: base.Line, Column: base.Column}
	base = Flatten(base)
	for i := 0; i+1 < len(base.Content); i += 2 {
		key := base.Content[i]
		with := Get(patch, key.Value)
		if with == nil {
			out.Content = append(out.Content, key, base.Content[i+1])
			continue
		}
		if with.Kind == yaml.ScalarNode && with.ShortTag() == "!!null" {
			continue
		}
		n, err := m.node(base.Content[i+1], with, key.Value, strategic, depth+1)
		if err != nil {
			return nil, err
		}
		if n != nil {
			out.Content = append(out.Content, key, n)
		}
	}
	patch = Flatten(patch)
	for i := 0; i+1 < len(patch.Content); i += 2 {
		key := patch.Content[i]
		if strings.HasPrefix(key.Value, "$") {
			return nil, m.d.Invalid(key, fmt.Sprintf("the directive %q of a patch is not followed", Clip(key.Value)))
		}
		if Get(base, key.Value) == nil && KeyIndex(base, key.Value) < 0 {
			out.Content = append(out.Content, key, patch.Content[i+1])
		}
	}
	return out, nil
}

// Flatten returns a mapping with its merge keys (<<) resolved.
func Flatten(n *yaml.Node) *yaml.Node {
	if KeyIndex(n, "<<") < 0 {
		return n
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Column: n.Column}
	seen, keys := map[*yaml.Node]bool{}, map[string]bool{}
	var add func(n *yaml.Node, hops int)
	add = func(n *yaml.Node, hops int) {
		if !IsMap(n) || hops == 0 || seen[n] {
			return
		}
		seen[n] = true
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i]; key.Tag != "!!merge" && !keys[key.Value] {
				keys[key.Value] = true
				out.Content = append(out.Content, key, n.Content[i+1])
			}
		}
		for _, from := range mergedInto(n) {
			add(from, hops-1)
		}
	}
	add(n, maxHops)
	return out
}

// list merges lists item by item. As in kustomize, the items of the patch come
// first, in their order, and then those that it does not name: a JSON patch counts
// the items of the result.
func (m *merger) list(base, patch *yaml.Node, by string, depth int) (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: base.Line, Column: base.Column}
	for i, p := range patch.Content {
		if p = Deref(p); Str(p, "$patch") == "replace" && Str(p, by) == "" {
			out.Content = slices.Delete(slices.Clone(patch.Content), i, i+1)
			return out, nil
		}
	}
	named := map[string]bool{}
	for _, p := range patch.Content {
		p = Deref(p)
		id := Str(p, by)
		if id != "" && named[id] {
			return nil, m.d.Invalid(p, fmt.Sprintf("a list has two items %q", Clip(id)))
		}
		named[id] = true
		i := slices.IndexFunc(base.Content, func(item *yaml.Node) bool { return id != "" && Str(Deref(item), by) == id })
		n := p
		var err error
		if i >= 0 {
			n, err = m.node(base.Content[i], p, "", true, depth+1)
		} else if Str(p, "$patch") == "delete" {
			n = nil
		}
		if err != nil {
			return nil, err
		}
		if n != nil {
			out.Content = append(out.Content, n)
		}
	}
	for _, item := range base.Content {
		if id := Str(Deref(item), by); id == "" || !named[id] {
			out.Content = append(out.Content, item)
		}
	}
	return out, nil
}
