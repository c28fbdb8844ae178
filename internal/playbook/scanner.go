package playbook

// ScanJSON returns a scanner over one JSON value. Its objects may have only the
// requested fields.
func ScanJSON(data []byte) Scanner { return Scanner{data: data, exact: true} }

// End requires that nothing follows the value.
func (s *Scanner) End() *FieldError {
	if c := s.peek(); s.pos < len(s.data) {
		return s.fail("there is " + s.next(c) + " after the end of the message")
	}
	return nil
}

// Text reads a string. The bytes belong to the scanned data: copy them to keep
// them.
func (s *Scanner) Text() ([]byte, *FieldError) {
	sp, err := s.str("a string")
	if err != nil {
		return nil, err
	}
	return s.bytes(sp), nil
}

// Raw skips any value and returns its bytes, which belong to the scanned data.
func (s *Scanner) Raw() ([]byte, *FieldError) {
	s.peek()
	from := s.pos
	err := s.skip()
	return s.data[from:s.pos], err
}

// Entries reads an object with arbitrary names. It calls value with each name,
// and value must consume what follows. The name belongs to the scanned data.
func (s *Scanner) Entries(value func(name []byte) *FieldError) *FieldError {
	if err := s.enter('{', "an object"); err != nil {
		return err
	}
	return s.skipAll('}', func() *FieldError {
		name, err := s.name()
		if err != nil {
			return err
		}
		return value(s.bytes(name))
	})
}

// bytes returns the content of sp.
func (s *Scanner) bytes(sp span) []byte {
	text := s.data[sp.from:sp.to]
	if sp.escaped {
		return []byte(unescape(text))
	}
	return text
}
