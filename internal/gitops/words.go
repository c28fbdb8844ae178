package gitops

import (
	"fmt"
	"strings"
)

// word is one word of a shell script.
type word struct {
	text     string // without quotes; expansions stay as written
	from, to []int  // bytes of the script that each byte of text is written as
	begin    int
	end      int
	command  int  // number of the simple command it belongs to
	expands  bool // holds $..., $(...) or `...`
	bare     bool // an expansion outside quotes: the shell splits it into words
	redirect bool // the target of a redirection
}

// shell reads a script into words.
type shell struct {
	src     string
	pos     int
	words   []word
	current *word
	command int
	next    bool     // the next word is a redirection's
	skipped [][2]int // comments
}

// shellWords splits a script as a POSIX shell does. It understands quotes,
// line continuations, comments, operators and expansions; where it does not
// understand, it says so and nothing is edited.
func shellWords(script string) (*shell, error) {
	if len(script) > maxScript {
		return nil, fmt.Errorf("it has more than %d KiB", maxScript>>10)
	}
	s := &shell{src: script}
	for s.pos < len(s.src) {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	s.finish()
	return s, nil
}

// spoken is the script's text without its comments.
func (s *shell) spoken(text string) string {
	var b strings.Builder
	from := 0
	for _, to := range s.skipped {
		b.WriteString(text[from:to[0]])
		from = to[1]
	}
	b.WriteString(text[from:])
	return b.String()
}

func (s *shell) peek(n int) byte {
	if s.pos+n < len(s.src) {
		return s.src[s.pos+n]
	}
	return 0
}

func (s *shell) step() error {
	switch c := s.peek(0); c {
	case ' ', '\t':
		s.finish()
		s.pos++
	case '\\':
		if s.peek(1) == '\n' {
			s.pos += 2 // the line goes on
			return nil
		}
		if s.pos+1 >= len(s.src) {
			return fmt.Errorf("it ends with a backslash")
		}
		s.open()
		s.add(s.pos+1, s.pos, 2)
	case '\'':
		return s.single()
	case '"':
		return s.double()
	case '$':
		return s.expansion(true)
	case '`':
		return s.backtick(true)
	case '#':
		if s.current != nil {
			s.add(s.pos, s.pos, 1)
			return nil
		}
		begin := s.pos
		for s.pos < len(s.src) && s.src[s.pos] != '\n' {
			s.pos++
		}
		s.skipped = append(s.skipped, [2]int{begin, s.pos})
	case '\n', ';', '&', '|', '(', ')', '<', '>':
		return s.operator(c)
	default:
		s.open()
		s.add(s.pos, s.pos, 1)
	}
	return nil
}

func (s *shell) open() {
	if s.current == nil {
		s.current = &word{begin: s.pos, command: s.command, redirect: s.next}
		s.next = false
	}
}

// add appends the byte at from, which is written as size bytes at pos.
func (s *shell) add(from, pos, size int) {
	s.open()
	s.current.text += s.src[from : from+1]
	s.current.from = append(s.current.from, pos)
	s.current.to = append(s.current.to, pos+size)
	s.pos = pos + size
}

func (s *shell) finish() {
	if s.current != nil {
		s.current.end = s.pos
		s.words = append(s.words, *s.current)
		s.current = nil
	}
}

func (s *shell) operator(c byte) error {
	if (c == '<' || c == '>') && s.current != nil && strings.Trim(s.current.text, "0123456789") == "" {
		s.current.redirect = true // 2>
	}
	s.finish()
	if c == '<' && s.peek(1) == '<' {
		return fmt.Errorf("it has a here-document (<<)")
	}
	if c == '<' || c == '>' {
		for strings.IndexByte("<>&|", s.peek(0)) >= 0 && s.pos < len(s.src) {
			s.pos++
		}
		s.next = true
		return nil
	}
	if c == '&' && s.peek(1) == '>' {
		s.pos += 2
		s.next = true
		return nil
	}
	s.pos++
	s.command++
	return nil
}

func (s *shell) single() error {
	s.open()
	end := strings.IndexByte(s.src[s.pos+1:], '\'')
	if end < 0 {
		return fmt.Errorf("a single quote is not closed")
	}
	stop := s.pos + 1 + end
	for s.pos++; s.pos < stop; {
		s.add(s.pos, s.pos, 1)
	}
	s.pos++
	return nil
}

func (s *shell) double() error {
	s.open()
	for s.pos++; s.pos < len(s.src); {
		switch c := s.peek(0); {
		case c == '"':
			s.pos++
			return nil
		case c == '\\' && s.peek(1) == '\n':
			s.pos += 2
		case c == '\\' && s.pos+1 < len(s.src) && strings.IndexByte("$`\"\\", s.peek(1)) >= 0:
			s.add(s.pos+1, s.pos, 2)
		case c == '$':
			if err := s.expansion(false); err != nil {
				return err
			}
		case c == '`':
			if err := s.backtick(false); err != nil {
				return err
			}
		default:
			s.add(s.pos, s.pos, 1)
		}
	}
	return fmt.Errorf("a double quote is not closed")
}

// expansion keeps $NAME, ${...} and $(...) as written.
func (s *shell) expansion(bare bool) error {
	s.open()
	size := 1
	switch c := s.peek(1); {
	case c == '{' || c == '(':
		end := closing(s.src[s.pos+1:])
		if end < 0 {
			return fmt.Errorf("$%c is not closed", c)
		}
		size = 1 + end
	case nameByte(c):
		for s.pos+size < len(s.src) && nameByte(s.src[s.pos+size]) {
			size++
		}
	case c != 0 && strings.IndexByte("@*#?$!-", c) >= 0:
		size = 2
	default:
		s.add(s.pos, s.pos, 1) // a dollar alone
		return nil
	}
	s.expanded(size, bare)
	return nil
}

func (s *shell) expanded(size int, bare bool) {
	s.current.expands = true
	s.current.bare = s.current.bare || bare
	for range size {
		s.add(s.pos, s.pos, 1)
	}
}

func (s *shell) backtick(bare bool) error {
	s.open()
	end := strings.IndexByte(s.src[s.pos+1:], '`')
	if end < 0 {
		return fmt.Errorf("a backtick is not closed")
	}
	s.expanded(end+2, bare)
	return nil
}

func nameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// closing gives the length of a bracketed text that begins with { or (.
func closing(s string) int {
	open := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\\':
			i++
		case '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return -1
			}
			i += end + 1
		case '{', '(':
			open++
		case '}', ')':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// harmless reports whether a text is one word that means itself in a shell.
func harmless(s string) bool {
	for i := range len(s) {
		if c := s[i]; !nameByte(c) && strings.IndexByte(".,:/@%+=-", c) < 0 {
			return false
		}
	}
	return s != ""
}
