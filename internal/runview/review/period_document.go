package review

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/runview"
)

// mostRows bounds what one list of the document shows; -o json has everything.
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

// headline sums the period up.
func headline(r api.PeriodReport) []Fact {
	var out []Fact
	if a := r.Alerts; a != nil {
		out = append(out, Fact{"Alerts received", counts(a.Received,
			part{a.WithRun, "with a run"}, part{a.Unmatched, "matched by no playbook"}, part{a.NoService, "of no service"}, part{a.Suppressed, "suppressed"},
			part{a.Quarantined, "quarantined"}, part{a.Resolved, "resolved before they could start a run"})})
	} else {
		out = append(out, Fact{"Alerts", fmt.Sprintf("%d in these runs", r.AlertsInRuns)})
	}
	n := r.Runs
	out = append(out, Fact{"Runs", counts(n.Total,
		part{n.Responder, "resolved by Responder"}, part{n.Itself, "resolved by themselves"}, part{n.People, "ended with people"}, part{n.Open, "still open"},
		part{n.NothingToDo, "with nothing to do"}, part{n.Observed, "only observed"}, part{n.Diverted, "handed to another playbook"}, part{n.LoanReturns, "to return a loan"})})
	c := r.Changes
	return append(out, Fact{"Changes proposed", counts(c.Proposed,
		part{c.Approved, "approved"}, part{c.Denied, "denied"}, part{c.Expired, "expired"}, part{c.Applied, "applied"}, part{c.Undone, "undone"})})
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

// leftOut says what the numbers do not have.
func leftOut(r api.PeriodReport) []Text {
	var out []Text
	if r.Archived > 0 {
		out = append(out, words("Archived, and in none of the numbers: %s of this period. ", runview.Count(r.Archived, "run")).code("responder journal restore", " puts them back into a copy of the journal."))
	}
	if n := len(r.Unreadable); n > 0 {
		out = append(out, words("Not readable by this version, and in none of the numbers: %s of this period: %s.", runview.Count(n, "run"), strings.Join(r.Unreadable[:min(n, mostRows)], ", ")))
	}
	if a := r.Alerts; a != nil && r.Since.Before(a.KnownSince) {
		out = append(out, words("Alerts are remembered since %s: earlier ones are not counted, and of those without a run only the most recent.", runview.Time(a.KnownSince)))
	}
	return out
}

func lookSection(r api.PeriodReport) Section {
	s := Section{Title: "Look at these runs"}
	if len(r.LookAt) == 0 {
		s.say("None: no run ended with people, is held, made something worse, or left open whether it helped.")
		return s
	}
	t := s.table(0, "run", "service", "began", "status", "why")
	for _, l := range r.LookAt[:min(len(r.LookAt), mostRows)] {
		t.row(l.Run, l.Service, runview.Time(l.Began), l.Status, strings.Join(l.Why, "; "))
	}
	s.more(len(r.LookAt))
	return s
}

// more says that a list was cut.
func (s *Section) more(n int) {
	if n > mostRows {
		s.text(words("And %d more: ", n-mostRows).code("-o json", " has all."))
	}
}

func groupSection(title, head string, all []api.PeriodGroup) Section {
	s := Section{Title: title}
	t := s.table(1, head, "runs", "by Responder", "by themselves", "people", "open", "other", "applied", "verified", "undone", "median to repair")
	for _, g := range all[:min(len(all), mostRows)] {
		median := "-"
		if g.MedianSeconds != nil {
			median = spell(*g.MedianSeconds)
		}
		t.row(g.Name, g.Runs, g.Responder, g.Itself, g.People, g.Open, g.Other, g.Applied, g.Verified, g.Undone, median)
	}
	s.more(len(all))
	return s
}

func leverSection(r api.PeriodReport) Section {
	s := Section{Title: "Levers"}
	if len(r.Levers) == 0 {
		s.say("No change was planned.")
		return s
	}
	t := s.table(1, "lever", "changes", "verified", "improved", "no effect", "worse", "inconclusive", "not judged", "refused", "not applied", "undone")
	for _, l := range r.Levers {
		t.row(l.Lever, l.Changes, l.Verified, l.Improved, l.NoEffect, l.Worse, l.Inconclusive, l.Unjudged, l.Refused, l.NotApplied, l.Undone)
	}
	return s
}

func repairSection(r api.PeriodReport) Section {
	s := Section{Title: "Time to repair"}
	if len(r.Repair) == 0 {
		s.say("Responder resolved no run of which the whole time is known.")
		return s
	}
	t := s.table(1, "part", "runs", "median", "p90")
	for _, p := range r.Repair {
		t.row(phaseText(p.Name), p.Runs, spell(p.MedianSeconds), spell(p.P90Seconds))
	}
	s.say("Of the runs that Responder resolved, each part over the runs in which it occurred. The time from the beginning of an incident to its alert is not in the journal.")
	return s
}

func autonomySection(r api.PeriodReport) Section {
	s := Section{Title: "What a higher autonomy would have saved"}
	if len(r.Autonomy) == 0 {
		s.say("Nothing: nobody approved or denied a change.")
		return s
	}
	var all api.PeriodAutonomy
	t := s.table(1, "lever", "approved and applied", "verified", "waited for people", "not verified", "worse", "denied")
	for _, a := range r.Autonomy {
		t.row(a.Lever, a.Approved, a.Verified, spell(a.WaitedSeconds), a.NotVerified, a.Worse, a.Denied)
		all.Approved, all.Verified, all.NotVerified = all.Approved+a.Approved, all.Verified+a.Verified, all.NotVerified+a.NotVerified
		all.Worse, all.Denied, all.WaitedSeconds = all.Worse+a.Worse, all.Denied+a.Denied, all.WaitedSeconds+a.WaitedSeconds
	}
	s.say("Questions about %s that were approved and then verified waited %s.", runview.Count(all.Verified, "change"), spell(all.WaitedSeconds))
	s.say("Against it: of %s that people approved, %d were not verified, %d of them worse than before; people denied %d.",
		runview.Count(all.Approved, "applied change"), all.NotVerified, all.Worse, all.Denied)
	return s
}

func causeSection(r api.PeriodReport) Section {
	s := Section{Title: "Causes"}
	if len(r.Causes) == 0 {
		s.say("No run took a branch of its playbook.")
		return s
	}
	t := s.table(2, "branch that was taken", "playbook", "runs", "resolved by Responder")
	for _, c := range r.Causes[:min(len(r.Causes), mostRows)] {
		t.row(c.Cause, c.Playbook, c.Runs, c.Resolved)
	}
	s.more(len(r.Causes))
	return s
}

func unmatchedSection(a api.AlertTally) Section {
	s := Section{Title: "Alerts that no playbook matches"}
	t := s.table(0, "alert", "times", "nearest playbook", "what does not match")
	for _, u := range a.UnmatchedNames[:min(len(a.UnmatchedNames), mostRows)] {
		t.row(runview.OrText(u.Alert, "(archived)"), u.Count, runview.OrText(u.Nearest, "none"), runview.OrText(u.Mismatch, "-"))
	}
	s.more(len(a.UnmatchedNames))
	if a.MoreUnmatched {
		s.say("There are more: the names are those of the alerts that were mentioned last.")
	}
	return s
}
