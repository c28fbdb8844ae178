package step

import (
	"github.com/inference-responder/responder/internal/playbook"
)

// kubeWorkloadKind declares kube.workload.
func kubeWorkloadKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.workload",
		Role: playbook.RoleCheck,
		Doc: `Looks at the service's workload: replicas and readiness, restarts, containers killed for memory or waiting, pods that cannot be scheduled, the nodes
its pods run on, warnings of the last hour, and who else owns fields of it. When any part cannot be read, the check fails: a partial
answer would look healthier than the truth.`,
		Out: []playbook.Field{
			{Name: "desired", Type: scalar(playbook.Int), Unit: "replicas", Doc: "Replicas asked for."},
			{Name: "ready", Type: scalar(playbook.Int), Unit: "replicas", Doc: "Replicas that are ready."},
			{Name: "updated", Type: scalar(playbook.Int), Unit: "replicas", Doc: "Replicas of the current revision."},
			{Name: "available", Type: scalar(playbook.Int), Unit: "replicas", Doc: "Replicas ready for as long as the workload demands."},
			{Name: "unavailable", Type: scalar(playbook.Int), Unit: "replicas", Doc: "Replicas missing to the desired number."},
			{Name: "restarts", Type: scalar(playbook.Int), Doc: "Container restarts, summed over the pods that exist now."},
			{Name: "oom_killed", Type: scalar(playbook.Int), Unit: "pods", Doc: "Pods whose container was last ended for using too much memory."},
			{Name: "waiting", Type: listOf(scalar(playbook.String)), Doc: "Why containers wait, each reason once: CrashLoopBackOff, ImagePullBackOff, ..."},
			{Name: "unschedulable", Type: scalar(playbook.Int), Unit: "pods", Doc: "Pods no node takes."},
			{Name: "stuck", Type: scalar(playbook.String), Doc: "Why a rollout cannot go on (progress deadline exceeded, replica failure); empty: it can."},
			{Name: "paused", Type: scalar(playbook.Bool), Doc: "Rollouts of the workload are paused."},
			{Name: "nodes", Type: listOf(object(
				playbook.Field{Name: "name", Type: scalar(playbook.String), Doc: "Node."},
				playbook.Field{Name: "ready", Type: scalar(playbook.Bool), Doc: "Its Ready condition is True."},
				playbook.Field{Name: "unschedulable", Type: scalar(playbook.Bool), Doc: "It is cordoned."},
				playbook.Field{Name: "conditions", Type: listOf(scalar(playbook.String)), Doc: "Conditions that are bad, e.g. MemoryPressure, Ready=Unknown."},
				playbook.Field{Name: "pods", Type: scalar(playbook.Int), Unit: "pods", Doc: "Pods of the workload on it."},
			)), Doc: "Nodes that run pods of the workload."},
			{Name: "bad_nodes", Type: scalar(playbook.Int), Unit: "nodes", Doc: "Nodes among them that are not ready or have a bad condition."},
			{Name: "events", Type: listOf(object(
				playbook.Field{Name: "reason", Type: scalar(playbook.String), Doc: "Reason, e.g. FailedScheduling."},
				playbook.Field{Name: "object", Type: scalar(playbook.String), Doc: "Kind/name it is about."},
				playbook.Field{Name: "message", Type: scalar(playbook.String), Doc: "Message."},
				playbook.Field{Name: "count", Type: scalar(playbook.Int), Doc: "How often."},
			)), Doc: "Warnings of the last hour, newest first, at most 20."},
			{Name: "owners", Type: listOf(object(
				playbook.Field{Name: "field", Type: scalar(playbook.String), Doc: "Field owned; * for all."},
				playbook.Field{Name: "kind", Type: scalar(playbook.String), Doc: "HorizontalPodAutoscaler, ScaledObject, ArgoCD, Flux, or a controlling object's kind."},
				playbook.Field{Name: "name", Type: scalar(playbook.String), Doc: "Its name."},
			)), Doc: "Who else would change fields of the workload back."},
		},
	}
}
