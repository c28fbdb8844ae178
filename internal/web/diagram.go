package web

import (
	"cmp"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/playbook"
)

// Sizes of a diagram, in pixels. Four columns fit on a wide page.
const (
	boxWidth  = 152
	boxHeight = 26
	rowStep   = 38
	columnGap = 96 // where edges and their labels are
	margin    = 12
)

// diagram is a playbook's graph with a place for each state.
type diagram struct {
	Boxes         []box
	Edges         []edge
	Width, Height int
}

// box is a state. X and Y are its upper left corner.
type box struct {
	playbook.DiagramNode
	X, Y   int
	column int
}

// edge is an edge between two boxes.
type edge struct {
	From, To int // positions in Boxes
	Text     string
	Taken    bool
	Back     bool // it leads to the same column or one before it
	Labeled  bool // its text is shown beside it, right before its target
}

// labelFrom is the number of edges that leave a state from which they get labels.
const labelFrom = 3

// layout computes the position of each state. Its column is its distance from the start, in
// edges; ends and diverts are in the last column. Rows follow the states that lead there.
func layout(g playbook.Diagram) diagram {
	d := diagram{Boxes: make([]box, len(g.Nodes))}
	for i, n := range g.Nodes {
		d.Boxes[i].DiagramNode = n
	}
	columns := d.place(g, depths(g))
	for c, column := range columns {
		for row, i := range column {
			d.Boxes[i].X, d.Boxes[i].Y = margin+c*(boxWidth+columnGap), margin+row*rowStep
			d.Height = max(d.Height, d.Boxes[i].Y+boxHeight+margin)
		}
	}
	d.Width = 2*margin + len(columns)*(boxWidth+columnGap) - columnGap
	d.connect(g)
	return d
}

// depths returns the column of each state.
func depths(g playbook.Diagram) []int {
	depth := make([]int, len(g.Nodes))
	for i := range depth {
		depth[i] = -1
	}
	next, deepest := []int{0}, 0
	if len(depth) > 0 {
		depth[0] = 0
	}
	for len(next) > 0 && len(depth) > 0 {
		at := next[0]
		next = next[1:]
		for _, l := range g.Links {
			if l.From == at && depth[l.To] < 0 {
				depth[l.To] = depth[at] + 1
				next = append(next, l.To)
			}
		}
	}
	for i, n := range g.Nodes {
		if !n.Last() {
			deepest = max(deepest, depth[i])
		}
	}
	for i, n := range g.Nodes {
		if n.Last() && len(g.Nodes) > 1 {
			depth[i] = deepest + 1
		}
	}
	return depth
}

// place returns the states of each column, from top to bottom.
func (d *diagram) place(g playbook.Diagram, depth []int) [][]int {
	columns := make([][]int, slices.Max(append(slices.Clone(depth), 0))+1)
	for i, c := range depth {
		d.Boxes[i].column = max(c, 0)
		columns[max(c, 0)] = append(columns[max(c, 0)], i)
	}
	row := make([]float64, len(depth))
	for _, column := range columns {
		slices.SortStableFunc(column, func(a, b int) int {
			return cmp.Or(cmp.Compare(d.above(g, row, a), d.above(g, row, b)), a-b)
		})
		for r, i := range column {
			row[i] = float64(r) - float64(len(column)-1)/2
		}
	}
	return columns
}

// above returns the mean row of the states in earlier columns that lead to a state.
func (d *diagram) above(g playbook.Diagram, row []float64, to int) float64 {
	sum, n := 0.0, 0
	for _, l := range g.Links {
		if l.To == to && d.Boxes[l.From].column < d.Boxes[to].column {
			sum += row[l.From]
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// connect adds the edges. Those between the same two states are drawn as one, with all
// their conditions. An edge has a label if it was taken, or if many leave its state, and each
// state gets one label.
func (d *diagram) connect(g playbook.Diagram) {
	leave := map[int]int{}
	for _, l := range g.Links {
		leave[l.From]++
	}
	seen, labeled := map[[2]int]int{}, map[int]bool{}
	for _, l := range g.Links {
		back := d.Boxes[l.To].column <= d.Boxes[l.From].column
		if i, ok := seen[[2]int{l.From, l.To}]; ok {
			d.Edges[i].Text = strings.Trim(d.Edges[i].Text+" · "+l.Text, " ·")
			d.Edges[i].Taken = d.Edges[i].Taken || l.Taken
			continue
		}
		seen[[2]int{l.From, l.To}] = len(d.Edges)
		d.Edges = append(d.Edges, edge{From: l.From, To: l.To, Text: l.Text, Taken: l.Taken, Back: back})
	}
	// Those back are drawn first, below the others. The taken ones are drawn last, over the
	// others, and are the first to get a label.
	slices.SortStableFunc(d.Edges, func(a, b edge) int { return order(a) - order(b) })
	for i, e := range slices.Backward(d.Edges) {
		if e.Text != "" && !e.Back && !labeled[e.To] && (e.Taken || leave[e.From] >= labelFrom) {
			d.Edges[i].Labeled, labeled[e.To] = true, true
		}
	}
}

func order(e edge) int {
	switch {
	case e.Taken:
		return 2
	case e.Back:
		return 0
	}
	return 1
}
