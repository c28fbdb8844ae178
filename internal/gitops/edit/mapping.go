package edit

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// AddScalar adds a key with a scalar to a mapping. The scalar is written without
// quotes, and has the type that such a text has.
func (d *Document) AddScalar(m *yaml.Node, key, value string) (Splice, error) {
	tag := plainTag(value)
	return d.addKey(m, key, written(value, 0, tag, ""), &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value})
}

// AddList adds a key with a sequence of one text to a mapping.
func (d *Document) AddList(m *yaml.Node, key, item string) (Splice, error) {
	text := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: item}
	return d.addKey(m, key, "["+doubleQuoted(item)+"]", &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{text}})
}

// AddText adds a key whose value is written as a text of YAML in flow style.
func (d *Document) AddText(m *yaml.Node, key, text string) (Splice, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) != 1 {
		return Splice{}, d.Invalid(m, fmt.Sprintf("%q is no YAML", Clip(text)))
	}
	return d.addKey(m, key, text, doc.Content[0])
}

// addKey adds a key to a mapping. value is YAML on one line that parses as node.
func (d *Document) addKey(m *yaml.Node, name, value string, node *yaml.Node) (Splice, error) {
	if err := d.unshared(m); err != nil {
		return Splice{}, err
	}
	if len(m.Content) == 0 {
		return Splice{}, d.Invalid(m, "is empty: there is no style to follow")
	}
	want := d.altered(m, func(c *yaml.Node) {
		c.Content = append(c.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, node)
	})
	end, err := d.end(m.Content[len(m.Content)-1])
	if err != nil {
		return Splice{}, err
	}
	if m.Style&yaml.FlowStyle != 0 {
		if m.Content[0].Style&yaml.DoubleQuotedStyle != 0 {
			name = doubleQuoted(name)
		}
		return Splice{start: end, end: end, with: ", " + name + ": " + value, want: want}, nil
	}
	at := d.lineEnd(end)
	indent := strings.Repeat(" ", d.columnOf(d.offset(m.Content[0])))
	return Splice{start: at, end: at, with: d.newline() + indent + name + ": " + value, want: want}, nil
}

// RemoveKey removes a key and its value from a mapping.
func (d *Document) RemoveKey(m *yaml.Node, key string) (Splice, error) {
	i := KeyIndex(m, key)
	if i < 0 {
		return Splice{}, d.Invalid(m, "takes "+Clip(key)+" from another mapping: remove it by hand")
	}
	if err := d.unshared(m); err != nil {
		return Splice{}, err
	}
	want := d.altered(m, func(c *yaml.Node) { c.Content = append(c.Content[:i:i], c.Content[i+2:]...) })
	end, err := d.end(m.Content[i+1])
	if err != nil {
		return Splice{}, err
	}
	if m.Style&yaml.FlowStyle == 0 {
		return d.removeLines(m.Content[i], d.offset(m.Content[i]), end, want)
	}
	if i == 0 {
		return Splice{}, d.Invalid(m, "would lose its first key: remove it by hand")
	}
	begin, err := d.end(m.Content[i-1])
	if err != nil {
		return Splice{}, err
	}
	return Splice{start: begin, end: end, want: want}, nil
}
