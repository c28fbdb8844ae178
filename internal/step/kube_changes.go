package step

import (
	"github.com/inference-responder/responder/internal/playbook"
)

// kubeChangesKind declares kube.changes.
func kubeChangesKind() playbook.Kind {
	return playbook.Kind{
		Name: "kube.changes",
		Role: playbook.RoleCheck,
		Doc: `Reads the workload's revision history: did what runs now become current within the window, and how does its pod template differ from the revision
before? Values of secrets are never read, and values of variables and flags whose names look secret are shown as redacted.`,
		With: []playbook.Field{
			{Name: "window", Type: scalar(playbook.Duration), Required: true, Doc: "How long ago counts: the burn window of the alert, e.g. 1h."},
		},
		Out: []playbook.Field{
			{Name: "changed", Type: scalar(playbook.Bool), Doc: "The current revision became current within the window, and there is an earlier one."},
			{Name: "count", Type: scalar(playbook.Int), Doc: "Revisions that became current within the window, as far as the history tells."},
			{Name: "current", Type: scalar(playbook.Int), Doc: "Number of the current revision."},
			{Name: "previous", Type: scalar(playbook.Int), Doc: "Number of the revision before it; 0: there is none."},
			{Name: "age_seconds", Type: scalar(playbook.Double), Unit: "seconds", Doc: "Since the current revision became current."},
			{Name: "cause", Type: scalar(playbook.String), Doc: "Its kubernetes.io/change-cause; often empty."},
			{Name: "diff", Type: listOf(object(
				playbook.Field{Name: "path", Type: scalar(playbook.String), Doc: "Field, e.g. containers[vllm].args[--max-num-seqs]."},
				playbook.Field{Name: "from", Type: scalar(playbook.String), Doc: "Value before; empty: it was added."},
				playbook.Field{Name: "to", Type: scalar(playbook.String), Doc: "Value now; empty: it was removed."},
			)), Doc: "Pod template of the previous revision against the current one."},
			{Name: "images_changed", Type: scalar(playbook.Bool), Doc: "The diff touches an image."},
		},
	}
}
