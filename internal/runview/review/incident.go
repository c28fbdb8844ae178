package review

import (
	"fmt"
	"slices"
	"strings"
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
	d.Sections = append(d.Sections, causeOfIncident(in), budgetSection(in), changesSection(in), timelineSection(in), evidenceSection(in))
	audit := Section{Title: "Audit"}
	audit.text(words("Every entry of run %s is in the journal: ", in.Run).
		code("responder audit list --stream run/"+in.Run, ", and ").code("responder audit verify", " proves that none was changed."))
	d.Sections = append(d.Sections, audit)
	return d
}

// causeOfIncident shows what the run took for the cause, and why.
func causeOfIncident(in api.Incident) Section {
	s := Section{Title: "Cause"}
	c := in.Cause
	if c == nil {
		s.say("Not known: %s.", runview.OrText(in.CauseUnknown, "the run took no branch to a change or an end"))
		return s
	}
	proven := "No change has proven it: it is what the evidence spoke for."
	if c.Helped {
		proven = "The change that it led to helped."
	}
	s.say("%s. State %s decided that at %s and went to %s. %s", runview.OrText(c.Branch, "No condition"), c.State, runview.Time(c.At), c.To, proven)
	var items []Item
	for _, line := range c.Evidence {
		items = append(items, Item{Text: words("%s", line)})
	}
	if len(c.Values) > 0 {
		items = append(items, Item{Text: words("The branch read: %s", strings.Join(c.Values, ", "))})
	}
	if len(c.RuledOut) > 0 {
		items = append(items, Item{Text: words("Ruled out before: %s", strings.Join(c.RuledOut, "; "))})
	}
	if len(c.Unknown) > 0 {
		items = append(items, Item{Text: words("Could not be told: %s", strings.Join(c.Unknown, "; "))})
	}
	s.list(items)
	return s
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

// budgetSection shows what each part of the time spent of the error budget, and what
// checks measured of it meanwhile. Nothing is estimated.
func budgetSection(in api.Incident) Section {
	s := Section{Title: "Error budget"}
	if len(in.Spent) == 0 {
		s.say("What each part of the time spent is not known: the service could not be asked.")
	} else {
		spendingOf(&s, in.Spent)
	}
	if len(in.Budget) == 0 {
		s.say("What was left is not known: no check of this run measured it.")
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
	s.say("These are shares of the budget of the objective's whole period, each up to ten minutes old when it was read.")
	return s
}

// spendingOf adds a table of what each part spent, and why that is not known.
func spendingOf(s *Section, all []api.IncidentSpending) {
	t := &Table{Head: []string{"objective", "part", "requests", "bad", "spent of the budget"}, Numbers: 2}
	var notes []string
	number := func(v *float64, form func(float64) string) string {
		if v == nil {
			return "not known"
		}
		return form(*v)
	}
	whole := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	for _, o := range all {
		name := o.Objective
		if o.Value != "" {
			name += " of " + o.Value
		}
		counted := slices.ContainsFunc(o.Parts, func(p api.IncidentSpendingPart) bool { return p.Requests != nil })
		for _, p := range o.Parts {
			if !counted && o.Why != "" {
				break // the note below says it
			}
			t.row(name, p.Name, number(p.Requests, whole), number(p.Bad, whole), number(p.Share, percent))
		}
		if o.Why != "" {
			notes = append(notes, name+": "+o.Why)
		}
	}
	if len(t.Rows) > 0 {
		s.Blocks = append(s.Blocks, Block{Table: t})
	}
	if len(t.Rows) > 0 {
		s.say("Only requests that ended are counted. Where none ended, requests may hang, and what was spent is not known.")
	}
	for _, n := range notes {
		s.say("Not known of %s.", n)
	}
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
		who := fmt.Sprintf("%s by %s (%s)", x.What, x.By, x.Channel)
		if x.WaitedSeconds > 0 {
			who += fmt.Sprintf(", %s after the question", spell(x.WaitedSeconds))
		}
		items = append(items, Item{Text: words("%s", runview.JoinClauses(who, x.Reason))})
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
