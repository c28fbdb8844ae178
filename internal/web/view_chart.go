package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/runview"
)

// Sizes of the chart, in pixels. Its width is that of the page: places across are in
// percent, so that letters are as large on a phone.
const (
	plotHeight = 180
	markStep   = 15 // of the rows of labels above the plot
	axisHeight = 18 // of the labels below it
)

// curvesView renders how the objective fared: the chart, or why there is none and the
// values of the proof.
func curvesView(d *runData) g.Node {
	if d.Curve == nil && d.NoCurve == "" && len(d.Curves) == 0 {
		return nil
	}
	return section("curves", "Burn rate",
		some(d.Curve != nil, chartView(d)),
		some(d.NoCurve != "", quiet(g.Text("No chart: "), text(d.NoCurve), g.Text("."))),
		some(len(d.Curves) > 0, folded("proof-values", d.Curve == nil, tense(d, "Values of the proof so far", "Values of the proof"),
			h.Pre(h.TabIndex("0"), g.Map(d.Curves, func(s string) g.Node { return g.Group{text(s), g.Text("\n")} })))),
	)
}

// folded renders content that is folded; its id lets the script remember that it is not.
func folded(id string, open bool, summary string, nodes ...g.Node) g.Node {
	return h.Details(h.ID(id), g.If(open, g.Attr("open")), h.Summary(text(summary)), g.Group(nodes))
}

func chartView(d *runData) g.Node {
	c := d.Curve
	if c == nil {
		return nil
	}
	s, rows := scaleOf(*c, plotHeight), 0
	marks := marksOf(d, *c, s)
	for _, m := range marks {
		rows = max(rows, m.Row+1)
	}
	top := 6 + rows*markStep
	height := top + plotHeight + axisHeight
	return g.Group{
		h.P(g.Text("How fast "), h.B(text(c.Objective)), g.Text(" uses up its error budget: 1× is what its objective of "+percent(c.Wanted)+" allows.")),
		h.Ul(h.Class("legend"), g.Map(c.Lines, func(l CurveLine) g.Node { return h.Li(legendView(*c, l)) })),
		picture("chart", chartText(*c, marks), attrs("width", "100%", "height", strconv.Itoa(height)),
			gridView(s, top),
			g.El("svg", h.Class("plot"), h.Aria("hidden", "true"), attrs("x", "0", "y", strconv.Itoa(top), "width", "100%", "height", strconv.Itoa(plotHeight),
				"viewBox", "0 0 1000 "+strconv.Itoa(plotHeight), "preserveAspectRatio", "none"),
				g.Map(c.Lines, func(l CurveLine) g.Node {
					return g.El("path", h.Class(lineClass(*c, l)), g.Attr("d", l.path(*c, s)))
				}),
			),
			g.Map(marks, func(m mark) g.Node { return markView(m, s, top) }),
		),
	}
}

// lineClass is how a line is drawn: the first, the short window, is solid.
func lineClass(c Curve, l CurveLine) string {
	if len(c.Lines) > 0 && c.Lines[0].Window == l.Window {
		return "line short"
	}
	return "line long"
}

// path returns the line as a path. A single value between gaps is a dot.
func (l CurveLine) path(c Curve, s scale) string {
	var b strings.Builder
	for _, run := range l.stretches(c) {
		for i, p := range run {
			word := "L"
			if i == 0 {
				word = "M"
			}
			fmt.Fprintf(&b, "%s%.0f %.1f", word, 10*s.x(p.At), s.y(p.Burn))
		}
		if len(run) == 1 {
			b.WriteString("h1")
		}
	}
	return b.String()
}

// gridView renders a line for each decade, and the time below.
func gridView(s scale, top int) g.Node {
	var out g.Group
	for v := float64(leastDecade); v <= s.top; v++ {
		class, label, y := "grid", times(math.Pow(10, v)), float64(top)+s.y(math.Pow(10, v))
		if v == 0 {
			class, label = "grid one", "1× objective"
		}
		at := strconv.FormatFloat(y, 'f', 1, 64)
		out = append(out,
			g.El("line", h.Class(class), attrs("x1", "0", "x2", "100%", "y1", at, "y2", at)),
			g.El("text", h.Class("scale"), attrs("x", "2", "y", strconv.FormatFloat(y-3, 'f', 1, 64)), g.Text(label)),
		)
	}
	for _, at := range s.ticks() {
		x := s.x(at)
		if x < 3 || x > 97 {
			continue
		}
		format := "15:04"
		if s.span > 48*time.Hour {
			format = "Jan 2"
		}
		out = append(out, g.El("text", h.Class("scale tick"), attrs("x", percentAttr(x), "y", strconv.Itoa(top+plotHeight+axisHeight-4)),
			g.If(format == "15:04", h.Data("at", at.UTC().Format(time.RFC3339))), g.Text(at.UTC().Format(format))))
	}
	return out
}

func markView(m mark, s scale, top int) g.Node {
	x, anchor, shift := percentAttr(s.x(m.At)), "start", "3"
	if left, _ := labelSpan(m, s); left < s.x(m.At) {
		anchor, shift = "end", "-3"
	}
	y := strconv.Itoa(14 + m.Row*markStep)
	return g.El("g", h.Class("mark "+m.Tone),
		g.El("title", g.Text(m.Name+" at "+stamp(m.At))),
		g.El("line", attrs("x1", x, "x2", x, "y1", strconv.Itoa(4+m.Row*markStep), "y2", strconv.Itoa(top+plotHeight))),
		g.El("text", attrs("x", x, "dx", shift, "y", y, "text-anchor", anchor), g.Text(short(m.Name))),
	)
}

// legendView tells a line's window, its largest and its newest value.
func legendView(c Curve, l CurveLine) g.Node {
	return g.Group{
		g.El("svg", h.Class("key"), attrs("width", "28", "height", "10", "aria-hidden", "true"), g.El("path", h.Class(lineClass(c, l)), g.Attr("d", "M1 5H27"))),
		g.Text(" " + windowText(c, l) + ": " + l.words(c)),
	}
}

func windowText(c Curve, l CurveLine) string {
	switch {
	case l.Window != "":
		return "over " + clip(l.Window, maxShort)
	case lineClass(c, l) == "line short":
		return "over the short window"
	}
	return "over the long window"
}

// words describes the line: its largest value and its newest.
func (l CurveLine) words(c Curve) string {
	runs := l.stretches(c)
	if len(runs) == 0 {
		return "no values"
	}
	most := 0.0
	for _, run := range runs {
		for _, p := range run {
			most = max(most, p.Burn)
		}
	}
	end := runs[len(runs)-1]
	return "peak " + times(most) + ", last " + times(end[len(end)-1].Burn)
}

// chartText describes the chart for those who do not see it.
func chartText(c Curve, marks []mark) string {
	out := "Burn rate from " + stamp(c.From) + " to " + stamp(c.To)
	for _, l := range c.Lines {
		out += "; " + windowText(c, l) + " " + l.words(c)
	}
	for _, m := range marks {
		out += "; " + m.Name + " at " + m.At.UTC().Format("15:04:05")
	}
	return out + "."
}

// phasesView renders where the time went, as a bar and in words.
func phasesView(d *runData) g.Node {
	var total time.Duration
	for _, p := range d.Phases {
		total += p.Took
	}
	if total <= 0 {
		return nil
	}
	var bar, list g.Group
	label, at := "Where the time went", 0.0
	for _, p := range d.Phases {
		share := 100 * float64(p.Took) / float64(total)
		bar = append(bar, g.El("rect", h.Class("phase "+p.Name), attrs("x", percentAttr(at), "y", "0", "width", percentAttr(share), "height", "100%"),
			g.El("title", g.Text(p.Name+" "+span(p.Took)))))
		list = append(list, h.Li(g.El("svg", h.Class("key"), attrs("width", "12", "height", "12", "aria-hidden", "true"),
			g.El("rect", h.Class("phase "+p.Name), attrs("width", "12", "height", "12", "rx", "2"))),
			g.Text(" "), h.B(g.Text(p.Name)), g.Text(" "+span(p.Took)+" "), h.Small(g.Text(runview.PhaseText[p.Name]))))
		label += fmt.Sprintf("; %s %s", p.Name, span(p.Took))
		at += share
	}
	return g.Group{
		picture("phases", label+".", attrs("width", "100%", "height", "14"), bar),
		h.Ul(h.Class("legend"), list),
	}
}

// times formats a burn rate.
func times(v float64) string {
	digits := 0
	switch {
	case v > 0 && v < leastBurn:
		return "below " + times(leastBurn)
	case v > 0 && v < 10 && v != math.Trunc(v):
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + "×"
}

func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1e7)/1e5, 'f', -1, 64) + " %"
}

// percentAttr is a length for an attribute, in per cent.
func percentAttr(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) + "%" }
