package web

import (
	"cmp"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/runview"
)

// askView renders the question with the forms for this visitor's answers.
func askView(d *runData) g.Node {
	q := d.Ask
	if q == nil {
		return nil
	}
	return h.Section(h.Class("ask"), h.Aria("labelledby", "decide"), h.H2(h.ID("decide"), g.Text("Decide")),
		h.P(text(q.Text)),
		g.Map(runview.FollowLines(q.Gate), func(s string) g.Node { return quiet(text(s)) }),
		h.Ul(h.Class("needs"), g.Map(q.NeedList, needView)),
		some(q.NotBy != "", h.P(text(runview.NotByLine(q.Gate)), g.Text("."))),
		g.Map(runview.TierLines(q.Gate), func(s string) g.Node { return quiet(text(s)) }),
		h.P(g.Text("If nobody decides by "), clock(q.Deadline), g.Text(", "+q.Silence+".")),
		answersView(d, q),
	)
}

func needView(n need) g.Node {
	tone := toneWait
	if n.Met {
		tone = toneGood
	}
	return h.Li(h.Class(tone), h.B(g.Text(strconv.Itoa(len(n.Given))+" of "+strconv.Itoa(n.Quorum))), g.Text(" "), text(n.Who), g.Text(" "), h.Small(text(n.Rule)),
		some(len(n.Given) > 0, h.Br(), text(strings.Join(n.Given, ", ")), g.Text(" approved")))
}

func answersView(d *runData, q *question) g.Node {
	who := g.Group{g.Text(" Who can: "), text(q.Who()), after("; alone: ", strings.Join(q.BreakGlass, ", ")), g.Text(".")}
	switch {
	case d.Lacks(rights.Approve) != "":
		return notice(toneWait, h.B(g.Text("You cannot decide here.")), g.Text(" "+d.Lacks(rights.Approve)), who)
	case q.NoApprove != "" && q.NoDeny != "":
		return notice(toneWait, h.B(g.Text("You cannot decide this.")), g.Text(" "), text(q.NoApprove), g.Text("."), who)
	}
	return g.Group{
		post(d.ID, "approve", h.ID("answer"), bound(q),
			h.Label(h.For("why"), g.Text("Reason "), h.Small(g.Text("required to deny"))),
			reason("why"),
			h.P(h.Class("buttons"),
				some(q.NoApprove == "", h.Button(h.Class("yes"), g.Text(q.yes()))),
				some(q.NoDeny == "", h.Button(h.Class("no"), h.FormAction(verb(d.ID, "deny")), g.Text(q.no()))),
				some(q.Digest != "" && q.NoDeny == "", h.Button(h.FormAction(verb(d.ID, "replan")), g.Text("New plan"))),
			),
			some(q.NoApprove != "", quiet(g.Text("Your approval would not count: "), text(q.NoApprove), g.Text("."))),
		),
		some(q.Glass, h.Details(h.Summary(g.Text("Break the glass: approve alone")),
			post(d.ID, "approve", bound(q), hidden("breakGlass", "true"),
				h.Label(h.For("glass"), g.Text("Why can nobody else be asked? "), h.Small(g.Text("shown prominently in the log"))),
				reason("glass", h.Required()),
				h.P(h.Class("buttons"), h.Button(h.Class("no"), g.Text("Approve alone"))),
			),
		)),
	}
}

// askBar renders what a person is asked, or has to resolve. It stays at the bottom of the
// window. A question that it shows in full is answered there.
func askBar(p page, d *runData) g.Node {
	bar := func(tone string, nodes ...g.Node) g.Node {
		return h.Aside(h.Class("bar "+tone), h.ID("bar"), h.Aria("label", "Open question"), g.Group(nodes))
	}
	look := func(place, verb string) g.Node { return h.A(h.Class("there"), h.Href("#"+place), g.Text(verb)) }
	switch q := d.Ask; {
	case d.Run.Quarantine != nil && d.Ended == "":
		return bar(toneBad, h.P(h.B(g.Text("Quarantined")), g.Text(" since "), clock(d.Run.Quarantine.At), g.Text(", a person has to release it.")), look("release", "Look"))
	case q != nil:
		said, risk := asked(d, q)
		answers := barAnswers(d, q)
		switch {
		case d.Lacks(rights.Approve) != "", q.NoApprove != "" && q.NoDeny != "":
			answers = look("decide", "Look")
		case clip(said, maxAsked) != said: // nobody answers half a question
			answers = look("decide", "Decide")
		}
		// The script hides the answers when another question has come in the place of one that was read.
		return bar(toneWait, h.Data("ask", q.ID+" "+q.Digest), h.Div(h.Class("asks"), askedLines(p, q, said, risk, measuredOf(d))), answers, look("decide", "Another question: read it"))
	case d.Run.Quarantine == nil && d.Held != nil:
		return bar(toneBad, h.P(h.B(g.Text("Held")), g.Text(" since "), clock(d.Held.At), g.Text(": it is unknown whether its "+string(d.Held.Action)+" happened.")), look("held", "Resolve"))
	}
	return nil
}

// maxAsked is how long a question in the bar may be, in characters.
const maxAsked = 2 * maxShort

// asked returns a question in one line, and the risk of its plan; empty: it is about none.
func asked(d *runData, q *question) (said, risk string) {
	l := d.Run.Lever
	switch {
	case l == nil || l.Plan == nil:
	case q.Undo:
		return "Take back: " + l.Plan.Summary + undoText(l.Plan.Undo), ""
	case q.Digest != "" && l.Plan.Digest() == q.Digest:
		return cmp.Or(l.Plan.Summary, q.Text), string(l.Plan.Risk)
	}
	return q.Text, ""
}

// undoText is how a change is taken back, behind its name.
func undoText(undo string) string {
	if undo == "" {
		return ""
	}
	return " (" + undo + ")"
}

// measuredOf is what the proof of a run's change found; empty: it is not known.
func measuredOf(d *runData) string {
	if d.Run.Lever == nil {
		return ""
	}
	return d.Run.Lever.Message
}

// askedLines describe a question: the plan, its risk, the deadline, and what each answer or
// verdict leads to.
func askedLines(p page, q *question, said, risk, measured string) g.Node {
	follow := runview.FollowLines(q.Gate)
	if q.Undo {
		follow = []string{cmp.Or(measured, "what it did could not be proven"), "without an answer it " + unansweredWord(q.Gate)}
	}
	return g.Group{
		h.P(h.A(h.Href("#decide"), h.B(g.Text(clip(said, maxAsked))))),
		h.P(some(risk != "", g.Text("Risk "), h.B(text(risk)), g.Text(" · ")), g.Text("asked "+span(p.Now.Sub(q.Opened))+" ago · until "), minute(q.Deadline),
			g.Text(", "+until(q.Deadline.Sub(p.Now)))),
		some(len(follow) > 0, h.P(h.Class("follow"), long(strings.Join(follow, " · ")))),
	}
}

// unansweredWord is what becomes of an unproven change without an answer.
func unansweredWord(q machine.Gate) string {
	if q.Unanswered == machine.Undo {
		return "is taken back"
	}
	return "stays"
}

// barAnswers are the answers of the bar, by the rules of the form below Decide. An approval
// is that form's, with the reason that is written there.
func barAnswers(d *runData, q *question) g.Node {
	return g.Group{
		some(q.NoApprove == "", h.Button(h.Class("yes"), h.FormAttr("answer"), g.Text(q.yes()))),
		some(q.NoDeny == "", folded("bar-deny", false, q.no(), post(d.ID, "deny", bound(q),
			h.Label(h.For("bar-why"), g.Text("Reason")), reason("bar-why", h.Required()),
			h.P(h.Class("buttons"), h.Button(h.Class("no"), g.Text(q.no()))),
		))),
	}
}

// bound are the fields that bind an answer to the question and the plan that are shown.
func bound(q *question) g.Node { return g.Group{hidden("gate", q.ID), hidden("digest", q.Digest)} }

// standingView renders the forms for a run that needs a person to continue: it
// is quarantined, or held.
func standingView(d *runData) g.Node {
	var form, said g.Node
	id, heading, right := "release", "Quarantined", rights.Release
	switch quarantine, held := d.Run.Quarantine, d.Held; {
	case quarantine != nil && d.Ended == "":
		said = h.P(g.Text("Since "+stamp(quarantine.At)+": "), text(quarantine.Message), g.Text(". It is no longer processed"),
			after("; it holds ", strings.Join(d.Locks, ", ")), g.Text("."))
		form = post(d.ID, "release",
			h.Label(h.For("found"), g.Text("What it left in place "), h.Small(g.Text("check first"))),
			reason("found", h.Required()),
			h.P(h.Class("buttons"), h.Button(h.Class("no"), g.Text("Release"))),
		)
	case quarantine == nil && held != nil:
		id, heading, right = "held", "Held: resolve it", rights.Resolve
		said = h.P(g.Text("It is unknown whether its "+string(held.Action)+" happened: "), text(held.Message), g.Text(". Check the target, then choose."))
		form = post(d.ID, "resolve",
			h.Label(h.For("know"), g.Text("How you know")),
			reason("know", h.Required()),
			h.P(h.Class("buttons"),
				h.Button(h.Name("applied"), h.Value("true"), g.Text("It was applied")),
				h.Button(h.Name("applied"), h.Value("false"), g.Text("It was not applied")),
			),
		)
	default:
		return nil
	}
	if why := d.Lacks(right); why != "" {
		form = notice(toneWait, g.Text(why))
	}
	return section(id, heading, h.Class("ask"), said, form)
}

func stopView(d *runData) g.Node {
	return some(d.Stops && d.Lacks(rights.Cancel) == "", section("stop", "Stop",
		h.Details(h.Summary(g.Text("Cancel this run")),
			post(d.ID, "cancel",
				h.P(g.Text("A change in progress is finished or undone first.")),
				h.Label(h.For("cancel"), g.Text("Reason")),
				reason("cancel", h.Required()),
				h.P(h.Class("buttons"), h.Button(h.Class("no"), g.Text("Cancel the run"))),
			),
		),
	))
}

// post renders a form that posts a decision about a run.
func post(id, what string, nodes ...g.Node) g.Node {
	return h.Form(h.Method("post"), h.Action(verb(id, what)), g.Group(nodes))
}

// verb returns the address of a decision, relative to the run's page.
func verb(id, what string) string { return segment(id) + "/" + what }

func hidden(name, value string) g.Node {
	return h.Input(h.Type("hidden"), h.Name(name), h.Value(value))
}

// reason renders the input for a reason.
func reason(id string, nodes ...g.Node) g.Node {
	return h.Textarea(h.ID(id), h.Name("reason"), h.Rows("2"), h.MaxLength("2000"), g.Group(nodes))
}
