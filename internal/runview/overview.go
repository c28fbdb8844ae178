package runview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// Overview is a run for somebody who was called to it.
type Overview struct {
	Run      machine.State
	Events   []machine.Event
	Trace    string // address of its trace; empty: there is none
	Progress bool   // every event
	Graph    bool   // the path through the playbook, and the samples of proofs
	Full     bool   // the whole plan of a question; events with their queries
}

// Overview writes a run: what has become of it, what it asks and what to type, what that
// rests on, what was changed and proven, and how it came to that.
func (r *Renderer) Overview(o Overview) {
	r.Brief, r.Wide = true, o.Full
	r.Heading("STATUS")
	r.Head(o.Run)
	if o.Trace != "" {
		r.field("trace", "%s", o.Trace)
	}
	if o.Run.Gate != nil && o.Run.Quarantine == nil {
		r.question(o.Run, o.Full)
	} else if o.Run.Ending != nil {
		r.field("next", "the report: responder report %s", o.Run.Start.Run)
	}
	r.evidence(o.Run, o.Events)
	r.changes(o.Run, o.Events)
	r.progress(o)
	if o.Graph {
		r.graph(o)
	}
}

// Head writes what has become of the run and what to do about it, and then what it is
// about. What people are asked is not among it.
func (r *Renderer) Head(s machine.State) {
	r.Run = s
	r.field("run", "%s", s.Start.Run)
	r.field("status", "%s", r.statusLine(s))
	if s.ObservedOutcome != nil {
		r.field("observed", "%s", ObservedOutcomeLine(*s.ObservedOutcome))
	}
	if s.Paused != "" {
		r.field("paused", "%s", s.Paused)
	}
	if a := s.Consent().Approved; a != nil && a.BreakGlass {
		r.field("alone", "BREAK-GLASS: approved by %s", decisionLine(a))
	}
	if s.Quarantine != nil {
		r.quarantine(s)
	} else {
		r.waits(s)
	}
	r.about(s)
}

func (r *Renderer) quarantine(s machine.State) {
	r.field("quarantine", "since %s: %s", r.Clock.Ago(s.Quarantine.At), s.Quarantine.Message)
	if s.Ending == nil {
		r.field("", "it holds %s; nothing is decided about it any more", orNothing(s.Locks()))
		r.field("", "look what it left behind, then:")
		r.command("responder runs release %s --reason TEXT", s.Start.Run)
	}
}

// waits writes what a run waits for.
func (r *Renderer) waits(s machine.State) {
	if s.Held != nil {
		r.field("held", "%s of %s: %s", s.Held.Action, s.Held.Effect, s.Held.Message)
		r.field("", "look which is true, then one of:")
		r.command("responder runs resolve %s --applied --reason TEXT", s.Start.Run)
		r.command("responder runs resolve %s --not-applied --reason TEXT", s.Start.Run)
	}
	if w := s.Waiting; w != nil && s.Phase == machine.PhaseWatching {
		r.field("waits", "at most until %s; end it with:", r.Clock.Ago(w.Until))
		r.command("responder runs proceed %s --reason TEXT", s.Start.Run)
	}
	if what, until := s.Awaits(); what != "" {
		r.field("waits", "for %s", what)
		r.field("", "until %s, then it is given up", r.Clock.Ago(until))
	}
	if run, same := s.WaitsFor(); run != "" {
		what := ", which holds or awaits what it needs"
		if same {
			what = ", which acts on the service"
		}
		r.field("waits", "for run %s%s, until %s at most", run, what, r.Clock.Ago(s.Consent().WaitUntil))
	}
}

// about writes what a run is about.
func (r *Renderer) about(s machine.State) {
	r.field("service", "%s", s.Start.Service.Name)
	if !s.Began.IsZero() {
		r.field("began", "%s", r.Clock.Ago(s.Began))
	}
	if !s.Ended.IsZero() {
		r.field("ended", "%s", r.Clock.Ago(s.Ended))
	}
	r.field("playbook", "%s %s", s.Start.Playbook, Short(s.Start.Digest, 19))
	if o := s.Start.Override; o != nil {
		r.field("autonomy", "%s", o)
	}
	if s.Start.ByHand() {
		r.field("alert", "none: %s", startedBy(s.Start))
	} else {
		r.field("alert", "%s", AlertLine(s.Start.Alert))
	}
	if n := s.Episodes.Len(); n > 1 {
		r.field("", "and %d more", n-1)
	}
}

// Heading begins a part of a text.
func (r *Renderer) Heading(title string) {
	if r.begun {
		r.Printf("\n")
	}
	r.begun = true
	r.Printf("%s\n", title)
}

// evidence writes what a run took for the cause and what that rests on, what burns, and
// what could not be read. Other lines are counted.
func (r *Renderer) evidence(s machine.State, events []machine.Event) {
	var known Evidence
	var burning []string
	for _, e := range events {
		known.checked(e)
		if lines := burnLines(s, e); len(lines) > 0 {
			burning = lines
		}
	}
	all := known.Lines()
	if len(all) == 0 {
		return
	}
	r.Heading("EVIDENCE")
	var telling []string
	if c := CauseOf(s, events); c != nil {
		r.field("cause", "%s", causeLine(c))
		telling = c.Evidence
	} else if s.Playbook == nil {
		r.field("cause", "not known: %s", causeUnknown(s))
	}
	telling = append(slices.Clip(telling), burning...)
	for _, line := range all {
		if strings.Contains(line, ": UNKNOWN: ") {
			telling = append(telling, line)
		}
	}
	var shown []string
	for _, line := range telling {
		if !slices.Contains(shown, line) {
			shown = append(shown, line)
			r.line("- ", Inline(line), "")
		}
	}
	more := slices.DeleteFunc(all, func(line string) bool { return slices.Contains(shown, line) })
	if len(more) > 0 {
		r.field("", "%s: --progress shows all evidence", Count(len(more), "more line"))
	}
}

// causeLine is a cause in a line.
func causeLine(c *api.IncidentCause) string {
	line := fmt.Sprintf("%s: %s -> %s", OrText(c.Branch, "always"), c.State, c.To)
	if len(c.Values) > 0 {
		line += " [" + strings.Join(c.Values, ", ") + "]"
	}
	if c.Helped {
		line += "; the change for it helped"
	}
	return line
}

// burnLines returns what the checks of an event say first about the objectives.
func burnLines(s machine.State, e machine.Event) []string {
	if e.Kind != machine.CheckCompleted {
		return nil
	}
	if v := s.Evidence[e.State]; v != nil && v.Step == burnCheck && len(e.Facts) > 0 {
		return []string{e.State + ": " + e.Facts[0]}
	}
	var lines []string
	for i, g := range e.Gathered {
		if g.Step == burnCheck {
			lines = append(lines, GatheredLines(e.Gathered[i : i+1])[0])
		}
	}
	return lines
}

// changes writes what was changed, what became of it and who decided. What is only asked
// about is in the question.
func (r *Renderer) changes(s machine.State, events []machine.Event) {
	in := IncidentOf(s, events)
	changes := in.Changes
	if n := len(changes); n > 0 && asksAboutLever(s) && changes[n-1].Applied.IsZero() {
		changes = changes[:n-1]
	}
	refused := refusals(events)
	if len(changes)+len(in.Decisions)+len(refused) == 0 {
		return
	}
	r.Heading("CHANGES")
	for _, line := range refused {
		r.field("refused", "%s", line)
	}
	for _, c := range changes {
		r.field("change", "%s (%s)", c.Summary, c.Lever)
		for _, f := range c.Fields {
			r.field("", "%s", f)
		}
		if !c.Applied.IsZero() {
			r.field("applied", "%s", r.Clock.Ago(c.Applied))
		}
		r.field("result", "%s", c.Result)
	}
	for _, d := range in.Decisions {
		r.field("decided", "%s: %s", r.Clock.Ago(d.At), JoinClauses(fmt.Sprintf("%s by %s (%s)", d.What, d.By, d.Channel), d.Reason))
	}
}

// asksAboutLever reports whether the open question is about the plan of the run's lever,
// which it shows. That of a gate state is not.
func asksAboutLever(s machine.State) bool {
	l := s.Lever
	return s.Gate != nil && l != nil && l.Plan != nil && s.Gate.Digest == l.Plan.Digest()
}

// refusals lists the guards that refused a change or a question, and why, each once.
func refusals(events []machine.Event) []string {
	var out []string
	for _, e := range events {
		if e.Kind != machine.GuardsRefused {
			continue
		}
		for _, g := range e.Guards {
			if line := fmt.Sprintf("%s: %s: %s", e.State, g.Guard, g.Why); !g.OK && !slices.Contains(out, line) {
				out = append(out, line)
			}
		}
	}
	return out
}

// progress writes every event, or how many there are.
func (r *Renderer) progress(o Overview) {
	r.Heading("PROGRESS")
	path := strings.Join(PathNames(o.Run.Path), " -> ")
	if !o.Graph {
		path += "; --graph draws it, with the samples of proofs"
	}
	r.field("path", "%s", path)
	if o.Progress {
		for _, e := range o.Events {
			r.Event(e)
		}
		return
	}
	lines, n := Timeline{Book: o.Run.Playbook, Brief: true}, 0
	for _, e := range o.Events {
		if _, shown := lines.Line(e); shown {
			n++
		}
	}
	r.field("steps", "%d; --progress shows them", n)
}

// graph draws the samples of proofs and the path through the playbook.
func (r *Renderer) graph(o Overview) {
	var samples []machine.Sample
	for _, e := range o.Events {
		if e.Sample != nil {
			samples = append(samples, *e.Sample)
		}
	}
	if lines := Curves(samples); len(lines) > 0 {
		r.Printf("\nproof, %s\n", Count(len(samples), "sample"))
		for _, l := range lines {
			r.Printf("  %s\n", l)
		}
	}
	if o.Run.Playbook != nil {
		r.Drawing("\npath through the playbook\n" + DrawPath(o.Run.Playbook, o.Run.Path))
	}
}
