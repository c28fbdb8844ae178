package step

import (
	"github.com/inference-responder/responder/internal/playbook"
)

// kubeRolloutUndoKind declares kube.rollout_undo.
func kubeRolloutUndoKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.rollout_undo",
		Role: playbook.RoleLever,
		Doc: `Puts the pod template of an earlier revision back, as ` + "`kubectl rollout undo`" + ` does. Undo puts the revision it replaced back in its turn.

Refused when Argo CD, Flux or a controlling object owns the pod template, when rollouts are paused, when there is no earlier revision, or when
the earlier one does not differ.`,
		With: []playbook.Field{
			{Name: "to_revision", Type: scalar(playbook.Int), Min: limit(0), Doc: "Revision to go back to; unset or 0: the one before the current."},
		},
	}
}
