package gitops

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// mergeKeys are the lists of built-in kinds that are merged item by item; the
// lists of other kinds are replaced as a whole.
var mergeKeys = map[string]string{
	"containers": "name", "initContainers": "name", "env": "name", "volumes": "name",
	"volumeMounts": "mountPath", "ports": "containerPort", "imagePullSecrets": "name",
}

func builtIn(kind string) bool {
	return slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod"}, kind)
}

// merge is a merge under way. Aliases make much of few lines, so that it counts
// what it compares.
type merge struct {
	d    *document // of the patch
	left int
}

// merged is a strategic merge, or one of mappings alone. Nodes are shared, not
// copied: each still tells which manifest it is written in. nil: the patch
// deletes it.
func merged(d *document, base, patch *yaml.Node, strategic bool) (*yaml.Node, error) {
	m := merge{d: d, left: maxCompared}
	return m.node(base, patch, "", strategic, 0)
}

func (m *merge) node(base, patch *yaml.Node, key string, strategic bool, depth int) (*yaml.Node, error) {
	base, patch = deref(base), deref(patch)
	if depth > maxDepth {
		return nil, m.d.invalid(patch, "is nested too deep")
	}
	if base != nil && patch != nil {
		m.left -= 1 + len(base.Content)*len(patch.Content)
	}
	if m.left < 0 {
		return nil, m.d.invalid(patch, "is too large to be merged")
	}
	switch {
	case isMap(patch) && str(patch, "$patch") == "delete":
		return nil, nil
	case isMap(patch) && str(patch, "$patch") == "replace":
		return patch, nil
	case isMap(base) && isMap(patch):
		return m.mapping(base, patch, strategic, depth)
	case isList(base) && isList(patch) && strategic && mergeKeys[key] != "":
		return m.list(base, patch, mergeKeys[key], depth)
	}
	return patch, nil
}

func (m *merge) mapping(base, patch *yaml.Node, strategic bool, depth int) (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: base.Line, Column: base.Column}
	base = flattened(base)
	for i := 0; i+1 < len(base.Content); i += 2 {
		key := base.Content[i]
		with := get(patch, key.Value)
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
	patch = flattened(patch)
	for i := 0; i+1 < len(patch.Content); i += 2 {
		key := patch.Content[i]
		if strings.HasPrefix(key.Value, "$") {
			return nil, m.d.invalid(key, fmt.Sprintf("the directive %q of a patch is not followed", clip(key.Value)))
		}
		if get(base, key.Value) == nil && keyIndex(base, key.Value) < 0 {
			out.Content = append(out.Content, key, patch.Content[i+1])
		}
	}
	return out, nil
}

// flattened is a mapping with its merge keys (<<) resolved. What it merges twice
// has nothing to add the second time.
func flattened(n *yaml.Node) *yaml.Node {
	if keyIndex(n, "<<") < 0 {
		return n
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: n.Line, Column: n.Column}
	seen, keys := map[*yaml.Node]bool{}, map[string]bool{}
	var add func(n *yaml.Node, hops int)
	add = func(n *yaml.Node, hops int) {
		if !isMap(n) || hops == 0 || seen[n] {
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

func (m *merge) list(base, patch *yaml.Node, by string, depth int) (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: base.Line, Column: base.Column}
	used := map[*yaml.Node]bool{}
	find := func(items []*yaml.Node, id string) *yaml.Node {
		for _, p := range items {
			if p = deref(p); str(p, by) == id && id != "" {
				return p
			}
		}
		return nil
	}
	for _, p := range patch.Content {
		if p = deref(p); str(p, "$patch") == "replace" && str(p, by) == "" {
			return patch, nil
		}
	}
	for _, item := range base.Content {
		with := find(patch.Content, str(deref(item), by))
		if with == nil {
			out.Content = append(out.Content, item)
			continue
		}
		used[with] = true
		n, err := m.node(item, with, "", true, depth+1)
		if err != nil {
			return nil, err
		}
		if n != nil {
			out.Content = append(out.Content, n)
		}
	}
	for _, p := range patch.Content {
		if p = deref(p); !used[p] && str(p, "$patch") != "delete" {
			out.Content = append(out.Content, p)
		}
	}
	return out, nil
}
