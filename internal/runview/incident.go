package runview

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
)

// Phase is a part of the time from an incident to the end of its run.
type Phase struct {
	Name string // detect, notify, decide, approval, act, verify or undo
	Took time.Duration
}

// PhaseText describes each phase by its name.
var PhaseText = map[string]string{
	"detect": "incident to alert", "notify": "alert to run", "decide": "gathering evidence, planning",
	"approval": "waiting for a person", "act": "applying, taking effect", "verify": "proving it", "undo": "taking it back",
}

// PhaseNames lists the phases in their order.
func PhaseNames() []string {
	return []string{"detect", "notify", "decide", "approval", "act", "verify", "undo"}
}

// PhaseSpan is a stretch of time in one phase.
type PhaseSpan struct {
	Name     string
	From, To time.Time
}

// PhasesOf splits the time of a run since the breach began, as far as slo.burn measured
// that, else since its alert began. A run that another one handed over has only the time
// since its own beginning.
func PhasesOf(s machine.State, events []machine.Event) []Phase { return Phases(beginning(s), events) }

// SpansOf is PhasesOf with each stretch of time, oldest first.
func SpansOf(s machine.State, events []machine.Event) []PhaseSpan { return spans(beginning(s), events) }

func beginning(s machine.State) time.Time {
	from := s.Start.Alert.StartsAt
	if from.IsZero() || s.Start.DivertedFrom != "" {
		return s.Began
	}
	if breach := BreachBegan(s); !breach.IsZero() && breach.Before(from) {
		return breach
	}
	return from
}

// BreachBegan returns the earliest beginning of the breach that a check of the run measured;
// zero: none did.
func BreachBegan(s machine.State) (at time.Time) {
	for _, e := range s.Evidence {
		var burn struct {
			Since time.Time `json:"since"`
		}
		if e == nil || e.Step != burnCheck || e.Unknown != "" || json.Unmarshal(e.Data, &burn) != nil {
			continue
		}
		if !burn.Since.IsZero() && (at.IsZero() || burn.Since.Before(at)) {
			at = burn.Since
		}
	}
	return at
}

// phasesOf is PhasesOf for the API.
func phasesOf(s machine.State, events []machine.Event) []api.IncidentPhase {
	out := []api.IncidentPhase{}
	for _, p := range PhasesOf(s, events) {
		out = append(out, api.IncidentPhase{Name: p.Name, Seconds: p.Took.Seconds()})
	}
	return out
}

// Phases splits the time from the incident to the end of the run by what was being
// waited for. Where the beginning of the incident is not known, it is the alert's.
func Phases(incident time.Time, events []machine.Event) []Phase {
	spent := map[string]time.Duration{}
	for _, s := range spans(incident, events) {
		spent[s.Name] += s.To.Sub(s.From)
	}
	var out []Phase
	for _, n := range PhaseNames() {
		if spent[n] > 0 {
			out = append(out, Phase{n, spent[n]})
		}
	}
	return out
}

func spans(incident time.Time, events []machine.Event) []PhaseSpan {
	var out []PhaseSpan
	now, since := "detect", incident
	enter := func(next string, at time.Time) {
		switch n := len(out); {
		case now == "" || !at.After(since):
		case n > 0 && out[n-1].Name == now && out[n-1].To.Equal(since):
			out[n-1].To = at
		default:
			out = append(out, PhaseSpan{now, since, at})
		}
		now, since = next, at
	}
	for _, e := range events {
		switch e.Kind {
		case machine.RunStarted:
			if e.Start.DivertedFrom == "" && !e.Start.Alert.StartsAt.IsZero() {
				enter("notify", e.Start.Alert.StartsAt)
			}
			enter("decide", e.At)
		case machine.GateOpened:
			enter("approval", e.At)
		case machine.GateDecided, machine.GateVoided, machine.GateExpired, machine.GateWithdrawn:
			enter("act", e.At)
		case machine.EffectStarted:
			switch e.Action {
			case machine.ActionApply:
				enter("act", e.At)
			case machine.ActionUndo:
				enter("undo", e.At)
			}
		case machine.Settled:
			enter("verify", e.At)
		case machine.Verified, machine.VerifyEnded, machine.Kept, machine.Unwound, machine.Declined, machine.EdgeTaken:
			enter("decide", e.At)
		case machine.RunEnded:
			enter("", e.At)
		}
	}
	return out
}

// IncidentOf returns what the report of one run shows.
func IncidentOf(s machine.State, events []machine.Event) api.Incident {
	status, why := Standing(s)
	out := api.Incident{
		Run: s.Start.Run, Playbook: s.Start.Playbook, Service: s.Start.Service.Name, Alert: AlertLine(s.Start.Alert), Source: s.Start.Alert.GeneratorURL,
		Fired: s.Start.Alert.StartsAt, Began: s.Began, Ended: s.Ended, Outcome: status, Message: why,
		Timeline: []api.IncidentMoment{}, Evidence: []api.IncidentEvidence{}, Changes: []api.IncidentChange{}, Decisions: []api.IncidentDecision{}, Phases: phasesOf(s, events),
		Budget: []api.IncidentBudget{}, Cause: CauseOf(s, events),
	}
	if out.Cause == nil {
		out.CauseUnknown = causeUnknown(s)
	}
	var asked time.Time
	for _, e := range events {
		if what, _ := DescribeEvent(e); what != "" && told(e) {
			out.Timeline = append(out.Timeline, api.IncidentMoment{At: e.At, What: what})
		}
		switch e.Kind {
		case machine.CheckCompleted:
			out.Evidence = append(out.Evidence, api.IncidentEvidence{State: e.State, Lines: append(slices.Clone(e.Facts), GatheredLines(e.Gathered)...)})
			out.Budget = append(out.Budget, budgetsOf(s, e)...)
		case machine.GateOpened:
			asked = e.At
		case machine.GateVoted, machine.GateDecided, machine.CancelRequested, machine.HoldResolved:
			if e.Decision != nil {
				out.Decisions = append(out.Decisions, decisionOf(e, asked))
			}
		default:
			out.Changes = changed(out.Changes, e)
		}
	}
	return out
}

// decisionOf returns what a person decided. asked is when the last question was opened.
func decisionOf(e machine.Event, asked time.Time) api.IncidentDecision {
	d := api.IncidentDecision{At: e.At, What: decisionWord(e.Decision), By: e.Decision.By, Channel: e.Decision.Channel, Reason: e.Decision.Reason}
	switch e.Kind {
	case machine.CancelRequested:
		d.What = "CANCELED"
	case machine.HoldResolved:
		d.What = "TOLD that the change was not applied"
		if e.Decision.Approve {
			d.What = "TOLD that the change was applied"
		}
	case machine.GateVoted:
		d.What += ", and others were needed too,"
		d.WaitedSeconds = e.At.Sub(asked).Seconds()
	default:
		d.WaitedSeconds = e.At.Sub(asked).Seconds()
	}
	return d
}

// changed records what an event tells about the changes of a run.
func changed(all []api.IncidentChange, e machine.Event) []api.IncidentChange {
	if e.Kind == machine.PlanCompleted && e.Plan != nil {
		c := api.IncidentChange{State: e.State, Lever: e.Plan.Step, Summary: e.Plan.Summary, Result: "planned, and not applied", Fields: []string{}}
		for _, d := range e.Plan.Diff {
			c.Fields = append(c.Fields, fmt.Sprintf("%s: %s -> %s", d.Path, OrText(d.From, "(none)"), OrText(d.To, "(none)")))
		}
		if n := len(all); n > 0 && all[n-1].State == e.State && all[n-1].Applied.IsZero() {
			all = all[:n-1] // planned again before it was applied
		}
		return append(all, c)
	}
	if len(all) == 0 {
		return all
	}
	c := &all[len(all)-1]
	what, _ := DescribeEvent(e)
	switch e.Kind {
	case machine.Applied:
		c.Applied, c.Result = e.At, "applied, and not proven"
	case machine.Verified, machine.VerifyEnded, machine.Kept, machine.Undone, machine.Declined, machine.WouldApply, machine.PlanRefused:
		c.Result = what
	case machine.Unwound:
		if e.Then != "" {
			c.Result = what // what is known of a change that was only stopped
		}
	}
	return all
}

// told reports whether the timeline of an incident shows an event.
func told(e machine.Event) bool {
	switch e.Kind {
	case machine.RunStarted, machine.EdgeTaken, machine.EpisodeResolved, machine.EpisodeJoined, machine.EpisodeRefired, machine.PlanCompleted, machine.PlanRefused,
		machine.GuardsRefused, machine.GateOpened, machine.GateVoted, machine.GateEscalated, machine.GateDecided, machine.GateWithdrawn, machine.GateExpired,
		machine.Applied, machine.Settled, machine.Verified, machine.VerifyEnded, machine.Kept, machine.Declined, machine.Undone, machine.Unwound, machine.WouldApply,
		machine.Notified, machine.RunHeld, machine.HoldResolved, machine.CancelRequested, machine.PauseSeen, machine.PauseLifted, machine.RunEnded:
		return true
	}
	return false
}

// burnCheck is the kind of check that measures error budgets.
const burnCheck = "slo.burn"

// budgetsOf returns what the checks of an event measured of the error budget. Where the
// budget was not known, there is nothing.
func budgetsOf(s machine.State, e machine.Event) []api.IncidentBudget {
	found := []json.RawMessage{}
	if v := s.Evidence[e.State]; v != nil && v.Step == burnCheck {
		found = append(found, e.Data)
	}
	for _, g := range e.Gathered {
		if g.Step == burnCheck && !g.Unknown() {
			found = append(found, g.Data)
		}
	}
	var out []api.IncidentBudget
	for _, data := range found {
		var burn struct {
			Worst string   `json:"worst"`
			Left  *float64 `json:"budget_left"`
		}
		if err := json.Unmarshal(data, &burn); err == nil && burn.Left != nil {
			out = append(out, api.IncidentBudget{At: e.At, State: e.State, Objective: burn.Worst, Left: *burn.Left})
		}
	}
	return out
}
