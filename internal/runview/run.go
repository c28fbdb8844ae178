package runview

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Renderer writes a run for people: its head, and one or a few lines for
// each event. It is used for a whole run (runs show, dry-run) and for one event
// after another (runs watch).
type Renderer struct {
	w     io.Writer
	Book  *playbook.Playbook // of the run; nil: states are shown by name only
	Run   machine.State      // as it is; zero: what a change is proven by is not shown
	Began time.Time
	Brief bool                      // see [Timeline]
	Wide  bool                      // with the queries behind numbers and conditions
	Clock Clock                     // of times in the head and in questions
	Width int                       // lines of events are wrapped to it; 0: they are not
	Paint func(Tone, string) string // marks a line; nil: nothing is marked
	Err   error

	lines Timeline
	plans map[string]bool // digests already shown
	query string          // of the check under way
	begun bool            // a heading was written
}

// NewRenderer returns a renderer that writes to w.
func NewRenderer(w io.Writer) *Renderer {
	return &Renderer{w: w, plans: map[string]bool{}}
}

// Printf writes what the format says, unless an earlier write failed. Only the format
// breaks lines: texts among the arguments are [Inline].
func (r *Renderer) Printf(format string, args ...any) { r.write(Printable(inlined(format, args))) }

// inlined is Sprintf with texts among the arguments on one line.
func inlined(format string, args []any) string {
	for i, a := range args {
		switch v := reflect.ValueOf(a); {
		case v.Kind() == reflect.String:
			args[i] = Inline(v.String())
		case v.IsValid() && v.Type().Implements(reflect.TypeFor[fmt.Stringer]()):
			args[i] = Inline(fmt.Sprint(a))
		}
	}
	return fmt.Sprintf(format, args...)
}

// Drawing writes a text of several lines, such as that of [DrawPath].
func (r *Renderer) Drawing(text string) { r.write(Printable(text)) }

// line writes text after a head. Its further lines begin below its first.
func (r *Renderer) line(head, text string, tone Tone) {
	text = Printable(text)
	lines := strings.Split(text, "\n")
	if r.Width > 0 {
		lines = Wrap(text, r.Width-utf8.RuneCountInString(head))
	}
	for _, l := range lines {
		if r.Paint != nil {
			l = r.Paint(tone, l)
		}
		r.write(head + l + "\n")
		head = strings.Repeat(" ", utf8.RuneCountInString(head))
	}
}

// detail writes a line that begins with blanks.
func (r *Renderer) detail(format string, args ...any) {
	whole := fmt.Sprintf(format, args...)
	text := strings.TrimLeft(whole, " ")
	r.line(whole[:len(whole)-len(text)], text, "")
}

func (r *Renderer) write(text string) {
	if r.Err == nil {
		_, r.Err = io.WriteString(r.w, text)
	}
}

// field writes a named value. Its further lines begin below its first.
func (r *Renderer) field(name, format string, args ...any) {
	r.line(fmt.Sprintf("%-9s ", name), inlined(format, args), "")
}

// command writes what a person may type next, on a line of its own.
func (r *Renderer) command(format string, args ...any) {
	r.write("  " + Printable(inlined(format, args)) + "\n")
}

func orNothing(locks []string) string {
	if len(locks) == 0 {
		return "no lock"
	}
	return strings.Join(locks, ", ")
}

// StatusLine reports where a run stands or how it ended.
func StatusLine(s machine.State) string {
	r := Renderer{}
	return r.statusLine(s)
}

func (r *Renderer) statusLine(s machine.State) string {
	if s.Ending != nil {
		return fmt.Sprintf("%s after %s: %s", s.Ending.Outcome, Round(s.Ended.Sub(s.Began)), s.Ending.Message)
	}
	if s.Quarantine != nil {
		return fmt.Sprintf("quarantined in state %s", s.Current)
	}
	return fmt.Sprintf("%s in state %s since %s", s.Phase, s.Current, r.Clock.Ago(s.Updated))
}

// ObservedOutcomeLine reports what became of the alert after a run that only observed.
func ObservedOutcomeLine(s machine.ObservedOutcome) string {
	after := playbook.FormatDuration(s.After.Round(time.Second))
	switch {
	case !s.Known:
		return "the alert is still firing; it is watched until " + Time(s.Until)
	case s.Recovered && s.Acted != "":
		return fmt.Sprintf("the alert recovered %s later, after run %s had changed the service", after, s.Acted)
	case s.Recovered:
		return fmt.Sprintf("the alert recovered by itself %s later", after)
	default:
		return fmt.Sprintf("the alert was still firing %s later", after)
	}
}

// AlertLine is an alert in Alertmanager's matcher notation, name first.
func AlertLine(a playbook.Alert) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(a.Labels)) {
		if k != "alertname" {
			parts = append(parts, fmt.Sprintf("%s=%q", k, a.Labels[k]))
		}
	}
	return Inline(a.Labels["alertname"] + "{" + strings.Join(parts, ", ") + "}")
}

// Time formats a time in UTC.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// Round makes a duration short enough to read.
func Round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second)
	case d >= time.Second:
		return d.Round(100 * time.Millisecond)
	default:
		return d.Round(time.Millisecond)
	}
}

// Event writes one event. The first one sets the zero of the time column.
func (r *Renderer) Event(e machine.Event) {
	if r.Began.IsZero() {
		r.Began = e.At
	}
	if e.Action == machine.ActionCheck && e.Kind == machine.EffectStarted {
		r.query, _ = e.With["query"].(string)
	}
	r.lines.Book, r.lines.Brief = r.Book, r.Brief
	line, shown := r.lines.Line(e)
	if !shown {
		return
	}
	r.line(fmt.Sprintf("%9s  ", "+"+Round(e.At.Sub(r.Began)).String()), line.What, line.Tone)
	for _, d := range line.Details {
		r.detail("%11s%s", "", d)
	}
	switch {
	case e.Kind == machine.CheckCompleted:
		r.behind(r.query)
	case e.Plan != nil:
		r.plan(e.State, *e.Plan)
	case e.Kind == machine.GateOpened && e.Gate != nil && e.Gate.Undo:
		r.digest("             digest  ", e.Gate.Digest)
	case len(e.Guards) > 0:
		r.guards(e.Guards)
	case e.Sample != nil:
		r.sample(*e.Sample)
	}
}

// plan writes what a lever would change; the same plan only once.
func (r *Renderer) plan(state string, p machine.Plan) {
	digest := p.Digest()
	if r.plans[digest] {
		return
	}
	r.plans[digest] = true
	r.detail("             target  %s %s/%s", p.Target.Kind, p.Target.Namespace, p.Target.Name)
	for _, c := range p.Diff {
		r.detail("             %s", c.Path)
		if c.From != "" {
			r.detail("               - %s", c.From)
		}
		if c.To != "" {
			r.detail("               + %s", c.To)
		}
	}
	word := "verify"
	r.Run.Playbook = r.Book
	for _, line := range r.Run.ProofLines(state, r.Run.Updated) {
		r.detail("             %-7s %s", word, line.Text)
		r.behind(line.Query)
		word = ""
	}
	r.detail("             undo    %s", p.Undo)
	r.detail("             risk    %s", RiskLine(p))
	r.detail("             ready   %s", CapacityLine(p.Capacity))
	for _, n := range p.Notes {
		r.detail("             note    %s", n)
	}
	r.digest("             digest  ", digest)
}

// digest writes the digest of a plan. People copy it, so it is not wrapped.
func (r *Renderer) digest(head, digest string) {
	if r.Width > 0 && len(head)+len(digest) > r.Width {
		head = "  digest "
	}
	r.write(head + Printable(digest) + "\n")
}

// behind writes the query that a line above says in words, for those who want it.
func (r *Renderer) behind(query string) {
	if r.Wide && query != "" {
		r.detail("               query  %s", strings.Join(strings.Fields(query), " "))
	}
}

// RiskLine is the risk of a plan, and why it is that high.
func RiskLine(p machine.Plan) string { return JoinClauses(string(p.Risk), p.Why) }

// CapacityLine describes what a plan means for serving capacity.
func CapacityLine(c machine.Capacity) string {
	if c.Unknown {
		return "cannot be said, so guards will refuse"
	}
	line := fmt.Sprintf("%d now, at least %d on the way, %d after", c.ReadyNow, c.LowestReady, c.ReadyAfter)
	if tokens := c.TokensText(); tokens != "" {
		line += "; " + tokens
	}
	return line
}

func (r *Renderer) guards(verdicts []machine.GuardVerdict) {
	for _, g := range verdicts {
		r.detail("             %-7s %s: %s", GuardWord(g), g.Guard, g.Why)
	}
}

// GuardWord returns the word for a guard's verdict.
func GuardWord(g machine.GuardVerdict) string {
	switch {
	case g.OK:
		return "ok"
	case g.Wait:
		return "wait"
	default:
		return "refused"
	}
}

// sample writes the readings that are not as they should be.
func (r *Renderer) sample(s machine.Sample) {
	for _, v := range s.Values {
		if !v.OK {
			r.detail("             no  %s: %s", Cut(Cell(v.Name), 50), ReadingText(v))
		}
	}
}

// ReadingText returns a number of a sample with its limit.
func ReadingText(v machine.Reading) string {
	return fmt.Sprintf("%s, want %s %s", readingValue(v), v.Op, playbook.Quantity(v.Limit, v.Unit))
}

func readingValue(v machine.Reading) string {
	if v.Value == nil {
		return "nothing (" + string(v.Why) + ")"
	}
	return playbook.Quantity(*v.Value, v.Unit)
}

// Standing is where a run stands, in a word, and why it stands there if that is
// not as usual.
func Standing(s machine.State) (status, why string) {
	run := api.SummaryOf(s)
	return run.Status, run.Why
}

// startedBy reports who started a run by hand, and why.
func startedBy(s machine.Start) string {
	text := s.Cause()
	if len(s.Alert.Labels) > 0 {
		text += " with " + AlertLine(s.Alert)
	}
	return JoinClauses(text, s.Reason)
}

// StateWhat reports what a state does.
func StateWhat(s *playbook.State) string {
	if s == nil {
		return ""
	}
	title := s.Title
	switch s.Kind {
	case playbook.StateWait:
		if s.Step != "" {
			return fmt.Sprintf("%s (wait for %s)", title, s.Step)
		}
		return title + " (wait)"
	case playbook.StateCheck, playbook.StateLever:
		return fmt.Sprintf("%s (%s %s)", title, s.Kind, s.Step)
	case playbook.StateGather:
		return fmt.Sprintf("%s (gather %s)", title, strings.Join(s.Gathers(), ", "))
	case playbook.StateDivert:
		return fmt.Sprintf("%s (divert to playbook %s)", title, s.Divert)
	case playbook.StateEnd:
		return fmt.Sprintf("%s (the run ends %s)", title, s.End)
	default:
		return fmt.Sprintf("%s (%s)", title, s.Kind)
	}
}
