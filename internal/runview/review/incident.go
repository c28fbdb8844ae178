package review

import (
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/runview"
)

// OfIncident returns the report of one run.
func OfIncident(in api.Incident) Document {
	d := Document{
		Title: in.Service + ": " + in.Alert,
		Facts: []Fact{
			{"Outcome", runview.JoinClauses(in.Outcome, in.Message)},
			{"Alert fired", moment(in.Fired)},
			{"Run", in.Run + " of playbook " + in.Playbook},
			{"Began", moment(in.Began)},
			{"Ended", moment(in.Ended)},
			{"Alert's query", in.Source},
		},
	}
	if s, ok := whereTimeWent(in); ok {
		d.Sections = append(d.Sections, s)
	}
	d.Sections = append(d.Sections, budgetSection(in), changesSection(in), timelineSection(in), evidenceSection(in))
	audit := Section{Title: "Audit"}
	audit.text(words("Every entry of run %s is in the journal: ", in.Run).
		code("responder audit list --stream run/"+in.Run, ", and ").code("responder audit verify", " proves that none was changed."))
	d.Sections = append(d.Sections, audit)
	return d
}

// moment returns a time; empty: it is not known.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return runview.Time(t)
}

// whereTimeWent shows the parts of the time, and what less waiting for people would have
// saved.
func whereTimeWent(in api.Incident) (Section, bool) {
	var total, waited float64
	for _, p := range in.Phases {
		total += p.Seconds
		if p.Name == "approval" {
			waited = p.Seconds
		}
	}
	s := Section{Title: "Where the time went: " + spell(total)}
	if total == 0 {
		return s, false
	}
	t := s.table(1, "part", "took", "share")
	for _, p := range in.Phases {
		t.row(phaseText(p.Name), spell(p.Seconds), fmt.Sprintf("%.0f %%", 100*p.Seconds/total))
	}
	if waited > 0 {
		s.text(words("Waiting for people took %s. With autonomy ", spell(waited)).code("auto", ", where neither policy nor playbook asks anybody, that is saved."))
	}
	return s, true
}

// budgetSection shows what checks measured of the error budget. What was spent in between
// is the difference of two measurements, never an estimate.
func budgetSection(in api.Incident) Section {
	s := Section{Title: "Error budget"}
	if len(in.Budget) == 0 {
		s.say("Not known: no check of this run measured it.")
		return s
	}
	t := s.table(3, "measured", "state", "objective", "left", "spent since the measurement before")
	before := map[string]float64{}
	for _, b := range in.Budget {
		spent := "not known"
		if was, ok := before[b.Objective]; ok {
			spent = percent(was - b.Left)
		}
		before[b.Objective] = b.Left
		t.row(runview.Time(b.At), b.State, b.Objective, percent(b.Left), spent)
	}
	s.say("These are shares of the budget of the objective's whole period, each up to ten minutes old when it was read. What each part of the time above spent is not known.")
	return s
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// changesSection shows what was changed, and who decided that.
func changesSection(in api.Incident) Section {
	s := Section{Title: "Changes"}
	if len(in.Changes) == 0 {
		s.say("None was planned.")
	}
	var items []Item
	for _, c := range in.Changes {
		items = append(items, Item{Text: words("%s (", c.Summary).code(c.Lever, "): "+c.Result), Sub: c.Fields})
	}
	for _, x := range in.Decisions {
		items = append(items, Item{Text: words("%s", runview.JoinClauses(fmt.Sprintf("%s by %s (%s), %s after the question", x.What, x.By, x.Channel, spell(x.WaitedSeconds)), x.Reason))})
	}
	s.list(items)
	return s
}

func timelineSection(in api.Incident) Section {
	s := Section{Title: "Timeline (UTC)"}
	var items []Item
	for _, m := range in.Timeline {
		items = append(items, Item{Text: words("%s %s", m.At.UTC().Format("15:04:05"), m.What)})
	}
	s.list(items)
	return s
}

func evidenceSection(in api.Incident) Section {
	s := Section{Title: "Evidence"}
	for _, e := range in.Evidence {
		s.say("State %s:", e.State)
		var items []Item
		for _, line := range e.Lines {
			items = append(items, Item{Text: words("%s", line)})
		}
		s.list(items)
	}
	return s
}
