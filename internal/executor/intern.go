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
	share(&e.State, &e.Digest)
	if s := e.Start; s != nil {
		share(&s.Playbook, &s.Digest, &s.Service.Namespace, &s.Service.Engine, &s.Service.Model, &s.Service.Workload.Kind)
		s.Alert.Labels, s.Alert.Annotations = shareNames(s.Alert.Labels), shareNames(s.Alert.Annotations)
		for i := range s.Service.Owners {
			share(&s.Service.Owners[i])
		}
	}
	e.Guards = slices.Clip(e.Guards)
	for i := range e.Guards {
		share(&e.Guards[i].Guard, &e.Guards[i].Why)
	}
	if e.Gate != nil {
		for i := range e.Gate.By {
			share(&e.Gate.By[i])
		}
	}
	if e.Plan != nil {
		share(&e.Plan.Step, &e.Plan.Undo, &e.Plan.Why, &e.Plan.Target.APIVersion, &e.Plan.Target.Kind, &e.Plan.Target.Namespace)
	}
}

func share(texts ...*string) {
	for _, t := range texts {
		if *t != "" {
			*t = unique.Make(*t).Value()
		}
	}
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
