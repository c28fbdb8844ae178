package step

import (
	"github.com/inference-responder/responder/internal/playbook"
)

// kubeScaleKind declares kube.scale.
func kubeScaleKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.scale",
		Role: playbook.RoleLever,
		Doc: `Sets the number of replicas of the service's workload. Undo sets the former number.

Refused when an autoscaler, Argo CD, Flux or a controlling object owns the replicas, and beyond the service's own bounds: never above its
` + "`max_scale`" + `, never below its ` + "`min_ready`" + ` or one replica. ` + "`by`" + ` stops at those bounds, ` + "`replicas`" + ` is refused beyond them.`,
		With: []playbook.Field{
			{Name: "replicas", Type: scalar(playbook.Int), Min: limit(1), Unit: "replicas", Doc: "Number to set. Exactly one of replicas and by."},
			{Name: "by", Type: scalar(playbook.Int), Unit: "replicas", Doc: "Number to add; negative: to take away."},
			{Name: "max", Type: scalar(playbook.Int), Min: limit(1), Unit: "replicas", Doc: "Most replicas to end at; can only tighten the service's max_scale."},
		},
	}
}
