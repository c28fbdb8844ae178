package executor

import (
	"slices"
	"unique"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// intern lets the states of many runs share what they have in common: label
// names, the words of guards, digests. Ten thousand waiting runs say mostly the
// same.
func intern(e *machine.Event) {
	share(&e.State, &e.Digest, &e.To)
	if e.Kind == machine.EdgeTaken {
		share(&e.Message)
	}
	if s := e.Start; s != nil {
		share(&s.Playbook, &s.Digest, &s.Service.Namespace, &s.Service.Engine, &s.Service.Model, &s.Service.Workload.Kind)
		s.Alert.Labels, s.Alert.Annotations = shareNames(s.Alert.Labels), shareNames(s.Alert.Annotations)
		s.Service.SLOs, s.Service.Owners = fit(s.Service.SLOs), fit(s.Service.Owners)
		for i := range s.Service.Owners {
			share(&s.Service.Owners[i])
		}
	}
	e.Guards, e.Facts = fit(e.Guards), fit(e.Facts)
	for i := range e.Guards {
		share(&e.Guards[i].Guard, &e.Guards[i].Why)
	}
	if e.Gate != nil {
		shareNeeds(e.Gate.Needs)
	}
	if e.Terms != nil {
		share(&e.Terms.Policy)
		shareNeeds(e.Terms.Needs)
	}
	if e.Plan != nil {
		e.Plan.Diff, e.Plan.Locks, e.Plan.Notes = fit(e.Plan.Diff), fit(e.Plan.Locks), fit(e.Plan.Notes)
		for i := range e.Plan.Diff {
			share(&e.Plan.Diff[i].Path, &e.Plan.Diff[i].From, &e.Plan.Diff[i].To)
		}
		share(&e.Plan.Step, &e.Plan.Undo, &e.Plan.Why, &e.Plan.Target.APIVersion, &e.Plan.Target.Kind, &e.Plan.Target.Namespace)
	}
}

func shareNeeds(needs []machine.Need) {
	for i := range needs {
		share(&needs[i].Rule)
		for j := range needs[i].From {
			share(&needs[i].From[j])
		}
	}
}

func share(texts ...*string) {
	for _, t := range texts {
		if *t != "" {
			*t = unique.Make(*t).Value()
		}
	}
}

// fit gives a slice without spare room. A decoder leaves some for three more
// of anything, which would be a kilobyte a run.
func fit[S ~[]E, E any](s S) S {
	if len(s) == cap(s) {
		return s
	}
	return slices.Clone(s)
}

// shareNames gives a map of the right size with shared keys.
func shareNames(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[unique.Make(k).Value()] = v
	}
	return out
}
