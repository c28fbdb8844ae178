//go:build e2e

package e2e

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// ownChart is a chart of one's own, an edit of its values, and what the edit changes in
// what helm template renders.
type ownChart struct {
	set     []string          // what is set to which value
	values  []string          // value files besides the chart's own
	args    string            // of the template's container
	files   map[string]string // besides the chart
	want    []string          // lines of the rendered result, sorted; empty: the edit is refused
	refused string
}

// chartTemplate is the template of a chart's Deployment.
func chartTemplate(name, args string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: {{ .Release.Name }}-" + name + "}\nspec:\n  replicas: {{ .Values.replicas | default 1 }}\n" +
		"  template:\n    spec:\n      containers:\n      - name: vllm\n        image: vllm/vllm-openai:v0.11.0\n        args:\n        - --model=m\n" + args
}

var setLen = []string{"--flag", "max-model-len", "--value", "4096"}

var ownCharts = map[string]ownChart{
	"a key": {
		set: setLen, args: "        - --max-model-len={{ .Values.engine.maxModelLen }}\n",
		files: map[string]string{"chart/values.yaml": "engine:\n  maxModelLen: 8192  # tokens\n"},
		want:  []string{"+ - --max-model-len=4096", "- - --max-model-len=8192"},
	},
	"a key that is not set": {
		set: setLen, args: "        {{- with .Values.engine.maxModelLen }}\n        - --max-model-len={{ . }}\n        {{- end }}\n",
		files: map[string]string{"chart/values.yaml": "engine: {}\n"},
		want:  []string{"+ - --max-model-len=4096"},
	},
	"a list": {
		set: setLen, args: "        {{- toYaml .Values.extraArgs | nindent 8 }}\n",
		files: map[string]string{"chart/values.yaml": "extraArgs:\n- --max-num-seqs=16\n- --max-model-len=8192\n"},
		want:  []string{"+ - --max-model-len=4096", "- - --max-model-len=8192"},
	},
	"a list without the flag": {
		set: setLen, args: "        {{- toYaml .Values.extraArgs | nindent 8 }}\n",
		files: map[string]string{"chart/values.yaml": "extraArgs:\n- --max-num-seqs=16\n"},
		want:  []string{"+ - --max-model-len=4096"},
	},
	"a mapping": {
		set: setLen, args: "        {{- range $k, $v := .Values.vllm.args }}\n        - --{{ $k }}={{ $v }}\n        {{- end }}\n",
		files: map[string]string{"chart/values.yaml": "vllm:\n  args:\n    max-num-seqs: 16\n    max-model-len: 8192\n"},
		want:  []string{"+ - --max-model-len=4096", "- - --max-model-len=8192"},
	},
	"a text": {
		set: setLen, args: "        {{- range splitList \" \" .Values.extraArgs }}\n        - {{ . }}\n        {{- end }}\n",
		files: map[string]string{"chart/values.yaml": "extraArgs: \"--max-num-seqs 16 --max-model-len 8192\"\n"},
		want:  []string{"+ - 4096", "- - 8192"},
	},
	"an environment": {
		set: setLen, values: []string{"envs/prod.yaml"}, args: "        - --max-model-len={{ .Values.maxModelLen }}\n",
		files: map[string]string{"chart/values.yaml": "maxModelLen: 8192\n", "envs/prod.yaml": "maxModelLen: 16384\n", "envs/staging.yaml": "maxModelLen: 1024\n"},
		want:  []string{"+ - --max-model-len=4096", "- - --max-model-len=16384"},
	},
	"an environment with the default": {
		set: setLen, values: []string{"envs/prod.yaml"}, args: "        - --max-model-len={{ .Values.engine.maxModelLen }}\n",
		files: map[string]string{"chart/values.yaml": "engine: {maxModelLen: 8192}\n", "envs/prod.yaml": "replicas: 3\n"},
		want:  []string{"+ - --max-model-len=4096", "- - --max-model-len=8192"},
	},
	"a vendored chart": {
		set: []string{"--flag", "max-num-seqs", "--value", "48"},
		files: map[string]string{
			"chart/Chart.yaml":                              "apiVersion: v2\nname: chat\nversion: 0.1.0\ndependencies:\n- {name: engine, version: 0.2.0}\n",
			"chart/values.yaml":                             "engine:\n  model: m\n",
			"chart/charts/engine/Chart.yaml":                "apiVersion: v2\nname: engine\nversion: 0.2.0\n",
			"chart/charts/engine/values.yaml":               "maxNumSeqs: 16\n",
			"chart/charts/engine/templates/deployment.yaml": chartTemplate("chat", "        - --max-num-seqs={{ .Values.maxNumSeqs }}\n"),
			"chart/templates/deployment.yaml":               "",
		},
		want: []string{"+ - --max-num-seqs=48", "- - --max-num-seqs=16"},
	},
	"replicas": {
		set:   []string{"--replicas", "--value", "4"},
		files: map[string]string{"chart/values.yaml": "replicas: 2\n"},
		want:  []string{"+ replicas: 4", "- replicas: 2"},
	},
	"a value that is ignored": {
		set: setLen, args: "        - --max-model-len=8192\n",
		files:   map[string]string{"chart/values.yaml": "maxModelLen: 8192\n"},
		refused: "(maxModelLen): it changes nothing in the rendered result",
	},
	"a value of two workloads": {
		set: setLen, args: "        - --max-model-len={{ .Values.maxModelLen }}\n",
		files: map[string]string{
			"chart/values.yaml":          "maxModelLen: 8192\n",
			"chart/templates/embed.yaml": chartTemplate("embed", "        - --max-model-len={{ .Values.maxModelLen }}\n"),
		},
		refused: "would also change Deployment serving-embed",
	},
	"a value of two fields": {
		set: setLen, args: "        - --max-model-len={{ .Values.maxModelLen }}\n        - --max-num-batched-tokens={{ .Values.maxModelLen }}\n",
		files:   map[string]string{"chart/values.yaml": "maxModelLen: 8192\n"},
		refused: "spec.template.spec.containers[0].args[1], spec.template.spec.containers[0].args[2]",
	},
}

// TestGitopsCharts applies the difference that gitops set shows to the values of a
// chart, and compares what helm template renders before and after: it is the one
// variable that was asked for.
func TestGitopsCharts(t *testing.T) {
	responder, helm := rig.BuildResponder(t, false), rig.Helm(t)
	rig.BuildHelm(t)
	for name, c := range ownCharts {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeTree(t, dir, map[string]string{"chart/Chart.yaml": "apiVersion: v2\nname: chat\nversion: 0.1.0\n", "chart/templates/deployment.yaml": chartTemplate("chat", c.args)})
			writeTree(t, dir, c.files)
			template := []string{"template", "serving", "chart", "--namespace", "prod"}
			args := slices.Concat([]string{"gitops", "set", "--path", ".", "--source", "chart", "--service", "prod/serving-chat", "--engine", "vllm", "--dry-run", "-o", "json"}, c.set)
			for _, v := range c.values {
				template, args = append(template, "--values", v), append(args, "--values", v)
			}
			before := output(t, dir, "", helm, template...)
			if c.refused != "" {
				cmd := exec.CommandContext(t.Context(), responder, args...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), c.refused) {
					t.Fatalf("it ends with %v, want it refused: ...%s...\n%s", err, c.refused, out)
				}
				return
			}
			var shown struct {
				Diff  string
				Notes []string
			}
			if err := json.Unmarshal([]byte(output(t, dir, "", responder, args...)), &shown); err != nil {
				t.Fatal(err)
			}
			output(t, dir, shown.Diff, "git", "apply", "-")
			after := output(t, dir, "", helm, template...)
			if diff := cmp.Diff(c.want, changedLines(before, after)); diff != "" {
				t.Errorf("what helm renders changes otherwise (-want +got):\n%s\n%s", diff, shown.Diff)
			}
			if !strings.Contains(strings.Join(shown.Notes, "\n"), "rendered: Deployment serving-chat ") {
				t.Errorf("the rendered change is not told: %q", shown.Notes)
			}
		})
	}
}

// A template that never ends is stopped, and so is the program that renders it.
func TestGitopsEndlessChart(t *testing.T) {
	responder := rig.BuildResponder(t, false)
	rig.BuildHelm(t)
	dir := t.TempDir()
	const loop = "{{ range until 100000 }}{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}{{ end }}"
	writeTree(t, dir, map[string]string{"Chart.yaml": "apiVersion: v2\nname: chat\nversion: 0.1.0\n", "templates/deployment.yaml": loop})
	begin := time.Now()
	cmd := exec.CommandContext(t.Context(), responder, append([]string{"gitops", "set", "--path", ".", "--service", "prod/chat", "--engine", "vllm", "--dry-run"}, setLen...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if took := time.Since(begin); err == nil || !strings.Contains(string(out), "cannot be rendered: it takes") || took > time.Minute {
		t.Errorf("after %s it ends with %v\n%s", took, err, out)
	}
}
