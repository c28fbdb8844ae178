package executor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// logRun writes a line for each step of a run. The journal has every event; the log has
// those that tell where the run goes, and warns of what is left to people.
func (e *Executor) logRun(s machine.State, events []machine.Event) {
	for _, x := range events {
		text, told := stepText(x)
		if !told {
			continue
		}
		level := slog.LevelInfo
		if x.Kind == machine.RunHeld || x.Kind == machine.RunEnded && x.Ending.Outcome.WithPeople() {
			level = slog.LevelWarn
		}
		attrs := []slog.Attr{
			slog.String("run", s.Start.Run), slog.String("playbook", s.Start.Playbook), slog.String("service", s.Start.Service.Name), slog.String("event", string(x.Kind)),
		}
		if x.State != "" {
			attrs = append(attrs, slog.String("step", x.State))
		}
		if text != "" {
			attrs = append(attrs, slog.String("text", text))
		}
		e.log.LogAttrs(context.Background(), level, "run", attrs...)
	}
}

// stepText returns what the log tells of an event; false: nothing.
func stepText(x machine.Event) (string, bool) {
	switch x.Kind {
	case machine.RunStarted:
		return x.Start.Alert.Labels["alertname"], true
	case machine.EdgeTaken:
		return fmt.Sprintf("to %s: %s", x.To, x.Message), true
	case machine.PlanCompleted:
		if x.Plan == nil {
			return "", true
		}
		return x.Plan.Summary, true
	case machine.VerifyEnded:
		return fmt.Sprintf("%s: %s", x.Verdict, x.Message), true
	case machine.RunEnded:
		return fmt.Sprintf("%s: %s", x.Ending.Outcome, x.Ending.Message), true
	case machine.GateOpened, machine.GateVoted, machine.GateDecided, machine.GateVoided, machine.GateExpired, machine.HoldResolved, machine.CancelRequested:
		return questionText(x), true
	case machine.PlanRefused, machine.GuardsRefused, machine.GateWithdrawn, machine.WouldApply, machine.Applied,
		machine.Settled, machine.Verified, machine.Kept, machine.Declined, machine.Undone, machine.Unwound, machine.RunHeld,
		machine.PauseSeen, machine.PauseLifted:
		return x.Message, true
	}
	return "", false
}

// questionText returns in words what people are asked, or what they decided, who and why.
func questionText(x machine.Event) string {
	if g := x.Gate; g != nil {
		if x.Kind == machine.GateExpired {
			return g.Missed("in time")
		}
		return fmt.Sprintf("asks %s until %s: %s", g.Who(), g.Deadline.UTC().Format(time.RFC3339), g.Text)
	}
	d := x.Decision
	if d == nil {
		return x.Message
	}
	text, rest := "denied", ""
	switch {
	case x.Kind == machine.GateVoided:
		text = "fresh plan requested"
	case x.Kind == machine.CancelRequested:
		text = "cancellation requested"
	case x.Kind == machine.HoldResolved && d.Approve:
		text = "declared applied"
	case x.Kind == machine.HoldResolved:
		text = "declared not applied"
	case x.Kind == machine.GateVoted:
		text, rest = "approved", "; others are still needed"
	case d.BreakGlass:
		text = "approved alone (break glass)"
	case d.Approve:
		text = "approved"
	}
	text += " by " + d.By
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text + rest
}
