package machine

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// eventLine is an event on one line, without what the script itself said.
func eventLine(e Event) string {
	parts := []string{string(e.Kind)}
	add := func(name string, v any) {
		if text := fmt.Sprint(v); text != "" && text != "0" && text != "false" {
			parts = append(parts, name+"="+strings.NewReplacer(" ", "_", "\n", "|").Replace(text))
		}
	}
	add("state", e.State)
	add("to", e.To)
	add("effect", strings.TrimPrefix(e.Effect, "r-1/"))
	if e.Attempt > 1 {
		add("attempt", e.Attempt)
	}
	add("observe", e.Observe)
	if len(e.With) > 0 {
		if b, err := json.Marshal(e.With); err == nil {
			add("with", string(b))
		}
	}
	add("reason", e.Reason)
	if e.Plan != nil {
		add("plan", e.Plan.Summary)
	}
	if e.Gate != nil {
		add("by", strings.ReplaceAll(e.Gate.Who(), ", ", ","))
		add("until", e.Gate.Deadline.Format(time.TimeOnly))
		if e.Gate.Undo {
			add("asks", e.Gate.Text)
		}
	}
	if e.Decision != nil {
		word := fmt.Sprintf("%s:%v", e.Decision.By, e.Decision.Approve)
		if e.Decision.BreakGlass {
			word += ":BREAK-GLASS"
		}
		add("decision", word)
	}
	add("tier", e.Tier)
	if e.Sample != nil {
		add("sample", e.Sample.Verdict)
	}
	add("verdict", e.Verdict)
	add("then", e.Then)
	if e.Loan != nil {
		add("loan", strings.TrimPrefix(e.Loan.ID, "r-1/"))
	}
	add("waits", e.Waits)
	if !e.NotUntil.IsZero() {
		add("notUntil", e.NotUntil.Format(time.TimeOnly))
	}
	if !e.HeldFrom.IsZero() {
		add("heldFrom", e.HeldFrom.Format(time.TimeOnly))
	}
	if e.Ending != nil {
		add("ending", e.Ending.Outcome)
		add("why", e.Ending.Message)
	}
	for _, g := range e.Gathered {
		add("gathered", g.Name+":"+string(g.Data)+g.Why)
	}
	for _, x := range e.Examined {
		if x.Why != "" {
			add(string(x.Result), edgeWord(x)+":"+x.Why)
		}
	}
	add("message", e.Message)
	return strings.Join(parts, " ")
}

// stateLine is where the run stands and what it owes.
func stateLine(s State, now time.Time) string {
	parts := []string{now.Format(time.TimeOnly), string(s.Phase)}
	if s.Ending != nil {
		return strings.Join(append(parts, string(s.Ending.Outcome)), " ")
	}
	if e, ok := Pending(s); ok {
		owed := "owes " + string(e.Action)
		if e.Observe {
			owed = "owes a look at " + string(e.Action)
		}
		if e.OperatorMade != "" {
			owed += " (people say that the " + string(e.OperatorMade) + " was made)"
		}
		if !e.NotUntil.IsZero() {
			owed += " at " + e.NotUntil.Format(time.TimeOnly)
		}
		parts = append(parts, owed)
	} else {
		parts = append(parts, "owes nothing")
	}
	if at, ok := NextWake(s); ok {
		parts = append(parts, "wakes "+at.Format(time.TimeOnly))
	}
	if l := s.Locks(); len(l) > 0 {
		parts = append(parts, "holds "+strings.Join(l, ","))
	}
	return strings.Join(parts, ", ")
}
