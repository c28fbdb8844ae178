package gitops

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// text is a scalar as it is written: where each byte of its value comes from.
type text struct {
	value      string
	from, to   []int // bytes of the document that each byte of the value is written as
	start, end int   // of the whole token
	style      yaml.Style
	indent     int  // of a block's content
	strip      bool // a block that says |- or >-: its value ends without a line break
	breaks     string
}

// scan reads one scalar token.
type scan struct {
	src []byte
	pos int
	out []byte
	t   *text
}

// text finds the exact bytes of a scalar and proves that they mean its value;
// where they do not, the scalar is not edited.
func (d *document) text(n *yaml.Node) (*text, error) {
	if d.plain {
		return d.literally(n), nil
	}
	at := d.offset(n)
	if n.Kind != yaml.ScalarNode || at < 0 {
		return nil, d.invalid(n, "is not a plain value")
	}
	s := &scan{src: d.data, pos: at, t: &text{style: n.Style &^ yaml.TaggedStyle, breaks: "\n"}}
	if bytes.Contains(d.data, []byte("\r\n")) {
		s.t.breaks = "\r\n"
	}
	ok := s.properties()
	s.t.start = s.pos
	switch {
	case !ok:
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		ok = s.block(n.Value, n.Style&yaml.FoldedStyle != 0)
	case n.Style&yaml.DoubleQuotedStyle != 0:
		ok = s.quoted('"')
	case n.Style&yaml.SingleQuotedStyle != 0:
		ok = s.quoted('\'')
	default:
		ok = s.plain(n.Value)
	}
	if !ok || string(s.out) != n.Value {
		return nil, d.invalid(n, "is written in a way that cannot be edited safely: write the value on one line")
	}
	s.t.end, s.t.value = s.pos, n.Value
	return s.t, nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func (s *scan) at(i int) byte {
	if i < len(s.src) {
		return s.src[i]
	}
	return 0
}

// emit adds bytes of the value that are written as the next size bytes.
func (s *scan) emit(value string, size int) {
	for i := range len(value) {
		s.out = append(s.out, value[i])
		s.t.from = append(s.t.from, s.pos)
		s.t.to = append(s.t.to, s.pos+size)
	}
	s.pos += size
}

// properties skips an anchor and a tag before the token.
func (s *scan) properties() bool {
	for s.at(s.pos) == '&' || s.at(s.pos) == '!' {
		for s.pos < len(s.src) && !strings.ContainsRune(" \t\r\n", rune(s.src[s.pos])) {
			s.pos++
		}
		for isBlank(s.at(s.pos)) {
			s.pos++
		}
		if c := s.at(s.pos); c == '\n' || c == '\r' || c == '#' {
			return false
		}
	}
	return true
}

// lineBreak gives the size of the line break at i; 0: none.
func (s *scan) lineBreak(i int) int {
	switch {
	case s.at(i) == '\n':
		return 1
	case s.at(i) == '\r' && s.at(i+1) == '\n':
		return 2
	}
	return 0
}

// fold reads a line break inside a plain or quoted scalar with the blanks
// around it: one break is a space, each further one a line break.
func (s *scan) fold(escaped bool) bool {
	i, count := s.pos, 0
	for {
		for isBlank(s.at(i)) {
			i++
		}
		size := s.lineBreak(i)
		if size == 0 {
			break
		}
		i += size
		count++
	}
	switch {
	case count == 0:
		return false
	case escaped:
		s.emit(strings.Repeat("\n", count-1), i-s.pos)
	case count == 1:
		s.emit(" ", i-s.pos)
	default:
		s.emit(strings.Repeat("\n", count-1), i-s.pos)
	}
	return true
}

func (s *scan) plain(value string) bool {
	for len(s.out) < len(value) {
		if s.fold(false) {
			continue
		}
		if s.pos >= len(s.src) || s.src[s.pos] != value[len(s.out)] {
			return false
		}
		s.emit(string(s.src[s.pos:s.pos+1]), 1)
	}
	return true
}

func (s *scan) quoted(quote byte) bool {
	if s.at(s.pos) != quote {
		return false
	}
	s.pos++
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		switch {
		case c == quote && quote == '\'' && s.at(s.pos+1) == '\'':
			s.emit("'", 2)
		case c == quote:
			s.pos++
			return true
		case c == '\\' && quote == '"':
			if !s.escape() {
				return false
			}
		default:
			if !s.fold(false) {
				s.emit(string(s.src[s.pos:s.pos+1]), 1)
			}
		}
	}
	return false
}

var escapes = map[byte]string{
	'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", '\t': "\t", 'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r",
	'e': "\x1b", ' ': " ", '"': `"`, '/': "/", '\\': `\`, 'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029",
}

func (s *scan) escape() bool {
	c := s.at(s.pos + 1)
	if s.lineBreak(s.pos+1) > 0 {
		s.pos++
		return s.fold(true)
	}
	if v, known := escapes[c]; known {
		s.emit(v, 2)
		return true
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	if digits == 0 || s.pos+2+digits > len(s.src) {
		return false
	}
	r, err := strconv.ParseUint(string(s.src[s.pos+2:s.pos+2+digits]), 16, 32)
	if err != nil {
		return false
	}
	s.emit(string(rune(r)), 2+digits)
	return true
}

// insert gives where text is written when it comes before byte i of the value,
// and how.
func (t *text) insert(i int, s string) (at int, written string, err error) {
	block := t.style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	lineStart := i > 0 && t.value[i-1] == '\n'
	pad := strings.Repeat(" ", t.indent)
	written, err = t.write(s)
	switch {
	case err != nil:
		return 0, "", err
	case len(t.value) == 0 && block:
		return 0, "", fmt.Errorf("an empty block has no line to add to")
	case len(t.value) == 0 && t.start == t.end:
		return t.start, written, nil
	case len(t.value) == 0:
		return t.start + 1, written, nil
	case i < len(t.value):
		return t.from[i], written, nil
	case block && lineStart && strings.HasSuffix(s, "\n"):
		// The last line break is the value's own: what follows it begins a line.
		return t.to[i-1], pad + strings.TrimSuffix(written, pad), nil
	case block && lineStart:
		return t.to[i-1], pad + written, nil
	}
	return t.to[i-1], written, nil
}

// span gives the bytes of the document that bytes a to b of the value are
// written as.
func (t *text) span(a, b int) (start, end int) {
	start, end = t.from[a], t.to[b-1]
	wholeLines := (a == 0 || t.value[a-1] == '\n') && t.value[b-1] == '\n'
	if t.indent > 0 && wholeLines {
		start -= t.indent
	}
	return start, end
}

// write writes text in the scalar's style.
func (t *text) write(s string) (string, error) {
	switch t.style {
	case yaml.DoubleQuotedStyle:
		return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s), nil
	case yaml.LiteralStyle:
		return strings.ReplaceAll(s, "\n", t.breaks+strings.Repeat(" ", t.indent)), nil
	}
	if strings.Contains(s, "\n") {
		return "", fmt.Errorf("it has no room for another line")
	}
	if t.style == yaml.SingleQuotedStyle {
		return strings.ReplaceAll(s, "'", "''"), nil
	}
	return s, nil
}
