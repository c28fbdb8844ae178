package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
)

// demoShow shows a run to a person, event by event, as it happens.
type demoShow struct {
	screen *screen
	world  *sandbox.World

	shown map[string]bool // digests of plans
	said  time.Time       // when a sample or progress was last written out
	alert time.Time
	fixed time.Time
}

func newDemoShow(s *screen, w *sandbox.World) *demoShow {
	return &demoShow{screen: s, world: w, shown: map[string]bool{}}
}

// opening says what is about to be seen.
func (d *demoShow) opening(speed float64) {
	sc := d.world.Scenario()
	d.screen.raw(d.screen.paint(bold, "Responder demo: "+sc.Title))
	d.screen.raw(wrap(sc.Story, tableWidth)...)
	d.screen.raw(d.screen.paint(dim, fmt.Sprintf("A simulated cluster, %g times as fast as life; everything else is the real thing.", speed)))
}

// event shows one event of the run; st is the run as of it.
func (d *demoShow) event(ctx context.Context, e machine.Event, st machine.State) {
	s := d.screen
	switch e.Kind {
	case machine.RunStarted:
		d.alert = e.Start.Alert.StartsAt
		s.at(e.At, plain, "run %s of playbook %s", e.Start.Run, e.Start.Playbook)
	case machine.StateEntered:
		d.state(e, st)
	case machine.CheckCompleted:
		for _, f := range e.Facts {
			s.detail(plain, "- %s", f)
		}
	case machine.EdgeTaken:
		s.detail(dim, "-> %s (%s)", stateTitle(st.Playbook, e.To), orDash(e.Message))
	case machine.PlanCompleted:
		d.plan(e.Plan, e.Digest)
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
func (d *demoShow) other(e machine.Event) {
	what, details := describe(e.Kind, e)
	if what == "" {
		return
	}
	st := plain
	switch e.Kind {
	case machine.Applied, machine.GateDecided:
		st = cyan
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
		d.screen.detail(plain, "- %s", line)
	}
}

func (d *demoShow) state(e machine.Event, st machine.State) {
	kind := ""
	if st.Playbook != nil {
		if s := st.Playbook.State(e.State); s != nil && s.Step != "" {
			kind = "  " + d.screen.paint(dim, string(s.Kind)+" "+s.Step)
		}
	}
	d.screen.raw("")
	d.screen.clear()
	d.screen.write(fmt.Sprintf("%s  %s%s\n", e.At.UTC().Format(time.TimeOnly),
		d.screen.paint(bold, printable(stateTitle(st.Playbook, e.State))), kind))
}

func stateTitle(p *playbook.Playbook, name string) string {
	if p != nil {
		if s := p.State(name); s != nil && s.Title != "" {
			return s.Title
		}
	}
	return name
}

func (d *demoShow) effect(e machine.Event, st machine.State) {
	switch e.Action {
	case machine.ActionApply, machine.ActionUndo:
		step := ""
		if st.Lever != nil {
			step = st.Lever.Step
		}
		d.screen.at(e.At, cyan, "%s %s", e.Action, step)
	}
}

// plan shows what a lever would change, once.
func (d *demoShow) plan(p *machine.Plan, digest string) {
	if p == nil || d.shown[digest] {
		return
	}
	d.shown[digest] = true
	d.screen.detail(plain, "plan: %s", p.Summary)
	d.diff(*p)
}

func (d *demoShow) diff(p machine.Plan) {
	s := d.screen
	s.detail(plain, "  %s %s/%s", p.Target.Kind, p.Target.Namespace, p.Target.Name)
	for _, c := range p.Diff {
		s.detail(plain, "  %s", c.Path)
		if c.From != "" {
			s.detail(red, "    - %s", c.From)
		}
		if c.To != "" {
			s.detail(green, "    + %s", c.To)
		}
	}
}

func (d *demoShow) guards(all []machine.GuardVerdict) {
	var fine []string
	for _, g := range all {
		if g.OK {
			fine = append(fine, g.Guard)
			continue
		}
		d.screen.detail(yellow, "guard %s %s: %s", g.Guard, guardWord(g), g.Why)
	}
	if len(fine) > 0 {
		d.screen.detail(dim, "guards passed: %s", strings.Join(fine, ", "))
	}
}

// progress shows something that is under way: in place on a terminal, else a
// line a minute.
func (d *demoShow) progress(at time.Time, text string) {
	if d.screen.status(at.UTC().Format(time.TimeOnly) + "  " + text) {
		return
	}
	if at.Sub(d.said) >= time.Minute {
		d.said = at
		d.screen.at(at, plain, "%s", text)
	}
}

func (d *demoShow) sample(m *machine.Sample) {
	if m == nil {
		return
	}
	parts := make([]string, 0, len(m.Values)+1)
	for _, v := range m.Values {
		parts = append(parts, reading(v))
	}
	parts = append(parts, string(m.Verdict))
	if m.Verdict == machine.VerdictRecovering && !m.HeldFrom.IsZero() {
		parts[len(parts)-1] = fmt.Sprintf("holds for %s", round(m.At.Sub(m.HeldFrom)))
	}
	d.progress(m.At, strings.Join(parts, ", "))
}

// reading is one number of a sample in a few words.
func reading(v machine.Reading) string {
	name, unit, factor := readingName(v.Name)
	if v.Value == nil {
		return fmt.Sprintf("%s unknown (%s)", name, v.Why)
	}
	return fmt.Sprintf("%s %s%s", name, brief(*v.Value*factor), unit)
}

// readingName shortens an expression to what it measures.
func readingName(expr string) (name, unit string, factor float64) {
	switch {
	case expr == "burn":
		return "burn since fix", "x", 1
	case expr == "traffic":
		return "traffic", "/s", 1
	case strings.Contains(expr, "time_to_first_token_seconds_bucket"):
		return "slow TTFT", "%", 100
	case strings.Contains(expr, "time_per_output_token_seconds_bucket"):
		return "slow TPOT", "%", 100
	case strings.Contains(expr, "num_requests_waiting"):
		return "queue", "", 1
	default:
		return cut(expr, 24), "", 1
	}
}

// brief writes a number with two digits after the point, or none when it is large.
func brief(f float64) string {
	if f >= 100 || f == float64(int64(f)) {
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// verdict shows how a proof ended, and the curve that it looked at.
func (d *demoShow) verdict(ctx context.Context, e machine.Event) {
	if e.Kind == machine.Verified {
		d.screen.at(e.At, green, "VERIFIED %s", e.Message)
	} else {
		d.screen.at(e.At, yellow, "verification %s: %s", e.Verdict, e.Message)
	}
	marks := []mark{{d.world.Incident(), "i", "incident"}, {d.alert, "a", "alert"}, {d.fixed, "f", "fix"}, {e.At, "v", "verdict"}}
	d.curve(ctx, e.At, marks)
}

// curve draws the share of slow first tokens from before the incident to now.
func (d *demoShow) curve(ctx context.Context, to time.Time, marks []mark) {
	from := d.world.Incident().Add(-3 * time.Minute)
	m, err := d.world.Range(ctx, slowTTFT(d.world.Services()[0], "1m"), from, to, 15*time.Second)
	if err != nil || len(m.Series) != 1 {
		return // the chart is an ornament: the run's own evidence stands above
	}
	d.screen.raw("")
	d.screen.detail(plain, "Share of requests with the first token after 500 ms, by minute")
	c := chart{points: m.Series[0].Points, marks: slices.DeleteFunc(marks, func(m mark) bool { return m.at.IsZero() }), ascii: d.screen.ascii}
	for _, l := range c.lines() {
		d.screen.raw(l)
	}
}

// slowTTFT is the share of first tokens that come after the objective's
// threshold, over a window.
func slowTTFT(s playbook.Service, window string) string {
	return fmt.Sprintf(`1 - sum(rate(vllm:time_to_first_token_seconds_bucket{%[1]s,le="0.5"}[%[2]s])) / sum(rate(vllm:time_to_first_token_seconds_count{%[1]s}[%[2]s]))`,
		s.Selector, window)
}
