package playbook

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// graphWidth is the maximum width of the drawing for a terminal.
const graphWidth = 78

// text draws each state as a box, in the order runs enter them, with an arrow
// for each edge. With many edges to one state this is easier to read than
// crossing lines.
func (g graph) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", g.p.Title)
	if len(g.path) > 0 {
		b.WriteString("(double lines show the path of the run)\n")
	}
	b.WriteString("\n")
	for _, s := range g.order() {
		g.box(&b, s)
	}
	return b.String()
}

// order returns the states in the order runs enter them: a state comes after
// all states that lead to it, ends last.
func (g graph) order() []*State {
	var out []*State
	seen := map[*State]bool{}
	var visit func(s *State)
	visit = func(s *State) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		ls := g.links(s)
		for _, l := range slices.Backward(ls) {
			visit(l.to)
		}
		out = append(out, s)
	}
	visit(g.p.State(g.p.Start))
	slices.Reverse(out)
	slices.SortStableFunc(out, func(a, b *State) int { return rank(a) - rank(b) })
	return out
}

func rank(s *State) int {
	if s.Kind == StateEnd || s.Kind == StateDivert {
		return 1
	}
	return 0
}

// lines are the characters that draw a box or an arrow.
type lines struct{ tl, tr, bl, br, h, v, tee, last, out string }

func plainLines() lines {
	return lines{"┌", "┐", "└", "┘", "─", "│", "├", "└", "┬"}
}

func doubleLines() lines {
	return lines{"╔", "╗", "╚", "╝", "═", "║", "╠", "╚", "╦"}
}

// box draws one state and its edges.
func (g graph) box(b *strings.Builder, s *State) {
	l := plainLines()
	if g.visited(s) {
		l = doubleLines()
	}
	links := g.links(s)
	if !slices.ContainsFunc(links, func(k link) bool { return k.taken }) && g.visited(s) {
		l.out = "╤"
	}
	title, what := shorten(s.Title, 40), shorten(s.what(), graphWidth-48)
	inner := " " + title + "   " + what + " "
	width := utf8.RuneCountInString(inner)
	bottom := strings.Repeat(l.h, width)
	if len(links) > 0 {
		bottom = l.h + l.out + strings.Repeat(l.h, width-2)
	}
	start := "  "
	if s.Name == g.p.Start {
		start = "▶ "
	}
	fmt.Fprintf(b, "  %s%s%s\n%s%s%s%s\n  %s%s%s\n", l.tl, strings.Repeat(l.h, width), l.tr, start, l.v, inner, l.v, l.bl, bottom, l.br)
	for i, k := range links {
		g.arrow(b, links, i, k)
	}
	if len(links) > 0 {
		b.WriteString("\n")
	}
}

// arrow draws one edge below its state's box.
func (g graph) arrow(b *strings.Builder, links []link, i int, k link) {
	l := plainLines()
	if k.taken {
		l = doubleLines()
	}
	corner := l.tee
	if i == len(links)-1 {
		corner = l.last
	}
	to := shorten(k.to.Title, 30)
	room := graphWidth - 16 - utf8.RuneCountInString(to)
	text := shorten(k.text, room)
	fill := ""
	if text != "" {
		fill = " " + text + " "
	}
	dashes := max(1, 34-utf8.RuneCountInString(fill))
	fmt.Fprintf(b, "    %s%s%s%s%s %s\n", corner, l.h, fill, strings.Repeat(l.h, dashes), "▶", to)
}

// shorten shortens text to at most n characters on one line.
func shorten(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(1, n-1)]) + "…"
}
