package web

import (
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/rights"
)

func nowView(p page, d *nowData) g.Node {
	return g.Group{
		h.H1(g.Text("Now")),
		g.Map(d.Pauses, func(x Pause) g.Node { return pausedView(p, x, d.Lacks(rights.Unpause, x.Service)) }),
		h.H2(g.Text(counted("Waits for people", d.Waits))),
		some(d.Waits == 0, quiet(g.Text("No question is open."))),
		rowsView(p, d.Waiting, d.Waits, askedRow),
		h.H2(g.Text(counted("At work", d.Works))),
		some(d.Works == 0, quiet(g.Text("No run is at work. "), h.A(h.Href(p.Root+"history"), g.Text("Runs that ended")), g.Text("."))),
		rowsView(p, d.Working, d.Works, workingRow),
		burningView(p, d.Fleet),
		h.H2(g.Text(counted("On loan", d.Owed))),
		quiet(some(d.Owed == 0, g.Text("No run waits to give anything back. ")), h.A(h.Href(p.Root+"loans"), g.Text("Loans")), g.Text(" has also what only a person can return.")),
		rowsView(p, d.Loans, d.Owed, workingRow),
		h.H2(g.Text("Dependencies")),
		h.Ul(h.Class("health"), g.Map(d.Health, healthView)),
		pauseForm(p, d),
	}
}

func counted(heading string, n int) string {
	if n == 0 {
		return heading
	}
	return fmt.Sprintf("%s (%d)", heading, n)
}

// rowsView renders the first runs of a list, and how many there are.
func rowsView(p page, shown []row, all int, view func(page, row) g.Node) g.Node {
	return g.Group{
		some(len(shown) > 0, h.Ul(h.Class("runs"), g.Map(shown, func(r row) g.Node { return view(p, r) }))),
		some(all > len(shown), quiet(g.Text(strconv.Itoa(all-len(shown))+" more: "),
			h.A(h.Href(p.Root+"history?outcome="+standingOpen), g.Text("all open runs")), g.Text("."))),
	}
}

// askedRow renders a run that waits for people, with the way to the answer.
func askedRow(p page, r row) g.Node {
	verb := map[string]string{"decide": "Decide", "held": "Resolve", "release": "Look"}[r.Place]
	return h.Li(h.Class(r.Tone+" asked"),
		h.Div(
			h.A(h.Class("run"), h.Href(p.Root+"runs/"+segment(r.ID)), h.B(text(r.Service)), g.Text(" "), text(r.Playbook)),
			g.Text(" "), pill(r.Tone, r.Status),
			h.P(h.B(g.Text("waits for "+span(p.Now.Sub(r.Asked)))),
				some(!r.Deadline.IsZero(), g.Text(", until "), minute(r.Deadline), g.Text(", "+until(r.Deadline.Sub(p.Now))))),
			some(r.Asks != "", h.P(text(r.Asks))),
			some(r.Why != "", h.P(text(r.Why))),
			quiet(g.Text("Who: "), text(r.For), after(" · ", r.Alert)),
		),
		h.P(h.Class("buttons"), h.A(h.Class("go"), h.Href(p.Root+"runs/"+segment(r.ID)+"#"+r.Place), g.Text(verb),
			h.Span(h.Class("unseen"), g.Text(" about "), text(r.Service)))),
	)
}

// workingRow renders a run that goes on by itself.
func workingRow(p page, r row) g.Node {
	return rowView(p, r,
		some(r.Change != "", h.P(text(r.Change))),
		h.P(text(r.State), g.Text(" since "), minute(r.Since), g.Text(", for "+span(p.Now.Sub(r.Since)))),
		quiet(text(r.Alert), g.Text(" · began "), clock(r.Began)),
	)
}

func healthView(x Health) g.Node {
	tone := map[HealthState]string{Healthy: toneGood, Failing: toneBad}[x.State]
	return h.Li(h.B(text(x.Name)), g.Text(" "), pill(tone, string(x.State)), g.Text(" "), text(x.Text))
}

// pausedView renders a pause with the form that lifts it.
func pausedView(p page, x Pause, lacks string) g.Node {
	id := "lift-" + segment(x.Scope)
	return h.Div(h.Class("notice bad"), h.Role("status"),
		h.P(h.B(g.Text("Paused: "+pauseWords(x))), g.Text(" by "), text(x.By), g.Text(" since "), clock(x.Since), after(": ", x.Reason)),
		some(lacks != "", h.P(text(lacks))),
		some(lacks == "", folded("of-"+id, false, "Lift this pause", h.Form(h.Method("post"), h.Action(p.Root+"unpause"),
			scopeFields(x),
			h.Label(h.For(id), g.Text("Reason")), reason(id, h.Required()),
			h.P(h.Class("buttons"), h.Button(g.Text("Lift the pause"))),
		))),
	)
}

// pauseWords describes what a pause stops.
func pauseWords(x Pause) string {
	switch {
	case x.Intake:
		return "notifications are refused"
	case x.Service != "":
		return "service " + clip(x.Service, maxLine)
	case x.Playbook != "":
		return "playbook " + clip(x.Playbook, maxLine)
	default:
		return "no run changes anything"
	}
}

// scopeFields are the fields that name what a pause is about.
func scopeFields(x Pause) g.Node {
	return g.Group{
		some(x.Service != "", hidden("service", x.Service)), some(x.Playbook != "", hidden("playbook", x.Playbook)), some(x.Intake, hidden("intake", "true")),
	}
}

// pauseForm offers to pause everything, unless that is paused.
func pauseForm(p page, d *nowData) g.Node {
	for _, x := range d.Pauses {
		if x.Service == "" && x.Playbook == "" && !x.Intake {
			return nil
		}
	}
	return pauseOf(p, Pause{}, "Pause everything", "No run changes anything until the pause is lifted. A change in progress is finished or undone first. Questions stay open.",
		d.Lacks(rights.Pause, ""))
}

// pauseOf renders the form that pauses something, or why the visitor may not.
func pauseOf(p page, x Pause, heading, says, lacks string) g.Node {
	return section("pause", "Pause",
		some(len(x.Service)+len(x.Playbook) == 0, quiet(g.Text("To pause one service or playbook, open its page."))),
		some(lacks != "", quiet(g.Text("You cannot pause: "), text(lacks))),
		some(lacks == "", folded("to-pause", false, heading, h.Form(h.Method("post"), h.Action(p.Root+"pause"),
			scopeFields(x), h.P(g.Text(says)),
			h.Label(h.For("why"), g.Text("Reason")), reason("why", h.Required()),
			h.P(h.Class("buttons"), h.Button(h.Class("no"), g.Text(heading))),
		))),
	)
}
