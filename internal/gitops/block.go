package gitops

import "strings"

// block reads a literal (|) or folded (>) block scalar.
func (s *scan) block(value string, folded bool) bool {
	explicit, chomp, ok := s.blockHeader()
	if !ok {
		return false
	}
	body := s.pos
	last := s.blockIndent()
	first := last
	if explicit {
		first = 1 // relative to the parent, which is not known here: the value tells
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

// blockHeader reads the line of | or >.
func (s *scan) blockHeader() (explicit bool, chomp byte, ok bool) {
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

// blockIndent is the indentation of the first line with content.
func (s *scan) blockIndent() int {
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

// held is a line break that is not yet known to count.
type held struct{ at, size int }

// blankLines reads over lines without content.
func (s *scan) blankLines(indent int, trail []held) []held {
	for {
		i := s.pos
		for i-s.pos < indent && s.at(i) == ' ' {
			i++
		}
		size := s.lineBreak(i)
		if size == 0 {
			return trail
		}
		trail = append(trail, held{i, size})
		s.pos = i + size
	}
}

// blockBody reads the lines of a block as the YAML parser does: breaks are
// kept back until it is known what follows them.
func (s *scan) blockBody(indent int, folded bool, chomp byte) {
	var lead *held
	var trail []held
	leadBlank := false
	flush := func(h held) {
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
			lead = &held{s.pos, size}
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

// indented reports whether a line of content begins here.
func (s *scan) indented(indent int) bool {
	if s.pos+indent >= len(s.src) {
		return false
	}
	return indent == 0 || strings.Trim(string(s.src[s.pos:s.pos+indent]), " ") == ""
}
