package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/gitops/helm"
)

const about = "apiVersion: v2\nname: chat\nversion: 0.1.0\n"

// files returns a request for a chart with one template.
func files(template string, more map[string]string) helm.Request {
	req := helm.Request{Files: map[string][]byte{"Chart.yaml": []byte(about), "templates/t.yaml": []byte(template)}, Namespace: "prod", Variants: []helm.Variant{{Release: "r"}}}
	for p, text := range more {
		req.Files[p] = []byte(text)
	}
	return req
}

// TestRender renders templates closed: nothing of the machine, of a cluster or of a
// network gets into the result.
func TestRender(t *testing.T) {
	t.Setenv("SECRET", "hidden")
	schema := map[string]string{"values.yaml": "a: text\n", "values.schema.json": `{"properties": {"a": {"$ref": "https://127.0.0.1:1/a.json"}}}`}
	for name, c := range map[string]struct {
		req  helm.Request
		want string // the rendered template, or the error
	}{
		"release":              {files("{{ .Release.Name }} {{ .Release.Namespace }} {{ .Chart.Name }}", nil), "r prod chat"},
		"cluster":              {files(`{{ lookup "v1" "Secret" "a" "b" | toJson }}`, nil), "{}"},
		"network":              {files(`[{{ getHostByName "localhost" }}]`, nil), "[]"},
		"file of the chart":    {files(`{{ .Files.Get "a.txt" }}`, map[string]string{"a.txt": "hello"}), "hello"},
		"file of the machine":  {files(`[{{ .Files.Get "/etc/hostname" }}{{ .Files.Get "../../etc/hostname" }}]`, nil), "[]"},
		"environment":          {files(`{{ env "SECRET" }}`, nil), `function "env" not defined`},
		"expanded environment": {files(`{{ expandenv "$SECRET" }}`, nil), `function "expandenv" not defined`},
		"fetched schema":       {files("{{ .Values.a }}", schema), "text"},
		"schema":               {files("x", map[string]string{"values.yaml": "a: text\n", "values.schema.json": `{"properties": {"a": {"type": "integer"}}}`}), "got string, want integer"},
		"endless recursion":    {files(`{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}`, nil), "rendering template has a nested reference name: a"},
		"absent dependency":    {files("x", map[string]string{"Chart.yaml": about + "dependencies: [{name: engine, version: 0.1.0, repository: \"https://127.0.0.1:1\"}]\n"}), "the dependency engine of the chart chat is not in its charts directory"},
		"ignored file":         {files(`{{ .Files.Get "a.txt" }}|{{ .Files.Get "docs/b.txt" }}|{{ .Files.Get "c.txt" }}`, map[string]string{".helmignore": "a.txt\ndocs/\n", "a.txt": "a", "docs/b.txt": "b", "c.txt": "c"}), "||c"},
		"ignored template":     {files("x", map[string]string{".helmignore": "templates/broken.yaml\n", "templates/broken.yaml": "{{ fail \"not here\" }}"}), "x"},
		"broken ignore file":   {files("x", map[string]string{".helmignore": "**/a\n"}), "read .helmignore"},
		"library":              {files("x", map[string]string{"Chart.yaml": about + "type: library\n"}), "library chart"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Render(c.req)[0]
			if text := got.Files["templates/t.yaml"]; text != c.want && !strings.Contains(got.Error, c.want) {
				t.Errorf("rendered %q, error %q, want %q", text, got.Error, c.want)
			}
			if fetches := strings.Contains(string(c.req.Files["values.schema.json"]), "https"); fetches != (got.Unchecked != "") {
				t.Errorf("the schema is unchecked: %q", got.Unchecked)
			}
		})
	}
}

// TestRenderCapabilities: a chart is told of the cluster what the application says of
// it, and else what Helm says without a cluster.
func TestRenderCapabilities(t *testing.T) {
	req := files(`{{ .Capabilities.KubeVersion.Minor }} {{ .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" }} {{ .Capabilities.APIVersions.Has "apps/v1" }}`, nil)
	req.Variants = []helm.Variant{
		{Release: "r", KubeVersion: "v1.29.4-gke.1", APIVersions: []string{"monitoring.coreos.com/v1"}},
		{Release: "r"},
		{Release: "r", KubeVersion: "new"},
	}
	got := Render(req)
	if text := got[0].Files["templates/t.yaml"]; text != "29 true true" {
		t.Errorf("told by the application: %q %s", text, got[0].Error)
	}
	if text := got[1].Files["templates/t.yaml"]; !strings.HasSuffix(text, " false true") {
		t.Errorf("told nothing: %q %s", text, got[1].Error)
	}
	if !strings.Contains(got[2].Error, `version of Kubernetes "new"`) {
		t.Errorf("no version: %q", got[2].Error)
	}
}

// TestRenderValues: the last of the values wins, null removes a default, and values of a
// dependency go below its alias.
func TestRenderValues(t *testing.T) {
	req := files("{{ toJson .Values.own }}", map[string]string{
		"Chart.yaml":                     about + "dependencies: [{name: engine, version: 0.2.0, alias: vllm}]\n",
		"values.yaml":                    "own: {a: 1, b: 2}\n",
		"charts/engine/Chart.yaml":       "apiVersion: v2\nname: engine\nversion: 0.2.0\n",
		"charts/engine/values.yaml":      "c: 3\nd: 4\n",
		"charts/engine/templates/e.yaml": "{{ .Values.c }} {{ .Values.d }}",
	})
	req.Variants[0].Values = [][]byte{[]byte("own: {a: 5}\nvllm: {c: 6}\n"), []byte("own: {a: 7, b: null}\n")}
	req.Variants = append(req.Variants, helm.Variant{Release: "r", Files: map[string][]byte{"values.yaml": []byte("own: {a: 8}\n")}})
	got := Render(req)
	want := []map[string]string{
		{"templates/t.yaml": `{"a":7}`, "charts/vllm/templates/e.yaml": "6 4"},
		{"templates/t.yaml": `{"a":8}`, "charts/vllm/templates/e.yaml": "3 4"},
	}
	for i := range want {
		if diff := cmp.Diff(want[i], got[i].Files); diff != "" || got[i].Error != "" {
			t.Errorf("variant %d (-want +got): %s\n%s", i, got[i].Error, diff)
		}
	}
}
