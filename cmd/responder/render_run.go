package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// runRenderer writes a run for people: its head, and one or a few lines for
// each event. It is used for a whole run (runs show, dry-run) and for one event
// after another (runs watch).
type runRenderer struct {
	w     io.Writer
	book  *playbook.Playbook // of the run; nil: states are shown by name only
	run   machine.State      // as it is; zero: what a change is proven by is not shown
	began time.Time
	plans map[string]bool // digests already shown
	brief bool            // of like samples in a row only the first
	wide  bool            // with the queries behind numbers and conditions
	query string          // of the check under way
	last  machine.Verdict
	err   error
}

func newRunRenderer(w io.Writer) *runRenderer {
	return &runRenderer{w: w, plans: map[string]bool{}}
}

func (r *runRenderer) printf(format string, args ...any) {
	if r.err == nil {
		_, r.err = io.WriteString(r.w, printable(fmt.Sprintf(format, args...)))
	}
}

// head writes what the run is about and what has become of it.
func (r *runRenderer) head(s machine.State) {
	r.run = s
	r.printf("run       %s\n", s.Start.Run)
	r.printf("playbook  %s %s\n", s.Start.Playbook, short(s.Start.Digest, 19))
	r.printf("service   %s\n", s.Start.Service.Name)
	if s.Start.ByHand() {
		r.printf("alert     none: %s\n", startedBy(s.Start))
	} else {
		r.printf("alert     %s\n", alertLine(s.Start.Alert))
	}
	if n := len(s.Episodes); n > 1 {
		r.printf("          and %d more\n", n-1)
	}
	r.printf("status    %s\n", statusLine(s))
	if s.Shadow != nil {
		r.printf("shadow    %s\n", shadowLine(*s.Shadow))
	}
	if s.Paused != "" {
		r.printf("paused    %s\n", s.Paused)
	}
	if s.Aside != nil {
		r.printf("aside     since %s: %s\n", stamp(s.Aside.At), s.Aside.Message)
		if s.Ending == nil {
			r.printf("          it holds %s; nothing is decided about it any more\n", orNothing(s.Locks()))
			r.printf("          look what it left behind, then: responder runs release %s --reason ...\n", s.Start.Run)
		}
	}
	if s.Held != nil && s.Aside == nil {
		r.printf("held      %s of %s: %s\n", s.Held.Action, s.Held.Effect, s.Held.Message)
		r.printf("          look, then: responder runs resolve %s --applied|--not-applied --reason ...\n", s.Start.Run)
	}
	if a := s.Consent().Approved; a != nil && a.BreakGlass {
		r.printf("alone     BREAK-GLASS: approved by %s\n", decisionLine(a))
	}
	if what, until := s.Awaits(); what != "" && s.Aside == nil {
		r.printf("waits     for %s\n          until %s, then it is given up\n", what, stamp(until))
	}
	if s.Gate != nil && s.Aside == nil {
		r.gate(s.Start.Run, *s.Gate)
	}
}

func orNothing(locks []string) string {
	if len(locks) == 0 {
		return "no lock"
	}
	return strings.Join(locks, ", ")
}

// statusLine says where a run stands or how it ended.
func statusLine(s machine.State) string {
	if s.Ending != nil {
		return fmt.Sprintf("%s after %s: %s", s.Ending.Outcome, round(s.Ended.Sub(s.Began)), s.Ending.Message)
	}
	if s.Aside != nil {
		return fmt.Sprintf("set aside in state %s", s.Current)
	}
	return fmt.Sprintf("%s in state %s since %s", s.Phase, s.Current, stamp(s.Updated))
}

// shadowLine says what became of the alert after a run that only observed.
func shadowLine(s machine.Shadow) string {
	after := playbook.FormatDuration(s.After.Round(time.Second))
	switch {
	case !s.Known:
		return "the alert is still firing; it is watched until " + stamp(s.Until)
	case s.Recovered && s.Acted != "":
		return fmt.Sprintf("the alert recovered %s later, after run %s had changed the service", after, s.Acted)
	case s.Recovered:
		return fmt.Sprintf("the alert recovered by itself %s later", after)
	default:
		return fmt.Sprintf("the alert was still firing %s later", after)
	}
}

// alertLine is an alert in Alertmanager's matcher notation, name first.
func alertLine(a playbook.Alert) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(a.Labels)) {
		if k != "alertname" {
			parts = append(parts, fmt.Sprintf("%s=%q", k, a.Labels[k]))
		}
	}
	return a.Labels["alertname"] + "{" + strings.Join(parts, ", ") + "}"
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// round makes a duration short enough to read.
func round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Millisecond)
	}
}

// event writes one event. The first one sets the zero of the time column.
func (r *runRenderer) event(kind machine.EventKind, e machine.Event) {
	if r.began.IsZero() {
		r.began = e.At
	}
	what, details := describe(kind, e)
	if e.Action == machine.ActionCheck && kind == machine.EffectStarted {
		r.query, _ = e.With["query"].(string)
	}
	if what == "" || r.brief && r.repeats(e) {
		return
	}
	if kind == machine.StateEntered && r.book != nil {
		if st := r.book.State(e.State); st != nil {
			what += ": " + stateWhat(st)
		}
	}
	r.printf("%9s  %s\n", "+"+round(e.At.Sub(r.began)).String(), what)
	for _, d := range details {
		r.printf("%11s%s\n", "", d)
	}
	switch {
	case kind == machine.CheckCompleted:
		r.behind(r.query)
	case e.Plan != nil:
		r.plan(e.State, *e.Plan)
	case len(e.Guards) > 0:
		r.guards(e.Guards)
	case e.Sample != nil:
		r.sample(*e.Sample)
	}
}

// plan writes what a lever would change; the same plan only once.
func (r *runRenderer) plan(state string, p machine.Plan) {
	digest := p.Digest()
	if r.plans[digest] {
		return
	}
	r.plans[digest] = true
	r.printf("             target  %s %s/%s\n", p.Target.Kind, p.Target.Namespace, p.Target.Name)
	for _, c := range p.Diff {
		r.printf("             %s\n", c.Path)
		if c.From != "" {
			r.printf("               - %s\n", c.From)
		}
		if c.To != "" {
			r.printf("               + %s\n", c.To)
		}
	}
	word := "verify"
	r.run.Playbook = r.book
	for _, line := range r.run.ProofLines(state, r.run.Updated) {
		r.printf("             %-7s %s\n", word, line.Text)
		r.behind(line.Query)
		word = ""
	}
	r.printf("             undo    %s\n", p.Undo)
	r.printf("             risk    %s: %s\n", p.Risk, p.Why)
	r.printf("             ready   %s\n", capacityLine(p.Capacity))
	for _, n := range p.Notes {
		r.printf("             note    %s\n", n)
	}
	r.printf("             digest  %s\n", digest)
}

// behind writes the query that a line above says in words, for those who want it.
func (r *runRenderer) behind(query string) {
	if r.wide && query != "" {
		r.printf("               query  %s\n", strings.Join(strings.Fields(query), " "))
	}
}

func capacityLine(c machine.Capacity) string {
	if c.Unknown {
		return "cannot be said, so guards will refuse"
	}
	line := fmt.Sprintf("%d now, at least %d on the way, %d after", c.ReadyNow, c.LowestReady, c.ReadyAfter)
	if tokens := c.TokensText(); tokens != "" {
		line += "; " + tokens
	}
	return line
}

func (r *runRenderer) guards(verdicts []machine.GuardVerdict) {
	for _, g := range verdicts {
		r.printf("             %-7s %s: %s\n", guardWord(g), g.Guard, g.Why)
	}
}

func guardWord(g machine.GuardVerdict) string {
	switch {
	case g.OK:
		return "ok"
	case g.Wait:
		return "wait"
	default:
		return "refused"
	}
}

// repeats reports whether a sample says what the one before said.
func (r *runRenderer) repeats(e machine.Event) bool {
	if e.Sample == nil {
		return false
	}
	same := r.last == e.Sample.Verdict
	r.last = e.Sample.Verdict
	return same
}

// sample writes the readings that are not as they should be.
func (r *runRenderer) sample(s machine.Sample) {
	for _, v := range s.Values {
		if !v.OK {
			r.printf("             no  %s %s %s %s\n", readingValue(v), v.Op, playbook.Quantity(v.Limit, v.Unit), cut(cell(v.Name), 50))
		}
	}
}

func readingValue(v machine.Reading) string {
	if v.Value == nil {
		return "nothing (" + string(v.Why) + ")"
	}
	return playbook.Quantity(*v.Value, v.Unit)
}
