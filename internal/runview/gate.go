package runview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Question writes what people are asked about a run: the plan with all that it changes,
// and its guards; or which change is taken back.
func (r *Renderer) Question(s machine.State) {
	r.Head(s)
	r.question(s, true)
}

// question writes what people are asked, and what to type. In full it has the whole plan
// with its guards, and what will become of the change.
func (r *Renderer) question(s machine.State, full bool) {
	r.Heading("QUESTION")
	switch l := s.Lever; {
	case s.Gate.Undo, l == nil, l.Plan == nil:
		r.field("asks", "%s", s.Gate.Text)
		if s.Gate.Digest != "" {
			r.digest("digest    ", s.Gate.Digest)
		}
	case full:
		r.field("plan", "%s", l.Plan.Summary)
		r.plan(s.Current, *l.Plan)
		r.guards(l.Guards)
	default:
		r.planInShort(*l.Plan)
	}
	r.gate(s.Start.Run, *s.Gate, full)
}

// planInShort writes what a lever would change, and what that may cost.
func (r *Renderer) planInShort(p machine.Plan) {
	r.field("plan", "%s", p.Summary)
	for _, c := range p.Diff {
		r.field("", "%s: %s -> %s", c.Path, OrText(c.From, "(none)"), OrText(c.To, "(none)"))
	}
	r.field("risk", "%s", RiskLine(p))
	r.field("ready", "%s", CapacityLine(p.Capacity))
	r.field("undo", "%s", p.Undo)
	for _, n := range p.Notes {
		r.field("note", "%s", n)
	}
	r.digest("digest    ", p.Digest())
}

// gate writes who is asked, who of them has said yes, who is told when nobody does, and
// what to type.
func (r *Renderer) gate(run string, g machine.Gate, full bool) {
	r.field("gate", "%s, until %s, else %s", g.Who(), r.Clock.Ago(g.Deadline), unanswered(g))
	if full {
		for _, line := range FollowLines(g) {
			r.field("", "%s", line)
		}
	}
	if !plainGate(g) {
		for _, n := range g.Needs {
			r.field("", "needs %s", needLine(n, g.Votes))
		}
	}
	if g.NotBy != "" {
		r.field("", "%s", NotByLine(g))
	}
	if !g.RemindAt.IsZero() && !g.Reminded {
		r.field("", "people are reminded at %s", r.Clock.Text(g.RemindAt))
	}
	for _, line := range tierLines(g, r.Clock.Text) {
		r.field("", "%s", line)
	}
	r.write("gate ID   " + Inline(g.ID) + "\n") // people copy it, so it is not wrapped
	r.field("next", "one of:")
	r.command("responder approve %s", run)
	r.command("responder deny %s --reason TEXT", run)
	if g.Digest != "" && !g.Undo {
		r.command("responder replan %s   # a fresh plan", run)
	}
	if len(g.BreakGlass) > 0 {
		r.field("alone", "%s, by:", strings.Join(g.BreakGlass, ", "))
		r.command("responder approve %s --break-glass --reason TEXT", run)
	}
}

// ExpiryLine describes what happens when nobody decides about a gate in time.
func ExpiryLine(g machine.Gate) string {
	switch {
	case g.Undo:
		return unanswered(g)
	case g.OnExpiry == playbook.ExpiryDeny:
		return "it counts as denied and nothing is changed"
	default:
		return "the run is handed to people and nothing is changed"
	}
}

// unanswered is ExpiryLine in a word or two.
func unanswered(g machine.Gate) string {
	switch {
	case g.Undo && g.Unanswered == machine.Undo:
		return "the change is taken back"
	case g.Undo:
		return "the change stays"
	default:
		return string(g.OnExpiry)
	}
}

// FollowLines lists what will become of the change in question, one line for
// each group of verdicts with the same consequence.
func FollowLines(g machine.Gate) []string {
	var lines, texts []string
	for _, f := range g.Follows {
		word := strings.ReplaceAll(string(f.Verdict), "_", " ")
		if i := slices.Index(texts, f.Text); i >= 0 {
			lines[i] += ", " + word
			continue
		}
		texts, lines = append(texts, f.Text), append(lines, word)
	}
	for i := range lines {
		lines[i] += ": " + texts[i]
	}
	return lines
}

// NotByLine names the person who may not approve.
func NotByLine(g machine.Gate) string { return g.NotBy + " started the run and cannot approve it" }

// TierLines lists who is told while nobody decides.
func TierLines(g machine.Gate) []string { return tierLines(g, Time) }

func tierLines(g machine.Gate, at func(time.Time) string) []string {
	var lines []string
	for i, t := range g.Tiers {
		word := "is told at " + at(g.Opened.Add(t.After))
		if i < g.Told {
			word = "was told after " + playbook.FormatDuration(t.After)
		}
		lines = append(lines, fmt.Sprintf("tier %d: %s %s", i+1, strings.Join(t.To, ", "), word))
	}
	return lines
}

// plainGate reports whether one yes of those named is all there is to say.
func plainGate(g machine.Gate) bool {
	return len(g.Needs) == 1 && g.Needs[0].Quorum <= 1 && len(g.Votes) == 0 && strings.HasPrefix(g.Needs[0].Rule, "playbook ")
}

// needLine is one demand, who makes it, and who has met it so far.
func needLine(n machine.Need, votes []machine.Decision) string {
	given := n.Given(votes)
	line := fmt.Sprintf("%s (%s): ", n.Who(), n.Rule)
	if len(given) == 0 {
		return line + "nobody yet"
	}
	return line + strings.Join(given, ", ") + " approved"
}

// UnmetLines lists what a gate still needs.
func UnmetLines(g machine.Gate) string {
	var b strings.Builder
	for _, n := range g.Unmet() {
		fmt.Fprintf(&b, "  %s\n", needLine(n, g.Votes))
	}
	return b.String()
}
