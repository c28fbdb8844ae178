package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/sandbox"
)

// show shows a run to a person, event by event, as it happens.
type show struct {
	screen *screen
	world  *sandbox.World

	shown map[string]bool // digests of plans
	said  time.Time       // when a sample or progress was last written out
	alert time.Time
	fixed time.Time
}

func newShow(s *screen, w *sandbox.World) *show {
	return &show{screen: s, world: w, shown: map[string]bool{}}
}

// opening reports what is about to be seen.
func (d *show) opening(speed float64) {
	sc := d.world.Scenario()
	d.screen.block("", bold, "Responder demo: "+sc.Title)
	d.screen.block("", plain, sc.Description)
	d.screen.block("", dim, fmt.Sprintf("The cluster is simulated, %g times as fast as life; everything else is real.", speed))
}

// event shows one event of the run; st is the run as of it.
func (d *show) event(ctx context.Context, e machine.Event, st machine.State) {
	s := d.screen
	switch e.Kind {
	case machine.RunStarted:
		d.alert = e.Start.Alert.StartsAt
		s.at(e.At, plain, "run %s of playbook %s", e.Start.Run, e.Start.Playbook)
	case machine.StateEntered:
		d.state(e, st)
	case machine.CheckCompleted:
		for _, f := range e.Facts {
			s.item(f)
		}
	case machine.EdgeTaken:
		s.detail(dim, "-> %s (%s)", stateTitle(st.Playbook, e.To), runview.OrDash(e.Message))
	case machine.PlanCompleted:
		if d.shown[e.Digest] {
			s.detail(dim, "planned again: unchanged")
		} else {
			s.detail(plain, "plan: %s", e.Plan.Summary)
		}
	case machine.GateOpened: // the question shows it
	case machine.GuardsPassed, machine.GuardsRefused, machine.GuardsWaiting:
		d.guards(e.Guards)
	case machine.Settling:
		d.progress(e.At, "taking effect: "+e.Message)
	case machine.Settled:
		d.fixed, d.said = e.At, time.Time{}
		s.at(e.At, cyan, "in effect; the proof counts from here")
	case machine.Sampled:
		d.sample(e.Sample)
	case machine.Verified, machine.VerifyEnded:
		d.verdict(ctx, e)
	case machine.EffectStarted:
		d.effect(e, st)
	default:
		d.other(e)
	}
}

// other shows the events that are one line.
func (d *show) other(e machine.Event) {
	what, details := runview.DescribeEvent(e.Kind, e)
	if what == "" {
		return
	}
	st := plain
	switch e.Kind {
	case machine.Applied, machine.GateDecided:
		st = cyan
	case machine.EpisodeResolved, machine.EpisodeJoined, machine.EpisodeRefired:
		what = alertWords(e)
	case machine.RunHeld, machine.EffectFailed, machine.PlanRefused:
		st = red
	case machine.Undone, machine.CancelRequested, machine.GateExpired, machine.GateVoided:
		st = yellow
	case machine.RunEnded:
		st = red
		if e.Ending != nil && e.Ending.Outcome == machine.OutcomeResolved {
			st = green
		}
	}
	d.screen.at(e.At, st, "%s", what)
	for _, line := range details {
		d.screen.item(line)
	}
}

// alertWords reports what an alert of the run did.
func alertWords(e machine.Event) string {
	name := ""
	if e.Alert != nil {
		name = e.Alert.Labels["alertname"]
	}
	switch e.Kind {
	case machine.EpisodeResolved:
		return name + " resolves"
	case machine.EpisodeRefired:
		return name + " fires again"
	default:
		return name + " fires too, and joins the run"
	}
}

func (d *show) state(e machine.Event, st machine.State) {
	kind := ""
	if st.Playbook != nil {
		if s := st.Playbook.State(e.State); s != nil && s.Step != "" {
			kind = "  " + d.screen.paint(dim, string(s.Kind)+" "+s.Step)
		}
	}
	d.screen.raw("")
	d.screen.clear()
	d.screen.write(fmt.Sprintf("%s  %s%s\n", e.At.UTC().Format(time.TimeOnly),
		d.screen.paint(bold, runview.Printable(stateTitle(st.Playbook, e.State))), kind))
}

func stateTitle(p *playbook.Playbook, name string) string {
	if p != nil {
		if s := p.State(name); s != nil && s.Title != "" {
			return s.Title
		}
	}
	return name
}

func (d *show) effect(e machine.Event, st machine.State) {
	switch e.Action {
	case machine.ActionApply:
		if st.Lever != nil && st.Lever.Plan != nil && !d.shown[st.Lever.Plan.Digest()] {
			d.diff(*st.Lever.Plan) // nobody was asked
		}
		d.screen.at(e.At, cyan, "applying it")
	case machine.ActionUndo:
		d.screen.at(e.At, yellow, "taking it back")
	case machine.ActionNotify:
		if e.Message != "" && e.Ending == nil && st.Held == nil { // else the end, or the hold, says it
			d.screen.at(e.At, yellow, "to people: %s", e.Message)
		}
	}
}

// diff shows what a lever would change.
func (d *show) diff(p machine.Plan) {
	d.shown[p.Digest()] = true
	d.screen.label("target", plain, "%s %s/%s", p.Target.Kind, p.Target.Namespace, p.Target.Name)
	word := "change"
	for _, c := range p.Diff {
		d.screen.label(word, plain, "%s", strings.TrimPrefix(c.Path, "spec.template."))
		word = ""
		if c.From != "" {
			d.screen.label(word, red, "- %s", c.From)
		}
		if c.To != "" {
			d.screen.label(word, green, "+ %s", c.To)
		}
	}
}

func (d *show) guards(all []machine.GuardVerdict) {
	var fine []string
	for _, g := range all {
		if g.OK {
			fine = append(fine, g.Guard)
			continue
		}
		d.screen.detail(yellow, "guard %s %s: %s", g.Guard, runview.GuardWord(g), g.Why)
	}
	if len(fine) > 0 {
		d.screen.detail(dim, "guards passed: %s", strings.Join(fine, ", "))
	}
}

// progress shows something that is under way: in place on a terminal, else a
// line a minute.
func (d *show) progress(at time.Time, text string) {
	if d.screen.status(at.UTC().Format(time.TimeOnly) + "  " + text) {
		return
	}
	if at.Sub(d.said) >= time.Minute {
		d.said = at
		d.screen.at(at, plain, "%s", text)
	}
}

func (d *show) sample(m *machine.Sample) {
	if m == nil {
		return
	}
	verdict := string(m.Verdict)
	if m.Verdict == machine.VerdictRecovering && !m.HeldFrom.IsZero() {
		verdict = fmt.Sprintf("holds for %s", runview.Round(m.At.Sub(m.HeldFrom)))
	}
	parts := make([]string, 0, len(m.Values))
	for _, v := range m.Values {
		parts = append(parts, reading(v))
	}
	d.progress(m.At, verdict+": "+strings.Join(parts, ", "))
}

// reading is one number of a sample in a few words.
func reading(v machine.Reading) string {
	unit := v.Unit
	name, _, _ := strings.Cut(v.Name, " (") // what is in parentheses was said with the plan
	if strings.ContainsAny(v.Name, "{[") {
		name = runview.Cut(v.Name, 24) // an expression
	}
	value := func(f float64) string { return playbook.Quantity(f, unit) }
	switch v.Name {
	case "burn":
		name, value = "burn since fix", func(f float64) string { return brief(f) + "x" }
	case "traffic":
		value = func(f float64) string { return brief(f) + "/s" }
	}
	if v.Value == nil {
		return fmt.Sprintf("%s unknown (%s)", name, v.Why)
	}
	return name + " " + value(*v.Value)
}

// brief writes a number with about three digits.
func brief(f float64) string {
	switch {
	case f >= 100 || f == float64(int64(f)):
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}

// verdict shows how a proof ended, and the curve that it looked at.
func (d *show) verdict(ctx context.Context, e machine.Event) {
	if e.Kind == machine.Verified {
		d.screen.at(e.At, green, "VERIFIED %s", e.Message)
	} else {
		d.screen.at(e.At, yellow, "verification %s: %s", e.Verdict, e.Message)
	}
	marks := []mark{{d.world.Incident(), "i", "incident"}, {d.alert, "a", "alert"}, {d.fixed, "f", "fix"}, {e.At, "v", "verdict"}}
	d.curve(ctx, e.At, marks)
}

// curve draws the share of slow first tokens from before the incident to now.
func (d *show) curve(ctx context.Context, to time.Time, marks []mark) {
	c := chart{from: d.world.Incident().Add(-3 * time.Minute), to: to, marks: marks, ascii: d.screen.ascii}
	c.marks = slices.DeleteFunc(c.marks, func(m mark) bool { return m.at.IsZero() })
	m, err := d.world.Range(ctx, slowTTFT(d.world.Services()[0], "1m"), c.from, c.to, c.step())
	if err != nil || len(m.Series) != 1 {
		return // the chart is an ornament: the run's own evidence stands above
	}
	d.screen.raw("")
	d.screen.detail(plain, "Share of requests with the first token after 500 ms, by minute")
	c.points = m.Series[0].Points
	d.screen.raw(c.lines()...)
}

// slowTTFT is the share of first tokens that come after the objective's
// threshold, over a window.
func slowTTFT(s playbook.Service, window string) string {
	return fmt.Sprintf(`1 - sum(rate(vllm:time_to_first_token_seconds_bucket{%[1]s,le="0.5"}[%[2]s])) / sum(rate(vllm:time_to_first_token_seconds_count{%[1]s}[%[2]s]))`,
		s.Selector, window)
}
