package outbound

import (
	"strings"
	"unicode"
)

// OneLine makes text of a server fit for an error: without control and format
// characters, on one line, at most n bytes.
func OneLine(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		default:
			return r
		}
	}, strings.ToValidUTF8(s, ""))
	return Cut(strings.Join(strings.Fields(s), " "), n)
}

// Cut shortens text to n bytes.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}
