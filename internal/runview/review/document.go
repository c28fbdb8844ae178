package review

import (
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

// Document is a report as it is read, apart from how it is rendered. Its texts are plain:
// renderers escape them.
type Document struct {
	Title    string
	Facts    []Fact // of the table at the top; those without a value are left out
	Lead     []Text // paragraphs below it
	Sections []Section
}

// Fact is a line of the table at the top.
type Fact struct{ Name, Value string }

// Section is a part with a heading.
type Section struct {
	Title  string
	Blocks []Block
}

// Block is one of a paragraph, a table and a list.
type Block struct {
	Text  Text
	Table *Table
	Items []Item
}

// Table is a table. Columns from Numbers on hold numbers; 0: none do.
type Table struct {
	Head    []string
	Numbers int
	Rows    [][]string
}

// Item is an item of a list, with lines below it.
type Item struct {
	Text Text
	Sub  []string
}

// Text is a line of words, of which some are code.
type Text []Span

// Span is a part of a text.
type Span struct {
	Text string
	Code bool
}

// words is a text without code.
func words(format string, args ...any) Text { return Text{{Text: fmt.Sprintf(format, args...)}} }

// code appends code to a text, and words after it.
func (t Text) code(code, after string) Text {
	t = append(t, Span{Text: code, Code: true})
	if after != "" {
		t = append(t, Span{Text: after})
	}
	return t
}

// plain returns the words of a text.
func (t Text) plain() string {
	var b strings.Builder
	for _, s := range t {
		b.WriteString(runview.Inline(s.Text))
	}
	return b.String()
}

func (s *Section) say(format string, args ...any) {
	s.Blocks = append(s.Blocks, Block{Text: words(format, args...)})
}

func (s *Section) text(t Text) { s.Blocks = append(s.Blocks, Block{Text: t}) }

func (s *Section) table(numbers int, head ...string) *Table {
	t := &Table{Head: head, Numbers: numbers}
	s.Blocks = append(s.Blocks, Block{Table: t})
	return t
}

func (s *Section) list(items []Item) {
	if len(items) > 0 {
		s.Blocks = append(s.Blocks, Block{Items: items})
	}
}

// row adds a row of texts and numbers.
func (t *Table) row(cells ...any) {
	var row []string
	for _, c := range cells {
		row = append(row, fmt.Sprint(c))
	}
	t.Rows = append(t.Rows, row)
}

// spell is a duration in words.
func spell(seconds float64) string {
	return playbook.FormatDuration(time.Duration(seconds * float64(time.Second)).Round(time.Second))
}

// phaseText is a part of the time with what it means.
func phaseText(name string) string {
	if text := runview.PhaseText[name]; text != "" {
		return name + ", " + text
	}
	return name
}
