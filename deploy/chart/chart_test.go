package chart_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"github.com/inference-responder/responder/internal/config"
)

var update = flag.Bool("update", false, "write the golden files")

// render renders the chart as `helm template responder deploy/chart -n responder` does.
func render(values map[string]any) (map[string]string, error) {
	c, err := loader.Load(".")
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "responder", Namespace: "responder", Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// made are secrets that differ at each rendering.
var made = regexp.MustCompile(`(?m)^(  (?:alertmanager|prometheus|reader|page|ca\.crt|tls\.crt|tls\.key)): [A-Za-z0-9+/=]+$`)

// objects returns the objects of the rendered files, by kind, namespace and name.
func objects(t *testing.T, files map[string]string) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for d := yaml.NewDecoder(strings.NewReader(files[name])); ; {
			var o map[string]any
			err := d.Decode(&o)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, files[name])
			}
			if o == nil {
				continue
			}
			meta := o["metadata"].(map[string]any)
			space, _ := meta["namespace"].(string)
			key := o["kind"].(string) + " " + space + "/" + meta["name"].(string)
			if out[key] != nil {
				t.Errorf("%s: two objects are %s", name, key)
			}
			out[key] = o
		}
	}
	return out
}

// everything is a value for each thing that the chart can do.
func everything(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile("testdata/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.ReadValues(data)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestRendered compares what is installed with the golden files.
func TestRendered(t *testing.T) {
	for name, values := range map[string]map[string]any{"default": {}, "everything": everything(t)} {
		files, err := render(values)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		objects(t, files)
		var got bytes.Buffer
		for _, file := range slices.Sorted(maps.Keys(files)) {
			if text := strings.TrimSpace(files[file]); text != "" && !strings.HasSuffix(file, ".tpl") {
				got.WriteString("# " + strings.TrimPrefix(file, "responder/templates/") + "\n" + made.ReplaceAllString(text, "$1: made at the first install") + "\n")
			}
		}
		golden := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s: run the test with -update and look at the difference (-want +got):\n%s", name, diff)
		}
	}
}

// TestConfiguration: what the chart writes as responder.yaml is a configuration that the
// service starts with, and it observes unless a value says otherwise.
func TestConfiguration(t *testing.T) {
	for name, values := range map[string]map[string]any{"default": {}, "everything": everything(t)} {
		files, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		data := objects(t, files)["ConfigMap responder/responder-config"]["data"].(map[string]any)
		c, err := config.Parse("responder.yaml", []byte(data["responder.yaml"].(string)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "default" && c.Autonomy.String() != "observe" {
			t.Errorf("a fresh install has autonomy %s", c.Autonomy)
		}
	}
}

// TestRights: a lever that is enabled gets the roles that name it, in the namespaces that
// are given, and no other role.
func TestRights(t *testing.T) {
	bound := func(levers map[string]any) []string {
		files, err := render(map[string]any{"rbac": map[string]any{"levers": levers}})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for key := range objects(t, files) {
			if kind, where, _ := strings.Cut(key, " "); strings.HasSuffix(kind, "RoleBinding") && !strings.Contains(where, "responder-read") {
				out = append(out, key)
			}
		}
		slices.Sort(out)
		return out
	}
	in := func(spaces ...any) []any { return spaces }
	for _, tt := range []struct {
		levers map[string]any
		want   []string
	}{
		{nil, nil},
		{map[string]any{"kube.scale": in("serving", "batch")}, []string{"RoleBinding batch/responder-lever-scale", "RoleBinding serving/responder-lever-scale"}},
		{map[string]any{"kube.rollout_undo": in("*")}, []string{"ClusterRoleBinding /responder-lever-rollout-undo"}},
		{map[string]any{"node.drain": in("serving")}, []string{"ClusterRoleBinding /responder-lever-node", "RoleBinding serving/responder-lever-evict"}},
		{map[string]any{"kube.scale": in("a"), "kube.replace_pod": in("b")}, []string{
			"RoleBinding a/responder-lever-scale", "RoleBinding b/responder-lever-evict", "RoleBinding b/responder-lever-replace-pod", "RoleBinding b/responder-lever-scale",
		}},
	} {
		if diff := cmp.Diff(tt.want, bound(tt.levers)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.levers, diff)
		}
	}
}

// TestBadValues: a value that is wrong is refused before anything is installed, by its
// path.
func TestBadValues(t *testing.T) {
	for _, tt := range []struct{ values, want string }{
		{"rbac: {levers: {kube.sacle: [serving]}}", `no lever that writes to the cluster is named "kube.sacle"; there is gpu.reset_request`},
		{"rbac: {read: [Serving]}", "rbac.read.0"},
		{"rbac: {raed: [serving]}", "additional properties 'raed' not allowed"},
		{"config: {autonomy: full}", "config.autonomy"},
		{"persistence: {size: five}", "persistence.size"},
		{"image: {digest: latest}", "image.digest"},
		{"playbooks: {chat.yml: x}", "'chat.yml' does not match pattern"},
		{"service: {port: 0}", "service.port"},
	} {
		values, err := chartutil.ReadValues([]byte(tt.values))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = render(values); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "/", "."), tt.want) {
			t.Errorf("%s: %v, want ...%s...", tt.values, err, tt.want)
		}
	}
}

// TestCopies: the roles and rules of the chart are those of the manifests.
func TestCopies(t *testing.T) {
	for file, from := range map[string]string{
		"files/rbac.yaml": "../kubernetes/rbac.yaml", "files/levers.yaml": "../kubernetes/levers.yaml",
		"files/rules/responder.rules.yaml": "../prometheus/responder.rules.yaml", "files/rules/gpu.rules.yaml": "../prometheus/gpu.rules.yaml",
		"files/rules/inference-engine.rules.yaml": "../prometheus/inference-engine.rules.yaml",
	} {
		a, err := os.ReadFile(file)
		b, err2 := os.ReadFile(from)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s is not %s: run go generate ./deploy/chart", file, from)
		}
	}
}

// TestAsTheManifests: the pod of the chart is that of deploy/kubernetes, for those who
// install without Helm.
func TestAsTheManifests(t *testing.T) {
	files, err := render(nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../kubernetes/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pod := func(all map[string]map[string]any) map[string]any {
		return all["Deployment responder/responder"]["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	}
	chart, plain := pod(objects(t, files)), pod(objects(t, map[string]string{"deployment.yaml": string(data)}))
	delete(chart["containers"].([]any)[0].(map[string]any), "imagePullPolicy")
	if diff := cmp.Diff(plain, chart); diff != "" {
		t.Errorf("the pods differ (-manifests +chart):\n%s", diff)
	}
}
