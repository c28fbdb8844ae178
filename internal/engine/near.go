package engine

import (
	"strings"

	"github.com/inference-responder/responder/internal/spelling"
)

// Nearest returns the flag that an unknown name was probably meant for: spelled
// slightly differently, shortened, or named by some of its words. Empty: there
// is none.
func (e Engine) Nearest(name string) string {
	return nearest(plain(name), e.Flags())
}

// meant returns the end of a message with a suggestion.
func meant(near string) string {
	if near == "" {
		return ""
	}
	return ": did you mean " + near + "?"
}

// nearest prefers few edits, then an abbreviation, then the most words in
// common.
func nearest(name string, all []string) string {
	name = strings.ToLower(name)
	best, distance := "", max(2, len(name)/5)+1
	for _, c := range all {
		if d := spelling.Distance(name, c); d < distance && d < len(c) {
			best, distance = c, d
		}
	}
	if best != "" || len(name) < 3 {
		return best
	}
	for _, c := range all {
		if strings.HasPrefix(c, name) {
			return c
		}
	}
	shared := 2 // a single common word is not a match
	for _, c := range all {
		n, d := common(name, c), spelling.Distance(name, c)
		if n > shared || n == shared && (best == "" || d < distance) {
			best, shared, distance = c, n, d
		}
	}
	return best
}

// common counts the words that two names share.
func common(a, b string) int {
	n := 0
	words := strings.Split(b, "-")
	for w := range strings.SplitSeq(a, "-") {
		for i, other := range words {
			if w != "" && w == other {
				words[i] = ""
				n++
				break
			}
		}
	}
	return n
}
