package playbook

import (
	"slices"
)

// Diagram is a playbook's graph as data, for a program that draws it.
type Diagram struct {
	Nodes []DiagramNode // in the order runs enter them; the first is the start
	Links []DiagramLink // by their source, in the playbook's order
}

// DiagramNode is a state.
type DiagramNode struct {
	Name, Title string
	What        string // what it does, e.g. check slo.burn
	Kind        StateKind
	Visited     bool // the path goes through it
}

// Last reports whether no edge leaves the state.
func (n DiagramNode) Last() bool { return n.Kind == StateEnd || n.Kind == StateDivert }

// DiagramLink is an edge. Error edges are included, parallel edges are separate.
type DiagramLink struct {
	From, To int    // positions in Nodes
	Text     string // its label or condition; empty: always
	Taken    bool   // the path goes from one directly to the other
}

// DiagramOf returns the graph of the playbook with a path, as [Graph] draws it. States
// of the path that the playbook does not have are left out. States that no path from the
// start leads to are not part of it.
func DiagramOf(p *Playbook, path []string) Diagram {
	g := graph{p: p, path: path}
	var out Diagram
	at := map[*State]int{}
	order := g.order()
	if i := slices.Index(order, p.byName[p.Start]); i > 0 { // a start that is an end itself, or that edges lead back to
		order = slices.Insert(slices.Delete(order, i, i+1), 0, p.byName[p.Start])
	}
	for i, s := range order {
		at[s] = i
		out.Nodes = append(out.Nodes, DiagramNode{Name: s.Name, Title: s.Title, What: s.what(), Kind: s.Kind, Visited: g.visited(s)})
	}
	for i, s := range order {
		for _, l := range g.links(s) {
			out.Links = append(out.Links, DiagramLink{From: i, To: at[l.to], Text: l.text, Taken: l.taken})
		}
	}
	return out
}
