package credential

import (
	"fmt"
	"regexp"
	"strings"
)

// maxText is how much of a text is shown, in bytes, and beyond is how much more of it is
// read: what stands there may tell what the end of the shown part is.
const (
	maxText = 64 << 10
	beyond  = 4 << 10
)

// bounded returns what is left of a text by a function that replaces credentials in it. Of
// a text that is too long, which is cut, it returns what stands before a blank or the end of
// an element of JSON, and a note.
func bounded(s string, replace func(s string, isCut bool) string) string {
	if len(s) <= maxText {
		return replace(s, false)
	}
	read := replace(s[:min(len(s), maxText+beyond)], true)
	shown := read[:max(0, min(maxText, len(read)-beyond))]
	end := strings.LastIndexAny(shown, " \t\r\n") + 1
	for _, separator := range []string{`",`, "},", "],"} {
		end = max(end, strings.LastIndex(shown, separator)+len(separator)-1)
	}
	return fmt.Sprintf("%s(the rest of %d bytes is not shown)", shown[:min(end, len(shown))], len(s))
}

// What a cut may have left open: an element of XML, and the pipe of a password.
var (
	openElement = regexp.MustCompile(`(?i)(<[a-z0-9_.:-]*` + ends + `(?:\s[^<>]*)?>)[^<>]+$`)
	openPipe    = regexp.MustCompile(`(\b(?:echo|printf)\s+(?:-\w+\s+)*)` + value + `(\s*(?:\|[^|\n]*)?)$`)
)
