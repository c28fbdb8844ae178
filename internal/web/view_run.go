package web

import (
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/runview"
)

func runView(p page, d *runData) g.Node {
	return g.Group{
		runHead(p, d),
		phasesView(d),
		brokenView(p, d),
		curvesView(d),
		some(len(d.Evidence) > 0, section("evidence", "Evidence", g.Map(d.Evidence, evidenceView))),
		g.Map(d.Changes, changeView),
		askView(d),
		pathView(d),
		timelineView(d),
		standingView(d),
		stopView(d),
		quiet(g.Text("Run "), code(d.ID), g.Text(", playbook "), h.Code(text(d.Digest)), g.Text(". For programs: "),
			h.A(h.Href(p.Root+"api/v1/runs/"+segment(d.ID)), g.Text("this run")), g.Text(" and "),
			h.A(h.Href(p.Root+"api/v1/runs/"+segment(d.ID)+"/events"), g.Text("its events")), g.Text(" as JSON.")),
		askBar(p, d),
	}
}

// runHead renders the state of the run, the most important facts first.
func runHead(p page, d *runData) g.Node {
	took := "took " + d.Ended
	if d.Ended == "" {
		took = "for " + span(p.Now.Sub(d.Run.Began))
	}
	out := g.Group{
		saidView(d.Said),
		h.H1(text(d.Service), g.Text(" "), pill(d.Tone, d.Status)),
		h.P(h.Class("lead"), bookView(d), g.Text(" · "), text(d.State), g.Text(" · "+took)),
		some(d.Why != "", h.P(h.Class("why"), text(d.Why))),
		some(d.Run.Paused != "", notice(toneBad, g.Text("Paused: "), text(d.Run.Paused))),
	}
	if a := d.Alone; a != nil {
		out = append(out, notice(toneBad, h.B(g.Text("BREAK-GLASS:")), g.Text(" approved alone by "), text(a.By), g.Text(": "), text(a.Reason)))
	}
	if c := d.Run.Cancel; c != nil {
		out = append(out, notice(toneWait, text(c.By), g.Text(" requested to cancel it: "), text(c.Reason)))
	}
	out = append(out,
		some(d.Observed != "", h.P(h.Class("notice"), g.Text("Observe only: "), text(d.Observed))),
		some(d.Broken, notice(toneBad, h.Role("alert"), h.B(g.Text("The events of this run cannot be read.")),
			g.Text(" This page shows what is known without them. The service's log shows why; "), code(runview.VerifyCommand), g.Text(" checks the journal."))),
	)
	if what, until := d.Run.Awaits(); what != "" {
		out = append(out, notice(toneWait, h.B(g.Text("Waits for "), text(what)), g.Text(" until "), clock(until), g.Text(", then it is abandoned.")))
	}
	if q := d.Ask; q != nil {
		out = append(out, notice(toneWait, h.B(g.Text("Waits for "), text(q.Needed())), g.Text(" until "), clock(q.Deadline),
			g.Text(", "+until(q.Deadline.Sub(p.Now))+".")))
	}
	return out
}

// bookView names the playbook, with a link to its page if it is loaded.
func bookView(d *runData) g.Node {
	if d.Book == "" {
		return text(d.Playbook)
	}
	return h.A(h.Href(d.Book), text(d.Playbook))
}

func saidView(b *banner) g.Node {
	if b == nil {
		return nil
	}
	tone := toneBad
	if b.Good {
		tone = toneGood
	}
	return notice(tone, h.Role("alert"), h.B(g.Text(b.Text)), some(b.Detail != "", h.Br(), long(b.Detail)))
}

func brokenView(p page, d *runData) g.Node {
	return section("broken", tense(d, "What is broken", "What was broken"),
		g.Map(d.Alerts, func(a alertData) g.Node {
			state := "firing for " + span(p.Now.Sub(a.Since))
			switch {
			case a.Hand:
				state = "no alert"
			case !a.Firing:
				state = "resolved"
			case d.Ended != "":
				state = "was firing when the run ended"
			}
			return h.P(some(a.Summary != "", h.B(text(a.Summary)), h.Br()), h.Code(text(a.Line)), h.Br(), g.Text(state+", began "), clock(a.Since),
				some(a.Episode != "", g.Text(" · "), h.A(h.Href(alertAddress(p, a.Episode)), g.Text("alert"))))
		}),
		some(d.More > 0, quiet(g.Text("and "+runview.Count(d.More, "more alert")))),
		some(len(d.Links) > 0, h.Ul(h.Class("links"), g.Map(d.Links, func(a address) g.Node {
			if a.URL == "" {
				return h.Li(g.Text(a.Name+": "), h.Code(text(a.Text)))
			}
			return h.Li(h.A(h.Href(a.URL), h.Rel("noreferrer noopener"), g.Text(a.Name)))
		}))),
	)
}

// tense selects one of two headings: of an open run, and of one that ended.
func tense(d *runData, open, ended string) string {
	if d.Ended == "" {
		return open
	}
	return ended
}

// evidenceView renders a check: its first line, and the others folded.
func evidenceView(e evidence) g.Node {
	rest := len(e.Facts) - 1 + e.More
	summary := "The query"
	switch {
	case rest > 0 && e.Query != "":
		summary = runview.Count(rest, "more line") + " and the query"
	case rest > 0:
		summary = runview.Count(rest, "more line")
	}
	return h.Div(h.Class("found"),
		h.H3(text(e.Title), some(e.Decided, g.Text(" "), pill(toneBusy, "decided the way")), g.Text(" "),
			h.Small(some(e.Step != "", text(e.Step), g.Text(", ")), clock(e.At))),
		some(len(e.Facts) > 0, g.Map(e.Facts[:min(1, len(e.Facts))], func(s string) g.Node { return h.P(text(s)) })),
		some(rest > 0 || e.Query != "", folded("of-"+segment(short(e.State)), false, summary,
			some(rest > 0, h.Ul(
				g.Map(e.Facts[min(1, len(e.Facts)):], func(s string) g.Node { return h.Li(text(s)) }),
				some(e.More > 0, h.Li(h.Class("quiet"), g.Text("and "+strconv.Itoa(e.More)+" more"))),
			)),
			some(e.Query != "", h.Pre(h.TabIndex("0"), long(e.Query))),
		)),
	)
}

func pathView(d *runData) g.Node {
	return section("path", "Path",
		some(d.Before > 0, quiet(g.Text(runview.Count(d.Before, "earlier step")+" not shown."))),
		h.Ol(h.Class("path"), g.If(d.Before > 0, g.Attr("start", strconv.Itoa(d.Before+1))), g.Map(d.Visits, func(v visit) g.Node {
			return h.Li(h.B(text(v.What)), g.Text(" "), h.Small(clock(v.At)),
				some(v.Edge != "", h.Br(), h.Span(h.Class("edge"), g.Text("→ "), text(v.Edge))))
		})),
		some(len(d.Diagram.Boxes) > 0, folded("diagram", true, "The playbook with the path of the run", diagramView(d.Diagram, "Diagram of playbook "+d.Playbook+" with the path of the run; the list above has the path in words", "The path of the run is bold."))),
	)
}

// newest is how many events of the timeline are not folded.
const newest = 12

func timelineView(d *runData) g.Node {
	earlier := max(0, len(d.Timeline)-newest)
	return section("timeline", "Timeline",
		some(d.Skipped > 0, quiet(g.Textf("%d earlier events are not shown; ", d.Skipped), code(runview.ShowCommand(d.ID)), g.Text(" shows them."))),
		some(earlier > 0, folded("earlier", false, runview.Count(earlier, "earlier event"), linesView(d.Timeline[:earlier]))),
		linesView(d.Timeline[earlier:]),
	)
}

// fewLines is how many lines below an event are not folded.
const fewLines = 4

func linesView(lines []runview.Line) g.Node {
	below := func(s string) g.Node { return g.Group{h.Br(), h.Small(text(s))} }
	return h.Ol(h.Class("timeline"), g.Map(lines, func(l runview.Line) g.Node {
		return h.Li(g.If(l.Tone != "", h.Class(string(l.Tone))), clock(l.At), g.Text(" "),
			h.Div(h.Span(text(l.What), some(len(l.Details) <= fewLines, g.Map(l.Details, below))),
				some(len(l.Details) > fewLines, h.Details(h.Summary(g.Text(runview.Count(len(l.Details), "line"))),
					h.Ul(g.Map(l.Details, func(s string) g.Node { return h.Li(h.Small(text(s))) }))))))
	}))
}
