package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// fan is a start that leads to n states, each of which ends.
func fan(n int) playbook.Diagram {
	g := playbook.Diagram{Nodes: []playbook.DiagramNode{{Name: "start", Title: "Start", Visited: true}}}
	for i := range n {
		g.Nodes = append(g.Nodes, playbook.DiagramNode{Name: fmt.Sprint("s", i), Title: fmt.Sprint("State ", i)})
		g.Links = append(g.Links, playbook.DiagramLink{From: 0, To: i + 1, Text: fmt.Sprint("when ", i), Taken: i == 1})
	}
	g.Nodes = append(g.Nodes, playbook.DiagramNode{Name: "end", Title: "End", Kind: playbook.StateEnd})
	for i := range n {
		g.Links = append(g.Links, playbook.DiagramLink{From: i + 1, To: n + 1}, playbook.DiagramLink{From: i + 1, To: 0, Text: "again", Taken: i == 1})
	}
	return g
}

func TestLayout(t *testing.T) {
	for name, g := range map[string]playbook.Diagram{
		"nothing":  {},
		"one":      {Nodes: []playbook.DiagramNode{{Name: "end", Kind: playbook.StateEnd}}},
		"fan":      fan(20),
		"few":      fan(2),
		"ends":     {Nodes: []playbook.DiagramNode{{Name: "a"}, {Name: "b", Kind: playbook.StateEnd}, {Name: "c", Kind: playbook.StateDivert}}, Links: []playbook.DiagramLink{{From: 0, To: 1}, {From: 0, To: 2}}},
		"itself":   {Nodes: []playbook.DiagramNode{{Name: "a"}, {Name: "b"}}, Links: []playbook.DiagramLink{{From: 0, To: 0, Taken: true}, {From: 0, To: 1}, {From: 0, To: 1, Taken: true}}},
		"no start": {Nodes: []playbook.DiagramNode{{Name: "a"}, {Name: "lost"}}},
	} {
		d := layout(g)
		fits(t, name, g, d)
		for range 3 {
			if diff := cmp.Diff(fmt.Sprint(d), fmt.Sprint(layout(g))); diff != "" {
				t.Errorf("%s: differs from time to time:\n%s", name, diff)
			}
		}
	}
	d := layout(fan(4))
	labels, back := 0, 0
	for _, e := range d.Edges {
		if e.Back {
			back++
		}
		if e.Labeled {
			labels++
		}
	}
	if back != 4 || labels != 4 || !d.Edges[len(d.Edges)-1].Taken || d.Edges[0].Taken {
		t.Errorf("%d edges back, %d labels, %+v", back, labels, d.Edges)
	}
}

// fits checks that every state is there once, within the picture, and over no other.
func fits(t *testing.T, name string, g playbook.Diagram, d diagram) {
	t.Helper()
	if len(d.Boxes) != len(g.Nodes) {
		t.Fatalf("%s: %d boxes for %d states", name, len(d.Boxes), len(g.Nodes))
	}
	for i, a := range d.Boxes {
		if a.Name != g.Nodes[i].Name || a.X < 0 || a.Y < 0 || a.X+boxWidth > d.Width || a.Y+boxHeight > d.Height {
			t.Errorf("%s: %s is at %d, %d of %d, %d", name, a.Name, a.X, a.Y, d.Width, d.Height)
		}
		for _, b := range d.Boxes[:i] {
			if a.X < b.X+boxWidth && b.X < a.X+boxWidth && a.Y < b.Y+boxHeight && b.Y < a.Y+boxHeight {
				t.Errorf("%s: %s covers %s", name, a.Name, b.Name)
			}
		}
	}
	for _, l := range g.Links {
		if !slices.ContainsFunc(d.Edges, func(e edge) bool { return e.From == l.From && e.To == l.To }) {
			t.Errorf("%s: the edge from %s to %s is not drawn", name, g.Nodes[l.From].Name, g.Nodes[l.To].Name)
		}
	}
}

// longRun is a run that went a hundred times through the largest playbook that is shipped.
func longRun(t *testing.T) (machine.State, []machine.Event) {
	t.Helper()
	shipped, err := playbook.LoadDir("../../playbooks", kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	book := shipped.All()[0]
	for _, p := range shipped.All() {
		if len(p.States) > len(book.States) {
			book = p
		}
		g := playbook.DiagramOf(p, nil)
		fits(t, p.Name, g, layout(g))
		if len(g.Nodes) != len(p.States) || g.Nodes[0].Name != p.Start {
			t.Errorf("%s: %d of %d states, the first is %s", p.Name, len(g.Nodes), len(p.States), g.Nodes[0].Name)
		}
	}
	events := recorded(t, "resolved")
	run := fold(events)
	run.Playbook, run.Path = book, nil
	at := run.Began
	for i := range 100 {
		st := book.States[i%len(book.States)]
		v := machine.Visit{State: st.Name, Visit: 1, At: at}
		if len(st.Next) > 0 {
			v.Edge, v.To = st.Next[0].Text(), st.Next[0].To
		}
		run.Path = append(run.Path, v)
		at = at.Add(time.Minute)
		events = append(events, machine.Event{Kind: machine.StateEntered, At: at, State: st.Name, Visit: i},
			machine.Event{Kind: machine.CheckCompleted, At: at, State: st.Name, Facts: []string{"ttft over 5m: 92.5 % of 1,652 requests were slow, at most 1 % may be; level, 91.9 % to 93.6 %"}},
			machine.Event{Kind: machine.EdgeTaken, At: at, State: st.Name, To: v.To, Message: v.Edge})
	}
	return run, events
}

func TestSize(t *testing.T) {
	run, events := longRun(t)
	h := &house{}
	h.add(run, events...)
	s := site(t, h)
	s.o.Curve = func(context.Context, machine.State) (Curve, error) {
		c := burning()
		c.Every = c.To.Sub(c.From) / 120
		for i := range c.Lines {
			for n := range 121 {
				c.Lines[i].Points = append(c.Lines[i].Points, CurvePoint{At: c.From.Add(time.Duration(n) * c.Every), Burn: float64(n)})
			}
		}
		return c, nil
	}
	began := time.Now()
	body := look(t, s, ada, http.MethodGet, "/runs/"+run.Start.Run).Body.String()
	t.Logf("%s with %d states: %d bytes in %v", run.Playbook.Name, len(run.Playbook.States), len(body), time.Since(began))
	if len(body) > 150_000 || strings.Count(body, `<g class="box`) != len(run.Playbook.States) {
		t.Errorf("%d bytes, %d boxes", len(body), strings.Count(body, `<g class="box`))
	}
}
