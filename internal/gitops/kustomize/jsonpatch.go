package kustomize

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// maxOperations limits the operations of one JSON patch.
const maxOperations = 2000

// jsonPatch applies the operations of RFC 6902 that kustomizations use. The result
// shares nodes with root, as that of [edit.Merge] does.
func jsonPatch(d *edit.Document, root, ops *yaml.Node) (*yaml.Node, error) {
	if len(ops.Content) > maxOperations {
		return nil, d.Invalid(ops, fmt.Sprintf("the patch has more than %d operations", maxOperations))
	}
	for _, op := range edit.List(ops) {
		var parts []string
		pointer := edit.Str(op, "path")
		if !strings.HasPrefix(pointer, "/") {
			return nil, d.Invalid(op, fmt.Sprintf("the path %q of the patch does not begin with /", edit.Clip(pointer)))
		}
		for _, p := range strings.Split(pointer[1:], "/") {
			parts = append(parts, strings.NewReplacer("~1", "/", "~0", "~").Replace(p))
		}
		kind := edit.Str(op, "op")
		value := edit.Get(op, "value")
		switch kind {
		case "test":
			continue
		case "add", "replace":
			if value == nil {
				return nil, d.Invalid(op, "the patch has no value")
			}
		case "remove":
			value = nil
		default:
			return nil, d.Invalid(op, fmt.Sprintf("the operation %q of a patch is not followed", edit.Clip(kind)))
		}
		next, err := operate(edit.Deref(root), parts, kind, value)
		if err != nil {
			return nil, d.Invalid(op, "the patch does not fit: "+err.Error())
		}
		root = next
	}
	return root, nil
}

// operate applies one operation. It copies the nodes above the place.
func operate(n *yaml.Node, at []string, kind string, value *yaml.Node) (*yaml.Node, error) {
	if n == nil || n.Kind != yaml.MappingNode && n.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("there is no %s", at[0])
	}
	if edit.IsMap(n) {
		n = edit.Flatten(n)
	}
	c := *n
	c.Content = slices.Clone(n.Content)
	c.Anchor = ""
	i, err := index(&c, at[0], kind, len(at) == 1)
	switch {
	case err != nil:
		return nil, err
	case len(at) > 1:
		c.Content[i], err = operate(edit.Deref(c.Content[i]), at[1:], kind, value)
		return &c, err
	case edit.IsMap(&c) && kind == "remove":
		c.Content = slices.Delete(c.Content, i-1, i+1)
	case edit.IsMap(&c) && i < 0:
		c.Content = append(c.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: at[0]}, value)
	case edit.IsMap(&c) || kind == "replace":
		c.Content[i] = value
	case kind == "remove":
		c.Content = slices.Delete(c.Content, i, i+1)
	default:
		c.Content = slices.Insert(c.Content, i, value)
	}
	return &c, nil
}

// index returns the index of a child in Content, or -1 for a key to add.
func index(n *yaml.Node, part, kind string, last bool) (int, error) {
	if edit.IsMap(n) {
		if i := edit.KeyIndex(n, part); i >= 0 {
			return i + 1, nil
		}
		if last && kind == "add" {
			return -1, nil
		}
		return 0, fmt.Errorf("there is no %s", edit.Clip(part))
	}
	if part == "-" && last && kind == "add" {
		return len(n.Content), nil
	}
	i, err := strconv.Atoi(part)
	if most := len(n.Content); err != nil || i < 0 || i > most || i == most && (!last || kind != "add") {
		return 0, fmt.Errorf("the list of %d has no item %s", most, edit.Clip(part))
	}
	return i, nil
}

// withValue returns a tree with a value at a path of keys.
func withValue(root *yaml.Node, at []string, value *yaml.Node) *yaml.Node {
	out, err := operate(edit.Deref(root), at, "add", value)
	if err != nil {
		return root
	}
	return out
}
