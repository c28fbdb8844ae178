package review

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/runview"
)

// mostRows bounds the rows of a table; -o json has everything.
const mostRows = 50

// OfPeriod returns the report over the runs of a period.
func OfPeriod(r api.PeriodReport) Document {
	d := Document{
		Title: fmt.Sprintf("Responder, %s to %s", runview.Time(r.Since), runview.Time(r.Until)),
		Facts: []Fact{{"Runs that began", runview.Time(r.Since) + " to " + runview.Time(r.Until)}, {"Service", r.Service}, {"Playbook", r.Playbook}},
	}
	d.Facts = append(d.Facts, headline(r)...)
	d.Lead = leftOut(r)
	if r.Runs.Total == 0 {
		if r.Service+r.Playbook != "" {
			d.Lead = append(d.Lead, words("Only runs of the service and playbook above are counted. Check that the names are right."))
		}
		d.Lead = append([]Text{words("No run began in this period.")}, d.Lead...)
	} else {
		d.Sections = append(d.Sections, lookSection(r), groupSection("Services", "service", r.Services), groupSection("Playbooks", "playbook", r.Playbooks),
			leverSection(r), repairSection(r), autonomySection(r), causeSection(r))
	}
	if r.Alerts != nil && r.Alerts.Unmatched > 0 {
		d.Sections = append(d.Sections, unmatchedSection(*r.Alerts))
	}
	return d
}

// headline returns the sums over the period.
func headline(r api.PeriodReport) []Fact {
	var out []Fact
	if a := r.Alerts; a != nil {
		out = append(out, Fact{"Alerts received", counts(a.Received,
			part{a.WithRun, "with a run"}, part{a.Unmatched, "matched by no playbook"}, part{a.NoService, "of no service"}, part{a.Suppressed, "suppressed"},
			part{a.Quarantined, "quarantined"}, part{a.Resolved, "resolved before they could start a run"})})
	} else {
		out = append(out, Fact{"Alerts", fmt.Sprintf("%d in these runs", r.AlertsInRuns)})
	}
	return append(out, Fact{"Runs", counts(r.Runs.Total, became(r.Runs)...)}, Fact{"Changes proposed", counts(r.Changes.Proposed, asDecided(r.Changes)...)})
}

// became lists what became of runs.
func became(n api.PeriodRuns) []part {
	return []part{
		{n.Responder, "resolved by Responder"},
		{n.Itself, "resolved by themselves"},
		{n.People, "ended with people"},
		{n.Open, "still open"},
		{n.NothingToDo, "with nothing to do"},
		{n.Observed, "only observed"},
		{n.Diverted, "handed to another playbook"},
		{n.LoanReturns, "to return a loan"},
	}
}

// asDecided lists what became of proposed changes.
func asDecided(c api.PeriodChanges) []part {
	return []part{{c.Approved, "approved"}, {c.Denied, "denied"}, {c.Expired, "expired"}, {c.Applied, "applied"}, {c.Undone, "undone"}}
}

// part is a part of a count.
type part struct {
	n    int
	what string
}

// counts writes a number and those of its parts that are not zero.
func counts(n int, parts ...part) string {
	var some []string
	for _, p := range parts {
		if p.n > 0 {
			some = append(some, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(some) == 0 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d: %s", n, strings.Join(some, ", "))
}

// leftOut names what the numbers do not cover.
func leftOut(r api.PeriodReport) []Text {
	var out []Text
	if r.Archived > 0 {
		out = append(out, words("The numbers do not cover %s of this period. ", runview.Count(r.Archived, "archived run")).
			code("responder journal restore", " puts archived runs back into a copy of the journal."))
	}
	if n := len(r.Unreadable); n > 0 {
		out = append(out, words("The numbers do not cover %s of this period that this version cannot read: %s.", runview.Count(n, "run"), strings.Join(r.Unreadable[:min(n, mostRows)], ", ")))
	}
	if a := r.Alerts; a != nil && r.Since.Before(a.KnownSince) {
		out = append(out, words("Alerts before %s are forgotten and not counted. Of alerts without a run, only the most recent are counted.", runview.Time(a.KnownSince)))
	}
	return out
}

// tableOf returns a section with a table that has a row for each of all, or with the
// sentence none. Columns from numbers on hold numbers; 0: none do.
func tableOf[T any](title, none string, numbers int, head []string, all []T, row func(T) []any) Section {
	s := Section{Title: title}
	if len(all) == 0 {
		s.say("%s", none)
		return s
	}
	t := s.table(numbers, head...)
	for _, x := range all[:min(len(all), mostRows)] {
		t.row(row(x)...)
	}
	if n := len(all) - mostRows; n > 0 {
		s.text(words("%d more are not shown; ", n).code("-o json", " has all."))
	}
	return s
}

func lookSection(r api.PeriodReport) Section {
	const none = "None: no run ended with people, is held, made something worse, or left open whether it helped."
	return tableOf("Look at these runs", none, 0, []string{"run", "service", "began", "status", "why"}, r.LookAt, func(l api.PeriodLook) []any {
		return []any{l.Run, l.Service, runview.Time(l.Began), l.Status, strings.Join(l.Why, "; ")}
	})
}

func groupSection(title, name string, all []api.PeriodGroup) Section {
	head := []string{name, "runs", "by Responder", "by themselves", "people", "open", "other", "applied", "verified", "undone", "median to repair"}
	return tableOf(title, "None.", 1, head, all, func(g api.PeriodGroup) []any {
		median := "-"
		if g.MedianSeconds != nil {
			median = spell(*g.MedianSeconds)
		}
		return []any{g.Name, g.Runs, g.Responder, g.Itself, g.People, g.Open, g.Other, g.Applied, g.Verified, g.Undone, median}
	})
}

func leverSection(r api.PeriodReport) Section {
	head := []string{"lever", "changes", "verified", "improved", "no effect", "worse", "inconclusive", "not judged", "refused", "not applied", "undone"}
	return tableOf("Levers", "No change was planned.", 1, head, r.Levers, func(l api.PeriodLever) []any {
		return []any{l.Lever, l.Changes, l.Verified, l.Improved, l.NoEffect, l.Worse, l.Inconclusive, l.Unjudged, l.Refused, l.NotApplied, l.Undone}
	})
}

func repairSection(r api.PeriodReport) Section {
	const none = "Responder resolved no run of which the whole time is known."
	s := tableOf("Time to repair", none, 1, []string{"part", "runs", "median", "p90"}, r.Repair, func(p api.PeriodPhase) []any {
		return []any{phaseText(p.Name), p.Runs, spell(p.MedianSeconds), spell(p.P90Seconds)}
	})
	if len(r.Repair) > 0 {
		s.say("Only runs that Responder resolved are counted, each part over the runs in which it occurred. The time from the beginning of a breach to its alert is known where slo.burn measured it.")
	}
	return s
}

func autonomySection(r api.PeriodReport) Section {
	const none = "Nothing: nobody approved or denied a change."
	head := []string{"lever", "approved and applied", "verified", "waited for people", "not verified", "worse", "denied"}
	s := tableOf("What a higher autonomy would have saved", none, 1, head, r.Autonomy, func(a api.PeriodAutonomy) []any {
		return []any{a.Lever, a.Approved, a.Verified, spell(a.WaitedSeconds), a.NotVerified, a.Worse, a.Denied}
	})
	if len(r.Autonomy) > 0 {
		s.say("It would have saved the time that verified changes waited for people. Against it count the changes that were approved and not verified, and those that people denied.")
	}
	return s
}

func causeSection(r api.PeriodReport) Section {
	head := []string{"branch that was taken", "playbook", "runs", "resolved by Responder"}
	return tableOf("Causes", "No run took a branch of its playbook.", 2, head, r.Causes, func(c api.PeriodCause) []any {
		return []any{c.Cause, c.Playbook, c.Runs, c.Resolved}
	})
}

func unmatchedSection(a api.AlertTally) Section {
	head := []string{"alert", "times", "nearest playbook", "what does not match"}
	s := tableOf("Alerts that no playbook matches", "Their names are not known.", 0, head, a.UnmatchedNames, func(u api.UnmatchedAlert) []any {
		return []any{runview.OrText(u.Alert, "(archived)"), u.Count, runview.OrText(u.Nearest, "none"), runview.OrText(u.Mismatch, "-")}
	})
	if a.MoreUnmatched {
		s.say("There are more. These are the names of the most recent ones.")
	}
	return s
}
