package trace

import (
	"strings"

	common "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// effects follows the open effect of the machine.
func (f *folding) effects(before machine.State, e machine.Event) {
	if e.Kind == machine.EffectStarted {
		f.close(&f.effect)
		f.started(e)
		return
	}
	if f.effect < 0 {
		if e.Kind == machine.EffectFailed { // before anything was asked: an expression, say
			f.spans[f.here()].fail(e.Reason, "unknown")
		}
		return
	}
	f.outcome(e)
	if before.Open != nil && f.state.Open == nil {
		f.close(&f.effect)
	}
}

// started opens the span of an effect. A further attempt continues that span.
func (f *folding) started(e machine.Event) {
	if i, ok := f.effectSpans[e.Effect]; ok {
		f.effect = i
		s := f.spans[i]
		s.EndTimeUnixNano, s.Status = 0, nil
		s.count(attrAttempt, max(1, e.Attempt))
		return
	}
	step := f.stepOf(e)
	name := string(e.Action)
	if step != "" {
		name += " " + step
	}
	f.effect = f.open(f.here(), strings.TrimPrefix(e.Effect, f.state.Start.Run+"/"), name)
	f.effectSpans[e.Effect] = f.effect
	s := f.spans[f.effect]
	s.set(attrAction, string(e.Action))
	s.set(attrStep, step)
	s.set(attrState, f.state.Current)
	s.count(attrAttempt, max(1, e.Attempt))
	if e.Observe {
		s.put(&common.KeyValue{Key: "responder.observe", Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}})
	}
	if e.Action == machine.ActionVerify {
		f.proof = f.effect
	}
}

// stepOf returns the kind of the step of an effect; guards and notices have none.
func (f *folding) stepOf(e machine.Event) string {
	switch st := f.playbookState(); {
	case e.Action == machine.ActionGuard || e.Action == machine.ActionNotify || st == nil:
		return ""
	default:
		return st.Step
	}
}

// outcome records what an event tells about the open effect.
func (f *folding) outcome(e machine.Event) {
	s := f.spans[f.effect]
	if o := f.state.Open; o != nil {
		s.count(attrAttempt, max(1, o.Attempt))
	}
	switch e.Kind {
	case machine.EffectFailed:
		f.failed(e)
	case machine.CheckCompleted:
		for _, g := range e.Gathered {
			s.happened("check", e.At, attrStep, g.Step, "responder.evidence", g.Name, attrReason, string(g.Reason))
		}
	case machine.WaitLooked:
		s.set(attrReason, string(e.Reason))
	case machine.PlanCompleted:
		f.planned(e.Plan)
	case machine.PlanRefused, machine.Declined:
		s.set(attrResult, "refused")
		s.set(attrReason, string(e.Reason))
	case machine.GuardsPassed, machine.GuardsRefused, machine.GuardsWaiting:
		s.set(attrResult, strings.TrimPrefix(string(e.Kind), "guards."))
		s.set(attrReason, string(e.Reason))
		s.set("responder.guards", failing(e.Guards))
	case machine.Sampled:
		n := 0
		if f.state.Lever != nil {
			n = len(f.state.Lever.Samples)
		}
		s.count("responder.samples", n)
		s.set(attrVerdict, string(e.Sample.Verdict))
		s.set(attrReason, string(e.Sample.Reason))
	case machine.RunHeld:
		s.set(attrResult, "unknown")
		s.fail(e.Reason, "unknown")
	case machine.RunEnded:
		s.set(attrResult, "abandoned")
	}
}

// failed records a failed attempt; the effect has failed if no other follows.
func (f *folding) failed(e machine.Event) {
	s := f.spans[f.effect]
	s.set(attrReason, string(e.Reason))
	s.happened("attempt.failed", e.At, attrReason, string(e.Reason))
	if f.state.Open == nil {
		s.fail(e.Reason, "unknown")
	}
}

func (f *folding) planned(p *machine.Plan) {
	if p == nil {
		return
	}
	s := f.spans[f.effect]
	s.set("responder.risk", string(p.Risk))
	s.set("responder.target.kind", p.Target.Kind)
	s.set("responder.target.namespace", p.Target.Namespace)
	s.set("responder.target.name", p.Target.Name)
	s.count("responder.plan.fields", len(p.Diff))
}

// failing lists the guards that did not pass.
func failing(all []machine.GuardVerdict) string {
	var names []string
	for _, g := range all {
		if !g.OK {
			names = append(names, g.Guard)
		}
	}
	return strings.Join(names, ",")
}
