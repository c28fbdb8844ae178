package gitops

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// end is where a node's text ends, or an error where that is not certain.
func (d *document) end(n *yaml.Node) (int, error) {
	switch {
	case n.Kind == yaml.ScalarNode:
		t, err := d.text(n)
		if err != nil {
			return 0, err
		}
		if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			return len(bytes.TrimRight(d.data[:t.end], "\r\n")), nil
		}
		return t.end, nil
	case n.Kind == yaml.AliasNode:
		return d.offset(n) + 1 + len(n.Value), nil
	case n.Style&yaml.FlowStyle != 0:
		return d.closing(n)
	case len(n.Content) == 0:
		return 0, d.invalid(n, "is empty")
	}
	return d.end(n.Content[len(n.Content)-1])
}

// closing is where a flow list or mapping ends, behind its bracket.
func (d *document) closing(n *yaml.Node) (int, error) {
	i := d.offset(n)
	if len(n.Content) > 0 {
		var err error
		if i, err = d.end(n.Content[len(n.Content)-1]); err != nil {
			return 0, err
		}
	} else {
		for i < len(d.data) && d.data[i] != '[' && d.data[i] != '{' {
			i++
		}
		i++
	}
	for ; i < len(d.data); i++ {
		switch c := d.data[i]; {
		case c == ']' || c == '}':
			return i + 1, nil
		case c == '#':
			for i+1 < len(d.data) && d.data[i+1] != '\n' {
				i++
			}
		case c != ',' && c != ' ' && c != '\t' && c != '\n' && c != '\r':
			return 0, d.invalid(n, "is written in a way that cannot be edited safely")
		}
	}
	return 0, d.invalid(n, "does not end")
}

// lineEnd is the end of the line of an offset, before its break.
func (d *document) lineEnd(at int) int {
	if i := bytes.IndexByte(d.data[at:], '\n'); i >= 0 {
		at += i
		if at > 0 && d.data[at-1] == '\r' {
			at--
		}
		return at
	}
	return len(d.data)
}

func (d *document) newline() string {
	if bytes.Contains(d.data, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// items adds texts to the end of a list, in the list's own style.
func (d *document) items(seq *yaml.Node, values ...string) (splice, error) {
	if err := d.unshared(seq); err != nil {
		return splice{}, err
	}
	want := d.altered(seq, func(c *yaml.Node) {
		for _, v := range values {
			c.Content = append(c.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v})
		}
	})
	style, quote := listStyle(seq)
	tokens := make([]string, len(values))
	for i, v := range values {
		s := style
		if !strings.HasPrefix(v, "-") && len(values) > 1 && i > 0 {
			s = valueStyle(seq, style)
		}
		tokens[i] = written(v, s, "!!str", quote)
	}
	if seq.Style&yaml.FlowStyle != 0 {
		return d.flowItems(seq, tokens, want)
	}
	last := seq.Content[len(seq.Content)-1]
	dash, gap, err := d.dash(last)
	if err != nil {
		return splice{}, err
	}
	end, err := d.end(last)
	if err != nil {
		return splice{}, err
	}
	indent := strings.Repeat(" ", d.columnOf(dash))
	at := d.lineEnd(end)
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(d.newline() + indent + "-" + gap + t)
	}
	return splice{start: at, end: at, with: b.String(), want: want}, nil
}

// columnOf counts the characters before an offset in its line.
func (d *document) columnOf(at int) int {
	begin := bytes.LastIndexByte(d.data[:at], '\n') + 1
	return len([]rune(string(d.data[begin:at])))
}

// dash finds the dash of an item of a block list and what is between both.
func (d *document) dash(item *yaml.Node) (at int, gap string, err error) {
	begin := d.offset(item)
	at = begin - 1
	for at >= 0 && isBlank(d.data[at]) {
		at--
	}
	if at < 0 || d.data[at] != '-' || begin == at+1 {
		return 0, "", d.invalid(item, "is an item written in a way that cannot be edited safely: put it on the line of its dash")
	}
	return at, string(d.data[at+1 : begin]), nil
}

// flowItems adds to [a, b].
func (d *document) flowItems(seq *yaml.Node, tokens []string, want *yaml.Node) (splice, error) {
	n := len(seq.Content)
	if n == 0 {
		close, err := d.closing(seq)
		if err != nil {
			return splice{}, err
		}
		return splice{start: close - 1, end: close - 1, with: strings.Join(tokens, ", "), want: want}, nil
	}
	end, err := d.end(seq.Content[n-1])
	if err != nil {
		return splice{}, err
	}
	sep := ", "
	if n > 1 {
		before, err := d.end(seq.Content[n-2])
		if err != nil {
			return splice{}, err
		}
		if between := string(d.data[before:d.offset(seq.Content[n-1])]); strings.Trim(between, ", \r\n\t") == "" {
			sep = between
		}
	}
	return splice{start: end, end: end, with: sep + strings.Join(tokens, sep), want: want}, nil
}

// listStyle is how a list writes its flags, and the quote it uses at all.
func listStyle(seq *yaml.Node) (style yaml.Style, quote string) {
	const quotes = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle
	if seq.Style&yaml.FlowStyle != 0 {
		style = yaml.DoubleQuotedStyle // an empty [] may be JSON
	}
	for _, item := range seq.Content {
		if item.Kind != yaml.ScalarNode {
			continue
		}
		if item.Style&yaml.SingleQuotedStyle != 0 {
			quote = "'"
		} else if item.Style&yaml.DoubleQuotedStyle != 0 {
			quote = `"`
		}
		style = item.Style & quotes
	}
	for _, item := range seq.Content {
		if item.Kind == yaml.ScalarNode && strings.HasPrefix(item.Value, "--") {
			style = item.Style & quotes
		}
	}
	return style, quote
}

// valueStyle is how a list writes the values that follow their flags.
func valueStyle(seq *yaml.Node, style yaml.Style) yaml.Style {
	for i, item := range seq.Content {
		if i > 0 && item.Kind == yaml.ScalarNode && !strings.HasPrefix(item.Value, "-") && strings.HasPrefix(seq.Content[i-1].Value, "--") {
			if quoted := item.Style & (yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle); quoted != 0 {
				return quoted
			}
		}
	}
	return style
}

// without removes items first to last of a list.
func (d *document) without(seq *yaml.Node, first, last int) (splice, error) {
	if err := d.unshared(seq); err != nil {
		return splice{}, err
	}
	want := d.altered(seq, func(c *yaml.Node) { c.Content = append(c.Content[:first:first], c.Content[last+1:]...) })
	end, err := d.end(seq.Content[last])
	if err != nil {
		return splice{}, err
	}
	if seq.Style&yaml.FlowStyle == 0 {
		dash, _, err := d.dash(seq.Content[first])
		if err != nil {
			return splice{}, err
		}
		return d.withoutLines(seq.Content[first], dash, end, want)
	}
	begin := d.offset(seq.Content[first])
	switch {
	case first > 0:
		if begin, err = d.end(seq.Content[first-1]); err != nil {
			return splice{}, err
		}
	case last+1 < len(seq.Content):
		end = d.offset(seq.Content[last+1])
	}
	return splice{start: begin, end: end, want: want}, nil
}

// withoutLines removes the lines from the one of begin to the one of end. The
// last line of a file without a final break takes the break before it along.
func (d *document) withoutLines(n *yaml.Node, begin, end int, want *yaml.Node) (splice, error) {
	start := bytes.LastIndexByte(d.data[:begin], '\n') + 1
	if len(bytes.TrimLeft(d.data[start:begin], " ")) > 0 {
		return splice{}, d.invalid(n, "stands on a line with something else: remove it by hand")
	}
	stop := d.lineEnd(end)
	switch {
	case stop < len(d.data):
		stop += len(d.newline())
	case start > 0:
		start -= len(d.newline())
	}
	return splice{start: start, end: stop, want: want}, nil
}

// key adds a key to a mapping. value is YAML on one line, and means node.
func (d *document) key(m *yaml.Node, name, value string, node *yaml.Node) (splice, error) {
	if err := d.unshared(m); err != nil {
		return splice{}, err
	}
	if len(m.Content) == 0 {
		return splice{}, d.invalid(m, "is empty: there is no style to follow")
	}
	want := d.altered(m, func(c *yaml.Node) {
		c.Content = append(c.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, node)
	})
	end, err := d.end(m.Content[len(m.Content)-1])
	if err != nil {
		return splice{}, err
	}
	if m.Style&yaml.FlowStyle != 0 {
		if m.Content[0].Style&yaml.DoubleQuotedStyle != 0 {
			name = doubleQuoted(name)
		}
		return splice{start: end, end: end, with: ", " + name + ": " + value, want: want}, nil
	}
	at := d.lineEnd(end)
	indent := strings.Repeat(" ", d.columnOf(d.offset(m.Content[0])))
	return splice{start: at, end: at, with: d.newline() + indent + name + ": " + value, want: want}, nil
}

// withoutKey removes the i-th pair of a mapping.
func (d *document) withoutKey(m *yaml.Node, i int) (splice, error) {
	if err := d.unshared(m); err != nil {
		return splice{}, err
	}
	want := d.altered(m, func(c *yaml.Node) { c.Content = append(c.Content[:i:i], c.Content[i+2:]...) })
	end, err := d.end(m.Content[i+1])
	if err != nil {
		return splice{}, err
	}
	if m.Style&yaml.FlowStyle == 0 {
		return d.withoutLines(m.Content[i], d.offset(m.Content[i]), end, want)
	}
	if i == 0 {
		return splice{}, d.invalid(m, "would lose its first key: remove it by hand")
	}
	begin, err := d.end(m.Content[i-1])
	if err != nil {
		return splice{}, err
	}
	return splice{start: begin, end: end, want: want}, nil
}
