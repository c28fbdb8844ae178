package web

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

func serviceAddress(p page, name string) string {
	return p.Root + "services?" + url.Values{"service": {name}}.Encode()
}

func servicesView(p page, d *servicesData) g.Node {
	to := func(number int) string {
		q := url.Values{"page": {strconv.Itoa(number)}}
		if d.Name != "" {
			q.Set("name", d.Name)
		}
		return "?" + q.Encode()
	}
	return g.Group{
		h.H1(g.Text("Services")),
		doubtView(d.Doubt),
		h.Form(h.Class("filter"), h.Method("get"), h.Action(p.Root+"services"), h.Role("search"),
			h.Label(g.Text("Part of the name "), h.Input(h.Name("name"), h.Value(d.Name), h.MaxLength(strconv.Itoa(maxLine)), h.AutoComplete("off"))),
			h.Button(g.Text("Search"))),
		quiet(g.Text(runview.Count(d.All, "service")+", those with open runs first."), some(d.Pages > 1, g.Textf(" Page %d of %d.", d.Page, d.Pages))),
		some(d.All == 0 && d.Name == "", quiet(g.Text("The configuration lists services under "), code("services"), g.Text(", or discovery finds them."))),
		some(len(d.Rows) > 0, h.Ul(h.Class("runs"), g.Map(d.Rows, func(x serviceRow) g.Node { return serviceRowView(p, x) }))),
		some(d.Pages > 1, h.P(h.Class("buttons"),
			some(d.Page > 1, h.A(h.Href(to(d.Page-1)), g.Text("Previous"))),
			some(d.Page < d.Pages, h.A(h.Href(to(d.Page+1)), g.Text("Next"))),
		)),
	}
}

func doubtView(doubt string) g.Node {
	return some(doubt != "", notice(toneWait, h.Role("status"), h.B(g.Text("Services may be missing: ")), text(doubt)))
}

func serviceRowView(p page, x serviceRow) g.Node {
	tone := ""
	if x.Open > 0 {
		tone = toneBusy
	}
	if x.Waits > 0 {
		tone = toneWait
	}
	var objectives []string
	for _, o := range x.SLOs {
		objectives = append(objectives, objective(o))
	}
	return h.Li(h.Class(tone),
		h.A(h.Class("run"), h.Href(serviceAddress(p, x.Name)), h.B(text(x.Name))), g.Text(" "), armedPill(x.Arming), g.Text(" "), pill("", x.Autonomy.String()),
		some(x.Open > 0, g.Text(" "), pill(tone, runview.Count(x.Open, "open run"))), some(x.Waits > 0, g.Text(" "), pill(toneWait, strconv.Itoa(x.Waits)+" waiting")),
		h.P(text(runview.OrText(strings.Join(objectives, ", "), "no objective"))),
		quiet(text(x.Workload.Kind+" "+x.Workload.Name), after(" · ", x.Engine), after(" · ", x.Model)),
	)
}

// objective describes an objective in words.
func objective(o playbook.SLO) string {
	out := o.Name + " " + percent(o.Objective)
	if o.Threshold > 0 {
		out += " within " + strconv.FormatFloat(o.Threshold, 'g', 4, 64) + " s"
	}
	if o.Model != "" {
		out += " of model " + o.Model
	}
	if o.Route != "" {
		out += " of route " + o.Route
	}
	if o.By != "" {
		out += " for each " + o.By
	}
	return out
}

func serviceView(p page, d *serviceData) g.Node {
	return g.Group{
		h.H1(text(d.Name), g.Text(" "), armedPill(d.Arming), g.Text(" "), pill("", d.Autonomy.String())),
		doubtView(d.Doubt),
		armingView(d.Arming),
		aboutService(d),
		section("objectives", "Objectives", budgetsView(d)),
		section("runs", "Runs",
			rowsView(p, d.Open, len(d.Open), openRow),
			some(len(d.Open) == 0, quiet(g.Text("No run is open."))),
			some(len(d.Last) > 0, h.H3(g.Text("Ended")), h.Ul(h.Class("runs"), g.Map(d.Last, func(r row) g.Node { return pastRow(p, r) }))),
			some(len(d.Last) == 0, quiet(g.Text(noneEnded(d.Read)))),
			h.P(h.A(h.Href(p.Root+"history?"+url.Values{"service": {d.Name}}.Encode()), g.Text("All its runs"))),
		),
		section("playbooks", "Playbooks",
			some(len(d.Applied) == 0, quiet(g.Text("No playbook that is loaded serves it."))),
			g.Map(d.Applied, func(x Applied) g.Node { return appliedView(p, x) }),
		),
		some(len(d.Pauses) == 0, pauseOf(p, Pause{Service: d.Name}, "Pause this service", "No run changes this service until the pause is lifted.", d.Lacks)),
	}
}

// armedPill tells in a word whether Responder can act on a service.
func armedPill(a runview.Arming) g.Node { return pill(armedTone(a), a.Word) }

func armedTone(a runview.Arming) string {
	if a.Armed {
		return toneGood
	}
	return toneWait
}

// armingView tells whether Responder can act on a service, why not, and what to do about it.
func armingView(a runview.Arming) g.Node {
	reasons := h.Ul(g.Map(a.Reasons, func(r runview.ArmingReason) g.Node {
		return h.Li(text(r.Why), some(r.Do != "", h.Br(), h.Small(g.Text("What to do: "), text(r.Do))))
	}))
	return section("arming", "Can Responder act here?",
		notice(armedTone(a), h.Role("status"), text(a.Line)),
		quiet(g.Text(runview.Unlooked)),
		some(len(a.Reasons) > 0 && !a.Armed, reasons),
		some(len(a.Reasons) > 0 && a.Armed, folded("held", false, "What is held, and why: "+runview.Count(len(a.Reasons), "reason"), reasons)),
	)
}

// noneEnded returns the text that no run of a service is among the newest that were looked at.
func noneEnded(read int) string {
	if read < readRuns {
		return "No run has ended."
	}
	return "None of the newest " + runview.Count(read, "run") + " ended here."
}

// openRow renders an open run by whether it waits for people.
func openRow(p page, r row) g.Node {
	if r.For != "" {
		return askedRow(p, r)
	}
	return workingRow(p, r)
}

func aboutService(d *serviceData) g.Node {
	entry := func(name, value string) g.Node { return some(value != "", h.Dt(g.Text(name)), h.Dd(text(value))) }
	scale := "never scaled up"
	if d.MaxScale > 0 {
		scale = fmt.Sprintf("at most %d replicas", d.MaxScale)
	}
	return h.Dl(
		entry("Autonomy", d.Autonomy.String()+", by its entry in the catalog or the default; what holds each lever is below"),
		entry("Workload", d.Workload.Kind+" "+d.Workload.Name+" in "+d.Namespace),
		entry("Engine", d.Engine), entry("Model", d.Model), entry("Owners", runview.OrText(strings.Join(d.Owners, ", "), "nobody")),
		entry("Bounds", fmt.Sprintf("at least %d stay ready, %s", d.MinReady, scale)),
		entry("Argo CD", d.GitOps.Application), entry("Manifests", strings.TrimSpace(d.GitOps.Repository+" "+d.GitOps.Path)),
	)
}

func budgetsView(d *serviceData) g.Node {
	if len(d.SLOs) == 0 {
		return quiet(g.Text("It has none, so nothing that is done to it can be proven."))
	}
	return h.Ul(h.Class("plain"), g.Map(d.SLOs, func(o playbook.SLO) g.Node {
		window := ""
		if o.Window > 0 {
			window = " over " + playbook.FormatDuration(o.Window)
		}
		return h.Li(h.B(text(objective(o)+window)), g.Map(d.Budgets, func(b Budget) g.Node { return some(b.Objective == o.Name, budgetView(b)) }))
	}))
}

func budgetView(b Budget) g.Node {
	of := some(b.Value != "", text(b.Value), g.Text(": "))
	if b.Why != "" {
		return h.P(of, pill("", "budget unknown"), burnView(b), h.Br(), h.Small(text(b.Why)))
	}
	tone := toneGood
	switch {
	case b.Left <= 0:
		tone = toneBad
	case b.Left < 0.25 || b.Lasts > 0:
		tone = toneWait
	}
	return h.P(of, pill(tone, leftOf(b)), burnView(b), some(b.Lasts > 0, g.Text(", gone in "+span(b.Lasts))))
}

// leftOf describes what is left of a budget.
func leftOf(b Budget) string {
	if b.Left < 0 {
		return "error budget overspent by " + inPercent(-b.Left)
	}
	return inPercent(b.Left) + " of the error budget left"
}

func burnView(b Budget) g.Node {
	return some(!math.IsNaN(b.Burn), g.Text(" burns at "+strconv.FormatFloat(b.Burn, 'f', 1, 64)+"× in the last hour"))
}

func inPercent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + " %" }

func appliedView(p page, x Applied) g.Node {
	return h.Div(h.Class("found"),
		h.H3(h.A(h.Href(playbookAddress(p, x.Playbook)), text(x.Playbook)), g.Text(" "), pill(x.Tone, x.Mode)),
		some(x.Why != "", h.P(text(x.Why))),
		some(len(x.Levers) > 0, folded("levers-"+segment(x.Playbook), false, runview.Count(len(x.Levers), "lever"),
			h.Ul(g.Map(x.Levers, leverView)))),
	)
}

func leverView(l LeverStanding) g.Node {
	record := "not tried yet"
	if l.Tried > 0 {
		record = fmt.Sprintf("tried %d times: %d verified, %d not", l.Tried, l.OK, l.Failed)
	}
	return h.Li(h.B(text(l.State)), g.Text(" "), code(clip(l.Kind, maxShort)), g.Text(" "), pill("", l.Level), after(" held by ", l.HeldBy), g.Text(", "+record),
		some(l.Next != "", h.Br(), h.Small(g.Text("Next level: "), text(l.Next))))
}
