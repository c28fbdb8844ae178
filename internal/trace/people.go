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
		if f.gate == f.here() {
			f.gate = -1
			return
		}
		f.spans[f.gate].set(attrState, f.state.Current)
		return
	}
	if e.Kind == machine.DecisionIgnored {
		f.spans[max(f.gate, f.here())].happened(string(e.Kind), e.At, decided(e.Decision)...)
		return
	}
	if f.gate < 0 {
		if e.Kind == machine.GateVoided { // its answer is not valid any more
			f.spans[f.here()].happened(string(e.Kind), e.At, decided(e.Decision)...)
		}
		return
	}
	s := &f.spans[f.gate]
	if strings.HasPrefix(string(e.Kind), "gate.") {
		s.happened(string(e.Kind), e.At, decided(e.Decision)...)
	}
	if before.Gate == nil || f.state.Gate != nil {
		return
	}
	s.set(attrResult, strings.TrimPrefix(string(e.Kind), "gate."))
	if e.Kind == machine.GateDecided && e.Decision != nil {
		s.set(attrDecision, which(*e.Decision))
		s.set(attrBy, e.Decision.By)
	}
	f.close(&f.gate)
}

// holds follows the time in which a run waits for a person to say whether a change
// was made.
func (f *folding) holds(before machine.State, e machine.Event) {
	if e.Kind == machine.RunHeld {
		f.close(&f.held)
		f.held = f.open(f.here(), strings.TrimPrefix(e.Effect, f.state.Start.Run+"/")+"/held", "held")
		if f.held == f.here() {
			f.held = -1
			return
		}
		s := &f.spans[f.held]
		s.set(attrState, f.state.Current)
		s.set(attrAction, string(e.Action))
		s.fail(e.Reason, "unknown")
		return
	}
	if f.held < 0 || before.Held == nil || f.state.Held != nil {
		return
	}
	if e.Kind == machine.HoldResolved {
		f.spans[f.held].happened(string(e.Kind), e.At, said(e.Decision)...)
	}
	f.close(&f.held)
}

// by is who did something, as pairs of names and values; what they wrote is not in it.
func by(d *machine.Decision) []string {
	if d == nil {
		return nil
	}
	return []string{attrBy, d.By, attrChannel, d.Channel}
}

// decided is who decided which way.
func decided(d *machine.Decision) []string {
	if d == nil {
		return nil
	}
	pairs := append(by(d), attrDecision, which(*d))
	if d.BreakGlass {
		pairs = append(pairs, "responder.break_glass", "true")
	}
	return pairs
}

func which(d machine.Decision) string {
	if d.Approve {
		return "approve"
	}
	return "deny"
}

// said is what a person said of a change with an unknown outcome.
func said(d *machine.Decision) []string {
	if d == nil {
		return nil
	}
	made := "not_applied"
	if d.Approve {
		made = "applied"
	}
	return append(by(d), attrDecision, made)
}
