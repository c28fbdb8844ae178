package engine

import "strings"

// Nearest gives the flag that a name which is none was probably meant for:
// spelled a little differently, shortened, or named by some of its words. Empty:
// nothing is near.
func (e Engine) Nearest(name string) string {
	return nearest(plain(name), e.Flags())
}

// meant is the end of a message that knows better.
func meant(near string) string {
	if near == "" {
		return ""
	}
	return ": did you mean " + near + "?"
}

// nearest prefers few edits, then an abbreviation, then the most words in common.
func nearest(name string, all []string) string {
	name = strings.ToLower(name)
	best, distance := "", max(2, len(name)/5)+1
	for _, c := range all {
		if d := edits(name, c); d < distance && d < len(c) {
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
	shared := 2 // one word in common says little
	for _, c := range all {
		n, d := common(name, c), edits(name, c)
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

// edits is the Levenshtein distance of two short names, in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
