package edit

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// end returns where a node's text ends, or an error if that is not certain.
func (d *Document) end(n *yaml.Node) (int, error) {
	switch {
	case n.Kind == yaml.ScalarNode:
		t, err := d.text(n)
		if err != nil {
			return 0, err
		}
		if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			return len(bytes.TrimRight(d.Data[:t.end], "\r\n")), nil
		}
		return t.end, nil
	case n.Kind == yaml.AliasNode:
		return d.offset(n) + 1 + len(n.Value), nil
	case n.Style&yaml.FlowStyle != 0:
		return d.closing(n)
	case len(n.Content) == 0:
		return 0, d.Invalid(n, "is empty")
	}
	return d.end(n.Content[len(n.Content)-1])
}

// closing returns where a flow sequence or mapping ends, after its bracket.
func (d *Document) closing(n *yaml.Node) (int, error) {
	i := d.offset(n)
	if len(n.Content) > 0 {
		var err error
		if i, err = d.end(n.Content[len(n.Content)-1]); err != nil {
			return 0, err
		}
	} else {
		for i < len(d.Data) && d.Data[i] != '[' && d.Data[i] != '{' {
			i++
		}
		i++
	}
	for ; i < len(d.Data); i++ {
		switch c := d.Data[i]; {
		case c == ']' || c == '}':
			return i + 1, nil
		case c == '#':
			for i+1 < len(d.Data) && d.Data[i+1] != '\n' {
				i++
			}
		case c != ',' && c != ' ' && c != '\t' && c != '\n' && c != '\r':
			return 0, d.Invalid(n, "is written in a way that cannot be edited safely")
		}
	}
	return 0, d.Invalid(n, "does not end")
}

// lineEnd returns the end of the line of an offset, before its line break.
func (d *Document) lineEnd(at int) int {
	if i := bytes.IndexByte(d.Data[at:], '\n'); i >= 0 {
		at += i
		if at > 0 && d.Data[at-1] == '\r' {
			at--
		}
		return at
	}
	return len(d.Data)
}

func (d *Document) newline() string {
	if bytes.Contains(d.Data, []byte("\r\n")) {
		return "\r\n"
	}
	return "\n"
}

// AppendItems adds texts to the end of a sequence, in the sequence's style.
func (d *Document) AppendItems(seq *yaml.Node, values ...string) (Splice, error) {
	if err := d.unshared(seq); err != nil {
		return Splice{}, err
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
		return Splice{}, err
	}
	end, err := d.end(last)
	if err != nil {
		return Splice{}, err
	}
	indent := strings.Repeat(" ", d.columnOf(dash))
	at := d.lineEnd(end)
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(d.newline() + indent + "-" + gap + t)
	}
	return Splice{start: at, end: at, with: b.String(), want: want}, nil
}

// columnOf returns the number of characters before an offset in its line.
func (d *Document) columnOf(at int) int {
	begin := bytes.LastIndexByte(d.Data[:at], '\n') + 1
	return len([]rune(string(d.Data[begin:at])))
}

// dash returns where the dash of an item of a block sequence is, and the blanks
// between the dash and the item.
func (d *Document) dash(item *yaml.Node) (at int, gap string, err error) {
	begin := d.offset(item)
	at = begin - 1
	for at >= 0 && isBlank(d.Data[at]) {
		at--
	}
	if at < 0 || d.Data[at] != '-' || begin == at+1 {
		return 0, "", d.Invalid(item, "is an item written in a way that cannot be edited safely: put it on the line of its dash")
	}
	return at, string(d.Data[at+1 : begin]), nil
}

// flowItems adds items to a flow sequence: [a, b].
func (d *Document) flowItems(seq *yaml.Node, tokens []string, want *yaml.Node) (Splice, error) {
	n := len(seq.Content)
	if n == 0 {
		close, err := d.closing(seq)
		if err != nil {
			return Splice{}, err
		}
		return Splice{start: close - 1, end: close - 1, with: strings.Join(tokens, ", "), want: want}, nil
	}
	end, err := d.end(seq.Content[n-1])
	if err != nil {
		return Splice{}, err
	}
	sep := ", "
	if n > 1 {
		before, err := d.end(seq.Content[n-2])
		if err != nil {
			return Splice{}, err
		}
		if between := string(d.Data[before:d.offset(seq.Content[n-1])]); strings.Trim(between, ", \r\n\t") == "" {
			sep = between
		}
	}
	return Splice{start: end, end: end, with: sep + strings.Join(tokens, sep), want: want}, nil
}

// listStyle returns the style of a sequence's flags and the quote that it uses.
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

// valueStyle returns the style of the values that follow their flags.
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

// RemoveItems removes items first to last of a sequence.
func (d *Document) RemoveItems(seq *yaml.Node, first, last int) (Splice, error) {
	if err := d.unshared(seq); err != nil {
		return Splice{}, err
	}
	want := d.altered(seq, func(c *yaml.Node) { c.Content = append(c.Content[:first:first], c.Content[last+1:]...) })
	end, err := d.end(seq.Content[last])
	if err != nil {
		return Splice{}, err
	}
	if seq.Style&yaml.FlowStyle == 0 {
		dash, _, err := d.dash(seq.Content[first])
		if err != nil {
			return Splice{}, err
		}
		return d.removeLines(seq.Content[first], dash, end, want)
	}
	begin := d.offset(seq.Content[first])
	switch {
	case first > 0:
		if begin, err = d.end(seq.Content[first-1]); err != nil {
			return Splice{}, err
		}
	case last+1 < len(seq.Content):
		end = d.offset(seq.Content[last+1])
	}
	return Splice{start: begin, end: end, want: want}, nil
}

// removeLines removes the lines of the range from begin to end. For the last
// line of a file that ends without a line break, it removes the break before it.
func (d *Document) removeLines(n *yaml.Node, begin, end int, want *yaml.Node) (Splice, error) {
	start := bytes.LastIndexByte(d.Data[:begin], '\n') + 1
	if len(bytes.TrimLeft(d.Data[start:begin], " ")) > 0 {
		return Splice{}, d.Invalid(n, "stands on a line with something else: remove it by hand")
	}
	stop := d.lineEnd(end)
	switch {
	case stop < len(d.Data):
		stop += len(d.newline())
	case start > 0:
		start -= len(d.newline())
	}
	return Splice{start: start, end: stop, want: want}, nil
}

// AppendPair adds a mapping of name and value to a sequence of such mappings.
func (d *Document) AppendPair(seq *yaml.Node, name, value string) (Splice, error) {
	if err := d.unshared(seq); err != nil {
		return Splice{}, err
	}
	last := seq.Content[len(seq.Content)-1]
	dash, gap, err := d.dash(last)
	if err != nil {
		return Splice{}, err
	}
	end, err := d.end(last)
	if err != nil {
		return Splice{}, err
	}
	scalar := func(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
	want := d.altered(seq, func(c *yaml.Node) {
		c.Content = append(c.Content, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{
			scalar("name"), scalar(name), scalar("value"), scalar(value),
		}})
	})
	style, quote := yaml.Style(0), ""
	if v := Get(last, "value"); IsText(v) {
		style = v.Style
		if style&yaml.SingleQuotedStyle != 0 {
			quote = "'"
		}
	}
	indent := d.columnOf(dash)
	with := fmt.Sprintf("%s%*s-%sname: %s", d.newline(), indent, "", gap, name)
	with += fmt.Sprintf("%s%*svalue: %s", d.newline(), indent+1+len(gap), "", written(value, style, "!!str", quote))
	if last.Style&yaml.FlowStyle != 0 {
		with = fmt.Sprintf("%s%*s-%s{name: %s, value: %s}", d.newline(), indent, "", gap, name, written(value, style, "!!str", quote))
	}
	at := d.lineEnd(end)
	return Splice{start: at, end: at, with: with, want: want}, nil
}
