// Package spelling finds the name that a misspelled name was meant to be, for
// hints in error messages.
package spelling

import "strings"

// maxLength is the length in bytes from which a name is no misspelling.
const maxLength = 64

// Nearest returns the candidate that is within two edits of got, or within a
// third of a short word, and closest to it. It ignores case. It returns "" when
// no candidate is near.
func Nearest(got string, candidates []string) string {
	if len(got) > maxLength {
		return ""
	}
	best, bound := "", min(2, len(got)/3)+1
	for _, c := range candidates {
		if len(c) > maxLength {
			continue
		}
		if d := Distance(strings.ToLower(got), strings.ToLower(c)); d < bound {
			best, bound = c, d
		}
	}
	return best
}

// Distance returns how many bytes to insert, remove or replace, and neighbours
// to swap, turn a into b.
func Distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
