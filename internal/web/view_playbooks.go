package web

import (
	"fmt"
	"net/url"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

func playbookAddress(p page, name string) string {
	return p.Root + "playbooks?" + url.Values{"playbook": {name}}.Encode()
}

// fewMatchers is how many matchers a playbook in the list has.
const fewMatchers = 4

const noMatch = "No alert starts it."

func playbooksView(p page, all []playbookData, set *playbook.Set) g.Node {
	return g.Group{
		h.H1(g.Text("Playbooks")),
		quiet(g.Text(runview.Count(len(all), "playbook")+" in force, together "), code(runview.Short(set.Digest(), 19)), g.Text(".")),
		some(len(all) == 0, quiet(g.Text("No playbook is loaded, so no alert starts a run."))),
		h.Ul(h.Class("runs"), g.Map(all, func(x playbookData) g.Node {
			match := x.Match()
			return h.Li(
				h.A(h.Class("run"), h.Href(playbookAddress(p, x.Name)), h.B(text(x.Name))), g.Text(" "), pill("", x.Level),
				some(x.Title != "", h.P(text(x.Title))),
				some(len(match) == 0, h.P(g.Text(noMatch))),
				some(len(match) > 0, h.P(g.Text("For "), g.Map(match[:min(len(match), fewMatchers)], func(m string) g.Node { return g.Group{code(clip(m, maxLine)), g.Text(" ")} }),
					some(len(match) > fewMatchers, g.Text("and "+runview.Count(len(match)-fewMatchers, "other"))))),
				quiet(g.Text("Levers: "), text(runview.OrText(strings.Join(x.Levers, ", "), "none")), g.Text(" · "), code(runview.Short(x.Digest, 19)), g.Text(" · "+testsLine(x.Tests))),
			)
		})),
	}
}

func playbookView(p page, d *playbookData) g.Node {
	return g.Group{
		h.H1(text(d.Name), g.Text(" "), pill("", d.Level)),
		some(d.Title != "", h.P(h.Class("lead"), text(d.Title))),
		some(d.Description != "", h.P(long(d.Description))),
		g.Map(strings.Split(d.Preamble(), "\n\n"), func(s string) g.Node { return some(s != "", h.P(long(s))) }),
		aboutPlaybook(d),
		section("match", "Alerts that start it", some(len(d.Match()) == 0, quiet(g.Text(noMatch))), h.Ul(g.Map(d.Match(), func(m string) g.Node { return h.Li(h.Code(text(m))) })),
			some(len(d.Services()) > 0, h.P(g.Text("Only for "), text(strings.Join(d.Services(), ", ")), g.Text(".")))),
		section("diagram", "Diagram", diagramView(d.Diagram, "Diagram of playbook "+d.Name+"; the states below have it in words", "")),
		testsView(d.Tests),
		section("states", "States", h.Ol(h.Class("states"), g.Map(d.States, func(st *playbook.State) g.Node { return stateView(d.Playbook, st) }))),
		h.P(h.A(h.Href(p.Root+"history?"+url.Values{"playbook": {d.Name}}.Encode()), g.Text("Its runs"))),
		some(len(d.Pauses) == 0, pauseOf(p, Pause{Playbook: d.Name}, "Pause this playbook", "No run of this playbook changes anything until the pause is lifted.", d.Lacks)),
	}
}

// testsLine describes the tests of a playbook in short.
func testsLine(t *Tested) string {
	if t == nil {
		return "no tests known"
	}
	return fmt.Sprintf("%s, %d of %d edges", runview.Count(t.Cases, "test case"), t.Taken, t.Edges)
}

func testsView(t *Tested) g.Node {
	if t == nil {
		return section("tests", "Tests", quiet(g.Text("No tests are known: the playbook is not one of the program's own, or differs from it. Test it with "),
			code("responder playbook test DIR --cover"), g.Text(".")))
	}
	return section("tests", "Tests",
		h.P(g.Textf("%s: they enter %d of %d states and take %d of %d edges.", runview.Count(t.Cases, "case"), t.Seen, t.States, t.Taken, t.Edges)),
		quiet(g.Textf("All of them hold for exactly this document; the program was built with the record of that. The shipped playbooks together are also played in %d simulated fleets.", t.Worlds)))
}

func aboutPlaybook(d *playbookData) g.Node {
	var runbook g.Node
	if u := link(d.Runbook); u != "" {
		runbook = h.A(h.Href(u), h.Rel("noreferrer noopener"), text(u))
	} else if d.Runbook != "" {
		runbook = h.Code(text(d.Runbook))
	}
	return h.Dl(
		some(d.Runbook != "", h.Dt(g.Text("Runbook")), h.Dd(runbook)),
		h.Dt(g.Text("Autonomy")), h.Dd(g.Text(d.Level), some(d.Override != "", g.Text(", by the configuration: "), text(d.Override)), some(d.Override == "" && d.SetsAutonomy, g.Text(", by its document")),
			some(d.Override == "" && !d.SetsAutonomy, g.Text(", the default"))),
		h.Dt(g.Text("Levers")), h.Dd(text(runview.OrText(strings.Join(d.Levers, ", "), "none"))),
		h.Dt(g.Text("Source")), h.Dd(text(d.Source)),
		h.Dt(g.Text("Digest")), h.Dd(code(d.Digest)),
	)
}

func stateView(book *playbook.Playbook, st *playbook.State) g.Node {
	return h.Li(h.ID("state-"+segment(st.Name)),
		h.B(text(runview.StateWhat(st))), g.Iff(st.Autonomy != nil, func() g.Node { return g.Group{g.Text(" "), pill("", st.Autonomy.String())} }),
		some(st.Approve != nil, h.P(g.Text("Asks "), text(approval(st.Approve)))),
		g.Iff(st.Steps != nil, func() g.Node { return h.P(g.Text("In steps: "), text(st.Steps.Text())) }),
		some(len(st.Next) > 0, h.Ul(h.Class("next"), g.Map(st.Next, func(e playbook.Edge) g.Node {
			return h.Li(h.Span(h.Class("edge"), text(runview.OrText(e.Text(), "otherwise"))), g.Text(" → "), h.A(h.Href("#state-"+segment(e.To)), text(title(book, e.To))))
		}))),
		some(st.OnError != "", h.P(h.Span(h.Class("edge"), g.Text("a check cannot answer")), g.Text(" → "), h.A(h.Href("#state-"+segment(st.OnError)), text(title(book, st.OnError))))),
		g.Iff(st.Kind == playbook.StateLever, func() g.Node {
			return folded("fate-"+segment(st.Name), false, "What becomes of the change", h.Dl(g.Map(fatesOf(book, st), func(f fate) g.Node {
				return g.Group{h.Dt(g.Text(f.Verdict)), h.Dd(text(f.Then))}
			})))
		}),
	)
}
