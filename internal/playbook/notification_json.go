package playbook

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// A notification is decoded by hand, for the one shape there is. With
// encoding/json durable intake misses its target of one times the throughput of
// a receiver that keeps nothing: 64 senders reach 0.73 to 1.11 times, and 1.29 to
// 1.56 times with this decoder (BenchmarkIntake, three alternating runs on a busy
// machine). encoding/json also accepts doubled names and broken UTF-8, which are
// refused here. The scanner decodes run events, too. A fuzz test compares it with
// encoding/json.

// Limits of a message, so that a small body cannot become large in memory.
const (
	maxDepth  = 32     // levels of nesting, read or skipped
	maxAlerts = 50_000 // in one message; real messages of that many have 16 MiB
	maxLabels = 256    // labels or annotations in one set

	// Far above what the author of a rule writes.
	maxName = 1 << 10  // bytes of a label's or annotation's name
	maxText = 64 << 10 // bytes of its value, and of any other string
)

// Scanner reads JSON from memory, in order: each call expects the type of the
// next value. It is as strict as [DecodeNotification]. [ScanJSON] returns one.
type Scanner struct {
	data  []byte
	pos   int
	depth int
	exact bool   // objects may have only the requested fields
	pairs []pair // scratch space of labels
}

// span is the inside of a string literal in Scanner.data.
type span struct {
	from, to int
	escaped  bool // contains backslashes
}

type pair struct{ name, value span }

func (s *Scanner) fail(problem string) *FieldError {
	return &FieldError{Offset: s.pos, Problem: problem}
}

// Under prefixes the error's field with a parent: a name, or an index in
// brackets.
func (e *FieldError) Under(parent string) *FieldError {
	switch {
	case e.Field == "" || e.Field[0] == '[':
		e.Field = parent + e.Field
	default:
		e.Field = parent + "." + e.Field
	}
	return e
}

// message reads one value and requires that nothing follows it.
func (s *Scanner) message(n *Notification) *FieldError {
	if err := s.notification(n); err != nil {
		return err
	}
	return s.End()
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *Scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// Null skips null if it is next.
func (s *Scanner) Null() bool {
	return s.peek() == 'n' && s.word("null")
}

// enter reads an opening bracket; leave is its counterpart.
func (s *Scanner) enter(open byte, want string) *FieldError {
	if c := s.peek(); c != open {
		return s.fail("want " + want + ", not " + s.next(c))
	}
	if s.depth++; s.depth > maxDepth {
		return s.fail("nested deeper than " + strconv.Itoa(maxDepth) + " levels")
	}
	s.pos++
	return nil
}

// more reports whether another element follows the i read so far. It consumes
// the comma before it, or the closing bracket.
func (s *Scanner) more(i int, end byte) (bool, *FieldError) {
	switch c := s.peek(); {
	case c == end:
		s.pos++
		s.depth--
		return false, nil
	case i == 0:
		return true, nil
	case c == ',':
		s.pos++
		return true, nil
	default:
		return false, s.fail("want a comma or " + strconv.QuoteRune(rune(end)) + ", not " + s.next(c))
	}
}

// Object reads an object. It calls value for each of the named fields it finds,
// of at most 64. value must consume the field's value.
func (s *Scanner) Object(fields []string, value func(field string) *FieldError) *FieldError {
	if err := s.enter('{', "an object"); err != nil {
		return err
	}
	var seen uint64
	next := 0
	for i := 0; ; i++ {
		more, err := s.more(i, '}')
		if err != nil || !more {
			return err
		}
		name, err := s.name()
		if err != nil {
			return err
		}
		next = s.find(fields, name, next)
		if next < 0 {
			next = 0
			if s.exact {
				return s.fail("unknown field").Under(FieldName(string(s.bytes(name))))
			}
			if err := s.skip(); err != nil {
				return err
			}
			continue
		}
		field := fields[next]
		if seen&(1<<next) != 0 {
			return s.fail(Doubled).Under(field)
		}
		seen |= 1 << next
		if err := value(field); err != nil {
			return err.Under(field)
		}
		next++
	}
}

// find returns the index of the field called name. It looks at likely first.
func (s *Scanner) find(fields []string, name span, likely int) int {
	raw := s.data[name.from:name.to]
	if name.escaped {
		raw = []byte(unescape(raw))
	}
	if likely < len(fields) && fields[likely] == string(raw) {
		return likely
	}
	return slices.IndexFunc(fields, func(f string) bool { return f == string(raw) })
}

// name reads a name and the following colon.
func (s *Scanner) name() (span, *FieldError) {
	name, err := s.str("a name in quotes")
	if err != nil {
		return name, err
	}
	if c := s.peek(); c != ':' {
		return name, s.fail("want a colon, not " + s.next(c))
	}
	s.pos++
	return name, nil
}

// Array calls element for every element; element must consume it. Null counts
// as an empty array.
func (s *Scanner) Array(element func(i int) *FieldError) *FieldError {
	if s.Null() {
		return nil
	}
	if err := s.enter('[', "an array"); err != nil {
		return err
	}
	for i := 0; ; i++ {
		more, err := s.more(i, ']')
		if err != nil || !more {
			return err
		}
		if err := element(i); err != nil {
			return err.Under("[" + strconv.Itoa(i) + "]")
		}
	}
}

// labels reads an object of strings. An empty one is nil.
func (s *Scanner) labels(to *map[string]string) *FieldError {
	if s.Null() {
		return nil
	}
	begin := s.pos
	if err := s.enter('{', "an object"); err != nil {
		return err
	}
	s.pairs = s.pairs[:0]
	for i := 0; ; i++ {
		more, err := s.more(i, '}')
		if err != nil {
			return err
		}
		if !more {
			break
		}
		name, err := s.name()
		if err != nil {
			return err
		}
		value, err := s.str("a string")
		if err != nil {
			return err.Under(FieldName(unescape(s.data[name.from:name.to])))
		}
		if len(s.pairs) == maxLabels {
			return s.fail("more than " + strconv.Itoa(maxLabels) + " entries")
		}
		s.pairs = append(s.pairs, pair{name, value})
	}
	if len(s.pairs) == 0 {
		return nil
	}
	chunk := string(s.data[begin:s.pos])
	m := make(map[string]string, len(s.pairs))
	for _, p := range s.pairs {
		name, value := s.part(chunk, begin, p.name), s.part(chunk, begin, p.value)
		if problem := badLabel(name, value); problem != "" {
			s.pos = p.name.from
			return s.fail(problem).Under(FieldName(name))
		}
		m[name] = value
	}
	*to = m
	if len(m) < len(s.pairs) {
		return s.doubled(chunk, begin)
	}
	return nil
}

// badLabel returns what is wrong with a label, an empty text if nothing is.
func badLabel(name, value string) string {
	switch {
	case name == "":
		return "a name is empty"
	case len(name) > maxName:
		return tooLong(len(name), maxName)
	case len(value) > maxText:
		return tooLong(len(value), maxText)
	default:
		return ""
	}
}

func tooLong(size, limit int) string {
	return fmt.Sprintf("%d bytes long, at most %d are accepted", size, limit)
}

// doubled names the first duplicate label.
func (s *Scanner) doubled(chunk string, begin int) *FieldError {
	seen := make(map[string]bool, len(s.pairs))
	for _, p := range s.pairs {
		name := s.part(chunk, begin, p.name)
		if seen[name] {
			s.pos = p.name.from
			return s.fail(Doubled).Under(FieldName(name))
		}
		seen[name] = true
	}
	panic("playbook: fewer labels than pairs, yet none doubled") // unreachable
}

// part returns the string of sp as a part of chunk, which is the text from begin on;
// or as a string of its own where it is not written as it is.
func (s *Scanner) part(chunk string, begin int, sp span) string {
	if sp.escaped {
		return unescape(s.data[sp.from:sp.to])
	}
	return chunk[sp.from-begin : sp.to-begin]
}

// FieldName returns a label's name as an element of [FieldError.Field]:
// unchanged, or quoted and shortened if it could be mistaken for something
// else.
func FieldName(name string) string {
	const long = 64
	plain := name != "" && len(name) <= long
	for i := 0; plain && i < len(name); i++ {
		c := name[i]
		plain = c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	if plain {
		return name
	}
	if len(name) > long {
		return "[" + strconv.QuoteToASCII(name[:long]) + "...]"
	}
	return "[" + strconv.QuoteToASCII(name) + "]"
}

// text reads a string.
func (s *Scanner) text(to *string) *FieldError {
	if s.Null() {
		return nil
	}
	sp, err := s.str("a string")
	if err != nil {
		return err
	}
	if sp.escaped {
		*to = unescape(s.data[sp.from:sp.to])
	} else {
		*to = string(s.data[sp.from:sp.to])
	}
	if len(*to) > maxText {
		s.pos = sp.from
		return s.fail(tooLong(len(*to), maxText))
	}
	return nil
}

// time reads a time and converts it to UTC.
func (s *Scanner) time(to *time.Time) *FieldError {
	if s.Null() {
		return nil
	}
	at := s.pos
	sp, err := s.str("a time in quotes")
	if err != nil {
		return err
	}
	var t time.Time
	if sp.escaped || t.UnmarshalText(s.data[sp.from:sp.to]) != nil {
		s.pos = at
		return s.fail("want a time like 2026-11-21T02:28:04.731Z (RFC 3339)")
	}
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		s.pos = at
		return s.fail("want a time in the years 0 to 9999 UTC")
	}
	*to = t
	return nil
}

// count reads a whole number >= 0.
func (s *Scanner) count(to *int) *FieldError {
	if s.Null() {
		return nil
	}
	s.peek()
	from := s.pos
	if err := s.skip(); err != nil {
		return err
	}
	n, err := strconv.ParseUint(string(s.data[from:s.pos]), 10, 63)
	if err != nil {
		s.pos = from
		return s.fail("want a whole number from 0 to " + strconv.Itoa(math.MaxInt))
	}
	*to = int(n)
	return nil
}
