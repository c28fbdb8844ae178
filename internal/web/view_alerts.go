package web

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/runview"
)

func alertAddress(p page, name string) string {
	return p.Root + "alerts?" + url.Values{"alert": {name}}.Encode()
}

func alertsView(p page, d *receivedList) g.Node {
	return g.Group{
		h.H1(g.Text("Alerts")),
		alertSearchView(p, d.alertQuery),
		some(len(d.Alerts) > 0, h.Ul(h.Class("runs"), g.Map(d.Alerts, func(a api.ReceivedAlert) g.Node { return alertRow(p, a) }))),
		quiet(g.Text(alertsSummary(d))),
		some(d.Skip > 0 || d.Older != "", h.P(h.Class("buttons"),
			some(d.Skip > 0, h.A(h.Href(d.Newest), g.Text("Newest"))),
			some(d.Older != "", h.A(h.Href(d.Older), g.Text("Older"))),
		)),
	}
}

// alertsSummary returns how many alerts are shown, and how far the page looked.
func alertsSummary(d *receivedList) string {
	switch n := len(d.Alerts); {
	case n == 0 && d.Older != "":
		return "None of these " + runview.Count(d.Read, "alert") + " matches. Older looks further back."
	case n == 0 && d.Skip > 0:
		return "No older alert is known."
	case n == 0 && d.narrow():
		return "No known alert matches."
	case n == 0:
		return "No alert was received."
	case d.narrow() && d.Older != "":
		return strconv.Itoa(n) + " of " + runview.Count(d.Read, "alert") + " match. Older looks further back."
	default:
		return runview.Count(n, "alert") + ", the most recently seen first."
	}
}

func alertSearchView(p page, q alertQuery) g.Node {
	choose := func(label, name, value string, of ...string) g.Node {
		return h.Label(g.Text(label), h.Select(h.Name(name), h.Option(h.Value(""), g.Text("any")),
			g.Map(of, func(s string) g.Node { return h.Option(g.If(s == value, h.Selected()), g.Text(s)) })))
	}
	return h.Details(h.Class("narrow"), h.ID("search"), g.If(q.narrow(), g.Attr("open")), h.Summary(g.Text("Search")),
		h.Form(h.Class("filter"), h.Method("get"), h.Action(p.Root+"alerts"), h.Role("search"),
			h.Label(g.Text("Label or fingerprint "), h.Input(h.Name("text"), h.Value(q.Text), h.MaxLength(strconv.Itoa(maxLine)), h.AutoComplete("off"))),
			choose("Became ", "became", q.Became, becameChoices()...),
			choose("State ", "state", q.State, stateFiring, stateResolved),
			h.Button(g.Text("Search")),
			some(q.narrow(), h.A(h.Href(p.Root+"alerts"), g.Text("everything"))),
		),
		quiet(g.Text("A part of a label's value is enough, or the beginning of a fingerprint.")),
	)
}

// alertTone is urgent for an alert that fires and that nothing handles.
func alertTone(a api.ReceivedAlert) string {
	switch {
	case a.Became == "quarantined":
		return toneBad
	case !a.Firing:
		return ""
	case len(a.Runs) > 0:
		return toneBusy
	default:
		return toneWait
	}
}

func alertRow(p page, a api.ReceivedAlert) g.Node {
	why := ""
	if len(a.Runs) == 0 {
		why = runview.AlertReason(a)
	}
	return h.Li(h.Class(alertTone(a)),
		h.A(h.Class("run"), h.Href(alertAddress(p, a.Episode)), h.B(text(runview.AlertName(a)))), g.Text(" "), alertPills(a),
		some(len(a.Labels) > 1, h.P(text(runview.AlertLabels(a)))),
		some(why != "", h.P(text(why))),
		quiet(g.Text("seen "), clock(a.Seen), repeatsView(a), g.Map(lastOf(a.Runs), func(id string) g.Node {
			return g.Group{g.Text(" · "), h.A(h.Href(p.Root+"runs/"+segment(id)), text(id))}
		})),
	)
}

// lastOf returns the newest run alone.
func lastOf(runs []string) []string { return runs[max(0, len(runs)-1):] }

func alertPills(a api.ReceivedAlert) g.Node {
	state := stateResolved
	if a.Firing {
		state = stateFiring
	}
	return g.Group{pill(alertTone(a), runview.BecameWord(a.Became)), some(state != a.Became, g.Text(" "), pill("", state))}
}

func repeatsView(a api.ReceivedAlert) g.Node {
	return some(a.Repeats > 0, g.Text(", repeated "+runview.Count(a.Repeats, "time")+", last "), clock(a.Repeated))
}

func receivedView(p page, d *receivedData) g.Node {
	entry := func(name string, nodes ...g.Node) g.Node { return g.Group{h.Dt(g.Text(name)), h.Dd(nodes...)} }
	a := d.ReceivedAlert
	return g.Group{
		h.H1(text(runview.AlertName(a)), g.Text(" "), alertPills(a)),
		some(a.Remedy != "" && len(a.Runs) == 0, notice(alertTone(a), h.Role("status"), h.B(g.Text("What to do: ")), text(a.Remedy))),
		section("became", "What became of it",
			some(len(a.Runs) > 0 || a.Reason == "", h.P(text(runview.AlertBecame(a)))),
			some(a.Reason != "", h.P(g.Text("It started no run: "), text(a.Reason), g.Text("."))),
			some(a.Nearest != "", h.P(g.Text("The nearest playbook is "), h.A(h.Href(playbookAddress(p, a.Nearest)), text(a.Nearest)), g.Text(". These matchers of it fail:")),
				h.Ul(g.Map(a.Mismatches, func(s string) g.Node { return h.Li(text(s)) }))),
			some(len(d.Runs) > 0, h.Ul(h.Class("runs"), g.Map(d.Runs, func(r row) g.Node { return alertRun(p, r) }))),
			some(len(a.Runs) > len(d.Runs), quiet(g.Text(runview.Count(len(a.Runs)-len(d.Runs), "older run")+" of it."))),
		),
		section("about", "The alert", h.Dl(
			some(!a.Starts.IsZero(), entry("Started", clock(a.Starts))),
			entry("Seen", clock(a.Seen), repeatsView(a)),
			some(!a.Resolved.IsZero(), entry("Resolved", clock(a.Resolved))),
			some(a.Labels == nil, entry("Labels", g.Text("not known: its notification is archived"))),
			g.Map(slices.Sorted(maps.Keys(a.Labels)), func(name string) g.Node {
				return g.Group{h.Dt(code(clip(name, maxShort))), h.Dd(labelled(p, a.Labels[name]))}
			}),
			entry("Fingerprint", code(clip(runview.Fingerprint(a), maxShort))),
		), alertLinks(p, d)),
		some(len(d.Others) > 0, section("others", "Other alerts with this prefix", h.Ul(h.Class("runs"), g.Map(d.Others, func(a api.ReceivedAlert) g.Node { return alertRow(p, a) })))),
	}
}

func alertRun(p page, r row) g.Node {
	if r.Began.IsZero() {
		return h.Li(text(r.ID), g.Text(" is not known any more."))
	}
	return pastRow(p, r)
}

func alertLinks(p page, d *receivedData) g.Node {
	source := link(d.Source)
	return some(source != "" || d.Silence != "" || d.Entry > 0, h.P(h.Class("buttons"),
		some(source != "", h.A(h.Href(source), h.Rel("noreferrer noopener"), g.Text("Alert in Prometheus"))),
		some(d.Silence != "", h.A(h.Href(d.Silence), h.Rel("noreferrer noopener"), g.Text("Silence the alert"))),
		some(d.Entry > 0, h.A(h.Href(entryAddress(p, d.Entry)), g.Text("Its notification in the audit log"))),
	))
}

// labelled renders the value of a label, with a link to the alerts that have it.
func labelled(p page, value string) g.Node {
	if value == "" || utf8.RuneCountInString(value) > maxLine {
		return text(value)
	}
	return h.A(h.Href(p.Root+"alerts?"+url.Values{"text": {value}}.Encode()), text(value))
}
