package cli

import (
	"reflect"
	"strings"
)

const catalogExample = `services:
  - name: serving/chat
    namespace: serving
    workload: {kind: Deployment, name: chat}
    container: vllm
    engine: vllm
    model: llama-70b
    endpoint: http://chat.serving:8000
    slos:
      - {name: ttft, objective: 0.99, window: 28d, threshold: 0.5}
      - {name: tpot, objective: 0.99, window: 28d, threshold: 0.05}
    gitops: {application: argocd/chat, repository: https://git.example/fleet, path: serving/chat}
    owners: ['group:ml-platform']
    autonomy: suggest
    min_ready: 2
    max_scale: 8
    load_time: 12m
    recovery: 30m
    selector: namespace="serving",service="chat"
    match: ['{namespace="serving", service="chat"}']
`

// catalogReference is the section on services, from the tags of their struct.
func catalogReference(services reflect.Value) string {
	var b strings.Builder
	b.WriteString("\n## services\n\nAn alert belongs to the service whose `match` fits. Without one that does, the services of the\n" +
		"alert's namespace are narrowed by its labels `service`, `deployment`, `statefulset`, `pod` and\n" +
		"`model_name`. A `model_name` alone does not decide where another of them fits no service.\nUnless exactly one is left nothing is done, and the journal says why.\n\n" +
		configTable)
	writeConfigRows(&b, reflect.New(services.Type().Elem()).Elem(), "")
	b.WriteString("\n```yaml\n" + catalogExample + "```\n")
	return b.String()
}
