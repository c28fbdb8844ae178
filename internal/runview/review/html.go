package review

import (
	_ "embed"
	"io"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/runview"
)

//go:embed page.css
var css string

// WriteHTML writes a document as one HTML file that asks nothing of any server: no script,
// no image, no font. It follows the reader's choice of light or dark, and can be printed.
func WriteHTML(w io.Writer, d Document) error {
	return h.Doctype(h.HTML(h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(g.Attr("http-equiv", "Content-Security-Policy"), h.Content("default-src 'none'; style-src 'unsafe-inline'")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.TitleEl(clean(d.Title)),
			h.StyleEl(g.Raw(css)), //nolint:forbidigo // the program's own file
		),
		g.Text("\n"), h.Body(h.Main(g.Text("\n"),
			h.H1(clean(d.Title)), g.Text("\n"),
			factsHTML(d.Facts),
			g.Map(d.Lead, func(t Text) g.Node { return g.Group{h.P(textHTML(t)), g.Text("\n")} }),
			g.Map(d.Sections, sectionHTML),
		)),
		g.Text("\n"),
	)).Render(w)
}

// clean is a text from outside on one line. Nothing else puts one into the page.
func clean(s string) g.Node { return g.Text(runview.Inline(s)) }

func factsHTML(facts []Fact) g.Node {
	return g.Group{h.Table(h.Class("facts"), h.TBody(g.Map(facts, func(f Fact) g.Node {
		if f.Value == "" {
			return nil
		}
		return h.Tr(h.Th(h.Scope("row"), clean(f.Name)), h.Td(clean(f.Value)))
	}))), g.Text("\n")}
}

func sectionHTML(s Section) g.Node {
	return g.Group{h.Section(g.Text("\n"), h.H2(clean(s.Title)), g.Text("\n"), g.Map(s.Blocks, blockHTML)), g.Text("\n")}
}

func blockHTML(b Block) g.Node {
	var node g.Node
	switch {
	case b.Table != nil:
		node = tableHTML(*b.Table)
	case b.Items != nil:
		node = h.Ul(g.Map(b.Items, func(i Item) g.Node {
			return h.Li(textHTML(i.Text), g.If(len(i.Sub) > 0, h.Ul(g.Map(i.Sub, func(line string) g.Node { return h.Li(clean(line)) }))))
		}))
	default:
		node = h.P(textHTML(b.Text))
	}
	return g.Group{node, g.Text("\n")}
}

// tableHTML is a table that scrolls by itself where the screen is narrow, also by keys.
func tableHTML(t Table) g.Node {
	number := func(column int) g.Node { return g.If(t.Numbers > 0 && column >= t.Numbers, h.Class("n")) }
	var head g.Group
	for i, name := range t.Head {
		head = append(head, h.Th(h.Scope("col"), number(i), clean(name)))
	}
	return h.Div(h.Class("wide"), h.TabIndex("0"), h.Table(g.If(t.Numbers == 0, h.Class("words")),
		h.THead(h.Tr(head)),
		h.TBody(g.Map(t.Rows, func(row []string) g.Node {
			var cells g.Group
			for i, cell := range row {
				cells = append(cells, h.Td(number(i), clean(cell)))
			}
			return h.Tr(cells)
		})),
	))
}

func textHTML(t Text) g.Node {
	return g.Map(t, func(s Span) g.Node {
		if s.Code {
			return h.Code(clean(s.Text))
		}
		return clean(s.Text)
	})
}
