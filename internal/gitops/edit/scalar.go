package edit

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// text is a scalar as written. It records where each byte of the value comes from.
type text struct {
	value      string
	from, to   []int // range of the document that each byte of the value is written as
	start, end int   // range of the token
	style      yaml.Style
	indent     int  // of a block's content
	strip      bool // a block with |- or >-: the value ends without a line break
	breaks     string
}

// scanner reads one scalar token.
type scanner struct {
	src []byte
	pos int
	out []byte
	t   *text
}

// text returns the exact bytes of a scalar. It returns an error if reading them
// again does not result in the scalar's value: such a scalar is not edited.
func (d *Document) text(n *yaml.Node) (*text, error) {
	if d.plain {
		return d.plainScalar(n), nil
	}
	at := d.offset(n)
	if n.Kind != yaml.ScalarNode || at < 0 {
		return nil, d.Invalid(n, "is not a plain value")
	}
	s := &scanner{src: d.Data, pos: at, t: &text{style: n.Style &^ yaml.TaggedStyle, breaks: "\n"}}
	if bytes.Contains(d.Data, []byte("\r\n")) {
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
		return nil, d.Invalid(n, "is written in a way that cannot be edited safely: write the value on one line")
	}
	s.t.end, s.t.value = s.pos, n.Value
	return s.t, nil
}

// plainScalar returns the text of a file that is not YAML: each byte is written
// as itself.
func (d *Document) plainScalar(n *yaml.Node) *text {
	t := &text{value: n.Value, end: len(d.Data), from: make([]int, len(d.Data)), to: make([]int, len(d.Data))}
	for i := range d.Data {
		t.from[i], t.to[i] = i, i+1
	}
	return t
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func (s *scanner) at(i int) byte {
	if i < len(s.src) {
		return s.src[i]
	}
	return 0
}

// emit adds bytes of the value, which are written as the next size bytes.
func (s *scanner) emit(value string, size int) {
	for i := range len(value) {
		s.out = append(s.out, value[i])
		s.t.from = append(s.t.from, s.pos)
		s.t.to = append(s.t.to, s.pos+size)
	}
	s.pos += size
}

// properties skips an anchor and a tag before the token.
func (s *scanner) properties() bool {
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

// lineBreak returns the size of the line break at i, or 0.
func (s *scanner) lineBreak(i int) int {
	switch {
	case s.at(i) == '\n':
		return 1
	case s.at(i) == '\r' && s.at(i+1) == '\n':
		return 2
	}
	return 0
}

// fold reads the line breaks inside a plain or quoted scalar and the blanks
// around them. One break means a space; each further one means a line break.
func (s *scanner) fold(escaped bool) bool {
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

func (s *scanner) plain(value string) bool {
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

func (s *scanner) quoted(quote byte) bool {
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

func (s *scanner) escape() bool {
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

// insert returns where and how text is written that is inserted before byte i
// of the value.
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
		// The last line break belongs to the value, so the text begins a new line.
		return t.to[i-1], pad + strings.TrimSuffix(written, pad), nil
	case block && lineStart:
		return t.to[i-1], pad + written, nil
	}
	return t.to[i-1], written, nil
}

// span returns the range of the document that bytes a to b of the value are
// written as.
func (t *text) span(a, b int) (start, end int) {
	start, end = t.from[a], t.to[b-1]
	wholeLines := (a == 0 || t.value[a-1] == '\n') && t.value[b-1] == '\n'
	if t.indent > 0 && wholeLines {
		start -= t.indent
	}
	return start, end
}

// write returns text in the scalar's style.
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

// block reads a literal (|) or folded (>) block scalar.
func (s *scanner) block(value string, folded bool) bool {
	explicit, chomp, ok := s.blockHeader()
	if !ok {
		return false
	}
	body := s.pos
	last := s.blockIndent()
	first := last
	if explicit {
		first = 1 // relative to the parent, which is not known here: try each
	}
	for indent := first; indent <= last; indent++ {
		s.pos, s.out, s.t.from, s.t.to = body, nil, nil, nil
		s.t.indent, s.t.strip = indent, chomp == '-'
		s.blockBody(indent, folded, chomp)
		if string(s.out) == value {
			return true
		}
	}
	return false
}

// blockHeader reads the line with | or >.
func (s *scanner) blockHeader() (explicit bool, chomp byte, ok bool) {
	if c := s.at(s.pos); c != '|' && c != '>' {
		return false, 0, false
	}
	for s.pos++; ; s.pos++ {
		switch c := s.at(s.pos); {
		case c == '-' || c == '+':
			chomp = c
		case c >= '1' && c <= '9':
			explicit = true
		default:
			for s.pos < len(s.src) && s.lineBreak(s.pos) == 0 {
				s.pos++ // blanks and a comment
			}
			s.pos += s.lineBreak(s.pos)
			return explicit, chomp, true
		}
	}
}

// blockIndent returns the indentation of the first line with content.
func (s *scanner) blockIndent() int {
	for i := s.pos; i < len(s.src); {
		begin := i
		for s.at(i) == ' ' {
			i++
		}
		if size := s.lineBreak(i); size > 0 {
			i += size
			continue
		}
		return i - begin
	}
	return 0
}

// pendingBreak is a line break whose meaning depends on what follows it.
type pendingBreak struct{ at, size int }

// blankLines reads lines without content.
func (s *scanner) blankLines(indent int, trail []pendingBreak) []pendingBreak {
	for {
		i := s.pos
		for i-s.pos < indent && s.at(i) == ' ' {
			i++
		}
		size := s.lineBreak(i)
		if size == 0 {
			return trail
		}
		trail = append(trail, pendingBreak{i, size})
		s.pos = i + size
	}
}

// blockBody reads the lines of a block as the YAML parser does: a line break is
// pending until the next line is known.
func (s *scanner) blockBody(indent int, folded bool, chomp byte) {
	var lead *pendingBreak
	var trail []pendingBreak
	leadBlank := false
	flush := func(h pendingBreak) {
		end := s.pos
		s.pos = h.at
		s.emit("\n", h.size)
		s.pos = end
	}
	end := s.pos
	for trail = s.blankLines(indent, trail); s.indented(indent); trail = s.blankLines(indent, trail) {
		s.pos += indent
		blank := isBlank(s.at(s.pos))
		if folded && lead != nil && !leadBlank && !blank {
			if len(trail) == 0 {
				at := s.pos
				s.pos = lead.at
				s.emit(" ", at-lead.at)
			}
		} else if lead != nil {
			flush(*lead)
		}
		for _, h := range trail {
			flush(h)
		}
		lead, trail, leadBlank = nil, nil, blank
		for s.pos < len(s.src) && s.lineBreak(s.pos) == 0 {
			s.emit(string(s.src[s.pos:s.pos+1]), 1)
		}
		end = s.pos
		if size := s.lineBreak(s.pos); size > 0 {
			lead = &pendingBreak{s.pos, size}
			s.pos += size
			end = s.pos
		}
	}
	if lead != nil && chomp != '-' {
		flush(*lead)
	}
	if chomp == '+' {
		for _, h := range trail {
			flush(h)
		}
		end = s.pos
	}
	s.pos = end
}

// indented reports whether a line with content begins here.
func (s *scanner) indented(indent int) bool {
	if s.pos+indent >= len(s.src) {
		return false
	}
	return indent == 0 || strings.Trim(string(s.src[s.pos:s.pos+indent]), " ") == ""
}

// rewrite returns text that replaces bytes from a on.
func (t *text) rewrite(a int, s string) (string, error) {
	w, err := t.write(s)
	if err == nil && t.indent > 0 && (a == 0 || t.value[a-1] == '\n') && strings.HasSuffix(s, "\n") {
		w = strings.Repeat(" ", t.indent) + strings.TrimSuffix(w, strings.Repeat(" ", t.indent))
	}
	return w, err
}
