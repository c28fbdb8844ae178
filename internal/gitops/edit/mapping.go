package edit

import (
	"bytes"
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

// PutText sets a key to a text of YAML in flow style. The mapping has no such key, or
// its value is null or empty.
func (d *Document) PutText(m *yaml.Node, key, text string) (Splice, error) {
	i := KeyIndex(m, key)
	if i < 0 {
		return d.AddText(m, key, text)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) != 1 {
		return Splice{}, d.Invalid(m, fmt.Sprintf("%q is no YAML", Clip(text)))
	}
	old := m.Content[i+1]
	if err := d.unshared(old); err != nil {
		return Splice{}, err
	}
	s := Splice{with: text, want: d.altered(m, func(c *yaml.Node) { c.Content[i+1] = doc.Content[0] })}
	var err error
	switch {
	case old.Kind == yaml.ScalarNode && old.Value == "" && old.Style == 0:
		if s.start, err = d.end(m.Content[i]); err == nil {
			if colon := bytes.IndexByte(d.Data[s.start:], ':'); colon >= 0 {
				s.start += colon + 1
			}
		}
		s.end, s.with = s.start, " "+text
	case old.Kind == yaml.ScalarNode:
		t, textErr := d.text(old)
		if textErr != nil {
			return Splice{}, textErr
		}
		s.start, s.end = t.start, t.end
	case len(old.Content) == 0 && old.Style&yaml.FlowStyle != 0:
		s.start = d.offset(old)
		s.end, err = d.closing(old)
	default:
		err = d.Invalid(old, "has a value already")
	}
	return s, err
}

// addKey adds a key to a mapping. value is YAML on one line that parses as node.
func (d *Document) addKey(m *yaml.Node, name, value string, node *yaml.Node) (Splice, error) {
	if err := d.unshared(m); err != nil {
		return Splice{}, err
	}
	want := d.altered(m, func(c *yaml.Node) {
		c.Content = append(c.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, node)
	})
	if len(m.Content) == 0 && m.Style&yaml.FlowStyle != 0 {
		end, err := d.closing(m)
		if err != nil {
			return Splice{}, err
		}
		return Splice{start: end - 1, end: end - 1, with: name + ": " + value, want: want}, nil
	}
	if len(m.Content) == 0 {
		return Splice{}, d.Invalid(m, "is empty: there is no style to follow")
	}
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
