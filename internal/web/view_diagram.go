package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/runview"
)

// Characters that fit into a box, and between two columns.
const (
	boxLetters  = 22
	edgeLetters = 16
)

// picture renders an SVG that a screen reader calls by its label.
func picture(class, label string, nodes ...g.Node) g.Node {
	return g.El("svg", h.Class(class), h.Role("img"), h.Aria("label", clip(label, maxLine)), g.Group(nodes))
}

// attrs renders attributes from pairs of name and value.
func attrs(pairs ...string) g.Node {
	var out g.Group
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, g.Attr(pairs[i], pairs[i+1]))
	}
	return out
}

// diagramView renders a playbook, with the path of a run if there is one. The label is what
// a screen reader reads.
func diagramView(p diagram, label, caption string) g.Node {
	if len(p.Boxes) == 0 {
		return nil
	}
	width, height := strconv.Itoa(p.Width), strconv.Itoa(p.Height)
	if slices.ContainsFunc(p.Edges, func(e edge) bool { return e.Back }) {
		caption += " Dashed lines lead back; the states of the playbook list when."
	}
	return g.Group{
		wide("wide", "Diagram of the playbook, which scrolls", picture("diagram", label,
			attrs("width", width, "height", height, "viewBox", "0 0 "+width+" "+height),
			g.Map(p.Edges, func(e edge) g.Node { return edgeView(p, e) }),
			g.Map(p.Boxes, boxView),
			g.Map(p.Edges, func(e edge) g.Node { return edgeLabel(p, e) }),
		)),
		quiet(g.Text(strings.TrimSpace(caption))),
	}
}

func boxView(b box) g.Node {
	class := "box"
	if b.Visited {
		class += " lit"
	}
	if b.Last() {
		class += " last"
	}
	return g.El("g", h.Class(class),
		g.El("title", g.Text(short(b.Title)+" ("+short(b.What)+")")),
		g.El("rect", attrs("x", strconv.Itoa(b.X), "y", strconv.Itoa(b.Y), "width", strconv.Itoa(boxWidth), "height", strconv.Itoa(boxHeight), "rx", "6")),
		g.El("text", attrs("x", strconv.Itoa(b.X+boxWidth/2), "y", strconv.Itoa(b.Y+boxHeight/2+4)), g.Text(runview.Cut(b.Title, boxLetters))),
	)
}

func edgeView(p diagram, e edge) g.Node {
	class := "edge-line"
	if e.Back {
		class += " back"
	}
	if e.Taken {
		class += " lit"
	}
	return g.El("path", h.Class(class), g.Attr("d", e.line(p)), some(e.Text != "", g.El("title", g.Text(short(e.Text)))))
}

// backShift is how far below the middle of a box the edges back are, so that they are not on
// those that lead to later columns.
const backShift = 7

// line returns the path of an edge: from the right side to the left side of a later column,
// and back the other way.
func (e edge) line(p diagram) string {
	from, to := p.Boxes[e.From], p.Boxes[e.To]
	y1, y2 := from.Y+boxHeight/2, to.Y+boxHeight/2
	switch {
	case e.From == e.To:
		x := from.X + boxWidth
		return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, y1-6, x+40, y1-16, x+40, y1+16, x, y1+6)
	case from.column == to.column:
		x := from.X + boxWidth
		return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x, y1, x+60, y1, x+60, y2, x, y2)
	case e.Back:
		x1, x2 := from.X, to.X+boxWidth
		y1, y2 = y1+backShift, y2+backShift
		return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1-columnGap/2, y1, x2+columnGap/2, y2, x2, y2)
	default:
		x1, x2 := from.X+boxWidth, to.X
		return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1+columnGap/2, y1, x2-columnGap/2, y2, x2, y2)
	}
}

func edgeLabel(p diagram, e edge) g.Node {
	if !e.Labeled {
		return nil
	}
	class := "edge-text"
	if e.Taken {
		class += " lit"
	}
	to := p.Boxes[e.To]
	return g.El("text", h.Class(class), attrs("x", strconv.Itoa(to.X-6), "y", strconv.Itoa(to.Y+boxHeight/2-4)), g.Text(runview.Cut(e.Text, edgeLetters)))
}
