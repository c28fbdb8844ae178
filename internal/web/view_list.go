package web

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/runview"
)

func listView(p page, d *listData) g.Node {
	return g.Group{
		h.H1(g.Text("Runs")),
		filterView(p, d),
		some(d.Outcome == "",
			h.H2(g.Text("Open")),
			some(len(d.Open) > 0, h.Ul(h.Class("runs"), g.Map(d.Open, func(r row) g.Node { return openRow(p, r) }))),
			some(d.MoreOpen, quiet(g.Text("There are more. Filter by service, or run "), code("responder runs list --open --limit 1000"), g.Text("."))),
			some(len(d.Open) == 0, quiet(g.Text("No run is open"), after(" on ", d.Service), g.Text("."))),
		),
		h.H2(g.Text("Ended")),
		endedView(p, d),
	}
}

func filterView(p page, d *listData) g.Node {
	filtered := d.Service != "" || d.Outcome != ""
	return h.Details(h.Class("narrow"), g.If(filtered, g.Attr("open")), h.Summary(g.Text("Filter")),
		h.Form(h.Class("filter"), h.Method("get"), h.Action(p.Root),
			h.Label(g.Text("Service "), h.Input(h.Name("service"), h.Value(d.Service), h.MaxLength("300"), h.AutoComplete("off"))),
			h.Label(g.Text("Outcome "), h.Select(h.Name("outcome"), h.Option(h.Value(""), g.Text("any, and open ones")), outcomeOptions(d))),
			h.Button(g.Text("Show")),
			some(filtered, h.A(h.Href(p.Root), g.Text("everything"))),
		),
	)
}

func outcomeOptions(d *listData) g.Node {
	var out g.Group
	for _, o := range d.Outcomes {
		out = append(out, h.Option(g.If(string(o) == d.Outcome, h.Selected()), g.Text(string(o))))
	}
	return out
}

// rowView renders a run in the list, with its details below its status.
func rowView(p page, r row, below ...g.Node) g.Node {
	return h.Li(h.Class(r.Tone),
		h.A(h.Class("run"), h.Href(p.Root+"runs/"+segment(r.ID)), h.B(text(r.Service)), g.Text(" "), text(r.Playbook)),
		g.Text(" "), pill(r.Tone, r.Status),
		g.Group(below),
		some(r.Why != "", h.P(text(r.Why))),
	)
}

func openRow(p page, r row) g.Node {
	return rowView(p, r,
		h.P(text(r.State), after(" · ", r.Alert), g.Text(" · for "+span(p.Now.Sub(r.Began)))),
		some(r.For != "", h.P(h.B(g.Text("Waits for "), text(r.For)))),
		some(!r.Deadline.IsZero(), h.P(g.Text("until "), clock(r.Deadline), g.Text(", "+until(r.Deadline.Sub(p.Now))))),
	)
}

func endedView(p page, d *listData) g.Node {
	if len(d.Ended) == 0 {
		outcome := ""
		if d.Outcome != "" {
			outcome = " " + d.Outcome + ", of the newest " + runview.Count(d.Scanned, "ended run")
		}
		return quiet(g.Text("No run has ended"), after(" on ", d.Service), g.Text(outcome+"."))
	}
	return g.Group{
		h.Ul(h.Class("runs"), g.Map(d.Ended, func(r row) g.Node {
			return rowView(p, r, h.P(g.Text("began "), clock(r.Began), g.Text(", took "+r.Took), after(" · ", r.Alert)))
		})),
		some(d.MoreEnded, quiet(
			some(d.Outcome != "", g.Text("Of the newest "+runview.Count(d.Scanned, "ended run")+".")),
			g.Text(" Older ones: "), code("responder runs list --ended --limit 1000"),
			g.Text(", or the "), h.A(h.Href(p.Root+"audit"), g.Text("audit log")), g.Text("."),
		)),
	}
}
