package runview

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
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

// Phases splits the time from the incident to the end of the run by what was being
// waited for. Where the beginning of the incident is not known, it is the alert's.
func Phases(incident time.Time, events []machine.Event) []Phase {
	names := []string{"detect", "notify", "decide", "approval", "act", "verify", "undo"}
	spent := map[string]time.Duration{}
	now, since := "detect", incident
	enter := func(next string, at time.Time) {
		spent[now] += at.Sub(since)
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
	var out []Phase
	for _, n := range names {
		if spent[n] > 0 {
			out = append(out, Phase{n, spent[n]})
		}
	}
	return out
}

// IncidentOf is what a review of an incident needs of one run.
func IncidentOf(s machine.State, events []machine.Event) api.Incident {
	status, why := Standing(s)
	out := api.Incident{
		Run: s.Start.Run, Playbook: s.Start.Playbook, Service: s.Start.Service.Name, Alert: AlertLine(s.Start.Alert), Source: s.Start.Alert.GeneratorURL,
		Fired: s.Start.Alert.StartsAt, Began: s.Began, Ended: s.Ended, Outcome: status, Message: why,
		Timeline: []api.IncidentMoment{}, Evidence: []api.IncidentEvidence{}, Changes: []api.IncidentChange{}, Decisions: []api.IncidentDecision{}, Phases: []api.IncidentPhase{},
	}
	from := s.Start.Alert.StartsAt
	if from.IsZero() {
		from = s.Began
	}
	for _, p := range Phases(from, events) {
		out.Phases = append(out.Phases, api.IncidentPhase{Name: p.Name, Seconds: p.Took.Seconds()})
	}
	var asked time.Time
	for _, e := range events {
		if what, _ := DescribeEvent(e); what != "" && told(e) {
			out.Timeline = append(out.Timeline, api.IncidentMoment{At: e.At, What: what})
		}
		switch e.Kind {
		case machine.CheckCompleted:
			out.Evidence = append(out.Evidence, api.IncidentEvidence{State: e.State, Lines: append(slices.Clone(e.Facts), GatheredLines(e.Gathered)...)})
		case machine.GateOpened:
			asked = e.At
		case machine.GateDecided:
			if e.Decision != nil {
				out.Decisions = append(out.Decisions, api.IncidentDecision{At: e.At, What: decisionWord(e.Decision), By: e.Decision.By, Channel: e.Decision.Channel, Reason: e.Decision.Reason, WaitedSeconds: e.At.Sub(asked).Seconds()})
			}
		default:
			out.Changes = changed(out.Changes, e)
		}
	}
	return out
}

// changed adds what an event says of a change.
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

// told reports whether a person tells of an event afterwards.
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

// WriteIncident writes the report of an incident as Markdown.
func WriteIncident(w io.Writer, in api.Incident) error {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	add("# %s: %s\n", plainText(in.Service), plainText(in.Alert))
	add("| | |\n|---|---|")
	for _, row := range [][2]string{
		{"Outcome", JoinClauses(in.Outcome, in.Message)},
		{"Alert fired", Time(in.Fired)},
		{"Run", in.Run + " of playbook " + in.Playbook},
		{"Began", Time(in.Began)},
		{"Ended", Time(in.Ended)},
		{"Alert's query", in.Source},
	} {
		if row[1] != "" && row[1] != "-" {
			add("| %s | %s |", row[0], plainText(row[1]))
		}
	}
	writePhases(add, in)
	writeChanges(add, in)
	add("\n## Timeline (UTC)\n")
	for _, m := range in.Timeline {
		add("- %s %s", m.At.UTC().Format("15:04:05"), plainText(m.What))
	}
	add("\n## Evidence\n")
	for _, e := range in.Evidence {
		add("State %s:\n", plainText(e.State))
		for _, line := range e.Lines {
			add("- %s", plainText(line))
		}
		add("")
	}
	add("## Audit\n\nEvery entry of run %s is in the journal: `responder audit list --stream run/%s`, and `responder audit verify` proves that none was changed.", in.Run, in.Run)
	_, err := io.WriteString(w, b.String())
	return err
}

// writePhases writes where the time went, and what less waiting for people would have saved.
func writePhases(add func(format string, args ...any), in api.Incident) {
	var total, waited float64
	for _, p := range in.Phases {
		total += p.Seconds
		if p.Name == "approval" {
			waited = p.Seconds
		}
	}
	if total == 0 {
		return
	}
	add("\n## Where the time went: %s\n\n| part | took | share |\n|---|---|---|", spell(total))
	for _, p := range in.Phases {
		add("| %s, %s | %s | %.0f %% |", p.Name, PhaseText[p.Name], spell(p.Seconds), 100*p.Seconds/total)
	}
	if waited > 0 {
		add("\nWaiting for people took %s. With autonomy `auto`, where neither policy nor playbook asks anybody, that is saved.", spell(waited))
	}
}

// writeChanges writes what was changed, and who decided that.
func writeChanges(add func(format string, args ...any), in api.Incident) {
	add("\n## Changes\n")
	if len(in.Changes) == 0 {
		add("None was planned.")
	}
	for _, c := range in.Changes {
		add("- %s (`%s`): %s", plainText(c.Summary), c.Lever, plainText(c.Result))
		for _, f := range c.Fields {
			add("  - %s", plainText(f))
		}
	}
	for _, d := range in.Decisions {
		reason := ""
		if d.Reason != "" {
			reason = ": " + d.Reason
		}
		add("- %s by %s (%s), %s after the question%s", plainText(d.What), plainText(d.By), d.Channel, spell(d.WaitedSeconds), plainText(reason))
	}
}

func spell(seconds float64) string {
	return playbook.FormatDuration(time.Duration(seconds * float64(time.Second)).Round(time.Second))
}

// plainText is text from outside that begins nothing in Markdown.
func plainText(s string) string {
	return strings.NewReplacer("<", "&lt;", "|", `\|`, "`", "'", "*", `\*`, "_", `\_`, "[", `\[`, "#", `\#`).Replace(Inline(s))
}
