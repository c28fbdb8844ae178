package main

import (
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// tableWidth is the width that text is wrapped to and that a table fits in
// where nothing says how wide the reader's window is, in columns.
const tableWidth = 80

// widthOf is how wide a table on w may be: the variable COLUMNS, else the
// terminal's width. A file or a pipe has none: what is searched or kept must be
// whole.
func widthOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return tableWidth
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if !term.IsTerminal(int(f.Fd())) {
		return math.MaxInt
	}
	if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
		return n
	}
	return tableWidth
}

// column is one column of a table.
type column struct {
	head string
	wide bool // only with -o wide
	flex bool // may be cut so that the table fits
}

// table is rows under headings. The zero value of a cell is shown as a dash.
type table struct {
	columns []column
	rows    [][]string
	empty   string // what to say when there are no rows
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table. Unless wide, flexible columns are cut, the widest
// first, until a row fits the reader's window.
func (t *table) write(w io.Writer, wide bool) error {
	if len(t.rows) == 0 && t.empty != "" {
		_, err := io.WriteString(w, t.empty+"\n")
		return err
	}
	var shown []int
	for i, c := range t.columns {
		if wide || !c.wide {
			shown = append(shown, i)
		}
	}
	widths := t.widths(shown)
	if !wide {
		t.fit(shown, widths, widthOf(w))
	}
	var b strings.Builder
	t.line(&b, shown, widths, t.heads())
	for _, r := range t.rows {
		t.line(&b, shown, widths, r)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *table) heads() []string {
	heads := make([]string, len(t.columns))
	for i, c := range t.columns {
		heads[i] = c.head
	}
	return heads
}

func (t *table) widths(shown []int) []int {
	widths := make([]int, len(t.columns))
	for _, i := range shown {
		widths[i] = utf8.RuneCountInString(t.columns[i].head)
		for _, r := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell(r[i])))
		}
	}
	return widths
}

// fit narrows the widest flexible column, one at a time, but none below 8.
func (t *table) fit(shown, widths []int, columns int) {
	const gap, least = 2, 8
	total := -gap
	for _, i := range shown {
		total += widths[i] + gap
	}
	for total > columns {
		widest := -1
		for _, i := range shown {
			if t.columns[i].flex && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
		total--
	}
}

func (t *table) line(b *strings.Builder, shown, widths []int, cells []string) {
	for n, i := range shown {
		text := cut(cell(cells[i]), widths[i])
		b.WriteString(text)
		if n < len(shown)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2))
		}
	}
	b.WriteByte('\n')
}

// cell is one line without control characters: data from outside must neither
// break the table nor steer a terminal.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return printable(strings.Join(strings.Fields(s), " "))
}

// printable replaces what could steer a terminal; line breaks stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// cut shortens s to n characters, the last of which says that it was cut.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:max(n-1, 0)]) + "…"
}
