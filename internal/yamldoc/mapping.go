package yamldoc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Mapping is a YAML mapping that is read strictly: every key must be known and
// unique.
type Mapping struct {
	Doc   *Document
	Node  *yaml.Node
	Path  string // e.g. spec.states.triage; empty: the document's root
	Pairs []Pair // in the order of the document

	names map[string]int
}

// Pair is one key of a mapping with its value.
type Pair struct {
	Name       string
	Key, Value *yaml.Node
}

// Mapping reads n as a mapping with the allowed keys; without any, all keys are
// allowed. If n is not a mapping it reports that and returns nil.
func (d *Document) Mapping(n *yaml.Node, path string, allowed ...string) *Mapping {
	if n.Kind != yaml.MappingNode {
		d.Report(n, path, "want a mapping, got "+Describe(n), "")
		return nil
	}
	m := &Mapping{Doc: d, Node: n, Path: path, names: map[string]int{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			d.Report(key, path, "want a word as key, got "+Describe(key), "")
			continue
		}
		name := key.Value
		if key.Tag == "!!merge" {
			d.Report(key, path, "merge keys are not allowed", "write the fields out")
			continue
		}
		if first, twice := m.names[name]; twice {
			d.Report(key, path, fmt.Sprintf("duplicate field %q, first on line %d", Clip(name), d.Line+m.Pairs[first].Key.Line), "keep one")
			continue
		}
		if len(allowed) > 0 && !slices.Contains(allowed, name) {
			d.Report(key, path, fmt.Sprintf("unknown field %q", Clip(name)), DidYouMean(name, allowed))
			continue
		}
		m.names[name] = len(m.Pairs)
		m.Pairs = append(m.Pairs, Pair{Name: name, Key: key, Value: value})
	}
	return m
}

// Get returns the value of a key; nil if it is absent.
func (m *Mapping) Get(name string) *yaml.Node {
	if i, ok := m.names[name]; ok {
		return m.Pairs[i].Value
	}
	return nil
}

// Has reports whether a key is given.
func (m *Mapping) Has(name string) bool { return m.Get(name) != nil }

// Only returns the mapping without the keys that are not allowed in it. They
// are reported already.
func (m *Mapping) Only(allowed []string) *Mapping {
	out := &Mapping{Doc: m.Doc, Node: m.Node, Path: m.Path, Pairs: m.Pairs, names: map[string]int{}}
	for name, i := range m.names {
		if slices.Contains(allowed, name) {
			out.names[name] = i
		}
	}
	return out
}

// At returns the path of a key.
func (m *Mapping) At(name string) string {
	if m.Path == "" {
		return name
	}
	return m.Path + "." + name
}

// Need returns the value of a key and reports a missing one.
func (m *Mapping) Need(name, hint string) *yaml.Node {
	n := m.Get(name)
	if n == nil {
		m.Doc.Report(m.Node, m.Path, "missing field "+name, hint)
	}
	return n
}

// Constant requires that a key has a given value.
func (m *Mapping) Constant(name, want string) {
	n := m.Need(name, "write "+name+": "+want)
	if n == nil {
		return
	}
	if text, ok := m.Doc.Text(n, m.At(name)); ok && text != want {
		m.Doc.Report(n, m.At(name), fmt.Sprintf("unsupported value %q", Clip(text)), "this version reads "+want)
	}
}

// Text reads an optional text. A null or empty text is an error.
func (m *Mapping) Text(name string) string {
	n := m.Get(name)
	if n == nil {
		return ""
	}
	text, ok := m.Doc.Text(n, m.At(name))
	if ok && strings.TrimSpace(text) == "" {
		m.Doc.Report(n, m.At(name), "empty", "remove the field or set a value")
	}
	return text
}

// Text reads a scalar that is a text, and reports any other node. Words that
// YAML reads as another type (true, 1, ~) must be quoted.
func (d *Document) Text(n *yaml.Node, path string) (string, bool) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return n.Value, true
	}
	hint := ""
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		hint = "quote it"
	}
	d.Report(n, path, "want a text, got "+Describe(n), hint)
	return "", false
}

// Texts reads a text or a list of texts.
func (d *Document) Texts(n *yaml.Node, path string) (texts []string, nodes []*yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		if text, ok := d.Text(n, path); ok {
			return []string{text}, []*yaml.Node{n}
		}
		return nil, nil
	}
	for i, item := range n.Content {
		if text, ok := d.Text(item, fmt.Sprintf("%s[%d]", path, i)); ok {
			texts, nodes = append(texts, text), append(nodes, item)
		}
	}
	return texts, nodes
}

// Duration reads an optional duration in (0, most]; 0 if it is absent.
func (m *Mapping) Duration(name string, most time.Duration) time.Duration {
	n := m.Get(name)
	if n == nil {
		return 0
	}
	d, message, hint := Duration(n, most)
	if message != "" {
		m.Doc.Report(n, m.At(name), message, hint)
	}
	return d
}

// Duration reads a duration in (0, most]. An error is returned as message and
// hint.
func Duration(n *yaml.Node, most time.Duration) (d time.Duration, message, hint string) {
	const form = "write it like 30s, 5m, 1h30m or 2d"
	if n.Kind != yaml.ScalarNode || (n.Tag != "!!str" && n.Tag != "!!int" && n.Tag != "!!float") {
		return 0, "want a duration, got " + Describe(n), form
	}
	d, err := ParseDuration(n.Value)
	switch {
	case err == nil:
		if err := Plausible(d, most); err != nil {
			return 0, "the duration " + err.Error(), ""
		}
		return d, "", ""
	case strings.HasPrefix(n.Value, "-"):
		return 0, fmt.Sprintf("negative duration %q", Clip(n.Value)), form
	case n.Tag != "!!str":
		return 0, fmt.Sprintf("duration %q without a unit", Clip(n.Value)), form
	default:
		return 0, fmt.Sprintf("invalid duration %q", Clip(n.Value)), form
	}
}

// Integer reads an optional whole number in [least, most].
func (m *Mapping) Integer(name string, least, most int) (int, bool) {
	n := m.Get(name)
	if n == nil {
		return 0, false
	}
	i, ok := Int(n)
	switch {
	case !ok:
		m.Doc.Report(n, m.At(name), "want a whole number, got "+Describe(n), "")
	case i < int64(least) || i > int64(most):
		m.Doc.Report(n, m.At(name), fmt.Sprintf("%d is out of range: want %d to %d", i, least, most), "")
	default:
		return int(i), true
	}
	return 0, false
}

// Number reads an optional number.
func (m *Mapping) Number(name string) (float64, bool) {
	n := m.Get(name)
	if n == nil {
		return 0, false
	}
	f, ok := Float(n)
	if !ok {
		m.Doc.Report(n, m.At(name), "want a number, got "+Describe(n), "")
	}
	return f, ok
}

// Boolean reads an optional true or false.
func (m *Mapping) Boolean(name string) bool {
	n := m.Get(name)
	if n == nil {
		return false
	}
	b, ok := Bool(n)
	if !ok {
		m.Doc.Report(n, m.At(name), "want true or false, got "+Describe(n), "")
	}
	return b
}

// Int reads a whole number.
func Int(n *yaml.Node) (int64, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		return 0, false
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	return i, err == nil
}

// Float reads a number that is neither NaN nor infinite.
func Float(n *yaml.Node) (float64, bool) {
	if n.Kind != yaml.ScalarNode || (n.Tag != "!!int" && n.Tag != "!!float") {
		return 0, false
	}
	f, err := strconv.ParseFloat(n.Value, 64)
	return f, err == nil && f-f == 0 // neither NaN nor infinite
}

// Bool reads true or false.
func Bool(n *yaml.Node) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		return false, false
	}
	return strings.EqualFold(n.Value, "true"), true
}

// Describe names the type of a node, for messages.
func Describe(n *yaml.Node) string {
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
			return fmt.Sprintf("the text %q", Clip(n.Value))
		case "!!bool":
			return "the bool " + Clip(n.Value)
		case "!!int", "!!float":
			return "the number " + Clip(n.Value)
		case "!!timestamp":
			return "the date " + Clip(n.Value)
		default:
			return Clip(n.Value)
		}
	default:
		return "something else"
	}
}
