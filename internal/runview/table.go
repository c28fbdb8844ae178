package runview

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Width is the width that text is wrapped to and that a table fits in
// where nothing says how wide the reader's window is, in columns.
const Width = 80

// Window is a writer that knows how wide it is.
type Window interface {
	io.Writer

	// Columns returns how many columns a line may have.
	Columns() int
}

// widthOf is how wide a table on w may be.
func widthOf(w io.Writer) int {
	if win, ok := w.(Window); ok {
		return win.Columns()
	}
	return Width
}

// LineWidth returns how many columns a line on w may have; 0: any number.
func LineWidth(w io.Writer) int {
	if n := widthOf(w); n < math.MaxInt {
		return n
	}
	return 0
}

// Column is one column of a table.
type Column struct {
	Head string
	Wide bool // only with -o wide
	Flex bool // may be cut so that the table fits
	Last bool // with Flex: only cut when no other column can be

	// Brief shortens a cell; not with -o wide and -o name. Nil: cells are shown whole.
	Brief func(string) string
}

// Table is rows under headings. The zero value of a cell is shown as a dash.
type Table struct {
	Columns []Column
	Rows    [][]string
	Empty   string // what to say when there are no rows
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// WriteNames prints the first column, a line each.
func (t *Table) WriteNames(w io.Writer) error {
	for _, row := range t.Rows {
		if _, err := io.WriteString(w, Printable(row[0])+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// Write prints the table. Unless wide, flexible columns are cut, the widest
// first and those marked Last after all others, until a row fits the reader's window.
func (t *Table) Write(w io.Writer, wide bool) error {
	if len(t.Rows) == 0 && t.Empty != "" {
		_, err := io.WriteString(w, t.Empty+"\n")
		return err
	}
	var shown []int
	for i, c := range t.Columns {
		if wide || !c.Wide {
			shown = append(shown, i)
		}
	}
	if !wide {
		t = t.brief()
	}
	widths := t.widths(shown)
	if !wide {
		t.fit(shown, widths, widthOf(w))
	}
	var b strings.Builder
	t.line(&b, shown, widths, t.heads())
	for _, r := range t.Rows {
		t.line(&b, shown, widths, r)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// brief returns the table with shortened cells.
func (t *Table) brief() *Table {
	out := &Table{Columns: t.Columns}
	for _, row := range t.Rows {
		row = slices.Clone(row)
		for i, c := range t.Columns {
			if c.Brief != nil {
				row[i] = c.Brief(row[i])
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

func (t *Table) heads() []string {
	heads := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		heads[i] = c.Head
	}
	return heads
}

func (t *Table) widths(shown []int) []int {
	widths := make([]int, len(t.Columns))
	for _, i := range shown {
		widths[i] = utf8.RuneCountInString(t.Columns[i].Head)
		for _, r := range t.Rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(Cell(r[i])))
		}
	}
	return widths
}

// fit narrows the widest flexible column, one at a time, but none below 8, and those that
// are cut last only when no other can be.
func (t *Table) fit(shown, widths []int, columns int) {
	const gap, least = 2, 8
	total := -gap
	for _, i := range shown {
		total += widths[i] + gap
	}
	for total > columns {
		widest := -1
		for _, i := range shown {
			c := t.Columns[i]
			if !c.Flex || widths[i] <= least {
				continue
			}
			if widest < 0 || (t.Columns[widest].Last && !c.Last) || (t.Columns[widest].Last == c.Last && widths[i] > widths[widest]) {
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

func (t *Table) line(b *strings.Builder, shown, widths []int, cells []string) {
	for n, i := range shown {
		text := Cut(Cell(cells[i]), widths[i])
		b.WriteString(text)
		if n < len(shown)-1 {
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+2))
		}
	}
	b.WriteByte('\n')
}

// Cell is one line without control characters: data from outside must neither
// break the table nor steer a terminal.
func Cell(s string) string {
	if s == "" {
		return "-"
	}
	return Printable(strings.Join(strings.Fields(s), " "))
}

// Printable replaces what could steer a terminal or hide text; \n and \t stay. It is
// for texts of several lines: see [Inline].
func Printable(s string) string { return strings.Map(Visible, s) }

// Visible returns a character, or what stands for one that is not to be seen: control
// and format characters, separators of lines, and what changes the direction of text.
// Two joiners stay, which some scripts need between letters.
func Visible(r rune) rune {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch {
	case r == '\n', r == '\t', r == nonJoiner, r == joiner:
		return r
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
		return utf8.RuneError
	default:
		return r
	}
}

// breaks are the characters that end a line for some reader.
var breaks = strings.NewReplacer("\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// Inline is [Printable] on one line: text from outside, such as a label, must not look like
// a line of ours. A line break, with the white space around it, becomes a blank.
func Inline(s string) string {
	if s = breaks.Replace(s); strings.Contains(s, "\n") {
		var parts []string
		for part := range strings.SplitSeq(s, "\n") {
			if part = strings.TrimSpace(part); part != "" {
				parts = append(parts, part)
			}
		}
		s = strings.Join(parts, " ")
	}
	return Printable(s)
}

// Cut shortens s to n characters, the last of which says that it was cut.
func Cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:max(n-1, 0)]) + "…"
}

// Short cuts a hash; an empty one is a dash.
func Short(s string, n int) string {
	if s == "" {
		return "-"
	}
	if len(s) > n {
		return s[:n]
	}
	return s
}

// Wrap breaks text at spaces into lines of at most width characters; a longer
// word is broken where it must.
func Wrap(text string, width int) []string {
	var lines []string
	for _, para := range strings.Split(text, "\n") {
		rest := []rune(strings.TrimRight(para, " \t"))
		for len(rest) > width {
			at := width
			for i := width; i > width/2; i-- {
				if rest[i] == ' ' {
					at = i
					break
				}
			}
			lines = append(lines, strings.TrimRight(string(rest[:at]), " "))
			rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
		}
		lines = append(lines, string(rest))
	}
	return lines
}

// OrText returns s, or otherwise when s is empty.
func OrText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Count is a number with its noun.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "ry"); ok {
		return fmt.Sprintf("%d %sries", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ShortCommit is a commit as people write it.
func ShortCommit(sha string) string {
	if len(sha) > 9 {
		return sha[:9]
	}
	return sha
}
