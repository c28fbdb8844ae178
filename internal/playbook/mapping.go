package playbook

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// mapping is a YAML mapping being read strictly: every key must be known, once.
type mapping struct {
	d     *document
	node  *yaml.Node
	path  string
	pairs []pairNode
	names map[string]int
}

type pairNode struct {
	name       string
	key, value *yaml.Node
}

// mapping reads n as a mapping with the allowed keys; no allowed keys: any.
// It gives nil, after reporting, when n is none.
func (d *document) mapping(n *yaml.Node, path string, allowed ...string) *mapping {
	if n.Kind != yaml.MappingNode {
		d.report(n, path, "want a mapping, got "+nodeKind(n), "")
		return nil
	}
	m := &mapping{d: d, node: n, path: path, names: map[string]int{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.report(key, path, "a key must be a word, got "+nodeKind(key), "")
			continue
		}
		name := key.Value
		if key.Tag == "!!merge" {
			d.report(key, path, "merge keys are not allowed", "write the fields out")
			continue
		}
		if first, twice := m.names[name]; twice {
			d.report(key, path, fmt.Sprintf("%q is given twice, first on line %d", clip(name), d.line+m.pairs[first].key.Line), "keep one")
			continue
		}
		if len(allowed) > 0 && !slices.Contains(allowed, name) {
			d.report(key, path, fmt.Sprintf("unknown field %q", clip(name)), didYouMean(name, allowed))
			continue
		}
		m.names[name] = len(m.pairs)
		m.pairs = append(m.pairs, pairNode{name: name, key: key, value: value})
	}
	return m
}

// get gives the value of a key; nil when it is absent.
func (m *mapping) get(name string) *yaml.Node {
	if i, ok := m.names[name]; ok {
		return m.pairs[i].value
	}
	return nil
}

// has reports whether a key is given.
func (m *mapping) has(name string) bool { return m.get(name) != nil }

// only gives the mapping without the keys that are not allowed in it, which
// were reported already.
func (m *mapping) only(allowed []string) *mapping {
	out := &mapping{d: m.d, node: m.node, path: m.path, pairs: m.pairs, names: map[string]int{}}
	for name, i := range m.names {
		if slices.Contains(allowed, name) {
			out.names[name] = i
		}
	}
	return out
}

// at is the path of a key.
func (m *mapping) at(name string) string {
	if m.path == "" {
		return name
	}
	return m.path + "." + name
}

// need reports a key that is missing.
func (m *mapping) need(name, hint string) *yaml.Node {
	n := m.get(name)
	if n == nil {
		m.d.report(m.node, m.path, name+" is missing", hint)
	}
	return n
}

// text reads an optional text; a null or an empty one is a mistake.
func (m *mapping) text(name string) string {
	n := m.get(name)
	if n == nil {
		return ""
	}
	text, ok := m.d.text(n, m.at(name))
	if ok && strings.TrimSpace(text) == "" {
		m.d.report(n, m.at(name), "empty", "leave it out or say something")
	}
	return text
}

// text reads a scalar that is a text. Words that YAML takes for something else
// (true, 1, ~) must be quoted: guessing would change what was meant.
func (d *document) text(n *yaml.Node, path string) (string, bool) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return n.Value, true
	}
	hint := ""
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		hint = "quote it"
	}
	d.report(n, path, "want a text, got "+nodeKind(n), hint)
	return "", false
}

// texts reads a text or a list of texts.
func (d *document) texts(n *yaml.Node, path string) (texts []string, nodes []*yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		if text, ok := d.text(n, path); ok {
			return []string{text}, []*yaml.Node{n}
		}
		return nil, nil
	}
	for i, item := range n.Content {
		if text, ok := d.text(item, fmt.Sprintf("%s[%d]", path, i)); ok {
			texts, nodes = append(texts, text), append(nodes, item)
		}
	}
	return texts, nodes
}

// duration reads an optional duration in (0, most]; 0 when it is absent.
func (m *mapping) duration(name string, most time.Duration) time.Duration {
	n := m.get(name)
	if n == nil {
		return 0
	}
	d, message, hint := scalarDuration(n, most)
	if message != "" {
		m.d.report(n, m.at(name), message, hint)
	}
	return d
}

func scalarDuration(n *yaml.Node, most time.Duration) (d time.Duration, message, hint string) {
	const form = "write it like 30s, 5m, 1h30m or 2d"
	if n.Kind != yaml.ScalarNode || (n.Tag != "!!str" && n.Tag != "!!int" && n.Tag != "!!float") {
		return 0, "want a duration, got " + nodeKind(n), form
	}
	d, err := ParseDuration(n.Value)
	switch {
	case err == nil:
		if err := plausible(d, most); err != nil {
			return 0, "the duration " + err.Error(), ""
		}
		return d, "", ""
	case strings.HasPrefix(n.Value, "-"):
		return 0, fmt.Sprintf("the duration %q is negative", clip(n.Value)), form
	case n.Tag != "!!str":
		return 0, fmt.Sprintf("the duration %q has no unit", clip(n.Value)), form
	default:
		return 0, fmt.Sprintf("not a duration: %q", clip(n.Value)), form
	}
}

// integer reads an optional whole number in [least, most].
func (m *mapping) integer(name string, least, most int) (int, bool) {
	n := m.get(name)
	if n == nil {
		return 0, false
	}
	i, ok := scalarInt(n)
	switch {
	case !ok:
		m.d.report(n, m.at(name), "want a whole number, got "+nodeKind(n), "")
	case i < int64(least) || i > int64(most):
		m.d.report(n, m.at(name), fmt.Sprintf("%d is not between %d and %d", i, least, most), "")
	default:
		return int(i), true
	}
	return 0, false
}

// number reads an optional number.
func (m *mapping) number(name string) (float64, bool) {
	n := m.get(name)
	if n == nil {
		return 0, false
	}
	f, ok := scalarFloat(n)
	if !ok {
		m.d.report(n, m.at(name), "want a number, got "+nodeKind(n), "")
	}
	return f, ok
}

// boolean reads an optional true or false.
func (m *mapping) boolean(name string) bool {
	n := m.get(name)
	if n == nil {
		return false
	}
	b, ok := scalarBool(n)
	if !ok {
		m.d.report(n, m.at(name), "want true or false, got "+nodeKind(n), "")
	}
	return b
}

func scalarInt(n *yaml.Node) (int64, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return 0, false
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	return i, err == nil
}

func scalarFloat(n *yaml.Node) (float64, bool) {
	if n.Kind != yaml.ScalarNode || (n.Tag != "!!int" && n.Tag != "!!float") {
		return 0, false
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	return f, err == nil && f-f == 0 // neither NaN nor infinite
}

func scalarBool(n *yaml.Node) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		return false, false
	}
	return strings.EqualFold(n.Value, "true"), true
}

// nodeKind says what a node is, for messages.
func nodeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!null":
			return "nothing"
		case "!!str":
			return fmt.Sprintf("the text %q", clip(n.Value))
		case "!!bool":
			return "the bool " + clip(n.Value)
		case "!!int", "!!float":
			return "the number " + clip(n.Value)
		case "!!timestamp":
			return "the date " + clip(n.Value)
		default:
			return clip(n.Value)
		}
	default:
		return "something else"
	}
}
