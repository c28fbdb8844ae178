package gitops

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// splice is the one change of a document: bytes start to end of data become
// with, after which the tree has to be want and nothing else.
type splice struct {
	start, end int
	with       string
	want       *yaml.Node
}

// apply makes the change, proves it, and gives the file with it. A document
// inside a scalar is changed through that scalar.
func (d *document) apply(file []byte, s splice) ([]byte, error) {
	data := string(d.data[:s.start]) + s.with + string(d.data[s.end:])
	if err := d.prove([]byte(data), s.want); err != nil {
		return nil, err
	}
	if d.outer != nil {
		o, err := d.outer.doc.replaceText(d.outer.node, s.start, s.end, s.with)
		if err != nil {
			return nil, err
		}
		return d.outer.doc.apply(file, o)
	}
	if !bytes.Equal(file[d.start:d.start+len(d.data)], d.data) {
		return nil, d.invalid(nil, "changed while it was edited") // unreachable unless a caller mixes two readings
	}
	if d.plain {
		return []byte(data), nil
	}
	out := string(file[:d.start]) + data + string(file[d.start+len(d.data):])
	return []byte(out), d.alone(file, []byte(out), len(data))
}

// prove parses the changed document: its tree is the wanted one.
func (d *document) prove(data []byte, want *yaml.Node) error {
	switch {
	case d.plain:
		d.proven = plainFile(d.file, data)
	case d.proven == nil || !bytes.Equal(d.proven.data, data):
		d.proven = &document{file: d.file, data: data}
	}
	got, err := d.proven.parse()
	if err != nil {
		return d.invalid(nil, "cannot be edited safely: the result would not be YAML: "+err.Error())
	}
	if at := difference(want, got); at != nil {
		return d.invalid(nil, "cannot be edited safely: the change would alter something else near "+clip(at.Value))
	}
	return nil
}

// alone proves that the file has the same documents as before, but for d.
func (d *document) alone(before, after []byte, size int) error {
	was, err := documents(d.file, before)
	if err != nil {
		return err
	}
	is, err := documents(d.file, after)
	if err != nil {
		return err
	}
	same := len(was) == len(is)
	for i := 0; same && i < len(was); i++ {
		if was[i].start == d.start {
			same = len(is[i].data) == size
			continue
		}
		same = bytes.Equal(was[i].data, is[i].data)
	}
	if !same {
		return d.invalid(nil, "cannot be edited safely: the change would alter another document of the file")
	}
	return nil
}

// difference gives a node where two trees differ; nil: nowhere. Places and
// comments are not compared: the bytes outside the change are the same.
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

// altered copies the document's tree with one node changed.
func (d *document) altered(n *yaml.Node, change func(*yaml.Node)) *yaml.Node {
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

// replaceText changes bytes a to b of a scalar's value, in its own style.
func (d *document) replaceText(n *yaml.Node, a, b int, with string) (splice, error) {
	if err := d.unshared(n); err != nil {
		return splice{}, err
	}
	t, err := d.text(n)
	if err != nil {
		return splice{}, err
	}
	value := n.Value[:a] + with + n.Value[b:]
	s := splice{want: d.altered(n, func(c *yaml.Node) { c.Value = value })}
	if a == b {
		s.start, s.with, err = t.insert(a, with)
		s.end = s.start
	} else {
		s.start, s.end = t.span(a, b)
		s.with, err = t.rewrite(a, with)
	}
	if err != nil {
		return splice{}, d.invalid(n, "cannot be edited safely: "+err.Error())
	}
	return s, nil
}

// setScalar changes a whole scalar. It keeps the quotes it has, and gets some
// when the bare word would be no text any more.
func (d *document) setScalar(n *yaml.Node, value string) (splice, error) {
	return d.setAs(n, value, n.ShortTag())
}

// setAny changes a scalar that may become a number or a text, as in a file of
// settings: a bare word stays one unless it would be a truth value or nothing.
func (d *document) setAny(n *yaml.Node, value string) (splice, error) {
	tag := plainTag(value)
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 || n.ShortTag() != tag && tag != "!!int" && tag != "!!float" {
		tag = "!!str"
	}
	return d.setAs(n, value, tag)
}

func (d *document) setAs(n *yaml.Node, value, tag string) (splice, error) {
	if err := d.unshared(n); err != nil {
		return splice{}, err
	}
	if strings.Contains(n.Value, "{{") || n.Kind == yaml.ScalarNode && n.Style&yaml.TaggedStyle != 0 {
		return splice{}, d.invalid(n, "is filled in by a template or has a tag: change it where it comes from")
	}
	t, err := d.text(n)
	if err != nil {
		return splice{}, err
	}
	with := written(value, t.style, tag, "")
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return splice{}, d.invalid(n, "is a block of text, not a value")
	}
	want := d.altered(n, func(c *yaml.Node) {
		c.Value, c.Tag = value, tag
		if tag != "!!str" {
			c.Tag = plainTag(value)
		}
	})
	return splice{start: t.start, end: t.end, with: with, want: want}, nil
}

// written writes a value in a style; other is the quote for texts whose bare
// word would mean something else.
func written(value string, style yaml.Style, tag, other string) string {
	switch {
	case style&yaml.DoubleQuotedStyle != 0:
		return doubleQuoted(value)
	case style&yaml.SingleQuotedStyle != 0:
		return "'" + strings.ReplaceAll(value, "'", "''") + "'"
	case tag != "!!str" || plainText(value):
		return value
	case other == "'":
		return "'" + strings.ReplaceAll(value, "'", "''") + "'"
	}
	return doubleQuoted(value)
}

func doubleQuoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// truth are the words that YAML 1.1 takes for true and false. Kubernetes and Helm
// read that, our parser does not.
var truth = regexp.MustCompile(`^(?i:y|n|yes|no|on|off)$`)

// plainText reports whether the bare word is that text, in flow and in block.
func plainText(s string) bool {
	if s == "" || truth.MatchString(s) || strings.ContainsAny(s, "\n\r\t[]{},#&*!|>'\"%@`") || strings.Contains(s, ": ") || strings.HasSuffix(s, ":") {
		return false
	}
	var n yaml.Node
	if yaml.Unmarshal([]byte("["+s+"]"), &n) != nil || len(n.Content) != 1 || len(n.Content[0].Content) != 1 {
		return false
	}
	item := n.Content[0].Content[0]
	return item.Kind == yaml.ScalarNode && item.Value == s && item.ShortTag() == "!!str"
}

// plainTag is what YAML takes a bare word for.
func plainTag(s string) string {
	return (&yaml.Node{Kind: yaml.ScalarNode, Value: s}).ShortTag()
}

// unshared refuses a node that stands in two places: it, or what holds it, has
// an anchor that is used elsewhere.
func (d *document) unshared(n *yaml.Node) error {
	path := pathTo(d.root, n)
	if path == nil {
		return d.invalid(nil, "does not hold what is to be changed") // unreachable unless a caller mixes two readings
	}
	for _, holder := range path {
		if holder.Anchor == "" {
			continue
		}
		if user := aliasOf(d.root, holder); user != nil {
			line, column := d.position(user)
			return d.invalid(holder, fmt.Sprintf("the anchor &%s is used again at %s:%d:%d: a change here would change both; write the value out in one of them",
				clip(holder.Anchor), d.file, line, column))
		}
	}
	return nil
}

// pathTo gives the nodes from the root to n, both included; nil: not in it.
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

// rewrite writes text that takes the place of bytes from a on.
func (t *text) rewrite(a int, s string) (string, error) {
	w, err := t.write(s)
	if err == nil && t.indent > 0 && (a == 0 || t.value[a-1] == '\n') && strings.HasSuffix(s, "\n") {
		w = strings.Repeat(" ", t.indent) + strings.TrimSuffix(w, strings.Repeat(" ", t.indent))
	}
	return w, err
}
