package executor

import (
	"slices"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// A lever on a node acts on all whose pods are there. Its plan lists them, and each
// is asked what the run's own service is asked: the strictest answer counts.

// touches returns what the run's plan touches beside its own service.
func touches(s machine.State) []machine.Touched {
	if s.Lever == nil || s.Lever.Plan == nil {
		return nil
	}
	return s.Lever.Plan.Touches
}

// names names what is touched.
func names(all []machine.Touched) []string {
	out := make([]string, 0, len(all))
	for _, t := range all {
		out = append(out, t.Name())
	}
	return out
}

// paused reports which pause covers a run, or a service that its plan touches;
// empty: none does.
func (e *Executor) paused(s machine.State) string {
	if why := e.pauses.why(s.Start.Service.Name, s.Start.Playbook); why != "" {
		return why
	}
	for _, t := range touches(s) {
		if t.Service == "" {
			continue
		}
		if why := e.pauses.why(t.Service, s.Start.Playbook); why != "" {
			return why + " (" + t.String() + ")"
		}
	}
	return ""
}

// others returns what the run's plan touches, as the catalog has it now, and what
// the autonomy guard has to know: a service that is gone, or why the catalog cannot
// say whose pods are on the node.
func (e *Executor) others(s machine.State, st *playbook.State) (out []guard.Other, gone string, unsure error) {
	for _, t := range touches(s) {
		o := guard.Other{Touched: t, Entry: playbook.Service{Namespace: t.Namespace}, Autonomy: playbook.Auto}
		var known []playbook.Service
		if e.o.Catalog != nil {
			var err error
			if known, err = e.o.Catalog(); err != nil {
				unsure = err
			}
		}
		if t.Service != "" {
			var absent bool
			o.Entry.Name, o.Entry.Owners = t.Service, t.Owners
			if i := slices.IndexFunc(known, func(svc playbook.Service) bool { return svc.Name == t.Service }); i >= 0 {
				o.Entry = known[i]
			}
			var err error
			if o.Autonomy, absent, err = e.ceiling(machine.Start{Service: o.Entry, Playbook: s.Start.Playbook}, st); absent {
				gone = t.Service
			}
			if err != nil {
				unsure = err
			}
		}
		out = append(out, o)
	}
	return out, gone, unsure
}

// strictest lowers the cap of the terms to the lowest level of what the lever
// touches.
func strictest(terms *machine.Terms, others []guard.Other) *machine.Terms {
	for _, o := range others {
		if o.Autonomy == playbook.Auto || terms != nil && terms.Cap != nil && terms.Cap.Level <= o.Autonomy {
			continue
		}
		lowered := machine.Terms{}
		if terms != nil {
			lowered = *terms
		}
		lowered.Cap = &machine.Cap{Level: o.Autonomy, Rule: o.String(), Touched: true}
		terms = &lowered
	}
	return terms
}
