package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/runview"
)

// writeExplanation prints a table, and below it the reasons. at is the time in
// the zone that it was asked for.
func writeExplanation(w io.Writer, a api.PolicyExplanation, at time.Time) error {
	fmt.Fprintf(w, "%s at %s\npolicy %s\n\n", runview.Printable(a.Service), at.Format("Mon 2006-01-02 15:04 MST"), runview.Printable(a.Policy))
	t := &runview.Table{
		Columns: []runview.Column{{Head: "PLAYBOOK", Flex: true}, {Head: "STATE", Flex: true}, {Head: "LEVER"}, {Head: "LEVEL"}, {Head: "ANSWER"}},
		Empty:   "no playbook with a lever or gate may run for this service",
	}
	for _, l := range a.Levers {
		t.Add(l.Playbook, l.State, runview.OrText(l.Lever, l.Kind), l.Autonomy, l.Answer)
	}
	if err := t.Write(w, false); err != nil {
		return err
	}
	var b strings.Builder
	for _, l := range a.Levers {
		fmt.Fprintf(&b, "\n%s, %s (%s): %s\n", l.Playbook, l.State, runview.OrText(l.Lever, l.Kind), answerWords(l))
		writeReasons(&b, l)
	}
	fmt.Fprintf(&b, "\nRights about %s (auth.rights):\n", runview.Printable(a.Service))
	for _, r := range a.Rights {
		fmt.Fprintf(&b, "  %-9s%s\n", r.Right, runview.Printable(runview.OrText(strings.Join(r.Who, ", "), "nobody")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// answerWords describes the answer in a few words.
func answerWords(e api.LeverExplanation) string {
	switch e.Answer {
	case leverDenied:
		return "denied"
	case leverObserved:
		return "only observed"
	case leverAsks:
		return "asks people, who have " + e.Within
	default:
		return "applied without asking"
	}
}

// writeReasons writes one reason below the other.
func writeReasons(b *strings.Builder, e api.LeverExplanation) {
	for _, c := range e.Denied {
		writeReason(b, "denied", c.Why, c.Place)
	}
	if e.Answer == leverDenied {
		return // nothing else matters
	}
	for _, h := range e.HeldBy {
		writeReason(b, "level", h.Level+" by "+h.Rule, "")
	}
	if len(e.HeldBy) == 0 && e.LevelBy != "" {
		writeReason(b, "level", e.Autonomy+" by "+e.LevelBy, "")
	}
	if e.Cap != nil {
		writeReason(b, "level", "at most "+e.Cap.Level, e.Cap.Rule)
	}
	for _, n := range e.Needs {
		writeReason(b, "yes from", needWords(n), n.Rule)
	}
	if len(e.BreakGlass) > 0 {
		writeReason(b, "or alone", strings.Join(e.BreakGlass, ", ")+", with a reason", "")
	}
	for _, t := range e.Tiers {
		writeReason(b, "told", strings.Join(t.To, ", ")+" after "+t.After, "")
	}
	for _, c := range e.Depends {
		writeReason(b, "depends", c.Why, c.Place)
	}
}

func needWords(n api.Need) string {
	who := runview.OrText(strings.Join(n.From, ", "), "nobody: the service names no owners")
	text := fmt.Sprintf("%s of %s", cmp.Or(n.Unknown, strconv.Itoa(n.Quorum)), who)
	if n.As != "" {
		text += " (" + n.As + ")"
	}
	if n.Strong {
		text += ", strongly authenticated"
	}
	return text
}

// writeReason writes a word and what it is about, wrapped beside it.
func writeReason(b *strings.Builder, word, text, place string) {
	const indent = 12
	if place != "" {
		text += "\n(" + place + ")"
	}
	for i, line := range runview.Wrap(runview.Printable(text), runview.Width-indent) {
		if i > 0 {
			word = ""
		}
		fmt.Fprintf(b, "  %-*s%s\n", indent-2, word, line)
	}
}
