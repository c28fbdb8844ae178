//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// layout is one of the ways people keep a service's manifests in Git.
type layout struct {
	workload string            // the Deployment it makes
	files    map[string]string // of the repository, with 64 sequences
	file     string            // where the number of sequences stands
	text     string            // how it stands there
	path     string            // of the application's source; empty: it has none of its own
	source   string            // more of that source
	charts   map[string]string // repository with a chart, whose values are in the other one
	chart    string            // fields of the chart's source
	helm     bool              // Flux has Helm release it
}

// flag is how a number of sequences stands in the file.
func (l layout) flag(n any) string { return fmt.Sprintf(l.text, n) }

// within is how long Flux waits for what it applied: Helm takes its time.
func (l layout) within() time.Duration {
	if l.helm {
		return 30 * time.Second
	}
	return 10 * time.Second
}

// at is what the service's entry in the catalog says of the place.
func (l layout) at() string {
	if l.path == "" {
		return ""
	}
	return ", path: " + l.path
}

// application is the application that deploys it.
func (l layout) application(t *testing.T, o rig.ApplicationOptions) rig.ApplicationOptions {
	t.Helper()
	o.Path, o.Source = l.path, l.source
	if l.charts != nil {
		o.ChartSource = &rig.ChartSource{Git: rig.StartGit(t, l.charts), Source: l.chart}
	}
	return o
}

var plain = layout{
	workload: "chat", path: "serving", file: manifestPath, text: "--max-num-seqs=%v\n",
	files: map[string]string{manifestPath: manifest(64), "README.md": "# What is served\n"},
}

// kustomized is a base and an overlay whose patch has the flag.
var kustomized = layout{
	workload: "chat", path: "serving/prod", file: "serving/prod/engine.yaml", text: "--max-num-seqs=%v\n",
	files: map[string]string{
		"serving/base/kustomization.yaml": "resources: [chat.yaml]\n",
		"serving/base/chat.yaml":          manifest(16),
		"serving/prod/kustomization.yaml": "resources:\n  - ../base\npatches:\n  - path: engine.yaml\n",
		"serving/prod/engine.yaml": `# What production has of its own.
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  template:
    spec:
      containers:
        - name: engine
          args:
            - --model=chat
            - --gpu-memory-utilization=0.9
            - --max-num-seqs=64
`,
	},
}

// stack is a chart in the shape of the vLLM production stack's, and its values.
var stack = layout{
	workload: "serve-chat-deployment-vllm", path: "serving", source: "helm: {releaseName: serve}, ", file: "serving/values.yaml", text: "maxNumSeqs: %v  # measured",
	files: map[string]string{
		"serving/Chart.yaml": "apiVersion: v2\nname: stack\nversion: 0.1.0\n",
		"serving/values.yaml": `servingEngineSpec:
  modelSpec:
    - name: chat
      replicaCount: 2
      vllmConfig:
        maxNumSeqs: 64  # measured
`,
		"serving/templates/deployment.yaml": `{{- range .Values.servingEngineSpec.modelSpec }}
` + chartDeployment(`"{{ $.Release.Name }}-{{ .name }}-deployment-vllm"`, "{{ .replicaCount }}", `
            - --model={{ .name }}
            - --max-num-seqs={{ .vllmConfig.maxNumSeqs }}`) + `{{- end }}
`,
	},
}

// released is the same chart, whose values a HelmRelease of Flux holds.
var released = layout{
	helm: true, workload: stack.workload, path: "clusters", file: "clusters/chat.yaml", text: "maxNumSeqs: %v  # measured",
	files: map[string]string{
		"charts/stack/Chart.yaml":                stack.files["serving/Chart.yaml"],
		"charts/stack/templates/deployment.yaml": stack.files["serving/templates/deployment.yaml"],
		"clusters/chat.yaml": `apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: chat}
spec:
  interval: 1h
  timeout: 20s
  releaseName: serve
  chart: {spec: {chart: ./charts/stack, sourceRef: {kind: GitRepository, name: models}}}
  values:
    servingEngineSpec:
      modelSpec:
        - name: chat
          replicaCount: 2
          vllmConfig:
            maxNumSeqs: 64  # measured
`,
	},
}

// values are those of a chart in another repository, in the shape of llm-d's.
var values = layout{
	workload: "chat-decode", file: "serving/chat.yaml", text: "--max-num-seqs=%v\n",
	files: map[string]string{"serving/chat.yaml": `decode:
  replicas: 2
  containers:
    - name: engine
      args:
        - --model=chat
        - --max-num-seqs=64
`},
	chart: "path: charts/modelservice, helm: {releaseName: chat, valueFiles: [$values/serving/chat.yaml]}",
	charts: map[string]string{
		"charts/modelservice/Chart.yaml": "apiVersion: v2\nname: modelservice\nversion: 0.1.0\n",
		"charts/modelservice/templates/decode.yaml": chartDeployment(`"{{ .Release.Name }}-decode"`, "{{ .Values.decode.replicas }}",
			` {{- (index .Values.decode.containers 0).args | toYaml | nindent 12 }}`),
	},
}

// chartDeployment is the template of an engine's Deployment.
func chartDeployment(name, replicas, args string) string {
	return strings.NewReplacer("NAME", name, "REPLICAS", replicas, "ARGS", args).Replace(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: NAME
  labels: {responder.dev/service: "true"}
spec:
  replicas: REPLICAS
  progressDeadlineSeconds: 10
  selector:
    matchLabels: {app: NAME}
  template:
    metadata:
      labels: {app: NAME}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: engine
          image: vllm:v1
          args:ARGS
          resources: {limits: {nvidia.com/gpu: 1}}
`)
}
