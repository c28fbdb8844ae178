package executor

import (
	"context"
	"fmt"
	"log/slog"

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
	case machine.PlanRefused, machine.GuardsRefused, machine.GateOpened, machine.GateDecided, machine.GateExpired, machine.GateWithdrawn, machine.WouldApply, machine.Applied,
		machine.Settled, machine.Verified, machine.Kept, machine.Declined, machine.Undone, machine.Unwound, machine.RunHeld, machine.HoldResolved,
		machine.PauseSeen, machine.PauseLifted, machine.CancelRequested:
		return x.Message, true
	}
	return "", false
}
