package runview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Question writes what people are asked about a run: the plan with all that it changes,
// and its guards; or which change is taken back.
func (r *Renderer) Question(s machine.State) {
	r.Head(s)
	switch l := s.Lever; {
	case s.Gate != nil && s.Gate.Undo:
		r.Printf("\n%s\n", s.Gate.Text)
	case l == nil || l.Plan == nil:
		if s.Gate != nil {
			r.Printf("\n%s\n", s.Gate.Text)
		}
	default:
		r.Printf("\nplan      %s\n", Printable(l.Plan.Summary))
		r.plan(s.Current, *l.Plan)
		r.guards(l.Guards)
	}
}

// gate writes what people are asked, who of them has said yes, and who is told
// when nobody does.
func (r *Renderer) gate(run string, g machine.Gate) {
	r.Printf("gate      %s, until %s, else %s\n", g.Who(), Time(g.Deadline), unanswered(g))
	if g.Undo {
		r.Printf("          %s\n", g.Text)
	}
	for _, line := range FollowLines(g) {
		r.Printf("          %s\n", line)
	}
	if !plainGate(g) {
		for _, n := range g.Needs {
			r.Printf("          needs %s\n", needLine(n, g.Votes))
		}
	}
	if g.NotBy != "" {
		r.Printf("          %s\n", NotByLine(g))
	}
	if !g.RemindAt.IsZero() && !g.Reminded {
		r.Printf("          people are reminded at %s\n", Time(g.RemindAt))
	}
	for _, line := range TierLines(g) {
		r.Printf("          %s\n", line)
	}
	r.Printf("          responder approve %s, or responder deny %s --reason ...\n", run, run)
	if g.Digest != "" && !g.Undo {
		r.Printf("          a fresh plan: responder replan %s\n", run)
	}
	if len(g.BreakGlass) > 0 {
		r.Printf("          alone: %s, by responder approve %s --break-glass --reason ...\n", strings.Join(g.BreakGlass, ", "), run)
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
func TierLines(g machine.Gate) []string {
	var lines []string
	for i, t := range g.Tiers {
		word := "is told at " + Time(g.Opened.Add(t.After))
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
