package web

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// icon is a tick in a circle.
const icon = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='7' fill='%232a6fb0'/%3E" +
	"%3Cpath d='M4 8.5l3 3 5-6' fill='none' stroke='white' stroke-width='2'/%3E%3C/svg%3E"

// layout renders a whole page.
func (s *Site) layout(p page) g.Node {
	return h.Doctype(h.HTML(h.Lang("en"), g.If(p.Tag != "", h.Data("tag", p.Tag)),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(h.Name("robots"), h.Content("noindex")),
			h.TitleEl(g.Text(clip(p.Title, maxLine)), g.Text(" · Responder")),
			h.Link(h.Rel("icon"), h.Href(icon)),
			g.If(p.Refresh > 0, h.NoScript(h.Meta(g.Attr("http-equiv", "refresh"), h.Content(strconv.Itoa(p.Refresh)+"; url="+p.Here)))),
			h.StyleEl(g.Raw(s.css)), //nolint:forbidigo // the program's own file
		),
		h.Body(
			some(p.Asks, h.A(h.Class("skip"), h.Href("#bar"), g.Text("Skip to the open question"))),
			h.A(h.Class("skip"), h.Href("#main"), g.Text("Skip to the content")),
			banners(p),
			h.Main(h.ID("main"), p.Main),
			h.Footer(h.Span(h.ID("zone"), g.Text("Times are UTC.")), g.Text(" Loaded "), clock(p.Now), g.Text(". The journal records every decision.")),
			h.Script(g.Raw(s.clocks)),             //nolint:forbidigo // the program's own file
			g.If(p.Live, h.Script(g.Raw(s.live))), //nolint:forbidigo // the program's own file
		),
	))
}

// banners are above the content of a page. Only the script shows some of them. Where the
// window is too narrow for the pages, a button opens them.
func banners(p page) g.Node {
	youAre := h.Span(h.Class("wider"), g.Text("you are "))
	return g.Group{
		h.Header(
			h.A(h.Class("name"), h.Href(p.Root), g.Text("Responder")),
			some(len(p.Parts) > 0, h.Nav(h.ID("pages"), g.Attr("popover"), h.Aria("label", "Pages"),
				g.Map(p.Parts, func(x part) g.Node {
					return h.A(h.Href(p.Root+x.Path), g.If(x.Path == p.At, h.Aria("current", "page")), g.Text(x.Name))
				}),
			)),
			some(p.Name != "" && !p.Session, h.P(h.Class("who"), h.Title(clip(p.Name, maxLine)), youAre, h.B(text(p.Name)))),
			some(p.Session, h.P(h.Class("who"), h.Title(clip(p.Name, maxLine)), youAre, h.A(h.Href(p.Root+"signin"), h.B(text(p.Name)))), signOutView(p)),
			some(len(p.Parts) > 0, h.Button(h.Class("menu"), h.Type("button"), g.Attr("popovertarget", "pages"), g.Text("Menu"))),
		),
		some(p.Fiction != "", notice(toneWait, h.Role("note"), h.B(g.Text("SANDBOX: ")), text(p.Fiction))),
		g.Map(p.Pauses, func(x Pause) g.Node { return notice(toneBad, h.Role("status"), g.Text("Paused: "), text(x.String())) }),
		notice(toneWait, h.ID("moved"), h.Role("status"), g.Attr("hidden"),
			g.Text("New events. "), h.A(h.Href(p.Here), g.Text("Reload")), g.Text("; your input on this page will be lost.")),
		notice(toneBad, h.ID("silent"), h.Role("status"), g.Attr("hidden"), g.Text("The service does not answer. This page may be outdated.")),
		some(p.Session, notice(toneBad, h.ID("ended"), h.Role("status"), g.Attr("hidden"),
			g.Text("Your session has ended. "), h.A(h.Href(p.Here), g.Text("Sign in again")), g.Text("; your input on this page will be lost."))),
	}
}

// text renders a line from outside, shortened if it is long, with its times as elements, which
// a browser shows in local time. Like all text it is escaped; only the layout contains raw parts.
func text(s string) g.Node {
	s = clip(s, maxLine)
	var nodes g.Group
	rest := 0
	for _, at := range written.FindAllStringIndex(s, -1) {
		word := s[at[0]:at[1]]
		moment, err := time.Parse(time.DateTime, word[:10]+" "+word[11:19])
		if err != nil {
			continue // there is no such day
		}
		nodes = append(nodes, g.Text(s[rest:at[0]]), h.Time(h.DateTime(moment.Format(time.RFC3339)), g.Text(word)))
		rest = at[1]
	}
	return append(nodes, g.Text(s[rest:]))
}

// written matches the times in messages, which are in UTC.
var written = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:Z| UTC)\b`)

// long renders an expression or a message of several lines.
func long(s string) g.Node { return g.Text(clip(s, maxLong)) }

// value renders one side of a diff.
func value(s string) g.Node { return g.Text(clip(s, maxValue)) }

// some renders nodes only if show is set.
func some(show bool, nodes ...g.Node) g.Node { return g.If(show, g.Group(nodes)) }

// after renders a mark and a text, or nothing without a text.
func after(mark, s string) g.Node { return some(s != "", g.Text(mark), text(s)) }

func clock(t time.Time) g.Node {
	return h.Time(h.DateTime(t.UTC().Format(time.RFC3339)), g.Text(stamp(t)))
}

// minute renders a time of today in short.
func minute(t time.Time) g.Node {
	return h.Time(h.Class("minute"), h.DateTime(t.UTC().Format(time.RFC3339)), g.Text(t.UTC().Format("15:04 UTC")))
}

func pill(tone, status string) g.Node { return h.Span(h.Class("pill "+tone), text(status)) }

func quiet(nodes ...g.Node) g.Node { return h.P(h.Class("quiet"), g.Group(nodes)) }

// notice renders a highlighted paragraph.
func notice(tone string, nodes ...g.Node) g.Node {
	return h.P(h.Class("notice "+tone), g.Group(nodes))
}

func code(s string) g.Node { return h.Code(g.Text(s)) }

// section renders a part of a page with its heading.
func section(id, heading string, nodes ...g.Node) g.Node {
	return h.Section(h.Aria("labelledby", id), h.H2(h.ID(id), g.Text(heading)), g.Group(nodes))
}

// wide wraps content that scrolls sideways on a small screen.
func wide(class, label string, nodes ...g.Node) g.Node {
	return h.Div(h.Class(class), h.TabIndex("0"), h.Role("group"), h.Aria("label", label), g.Group(nodes))
}

// runID matches the name of a run.
var runID = regexp.MustCompile(`^r-[0-9A-HJKMNP-TV-Z]{26}$`)

// tableView renders a table as on a terminal, without the columns of -o wide, and with
// links to the runs that it names.
func tableView(p page, name string, d Table) g.Node {
	shown := func(s string) g.Node {
		if runID.MatchString(s) {
			return h.A(h.Href(p.Root+"runs/"+s), text(s))
		}
		return text(s)
	}
	cells := func(cell func(...g.Node) g.Node, texts []string) g.Node {
		return h.Tr(g.Map(texts, func(s string) g.Node { return cell(shown(s)) }))
	}
	var heads []string
	rows := make([][]string, len(d.Rows))
	for i, c := range d.Columns {
		if c.Wide {
			continue
		}
		heads = append(heads, headline(c.Head))
		for n, row := range d.Rows {
			rows[n] = append(rows[n], row[i])
		}
	}
	return g.Group{
		h.H1(g.Text(name)),
		some(len(rows) > 0, wide("wide", name, h.Table(
			h.THead(cells(h.Th, heads)),
			h.TBody(g.Map(rows, func(row []string) g.Node { return cells(h.Td, row) })),
		))),
		some(len(rows) == 0, quiet(g.Text(d.Empty))),
		g.Map(d.Notes, func(s string) g.Node { return h.P(text(s)) }),
	}
}

// headline returns a heading of a terminal as a page has it: "Level" for
// "LEVEL". A unit in brackets stays as it is.
func headline(head string) string {
	word, unit, _ := strings.Cut(head, " (")
	if word == "" {
		return head
	}
	return word[:1] + strings.ToLower(word[1:]) + head[len(word):len(head)-len(unit)] + unit
}

func problemView(p page, d Problem) g.Node {
	return g.Group{
		h.H1(g.Text(strconv.Itoa(d.Status) + " " + p.Title)),
		notice(toneBad, h.Role("alert"), h.B(text(d.Message)), some(d.Hint != "", h.Br(), text(d.Hint))),
		h.P(h.A(h.Href(p.Root), g.Text("Now"))),
	}
}
