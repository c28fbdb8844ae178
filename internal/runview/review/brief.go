package review

import (
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/runview"
)

// Today is what a brief tells beside the figures of a period: what holds when it is made.
type Today struct {
	Loans    []api.RunSummary // that are out
	Budgets  []string         // what is left of error budgets, one text for each service
	Unproven []string         // playbooks of which no change was ever verified
	Notes    []string         // what the brief does not cover
}

// Bounds of a brief: it is read on a phone, and Slack cuts a text after 2000 characters.
const (
	briefItems = 4  // of a list
	briefName  = 48 // characters of a name
	briefSize  = 1900
)

// Brief returns the report over a period as a few lines of plain text, for a message. What
// shows the text has to escape it.
func Brief(name string, zone *time.Location, r api.PeriodReport, now Today) string {
	const when = "Mon 2 Jan 15:04"
	var b brief
	b.say("Responder %s: %s to %s", name, r.Since.In(zone).Format(when), r.Until.In(zone).Format(when+" MST"))
	b.incidents(r)
	b.changes(r)
	briefList(&b, "Look at", r.LookAt, func(l api.PeriodLook) string {
		return short(l.Run) + " (" + runview.Cut(runview.Inline(strings.Join(l.Why, ", ")), 2*briefName) + ")"
	})
	briefList(&b, "On loan now", now.Loans, func(l api.RunSummary) string { return short(l.Service) + " (" + runview.LoanStatus(l) + ")" })
	briefList(&b, "Error budget left now", now.Budgets, runview.Inline)
	if a := r.Alerts; a != nil && a.Unmatched > 0 {
		b.say("Matched by no playbook: %s", runview.Count(a.Unmatched, "alert"))
	}
	briefList(&b, "Playbooks without a verified change so far", now.Unproven, short)
	for _, t := range leftOut(r) {
		b.say("%s", t.plain())
	}
	for _, note := range now.Notes {
		b.say("%s", runview.Inline(note))
	}
	return b.text()
}

// incidents tells how many there were, of which services, and how long they took.
func (b *brief) incidents(r api.PeriodReport) {
	n := r.Runs
	line := "No incident"
	if incidents := n.Total - n.Diverted - n.LoanReturns; incidents > 0 {
		line = runview.Count(incidents, "incident")
	} else if r.Archived+len(r.Unreadable) > 0 {
		line = "No incident is known"
	}
	if n.Total > 0 {
		line += ". Runs " + counts(n.Total, became(n)...)
	}
	b.say("%s.", line)
	for _, g := range r.Services[:min(len(r.Services), briefItems)] {
		text := "- " + short(g.Name) + " " + counts(g.Runs, part{g.Responder, "by Responder"}, part{g.Itself, "by themselves"}, part{g.People, "with people"}, part{g.Open, "open"}, part{g.Other, "other"})
		if g.MedianSeconds != nil {
			text += "; median to repair " + spell(*g.MedianSeconds)
		}
		b.say("%s", text)
	}
	if more := len(r.Services) - briefItems; more > 0 {
		b.say("- and %s", runview.Count(more, "more service"))
	}
	var parts []string
	for _, p := range r.Repair {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", p.Name, spell(p.MedianSeconds), spell(p.P90Seconds)))
	}
	if len(parts) > 0 {
		b.say("Time to repair, median (p90): %s", strings.Join(parts, ", "))
	}
}

// changes tells what was changed and why, and what waiting for people cost.
func (b *brief) changes(r api.PeriodReport) {
	if c := r.Changes; c.Proposed > 0 {
		b.say("Changes proposed %s", counts(c.Proposed, asDecided(c)...))
	}
	briefList(b, "Levers", r.Levers, func(l api.PeriodLever) string {
		return short(l.Lever) + " " + counts(l.Changes, part{l.Verified, "verified"}, part{l.Improved, "improved"}, part{l.NoEffect, "no effect"}, part{l.Worse, "worse"}, part{l.Inconclusive, "inconclusive"})
	})
	briefList(b, "Causes", r.Causes, func(c api.PeriodCause) string { return fmt.Sprintf("%s %d", short(c.Cause), c.Runs) })
	briefList(b, "A higher autonomy would have saved", r.Autonomy, func(a api.PeriodAutonomy) string {
		saved := "nothing"
		if a.Verified > 0 {
			saved = spell(a.WaitedSeconds)
		}
		return fmt.Sprintf("%s with %s (%d of %d approved verified, %d denied)", saved, short(a.Lever), a.Verified, a.Approved, a.Denied)
	})
}

// brief collects lines.
type brief struct{ lines []string }

func (b *brief) say(format string, args ...any) {
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

// text joins the lines. Those that do not fit are counted.
func (b *brief) text() string {
	size := 0
	for i, line := range b.lines {
		if size += len(line) + 1; size > briefSize {
			return strings.Join(b.lines[:i], "\n") + fmt.Sprintf("\n%s left out", runview.Count(len(b.lines)-i, "more line"))
		}
	}
	return strings.Join(b.lines, "\n")
}

// briefList adds a line with the first items of a list.
func briefList[T any](b *brief, title string, all []T, text func(T) string) {
	if len(all) == 0 {
		return
	}
	var items []string
	for _, x := range all[:min(len(all), briefItems)] {
		items = append(items, text(x))
	}
	line := title + ": " + strings.Join(items, "; ")
	if more := len(all) - briefItems; more > 0 {
		line += fmt.Sprintf("; and %d more", more)
	}
	b.say("%s", line)
}

// short is a name from outside on one line.
func short(name string) string { return runview.Cut(runview.Inline(name), briefName) }
