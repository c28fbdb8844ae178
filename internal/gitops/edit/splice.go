package edit

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Splice is one change of a document: it replaces bytes start to end of data.
// The tree must be want afterwards.
type Splice struct {
	start, end int
	with       string
	want       *yaml.Node
}

// Apply returns the file with the change. It returns an error unless the result
// parses as the wanted tree and every other document is unchanged. A nested
// document is changed through the scalar that holds it.
func (d *Document) Apply(file []byte, s Splice) ([]byte, error) {
	if err := d.Check(s); err != nil {
		return nil, err
	}
	data := d.spliced(s)
	if d.outer != nil {
		o, err := d.outer.doc.ReplaceText(d.outer.node, s.start, s.end, s.with)
		if err != nil {
			return nil, err
		}
		return d.outer.doc.Apply(file, o)
	}
	if !bytes.Equal(file[d.start:d.start+len(d.Data)], d.Data) {
		return nil, d.Invalid(nil, "changed while it was edited") // unreachable unless a caller mixes two readings
	}
	if d.plain {
		return []byte(data), nil
	}
	out := string(file[:d.start]) + data + string(file[d.start+len(d.Data):])
	return []byte(out), d.checkOthers(file, []byte(out), len(data))
}

func (d *Document) spliced(s Splice) string {
	return string(d.Data[:s.start]) + s.with + string(d.Data[s.end:])
}

// Check returns an error unless the changed document parses as the wanted tree.
func (d *Document) Check(s Splice) error {
	data := []byte(d.spliced(s))
	switch {
	case d.plain:
		d.result = plainDocument(d.File, data)
	case d.result == nil || !bytes.Equal(d.result.Data, data):
		d.result = &Document{File: d.File, Data: data}
	}
	got, err := d.result.Parse()
	if err != nil {
		return d.Invalid(nil, "cannot be edited safely: the result would not be YAML: "+err.Error())
	}
	if at := difference(s.want, got); at != nil {
		return d.Invalid(nil, "cannot be edited safely: the change would alter something else near "+Clip(at.Value))
	}
	return nil
}

// checkOthers returns an error unless every document of the file but d is unchanged.
func (d *Document) checkOthers(before, after []byte, size int) error {
	was, err := Documents(d.File, before)
	if err != nil {
		return err
	}
	is, err := Documents(d.File, after)
	if err != nil {
		return err
	}
	same := len(was) == len(is)
	for i := 0; same && i < len(was); i++ {
		if was[i].start == d.start {
			same = len(is[i].Data) == size
			continue
		}
		same = bytes.Equal(was[i].Data, is[i].Data)
	}
	if !same {
		return d.Invalid(nil, "cannot be edited safely: the change would alter another document of the file")
	}
	return nil
}

// difference returns a node where two trees differ, or nil. It compares neither
// places nor comments: the bytes outside the change are the same.
func difference(want, got *yaml.Node) *yaml.Node {
	if want.Kind != got.Kind || want.Value != got.Value || want.Anchor != got.Anchor || want.ShortTag() != got.ShortTag() || len(want.Content) != len(got.Content) {
		return got
	}
	for i := range want.Content {
		if at := difference(want.Content[i], got.Content[i]); at != nil {
			return at
		}
	}
	return nil
}

// altered returns a copy of the document's tree with one node changed.
func (d *Document) altered(n *yaml.Node, change func(*yaml.Node)) *yaml.Node {
	var clone func(*yaml.Node) *yaml.Node
	clone = func(m *yaml.Node) *yaml.Node {
		c := *m
		c.Content = make([]*yaml.Node, len(m.Content))
		for i, child := range m.Content {
			c.Content[i] = clone(child)
		}
		if m == n {
			change(&c)
		}
		return &c
	}
	return clone(d.root)
}

// ReplaceText replaces bytes a to b of a scalar's value and keeps its style.
func (d *Document) ReplaceText(n *yaml.Node, a, b int, with string) (Splice, error) {
	if err := d.unshared(n); err != nil {
		return Splice{}, err
	}
	t, err := d.text(n)
	if err != nil {
		return Splice{}, err
	}
	value := n.Value[:a] + with + n.Value[b:]
	s := Splice{want: d.altered(n, func(c *yaml.Node) { c.Value = value })}
	if a == b {
		s.start, s.with, err = t.insert(a, with)
		s.end = s.start
	} else {
		s.start, s.end = t.span(a, b)
		s.with, err = t.rewrite(a, with)
	}
	if err != nil {
		return Splice{}, d.Invalid(n, "cannot be edited safely: "+err.Error())
	}
	return s, nil
}

// SetScalar replaces a scalar's value and keeps its type. It keeps the quotes,
// and adds some where a plain text would have another type.
func (d *Document) SetScalar(n *yaml.Node, value string) (Splice, error) {
	return d.setAs(n, value, n.ShortTag())
}

// SetAny replaces a scalar's value, which may become a number or a text, as in a
// file of settings. It adds quotes where a plain text would be a boolean or null.
func (d *Document) SetAny(n *yaml.Node, value string) (Splice, error) {
	tag := plainTag(value)
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 || n.ShortTag() != tag && tag != "!!int" && tag != "!!float" {
		tag = "!!str"
	}
	return d.setAs(n, value, tag)
}

func (d *Document) setAs(n *yaml.Node, value, tag string) (Splice, error) {
	if err := d.unshared(n); err != nil {
		return Splice{}, err
	}
	if strings.Contains(n.Value, "{{") || n.Kind == yaml.ScalarNode && n.Style&yaml.TaggedStyle != 0 {
		return Splice{}, d.Invalid(n, "is filled in by a template or has a tag: change it where it comes from")
	}
	t, err := d.text(n)
	if err != nil {
		return Splice{}, err
	}
	with := written(value, t.style, tag, "")
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return Splice{}, d.Invalid(n, "is a block of text, not a value")
	}
	want := d.altered(n, func(c *yaml.Node) {
		c.Value, c.Tag = value, tag
		if tag != "!!str" {
			c.Tag = plainTag(value)
		}
	})
	return Splice{start: t.start, end: t.end, with: with, want: want}, nil
}

// written returns a value in a style. quote is used for a text that would have
// another type without quotes.
func written(value string, style yaml.Style, tag, quote string) string {
	switch {
	case style&yaml.DoubleQuotedStyle != 0:
		return doubleQuoted(value)
	case style&yaml.SingleQuotedStyle != 0:
		return "'" + strings.ReplaceAll(value, "'", "''") + "'"
	case tag != "!!str" || plainString(value):
		return value
	case quote == "'":
		return "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return doubleQuoted(value)
}

func doubleQuoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// boolean matches the words that are booleans in YAML 1.1, which Kubernetes and
// Helm read. Our parser reads YAML 1.2.
var boolean = regexp.MustCompile(`^(?i:y|n|yes|no|on|off)$`)

// plainString reports whether a text needs no quotes, in flow and block style.
func plainString(s string) bool {
	if s == "" || boolean.MatchString(s) || strings.ContainsAny(s, "\n\r\t[]{},#&*!|>'\"%@`") || strings.Contains(s, ": ") || strings.HasSuffix(s, ":") {
		return false
	}
	var n yaml.Node
	if yaml.Unmarshal([]byte("["+s+"]"), &n) != nil || len(n.Content) != 1 || len(n.Content[0].Content) != 1 {
		return false
	}
	item := n.Content[0].Content[0]
	return item.Kind == yaml.ScalarNode && item.Value == s && item.ShortTag() == "!!str"
}

// plainTag returns the type of a text without quotes.
func plainTag(s string) string {
	return (&yaml.Node{Kind: yaml.ScalarNode, Value: s}).ShortTag()
}

// unshared returns an error if the node, or one that holds it, has an anchor
// that is used elsewhere: a change would change both.
func (d *Document) unshared(n *yaml.Node) error {
	path := pathTo(d.root, n)
	if path == nil {
		return d.Invalid(nil, "does not hold what is to be changed") // unreachable unless a caller mixes two readings
	}
	for _, holder := range path {
		if holder.Anchor == "" {
			continue
		}
		if user := aliasOf(d.root, holder); user != nil {
			line, column := d.Position(user)
			return d.Invalid(holder, fmt.Sprintf("the anchor &%s is used again at %s:%d:%d: a change here would change both; write the value out in one of them",
				Clip(holder.Anchor), d.File, line, column))
		}
	}
	return nil
}

// pathTo returns the nodes from the root to n, both included, or nil.
func pathTo(root, n *yaml.Node) []*yaml.Node {
	if root == n {
		return []*yaml.Node{n}
	}
	for _, c := range root.Content {
		if p := pathTo(c, n); p != nil {
			return append([]*yaml.Node{root}, p...)
		}
	}
	return nil
}

func aliasOf(root, anchor *yaml.Node) *yaml.Node {
	if root.Kind == yaml.AliasNode && root.Alias == anchor {
		return root
	}
	for _, c := range root.Content {
		if a := aliasOf(c, anchor); a != nil {
			return a
		}
	}
	return nil
}
