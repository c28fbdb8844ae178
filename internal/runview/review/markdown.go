package review

import (
	"fmt"
	"io"
	"strings"

	"github.com/inference-responder/responder/internal/runview"
)

// WriteMarkdown writes a document as Markdown.
func WriteMarkdown(w io.Writer, d Document) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n| | |\n|---|---|\n", plain(d.Title))
	for _, f := range d.Facts {
		if f.Value != "" {
			fmt.Fprintf(&b, "| %s | %s |\n", plain(f.Name), plain(f.Value))
		}
	}
	for _, t := range d.Lead {
		fmt.Fprintf(&b, "\n%s\n", markdownText(t))
	}
	for _, s := range d.Sections {
		fmt.Fprintf(&b, "\n## %s\n", plain(s.Title))
		for _, block := range s.Blocks {
			b.WriteString("\n")
			switch {
			case block.Table != nil:
				markdownTable(&b, *block.Table)
			case block.Items != nil:
				markdownList(&b, block.Items)
			default:
				b.WriteString(markdownText(block.Text) + "\n")
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownTable(b *strings.Builder, t Table) {
	b.WriteString("|")
	for _, h := range t.Head {
		b.WriteString(" " + plain(h) + " |")
	}
	b.WriteString("\n|")
	for i := range t.Head {
		if t.Numbers > 0 && i >= t.Numbers {
			b.WriteString("---:|")
		} else {
			b.WriteString("---|")
		}
	}
	b.WriteString("\n")
	for _, row := range t.Rows {
		b.WriteString("|")
		for _, cell := range row {
			b.WriteString(" " + plain(cell) + " |")
		}
		b.WriteString("\n")
	}
}

func markdownList(b *strings.Builder, items []Item) {
	for _, i := range items {
		b.WriteString("- " + markdownText(i.Text) + "\n")
		for _, line := range i.Sub {
			b.WriteString("  - " + plain(line) + "\n")
		}
	}
}

func markdownText(t Text) string {
	var b strings.Builder
	for _, s := range t {
		if s.Code {
			b.WriteString("`" + strings.ReplaceAll(runview.Inline(s.Text), "`", "'") + "`")
		} else {
			b.WriteString(plain(s.Text))
		}
	}
	return b.String()
}

// plain is text from outside that begins nothing in Markdown.
func plain(s string) string {
	return strings.NewReplacer(`\`, `\\`, "<", "&lt;", "|", `\|`, "`", "'", "*", `\*`, "_", `\_`, "[", `\[`, "#", `\#`).Replace(runview.Inline(s))
}
