package edit

import (
	"go.yaml.in/yaml/v3"
)

// maxHops limits how many aliases and merge keys one lookup follows: a document
// may refer to itself.
const maxHops = 16

// Deref returns the node that an alias refers to, or n if it is not an alias.
func Deref(n *yaml.Node) *yaml.Node {
	for range maxHops {
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}

// Get returns the value below a path of keys, or nil.
func Get(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if n = pair(n, key); n == nil {
			return nil
		}
	}
	return Deref(n)
}

// pair returns the value of a key as written. It looks at merge keys (<<) last.
func pair(n *yaml.Node, key string) *yaml.Node { return pairOf(n, key, maxHops, nil) }

// pairOf remembers which mappings it looked at: aliases may lead to the same
// mapping in thousands of ways.
func pairOf(n *yaml.Node, key string, hops int, seen map[*yaml.Node]bool) *yaml.Node {
	n = Deref(n)
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

// mergedInto returns the mappings that a mapping merges (<<), the first one
// taking precedence.
func mergedInto(n *yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag != "!!merge" {
			continue
		}
		from := Deref(n.Content[i+1])
		if !IsList(from) {
			out = append(out, from)
			continue
		}
		for _, c := range from.Content {
			out = append(out, Deref(c))
		}
	}
	return out
}

// Str returns the text of a scalar below a path of keys, or "".
func Str(n *yaml.Node, path ...string) string {
	if n = Get(n, path...); n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		return n.Value
	}
	return ""
}

// List returns the items below a path of keys.
func List(n *yaml.Node, path ...string) []*yaml.Node {
	n = Get(n, path...)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	out := make([]*yaml.Node, 0, len(n.Content))
	for _, c := range n.Content {
		if c = Deref(c); c != nil {
			out = append(out, c)
		}
	}
	return out
}

// KeyIndex returns the index of a key in the mapping's Content, or -1.
func KeyIndex(m *yaml.Node, key string) int {
	for i := 0; m != nil && i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// Holds reports whether a tree holds a node.
func Holds(root, n *yaml.Node) bool { return root != nil && pathTo(root, n) != nil }

// IsMap reports whether a node is a mapping.
func IsMap(n *yaml.Node) bool { return n != nil && n.Kind == yaml.MappingNode }

// IsList reports whether a node is a sequence.
func IsList(n *yaml.Node) bool { return n != nil && n.Kind == yaml.SequenceNode }

// IsText reports whether a node is a scalar other than null.
func IsText(n *yaml.Node) bool { return n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null" }
