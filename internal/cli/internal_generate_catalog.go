package cli

import (
	"fmt"
	"strings"
)

// catalogField documents one field of a service of the catalog. The catalog
// reads its entries itself, so a test holds this list against what it accepts.
type catalogField struct{ name, kind, doc string }

func catalogFields() []catalogField {
	return []catalogField{
		{"name", "string", "Unique. Default: NAMESPACE/WORKLOAD."},
		{"namespace", "string", "Of the workload. Required."},
		{"workload.kind", "string", "`Deployment` (default) or `StatefulSet`."},
		{"workload.name", "string", "The object whose pods serve. Required."},
		{"container", "string", "The engine's container. Default: the first one."},
		{"engine", "string", "One of `vllm`, `sglang`, `dynamo`, `kserve`. `gitops.set_flag` holds values to its [flags](engine-flags.md); without it no flag is added."},
		{"model", "string", "The model's name as the engine's metrics carry it."},
		{"endpoint", "string", "Base URL for probes, e.g. `http://chat.serving:8000`."},
		{"slos[].name", "string", "E.g. `ttft`, `tpot`."},
		{"slos[].objective", "number", "Between 0 and 1; `0.99` means 99 %."},
		{"slos[].window", "duration", "E.g. `28d`."},
		{"slos[].threshold", "number", "Seconds; the histogram bucket that counts as good."},
		{"gitops.application", "string", "Argo CD application that owns the manifests, `NAMESPACE/NAME` or `NAME`. Default: the one that the workload's tracking id names."},
		{"gitops.repository", "string", "Where Git has them, as under `gitops.repositories`. Default: the application's source."},
		{"gitops.branch", "string", "On which branch. Default: the application's target revision, else the repository's default branch."},
		{"gitops.path", "string", "And below which path. Default: the application's."},
		{"gitops.object.kind", "string", "Kind of the object that Git holds, where a controller makes the workload of it, e.g. `InferenceService`. Default: the workload, or the object that controls it."},
		{"gitops.object.name", "string", "Its name."},
		{"gitops.component", "string", "Part of that object that the service is: the name of a Dynamo graph's service or component, of a model of Ray Serve, or `decode`, `prefill`, `leader`, `worker`. Default: the one that the workload is made of, by its name."},
		{"owners", "list of string", "Who may decide where a playbook says `service.owners`: `user:ada`, `group:ml-platform`."},
		{"autonomy", "string", "Ceiling for this service: `observe` (default), `suggest`, `auto`."},
		{"min_ready", "int", "Replicas that must stay ready. Default: `guards.min_ready`."},
		{"max_scale", "int", "Most replicas a lever may ask for. Default 0: no lever may scale up."},
		{"selector", "string", "PromQL label matchers of the service's series, without braces. Default: its namespace and workload's name as `service`."},
		{"match", "list of string", "Alerts that are certainly this service's, in Alertmanager's matcher syntax, e.g. `{namespace=\"serving\", service=\"chat\"}`."},
	}
}

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
    selector: namespace="serving",service="chat"
    match: ['{namespace="serving", service="chat"}']
`

// catalogReference is the section on services.
func catalogReference() string {
	var b strings.Builder
	b.WriteString("\n## services\n\nAn alert belongs to the service whose `match` fits. Without one that does, the services of the\n" +
		"alert's namespace are narrowed by its labels `service`, `deployment`, `statefulset`, `pod` and\n" +
		"`model_name`. Unless exactly one is left nothing is done, and the journal says why.\n\n" +
		"| field | type | |\n|---|---|---|\n")
	for _, f := range catalogFields() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.name, f.kind, tableCell(f.doc))
	}
	b.WriteString("\n```yaml\n" + catalogExample + "```\n")
	return b.String()
}
