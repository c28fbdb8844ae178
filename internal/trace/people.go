package trace

import (
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// questions follows the open question to people.
func (f *folding) questions(before machine.State, e machine.Event) {
	if e.Kind == machine.GateOpened && e.Gate != nil {
		f.close(&f.gate)
		f.gate = f.open(f.here(), strings.TrimPrefix(e.Gate.ID, f.state.Start.Run+"/"), "gate")
		f.spans[f.gate].set(attrState, f.state.Current)
		return
	}
	if strings.HasPrefix(string(e.Kind), "gate.") && f.gate >= 0 || e.Kind == machine.GateVoided || e.Kind == machine.DecisionIgnored {
		f.spans[max(f.gate, f.here())].happened(string(e.Kind), e.At, answered(e.Decision, "approve", "deny")...)
	}
	if f.gate < 0 || before.Gate == nil || f.state.Gate != nil {
		return
	}
	s := f.spans[f.gate]
	s.set(attrResult, strings.TrimPrefix(string(e.Kind), "gate."))
	if e.Kind == machine.GateDecided && e.Decision != nil {
		s.set(attrDecision, answer(e.Decision, "approve", "deny"))
		s.set(attrBy, e.Decision.By)
	}
	f.close(&f.gate)
}

// holds follows the time in which a run is held: a person has to find out whether a
// change was made.
func (f *folding) holds(before machine.State, e machine.Event) {
	if e.Kind == machine.RunHeld {
		f.close(&f.held)
		f.held = f.open(f.here(), strings.TrimPrefix(e.Effect, f.state.Start.Run+"/")+"/held", "held")
		s := f.spans[f.held]
		s.set(attrState, f.state.Current)
		s.set(attrAction, string(e.Action))
		s.fail(e.Reason, "unknown")
		return
	}
	if f.held < 0 || before.Held == nil || f.state.Held != nil {
		return
	}
	if e.Kind == machine.HoldResolved {
		f.spans[f.held].happened(string(e.Kind), e.At, answered(e.Decision, "applied", "not_applied")...)
	}
	f.close(&f.held)
}

// by returns who did something as pairs of names and values, without the text that
// they wrote.
func by(d *machine.Decision) []string {
	if d == nil {
		return nil
	}
	return []string{attrBy, d.By, "responder.channel", d.Channel}
}

// answered returns who answered a question and how, as pairs of names and values.
func answered(d *machine.Decision, yes, no string) []string {
	if d == nil {
		return nil
	}
	pairs := append(by(d), attrDecision, answer(d, yes, no))
	if d.BreakGlass {
		pairs = append(pairs, "responder.break_glass", "true")
	}
	return pairs
}

func answer(d *machine.Decision, yes, no string) string {
	if d.Approve {
		return yes
	}
	return no
}
