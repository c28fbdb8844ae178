package gitops

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxHops bounds how many aliases and merge keys one look-up follows: a
// document may refer to itself.
const maxHops = 16

func deref(n *yaml.Node) *yaml.Node {
	for range maxHops {
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}

// get gives the value below a path of keys; nil: there is none.
func get(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if n = pair(n, key); n == nil {
			return nil
		}
	}
	return deref(n)
}

// pair gives the value of a key as written; merge keys (<<) come last.
func pair(n *yaml.Node, key string) *yaml.Node { return pairOf(n, key, maxHops, nil) }

// pairOf remembers where it looked: aliases may lead to the same mapping in
// thousands of ways.
func pairOf(n *yaml.Node, key string, hops int, seen map[*yaml.Node]bool) *yaml.Node {
	n = deref(n)
	if n == nil || n.Kind != yaml.MappingNode || hops == 0 || seen[n] {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i].Kind == yaml.ScalarNode {
			return n.Content[i+1]
		}
	}
	merges := mergedInto(n)
	if len(merges) > 0 && seen == nil {
		seen = map[*yaml.Node]bool{}
	}
	if seen != nil {
		seen[n] = true
	}
	for _, m := range merges {
		if v := pairOf(m, key, hops-1, seen); v != nil {
			return v
		}
	}
	return nil
}

// mergedInto gives the mappings that a mapping merges (<<), in the order in which
// they count.
func mergedInto(n *yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag != "!!merge" {
			continue
		}
		from := deref(n.Content[i+1])
		if !isList(from) {
			out = append(out, from)
			continue
		}
		for _, c := range from.Content {
			out = append(out, deref(c))
		}
	}
	return out
}

// str gives the text of a scalar below a path of keys; empty: none.
func str(n *yaml.Node, path ...string) string {
	if n = get(n, path...); n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		return n.Value
	}
	return ""
}

// list gives the items below a path of keys.
func list(n *yaml.Node, path ...string) []*yaml.Node {
	n = get(n, path...)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	out := make([]*yaml.Node, 0, len(n.Content))
	for _, c := range n.Content {
		if c = deref(c); c != nil {
			out = append(out, c)
		}
	}
	return out
}

// keyIndex is where a key stands in a mapping; -1: it does not.
func keyIndex(m *yaml.Node, key string) int {
	for i := 0; m != nil && i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// holds reports whether a tree holds a node.
func holds(root, n *yaml.Node) bool { return root != nil && pathTo(root, n) != nil }

func isMap(n *yaml.Node) bool { return n != nil && n.Kind == yaml.MappingNode }

func isList(n *yaml.Node) bool { return n != nil && n.Kind == yaml.SequenceNode }

func isText(n *yaml.Node) bool { return n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null" }

func joined(path ...string) string { return strings.Join(path, ".") }
