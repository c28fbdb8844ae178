package playbook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// GraphFormat is an output format of [Graph].
type GraphFormat string

// The formats of a graph.
const (
	GraphText    GraphFormat = "text"    // boxes and arrows for a terminal
	GraphMermaid GraphFormat = "mermaid" // a stateDiagram-v2, as runbooks have it
	GraphDot     GraphFormat = "dot"     // Graphviz
)

// Graph draws the playbook's states, by their titles, and its edges. path lists
// the states a run went through, in order; they and the edges between them are
// marked. It may be empty.
func Graph(p *Playbook, path []string, format GraphFormat) (string, error) {
	for _, name := range path {
		if p.byName[name] == nil {
			return "", fmt.Errorf("draw %s: the path names the state %q, which it does not have", p.Name, name)
		}
	}
	g := graph{p: p, path: path}
	switch format {
	case GraphText:
		return g.text(), nil
	case GraphMermaid:
		return g.mermaid(), nil
	case GraphDot:
		return g.dot(), nil
	default:
		return "", fmt.Errorf("draw %s: unknown format %q: allowed are text, mermaid, dot", p.Name, format)
	}
}

// graph is a playbook being drawn.
type graph struct {
	p    *Playbook
	path []string
}

// link is an edge as drawn: error edges are included, parallel edges are
// separate.
type link struct {
	from, to *State
	text     string
	taken    bool
}

// visited reports whether the path goes through the state.
func (g graph) visited(s *State) bool { return slices.Contains(g.path, s.Name) }

// followed reports whether the path goes directly from one state to the other.
func (g graph) followed(from, to string) bool {
	for i := 0; i+1 < len(g.path); i++ {
		if g.path[i] == from && g.path[i+1] == to {
			return true
		}
	}
	return false
}

// links lists the edges that leave a state. A lever with steps leads back to
// itself, or to the state between two steps.
func (g graph) links(s *State) []link {
	var out []link
	if s.Steps != nil {
		next := cmp.Or(s.Steps.Via, s.Name)
		out = append(out, link{from: s, to: g.p.byName[next], text: s.Steps.Text(), taken: g.followed(s.Name, next)})
	}
	for _, e := range s.Next {
		text := e.Text()
		if text == "" && len(s.Next) > 1 {
			text = "otherwise"
		}
		out = append(out, link{from: s, to: g.p.byName[e.To], text: text, taken: g.followed(s.Name, e.To)})
	}
	if s.OnError != "" {
		out = append(out, link{from: s, to: g.p.byName[s.OnError], text: "unknown", taken: g.followed(s.Name, s.OnError)})
	}
	return out
}

// what returns what a state does, for people.
func (s *State) what() string {
	switch s.Kind {
	case StateCheck, StateLever:
		return string(s.Kind) + " " + s.Step
	case StateGather:
		return "gather " + strings.Join(s.Gathers(), ", ")
	case StateWait:
		if s.Step != "" {
			return "wait for " + s.Step
		}
		return "wait"
	case StateDivert:
		return "divert to " + s.Divert
	case StateEnd:
		return "end: " + string(s.End)
	case StateNotify:
		if s.Once != nil {
			return "notify once"
		}
		return "notify"
	default:
		return string(s.Kind)
	}
}

// mermaid draws a state diagram. A state whose title is one word is named by
// it. The end of a resolved run is [*].
func (g graph) mermaid() string {
	ids := g.mermaidIDs()
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, s := range g.p.States {
		if id := ids[s]; id != s.Title && id != mermaidEnd {
			fmt.Fprintf(&b, "    state \"%s\" as %s\n", mermaidText(s.Title), id)
		}
	}
	fmt.Fprintf(&b, "    [*] --> %s\n", ids[g.p.State(g.p.Start)])
	for _, s := range g.p.States {
		for _, l := range g.links(s) {
			fmt.Fprintf(&b, "    %s --> %s", ids[s], ids[l.to])
			if l.text != "" {
				fmt.Fprintf(&b, ": %s", mermaidText(l.text))
			}
			b.WriteString("\n")
		}
		switch {
		case ids[s] == mermaidEnd:
		case s.Kind == StateEnd:
			fmt.Fprintf(&b, "    %s --> [*]: %s\n", ids[s], s.End)
		case s.Kind == StateDivert:
			fmt.Fprintf(&b, "    %s --> [*]: %s\n", ids[s], mermaidText(s.what()))
		}
	}
	if len(g.path) > 0 {
		b.WriteString("    classDef taken fill:#d5f5d5,stroke:#2a7a2a,stroke-width:2px\n")
		for _, s := range g.p.States {
			if g.visited(s) && ids[s] != mermaidEnd {
				fmt.Fprintf(&b, "    class %s taken\n", ids[s])
			}
		}
	}
	return b.String()
}

const mermaidEnd = "[*]"

// mermaidIDs returns an identifier for each state: its title if that is one
// plain word and unique, else its name.
func (g graph) mermaidIDs() map[*State]string {
	uses := map[string]int{}
	for _, s := range g.p.States {
		uses[s.Title]++
		uses[s.Name]++
	}
	ids := map[*State]string{}
	for _, s := range g.p.States {
		ids[s] = strings.ReplaceAll(s.Name, "-", "_")
		switch {
		case s.End == EndResolved:
			ids[s] = mermaidEnd
		case plainWord(s.Title) && uses[s.Title] == 1:
			ids[s] = s.Title
		}
	}
	return ids
}

func plainWord(s string) bool {
	switch strings.ToLower(s) {
	case "", "state", "end", "note", "class", "direction", "classdef":
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

// mermaidText escapes text for a label.
func mermaidText(s string) string {
	return strings.NewReplacer("\n", " ", `"`, "'", ":", "#58;", ";", "#59;", "<", "#lt;", ">", "#gt;", "{", "#123;", "}", "#125;").Replace(s)
}

// dot draws a Graphviz graph.
func (g graph) dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n", dotText(g.p.Name))
	b.WriteString("    rankdir=TB\n    node [shape=box style=rounded fontname=\"sans-serif\"]\n    edge [fontname=\"sans-serif\" fontsize=10]\n")
	for _, s := range g.p.States {
		shape := map[StateKind]string{StateLever: "box", StateGate: "diamond", StateEnd: "doublecircle", StateDivert: "cds", StateNotify: "note"}[s.Kind]
		if shape == "" {
			shape = "box"
		}
		fmt.Fprintf(&b, "    %s [label=%s shape=%s%s]\n", dotText(s.Name), dotText(s.Title+"\n"+s.what()), shape, dotMark(g.visited(s)))
	}
	fmt.Fprintf(&b, "    start [shape=point]\n    start -> %s\n", dotText(g.p.Start))
	for _, s := range g.p.States {
		for _, l := range g.links(s) {
			fmt.Fprintf(&b, "    %s -> %s [label=%s%s]\n", dotText(s.Name), dotText(l.to.Name), dotText(l.text), dotMark(l.taken))
		}
	}
	b.WriteString("}\n")
	return b.String()
}

func dotMark(taken bool) string {
	if !taken {
		return ""
	}
	return " color=darkgreen penwidth=2"
}

func dotText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
