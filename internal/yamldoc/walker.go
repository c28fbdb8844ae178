package yamldoc

import (
	"unicode"

	"go.yaml.in/yaml/v3"
)

// walker follows the text of a scalar through the lines of the document.
type walker struct {
	lines []string
	row   int
	col   int // in characters
	style yaml.Style
	cells []rune // of row
	held  int    // the row of cells, plus one
}

// line returns the characters of the current row; nil after the last.
func (w *walker) line() []rune {
	if w.row >= len(w.lines) {
		return nil
	}
	if w.held != w.row+1 {
		w.cells, w.held = []rune(w.lines[w.row]), w.row+1
	}
	return w.cells
}

// find moves to the place of r. White space matches at the current place,
// because lines may have been folded.
func (w *walker) find(r rune) bool {
	if unicode.IsSpace(r) {
		return w.row < len(w.lines)
	}
	for w.row < len(w.lines) {
		cells := w.line()
		for w.col < len(cells) && unicode.IsSpace(cells[w.col]) {
			w.col++
		}
		switch {
		case w.col >= len(cells):
			w.row, w.col = w.row+1, 0
		case cells[w.col] == r:
			return true
		case w.style&yaml.DoubleQuotedStyle != 0 && cells[w.col] == '\\':
			if w.col+1 >= len(cells) { // a continued line
				w.row, w.col = w.row+1, 0
				continue
			}
			return true // an escape stands for r
		default:
			return false
		}
	}
	return false
}

// pass steps over r.
func (w *walker) pass(r rune) {
	cells := w.line()
	if w.col >= len(cells) {
		if unicode.IsSpace(r) { // a line break of the text, or folded into a space
			w.row, w.col = w.row+1, 0
		}
		return
	}
	switch {
	case w.style&yaml.SingleQuotedStyle != 0 && r == '\'':
		w.col += 2
	case w.style&yaml.DoubleQuotedStyle != 0 && cells[w.col] == '\\':
		w.col += escapeLength(cells[w.col:])
	case unicode.IsSpace(r) && !unicode.IsSpace(cells[w.col]):
		// folded away
	default:
		w.col++
	}
}

// escapeLength returns the length of an escape in a double-quoted scalar, in
// characters.
func escapeLength(cells []rune) int {
	if len(cells) < 2 {
		return len(cells)
	}
	switch cells[1] {
	case 'x':
		return 4
	case 'u':
		return 6
	case 'U':
		return 10
	default:
		return 2
	}
}
