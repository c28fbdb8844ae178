package playbook

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// plain returns the index of the first byte from i on that is not printable
// ASCII or is a quote or backslash. It checks eight bytes at a time.
func plain(data []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for i+8 <= len(data) {
		w := binary.LittleEndian.Uint64(data[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		// The top bit of a byte in found is set if the byte is below 0x20, a
		// quote, a backslash or not ASCII. A borrow can also set bits, but only
		// above the first such byte.
		found := (w - ones*0x20) | (quote - ones) | (slash - ones) | w
		if found &= tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
		i += 8
	}
	for i < len(data) && data[i] >= 0x20 && data[i] < 0x80 && data[i] != '"' && data[i] != '\\' {
		i++
	}
	return i
}

// str reads and validates a string literal: UTF-8, escapes, no control
// characters.
func (s *Scanner) str(want string) (span, *FieldError) {
	if c := s.peek(); c != '"' {
		return span{}, s.fail("want " + want + ", not " + s.next(c))
	}
	s.pos++
	sp := span{from: s.pos}
	for {
		s.pos = plain(s.data, s.pos)
		if s.pos >= len(s.data) {
			return sp, s.fail("the message ends inside a string")
		}
		switch c := s.data[s.pos]; {
		case c == '"':
			sp.to = s.pos
			s.pos++
			return sp, nil
		case c == '\\':
			sp.escaped = true
			if err := s.escape(); err != nil {
				return sp, err
			}
		case c < 0x20:
			return sp, s.fail("unescaped control character in a string")
		default:
			r, size := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return sp, s.fail("invalid UTF-8 in a string")
			}
			s.pos += size
		}
	}
}

// escape validates and skips one escape sequence, or a surrogate pair.
func (s *Scanner) escape() *FieldError {
	rest := s.data[s.pos:]
	if len(rest) < 2 {
		return s.fail("the message ends inside a string")
	}
	if rest[1] != 'u' {
		if strings.IndexByte(`"\/bfnrt`, rest[1]) < 0 {
			return s.fail("unknown escape sequence in a string")
		}
		s.pos += 2
		return nil
	}
	_, size := unicodeEscape(rest)
	if size == 0 {
		return s.fail("invalid \\u escape sequence in a string")
	}
	s.pos += size
	return nil
}

// unicodeEscape decodes \uXXXX, or a surrogate pair of two, at the start of
// text. Its size is 0 if text starts otherwise.
func unicodeEscape(text []byte) (rune, int) {
	first := hex4(text)
	if first < 0 || !utf16.IsSurrogate(first) {
		return first, 6 * btoi(first >= 0)
	}
	if len(text) < 12 {
		return 0, 0
	}
	r := utf16.DecodeRune(first, hex4(text[6:]))
	return r, 12 * btoi(r != utf8.RuneError)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// hex4 decodes \uXXXX at the start of text; -1 if text starts otherwise.
func hex4(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	var r rune
	for i := 2; i < 6; i++ {
		c := text[i] | 0x20
		switch {
		case '0' <= text[i] && text[i] <= '9':
			r = r<<4 | rune(text[i]-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		default:
			return -1
		}
	}
	return r
}

// unescape decodes the inside of a string literal that str has validated.
func unescape(text []byte) string {
	var b strings.Builder
	b.Grow(len(text))
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			b.Write(text)
			return b.String()
		}
		b.Write(text[:i])
		text = text[i:]
		size := 2
		switch c := text[1]; c {
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			var r rune
			r, size = unicodeEscape(text)
			b.WriteRune(r)
		default:
			b.WriteByte(c)
		}
		text = text[size:]
	}
}

// skip skips one value and validates its form. Names in skipped objects may be
// duplicated.
func (s *Scanner) skip() *FieldError {
	switch c := s.peek(); c {
	case '{':
		if err := s.enter('{', "an object"); err != nil {
			return err
		}
		return s.skipAll('}', func() *FieldError {
			if _, err := s.name(); err != nil {
				return err
			}
			return s.skip()
		})
	case '[':
		if err := s.enter('[', "an array"); err != nil {
			return err
		}
		return s.skipAll(']', s.skip)
	case '"':
		_, err := s.str("a string")
		return err
	case 't':
		return s.skipWord("true")
	case 'f':
		return s.skipWord("false")
	case 'n':
		return s.skipWord("null")
	default:
		return s.skipNumber()
	}
}

func (s *Scanner) skipAll(end byte, element func() *FieldError) *FieldError {
	for i := 0; ; i++ {
		more, err := s.more(i, end)
		if err != nil || !more {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

func (s *Scanner) skipWord(word string) *FieldError {
	if !s.word(word) {
		return s.fail("want a value, not " + s.next(s.peek()))
	}
	return nil
}

// word skips word if it is next.
func (s *Scanner) word(word string) bool {
	if len(s.data)-s.pos < len(word) || string(s.data[s.pos:s.pos+len(word)]) != word {
		return false
	}
	s.pos += len(word)
	return true
}

// skipNumber skips -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *Scanner) skipNumber() *FieldError {
	start := s.pos
	if s.word("-"); !s.word("0") && s.digits() == 0 {
		s.pos = start
		return s.fail("want a value, not " + s.next(s.peek()))
	}
	if s.word(".") && s.digits() == 0 {
		return s.fail("want a digit")
	}
	if s.word("e") || s.word("E") {
		if !s.word("+") {
			s.word("-")
		}
		if s.digits() == 0 {
			return s.fail("want a digit")
		}
	}
	return nil
}

func (s *Scanner) digits() int {
	from := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - from
}

// next describes the next value, which begins with c, for an error. It names
// the kind of the value and never shows the value.
func (s *Scanner) next(c byte) string {
	switch {
	case s.pos >= len(s.data):
		return "the end of the message"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == '"':
		return "a string"
	case c == '-' || '0' <= c && c <= '9':
		return "a number"
	case c == 't' || c == 'f':
		return "a truth value"
	case c == 'n':
		return "null"
	case c > ' ' && c < 0x7f:
		return strconv.QuoteRune(rune(c))
	default:
		return "byte 0x" + strconv.FormatUint(uint64(c), 16)
	}
}

// writer appends JSON. A comma precedes every name but the first of an object.
type writer struct {
	buf                         []byte
	labelNames, annotationNames []string // of the last object
}

func (w *writer) raw(c byte) { w.buf = append(w.buf, c) }

func (w *writer) name(name string) {
	if w.buf[len(w.buf)-1] != '{' {
		w.buf = append(w.buf, ',')
	}
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '"', ':')
}

func (w *writer) text(name, value string) {
	if value != "" {
		w.name(name)
		w.quote(value)
	}
}

func (w *writer) labels(name string, m map[string]string, names *[]string) {
	if len(m) > 0 {
		w.name(name)
		w.object(m, names)
	}
}

func (w *writer) time(name string, t time.Time) {
	if !t.IsZero() {
		w.name(name)
		w.quoteTime(t)
	}
}

func (w *writer) quoteTime(t time.Time) {
	w.buf = append(w.buf, '"')
	w.buf = t.UTC().AppendFormat(w.buf, time.RFC3339Nano)
	w.buf = append(w.buf, '"')
}

// object writes m sorted by name, so that equal notifications have equal bytes. It
// tries the names of the object before first: alerts of a group have the same.
func (w *writer) object(m map[string]string, names *[]string) {
	begin := len(w.buf)
	if len(m) == len(*names) && w.members(m, *names) {
		return
	}
	w.buf = w.buf[:begin]
	*names = slices.AppendSeq((*names)[:0], maps.Keys(m))
	slices.Sort(*names)
	w.members(m, *names)
}

// members writes these members of m. It ends at one that m does not have.
func (w *writer) members(m map[string]string, names []string) bool {
	w.raw('{')
	for i, name := range names {
		value, ok := m[name]
		if !ok {
			return false
		}
		if i > 0 {
			w.raw(',')
		}
		w.quote(name)
		w.raw(':')
		w.quote(value)
	}
	w.raw('}')
	return true
}

// quote writes a string literal and escapes only what JSON requires.
func (w *writer) quote(text string) {
	const digits = "0123456789abcdef"
	w.buf = append(w.buf, '"')
	begin := len(w.buf)
	w.buf = append(w.buf, text...)
	if plain(w.buf, begin) == len(w.buf) {
		w.buf = append(w.buf, '"')
		return
	}
	w.buf = w.buf[:begin]
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '"' || c == '\\':
			w.buf = append(w.buf, '\\', c)
		case c == '\n':
			w.buf = append(w.buf, '\\', 'n')
		case c < 0x20:
			w.buf = append(w.buf, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		case c < utf8.RuneSelf:
			w.buf = append(w.buf, c)
		default:
			r, size := utf8.DecodeRuneInString(text[i:])
			w.buf = utf8.AppendRune(w.buf, r)
			i += size
			continue
		}
		i++
	}
	w.buf = append(w.buf, '"')
}
