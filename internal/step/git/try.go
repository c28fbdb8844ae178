package git

import (
	"context"
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
)

// try has the API server judge the manifests of a change before they are
// committed, and notes what it was not asked. What it refuses (schema,
// admission) is not planned, and neither is what admission makes another value
// of.
func (g Change) try(ctx context.Context, in step.Input, stepName string, prop gitops.Proposal, e effect) (notes []string, err error) {
	if !prop.Plain {
		notes = append(notes, "the API server was not asked whether it takes all of the change: a chart, a kustomization or a generator makes something else of what is committed")
	}
	for _, m := range prop.Manifests {
		stored, err := g.o.Try(ctx, in.Service.Namespace, m.Data)
		switch {
		case err == nil:
			if err := g.admitted(in, stepName, m, stored, e); err != nil {
				return nil, err
			}
		case step.HasReason(err, fault.Forbidden), step.HasReason(err, fault.NotFound):
			notes = append(notes, fmt.Sprintf("the API server could not be asked whether it takes %s (%s:%d): %s", m.Object, m.File, m.Line, step.AsError(err).Error()))
		case !step.HasReason(err, fault.Invalid):
			return nil, err
		default:
			if m.Before != nil {
				if _, before := g.o.Try(ctx, in.Service.Namespace, m.Before); step.HasReason(before, fault.Invalid) {
					// It is deployed all the same: by other ways than ours to ask.
					notes = append(notes, fmt.Sprintf("whether the API server takes %s (%s:%d) is not known: asked about it as it is now, it refuses that, too: %s",
						m.Object, m.File, m.Line, step.AsError(before).Error()))
					continue
				}
			}
			return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s: the API server would refuse %s (%s:%d) as it would be: %s", stepName, m.Object, m.File, m.Line, step.AsError(err).Error())}
		}
	}
	return notes, nil
}

// admitted refuses a change of the workload's own manifest that the API server
// takes and makes another value of.
func (g Change) admitted(in step.Input, stepName string, m gitops.Manifest, stored []byte, e effect) error {
	ref := step.RefOf(in.Service)
	for _, l := range e.live {
		if !strings.HasPrefix(m.Object, ref.Kind+" ") || l.Indirect || l.Kind != "" || l.Image != "" {
			continue
		}
		t := gitops.Target{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Container: l.Container}
		now, err := gitops.Live([][]byte{stored}, t, l.variable())
		if err != nil || l.matches(now, l.To) {
			continue // after the sync it is read again
		}
		return &fault.Error{Reason: fault.Overridden, Message: fmt.Sprintf(
			"%s: a commit would not change what runs: the API server makes %s %s of %s: an admission webhook or policy decides it", stepName, l.Variable, now, notSet(l.To))}
	}
	return nil
}
