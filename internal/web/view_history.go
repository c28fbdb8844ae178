package web

import (
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/runview"
)

func historyView(p page, d *historyData) g.Node {
	return g.Group{
		h.H1(g.Text("History")),
		searchView(p, d),
		some(len(d.Rows) > 0, h.Ul(h.Class("runs"), g.Map(d.Rows, func(r row) g.Node { return pastRow(p, r) }))),
		foundView(d),
		some(d.Before != "" || d.Older != "", h.P(h.Class("buttons"),
			some(d.Before != "", h.A(h.Href(d.Newest), g.Text("Newest"))),
			some(d.Older != "", h.A(h.Href(d.Older), g.Text("Older"))),
		)),
	}
}

// foundView renders how far the search looked.
func foundView(d *historyData) g.Node {
	switch {
	case len(d.Rows) == 0 && d.Older != "":
		return quiet(g.Text("None of these "+runview.Count(d.Read, "run")+" is one. "), g.Text("Older looks further back."))
	case len(d.Rows) == 0 && d.Before != "":
		return quiet(g.Text("No older run is one."))
	case len(d.Rows) == 0 && d.narrow():
		return quiet(g.Text("No run is one. Archived runs are not searched."))
	case len(d.Rows) == 0:
		return quiet(g.Text("There has been no run."))
	case d.narrow() && d.Older != "":
		return quiet(g.Text(strconv.Itoa(len(d.Rows)) + " of " + runview.Count(d.Read, "run") + ". Older looks further back."))
	default:
		return nil
	}
}

func searchView(p page, d *historyData) g.Node {
	input := func(label, name, value string) g.Node {
		return h.Label(g.Text(label), h.Input(h.Name(name), h.Value(value), h.MaxLength(strconv.Itoa(maxLine)), h.AutoComplete("off")))
	}
	return h.Details(h.Class("narrow"), h.ID("search"), g.If(d.narrow(), g.Attr("open")), h.Summary(g.Text("Search")),
		h.Form(h.Class("filter"), h.Method("get"), h.Action(p.Root+"history"), h.Role("search"),
			input("Service ", "service", d.Service), input("Playbook ", "playbook", d.Playbook),
			h.Label(g.Text("Outcome "), h.Select(h.Name("outcome"), h.Option(h.Value(""), g.Text("any")),
				g.Map(standings(), func(s string) g.Node { return h.Option(g.If(s == d.Outcome, h.Selected()), g.Text(s)) }))),
			input("Run ", "run", d.Text),
			h.Button(g.Text("Search")),
			some(d.narrow(), h.A(h.Href(p.Root+"history"), g.Text("everything"))),
		),
		quiet(g.Text("A part of the name is enough. The address of the result can be shared.")),
	)
}

// rowView renders a run in a list, with its details below its status.
func rowView(p page, r row, below ...g.Node) g.Node {
	return h.Li(h.Class(r.Tone),
		h.A(h.Class("run"), h.Href(p.Root+"runs/"+segment(r.ID)), h.B(text(r.Service)), g.Text(" "), text(r.Playbook)),
		g.Text(" "), pill(r.Tone, r.Status),
		g.Group(below),
		some(r.Why != "", h.P(text(r.Why))),
	)
}

// pastRow renders a run among others of any age.
func pastRow(p page, r row) g.Node {
	took := ", took " + r.Took
	if r.Took == "" {
		took = ", for " + span(p.Now.Sub(r.Began)) + " so far"
	}
	return rowView(p, r, h.P(g.Text("began "), clock(r.Began), g.Text(took), after(" · ", r.Alert)), quiet(code(r.ID)))
}
