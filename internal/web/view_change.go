package web

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
)

// changeView renders a lever, from its plan to its result. It is folded if
// another lever followed.
func changeView(c *change) g.Node {
	heading := h.H2(text(c.Title))
	if c.Plan != nil {
		heading = h.H2(g.Text("Plan: "), text(c.Plan.Summary))
	}
	body := h.Section(
		heading,
		planView(c.Plan),
		proofView(c.Proof),
		guardsView(c),
		some(len(c.Votes) > 0, h.H3(g.Text("Decided")), h.Ul(g.Map(c.Votes, voteView))),
		some(len(c.Results) > 0, h.H3(g.Text("Result")), h.Ul(h.Class("guards"), g.Map(c.Results, func(l runview.Line) g.Node {
			return h.Li(g.If(l.Tone != "", h.Class(string(l.Tone))), text(l.What), g.Text(" "), h.Small(clock(l.At)))
		}))),
		readingsView(c.Readings()),
		some(c.Digest != "", quiet(g.Text("digest "), code(c.Digest))),
	)
	if !c.Old {
		return body
	}
	return h.Details(h.Class("old"),
		h.Summary(g.Text("Tried before: "), text(c.Title), g.Map(c.Results, func(l runview.Line) g.Node { return g.Text(" · " + short(l.What)) })),
		body,
	)
}

func planView(p *machine.Plan) g.Node {
	if p == nil {
		return nil
	}
	entry := func(term string, nodes ...g.Node) g.Node {
		return g.Group{h.Dt(g.Text(term)), h.Dd(nodes...)}
	}
	return g.Group{
		h.P(text(p.Target.Kind), g.Text(" "), h.Code(text(p.Target.Namespace), g.Text("/"), text(p.Target.Name))),
		wide("diff", "What changes", g.Map(p.Diff, func(f machine.FieldChange) g.Node {
			return g.Group{
				h.P(h.Class("field"), value(f.Path)),
				some(f.From != "", h.Pre(h.Class("del"), h.Span(g.Text("- ")), value(f.From))),
				some(f.To != "", h.Pre(h.Class("add"), h.Span(g.Text("+ ")), value(f.To))),
			}
		})),
		h.Dl(
			entry("Risk", text(string(p.Risk)), after(": ", p.Why)),
			entry("Ready replicas", text(runview.CapacityLine(p.Capacity))),
			entry("Take back", g.Text("undo: "), text(p.Undo)),
			g.Map(p.Notes, func(s string) g.Node { return entry("Note", text(s)) }),
			some(p.Lacks != "", entry("Lacks", text(p.Lacks))),
		),
	}
}

func proofView(lines []machine.ProofLine) g.Node {
	if len(lines) == 0 {
		return nil
	}
	return h.Details(
		h.Summary(g.Text("Proof: "), text(lines[len(lines)-1].Text)),
		h.Ul(g.Map(lines, func(l machine.ProofLine) g.Node {
			return h.Li(long(l.Text), some(l.Query != "", h.Br(), h.Code(long(l.Query))))
		})),
	)
}

func guardsView(c *change) g.Node {
	if len(c.Guards) == 0 && c.Terms == nil {
		return nil
	}
	said, terms := "not all passed", machine.Terms{}
	if c.Passed() {
		said = runview.Count(len(c.Guards), "guard") + " passed"
	}
	if c.Terms != nil {
		terms = *c.Terms
	}
	switch n := len(terms.Needs); n {
	case 0:
	case 1:
		said += ", 1 rule requires approval"
	default:
		said += ", " + runview.Count(n, "rule") + " require approval"
	}
	list := g.Map(c.Guards, func(v machine.GuardVerdict) g.Node {
		tone := toneBad
		switch {
		case v.OK:
			tone = toneGood
		case v.Wait:
			tone = toneWait
		}
		return h.Li(h.Class(tone), h.B(g.Text(runview.GuardWord(v))), g.Text(" "), text(v.Guard), g.Text(": "), text(v.Why))
	})
	if most := terms.Cap; most != nil {
		list = append(list, h.Li(h.B(g.Text("at most")), g.Text(" "+most.Level.String()+": "), text(most.Rule)))
	}
	if m := terms.Merge; m != nil {
		list = append(list, h.Li(h.B(g.Text("merged by")), g.Text(" "+string(m.By)+": "), text(m.Rule)))
	}
	for _, n := range terms.Needs {
		list = append(list, h.Li(h.B(g.Text("needs")), g.Text(" "), text(n.Who()), g.Text(": "), text(n.Rule)))
	}
	return h.Details(g.If(!c.Passed(), g.Attr("open")), h.Summary(g.Text("Guards and policy: "+said)), h.Ul(h.Class("guards"), list))
}

func voteView(d machine.Decision) g.Node { return h.Li(text(runview.VoteLine(&d))) }

func readingsView(list []machine.Reading) g.Node {
	return some(len(list) > 0, h.H3(g.Text("Newest sample")), h.Ul(h.Class("guards"), g.Map(list, func(r machine.Reading) g.Node {
		tone, word := toneBad, "no"
		if r.OK {
			tone, word = toneGood, "ok"
		}
		return h.Li(h.Class(tone), h.B(g.Text(word)), g.Text(" "), text(r.Name), g.Text(": "), text(runview.ReadingText(r)))
	})))
}
