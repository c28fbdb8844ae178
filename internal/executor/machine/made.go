package machine

import (
	"slices"
	"strings"
)

// made describes the change that the current lever made and what became of it; empty:
// it made none. A change that its target declined was never in effect.
func (s State) made() string {
	l := s.Lever
	if l == nil || l.Plan == nil || l.AppliedAt.IsZero() && !l.Applied {
		return ""
	}
	var fate []string
	if l.Signal != "" {
		fate = append(fate, signalText(l.Signal))
	}
	switch {
	case l.Waits != "":
		fate = append(fate, "not merged")
	case l.Stopped != "":
		fate = append(fate, l.Stopped)
	case l.Applied:
		fate = append(fate, "in place")
	default:
		fate = append(fate, "taken back")
	}
	return l.Plan.Summary + " (" + strings.Join(fate, ", ") + ")"
}

// changes returns what the run changed, and the runs that handed over to it, oldest
// first.
func (s State) changes() []string {
	all := append(slices.Clone(s.Start.Changed), s.Made...)
	if now := s.made(); now != "" {
		all = append(all, now)
	}
	return all
}

// changed returns changes as a sentence. People who read a message must neither take a
// service for untouched that was changed, nor the other way round.
func (s State) changed() string {
	all := s.changes()
	switch {
	case len(all) > 0:
		return "Changed so far: " + strings.Join(all, "; ") + "."
	case s.Levers > 0: // it was requested, and never in effect
		return ""
	default:
		return "Nothing was changed."
	}
}

// sentences appends a sentence to a text, which may lack its full stop.
func sentences(text, next string) string {
	text = strings.TrimSpace(text)
	if next == "" || text == "" {
		return text + next
	}
	if !strings.ContainsAny(text[len(text)-1:], ".!?:") {
		text += "."
	}
	return text + " " + next
}
