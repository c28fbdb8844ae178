package chart_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
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
	return renderIn("responder", values)
}

// renderIn renders the release responder of a namespace.
func renderIn(namespace string, values map[string]any) (map[string]string, error) {
	c, err := loader.Load(".")
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "responder", Namespace: namespace, Revision: 1, IsInstall: true}, nil)
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
		golden(t, filepath.Join("testdata", name+".golden"), got.String())
	}
}

// golden compares a file with what it is to hold, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: run the test with -update and look at the difference (-want +got):\n%s", file, diff)
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
			if kind, where, _ := strings.Cut(key, " "); strings.HasSuffix(kind, "RoleBinding") && !strings.Contains(where, "responder-read") && !strings.Contains(where, "responder-discovery") {
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
		{map[string]any{"kube.scale": in()}, nil},
		{map[string]any{"node.cordon": in(), "kube.scale": in("serving")}, []string{"RoleBinding serving/responder-lever-scale"}},
		{map[string]any{"node.cordon": in("*")}, []string{"ClusterRoleBinding /responder-lever-node"}},
		{map[string]any{"node.drain": in("*")}, []string{"ClusterRoleBinding /responder-lever-evict", "ClusterRoleBinding /responder-lever-node"}},
		{map[string]any{"node.drain": in("*", "serving")}, []string{"ClusterRoleBinding /responder-lever-node", "RoleBinding serving/responder-lever-evict"}},
		{map[string]any{"node.drain": in("*", "serving"), "pod.evict": in("*", "batch")}, []string{
			"ClusterRoleBinding /responder-lever-node", "RoleBinding batch/responder-lever-evict", "RoleBinding serving/responder-lever-evict",
		}},
		{map[string]any{"kube.scale": in("*", "serving")}, []string{"ClusterRoleBinding /responder-lever-scale"}},
		{map[string]any{"kube.scale": in("a"), "kube.replace_pod": in("b")}, []string{
			"RoleBinding a/responder-lever-scale", "RoleBinding b/responder-lever-evict", "RoleBinding b/responder-lever-replace-pod", "RoleBinding b/responder-lever-scale",
		}},
	} {
		if diff := cmp.Diff(tt.want, bound(tt.levers)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.levers, diff)
		}
	}
}

// TestDiscoveryRights: workloads are listed where services are discovered, and nowhere else.
func TestDiscoveryRights(t *testing.T) {
	for _, tt := range []struct {
		values string
		want   []string
	}{
		{"{}", []string{"ClusterRole /responder-discovery", "ClusterRoleBinding /responder-discovery"}},
		{"config: {discovery: {enabled: false}}", nil},
		{"config: {discovery: {namespaces: [serving, batch]}}", []string{"ClusterRole /responder-discovery", "RoleBinding batch/responder-discovery", "RoleBinding serving/responder-discovery"}},
		{"{config: {discovery: {namespaces: [serving]}}, rbac: {discovery: false, read: [serving]}}", nil},
	} {
		values, err := chartutil.ReadValues([]byte(tt.values))
		if err != nil {
			t.Fatal(err)
		}
		files, err := render(values)
		if err != nil {
			t.Fatalf("%s: %v", tt.values, err)
		}
		var got []string
		for key, o := range objects(t, files) {
			if strings.HasSuffix(key, "/responder-discovery") {
				got = append(got, key)
				continue
			}
			rules, _ := o["rules"].([]any)
			for _, rule := range rules {
				resources := rule.(map[string]any)["resources"].([]any)
				if key == "ClusterRole /responder-read-cluster" && !slices.Equal(resources, []any{"nodes"}) {
					t.Errorf("%s: %s has %v", tt.values, key, resources)
				}
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.values, diff)
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
		{"rbac: {levers: {node.drain: [serving, batch]}}", "node.drain needs rights on the whole cluster, because nodes belong to no namespace: write ['*'], or ['*', serving, batch]"},
		{"rbac: {levers: {pod.evict_from_node: [serving]}}", "pod.evict_from_node needs rights on the whole cluster"},
		{"rbac: {levers: {pod.evict: [serving]}}", "pod.evict needs rights on the whole cluster"}, // it marks the node
		{"rbac: {discovery: false}", "rbac.discovery is false, but config.discovery.enabled is true"},
		{"{config: {discovery: {namespaces: [serving, batch]}}, rbac: {discovery: false, read: [serving]}}", "rbac.read does not have batch of config.discovery.namespaces"},
		{"config: {autonmy: observe}", "additional properties 'autonmy' not allowed"},
		{"config: {services: {}}", "config.services"},
		{"tls: {certManager: {enabled: true}}", "tls.certManager.issuerRef.name is empty"},
		{"{tls: {caKey: ''}, serviceMonitor: {enabled: true}}", "tls.caKey: the certificate that the chart generates has its CA in ca.crt"},
		{"agent: {tls: {caKey: ''}}", "agent.tls.caKey"},
		{"networkPolicy: {dns: {peers: []}}", "networkPolicy.dns.peers"},
		{"networkPolicy: {egressPorts: []}", "networkPolicy.egressPorts"}, // no ports in a rule are all ports
		{"networkPolicy: {egressPorts: [22]}", "networkPolicy.egressPorts"},
		{"networkPolicy: {prometheusPorts: []}", "networkPolicy.prometheusPorts"},
		{"rbac: {fluxReconcile: ['*']}", "rbac.fluxReconcile.0"},
		{"signIn: {oidc: {issuer: 'https://login.example', clientID: page}}", "signIn.oidc needs config.external_url"},
		{"{config: {external_url: 'https://r.example'}, signIn: {oidc: {issuer: 'https://login.example'}}}", "signIn.oidc.clientID"},
		{"signIn: {oidc: {issuer: 'http://login.example', clientID: page}}", "signIn.oidc.issuer"},
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

// notOfBase are the lines that only Helm needs: its labels, and the checksum by which an
// upgrade restarts the pod.
var notOfBase = regexp.MustCompile(`(?m)^ +(?:helm\.sh/chart|app\.kubernetes\.io/(?:instance|version|managed-by)): .*\n|^ +annotations:\n +checksum/config: .*\n`)

// identity is the kind, name and namespace of an object in a text.
var identity = regexp.MustCompile(`kind: \w+\nmetadata:\n  name: \S+\n(?:  namespace: \S+\n)?`)

// TestBase: deploy/kubernetes, for those who install without Helm, is what the chart
// renders from its values, and deploy/agent what it renders beside that with agents. The
// roles of deploy/kubernetes are not rendered: the chart has them from there.
func TestBase(t *testing.T) {
	there := map[string]bool{}
	for _, file := range []string{"../kubernetes/rbac.yaml", "../kubernetes/levers.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, role := range identity.FindAllString(string(data), -1) {
			there[role] = true
		}
	}
	for _, base := range []struct {
		dir string
		to  map[string]string // from the template
	}{
		{"../kubernetes", map[string]string{"config.yaml": "config.yaml", "deployment.yaml": "deployment.yaml", "networkpolicy.yaml": "networkpolicy.yaml", "rbac.yaml": "account.yaml"}},
		{"../agent", map[string]string{"agent.yaml": "daemonset.yaml", "networkpolicy.yaml": "networkpolicy.yaml", "rbac.yaml": "rbac.yaml"}},
	} {
		values, err := chartutil.ReadValuesFile(filepath.Join(base.dir, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		files, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		for _, template := range slices.Sorted(maps.Keys(files)) {
			docs := slices.DeleteFunc(strings.Split(strings.TrimSpace(files[template]), "\n---\n"), func(doc string) bool {
				o := identity.FindString(doc)
				before := there[o]
				there[o] = o != ""
				return doc == "" || before
			})
			name := filepath.Base(template)
			if len(docs) == 0 || name == "NOTES.txt" {
				continue
			}
			if base.to[name] == "" {
				t.Errorf("%s renders objects that no file of %s has:\n%s", name, base.dir, docs)
				continue
			}
			golden(t, filepath.Join(base.dir, base.to[name]), "# Rendered from "+name+" of deploy/chart with values.yaml. To change it: go generate ./deploy/chart\n"+
				notOfBase.ReplaceAllString(strings.Join(docs, "\n---\n")+"\n", ""))
		}
	}
}

// TestConfigFields: the schema knows exactly the top-level fields of responder.yaml, so that a
// misspelt one is refused before it replaces the configuration of a running service.
func TestConfigFields(t *testing.T) {
	data, err := os.ReadFile("values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Config struct {
				AdditionalProperties *bool
				Properties           map[string]any
			}
		}
	}
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		if name, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); name != "" {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	c := schema.Properties.Config
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(c.Properties))); diff != "" {
		t.Errorf("config in values.schema.json (-internal/config +schema):\n%s", diff)
	}
	if c.AdditionalProperties == nil || *c.AdditionalProperties {
		t.Error("config accepts fields that responder.yaml does not have")
	}
}

// TestReleasesOfOneName: two releases of the same name share no object.
func TestReleasesOfOneName(t *testing.T) {
	values := map[string]any{
		"rbac":  map[string]any{"read": []any{"serving"}, "levers": map[string]any{"kube.scale": []any{"serving"}, "node.drain": []any{"*"}}},
		"agent": map[string]any{"enabled": true},
	}
	seen := map[string]string{}
	for _, namespace := range []string{"responder", "team-a", "team-b"} {
		files, err := renderIn(namespace, values)
		if err != nil {
			t.Fatal(err)
		}
		all := objects(t, files)
		for key, o := range all {
			if seen[key] != "" {
				t.Errorf("%s is of the releases in %s and %s", key, seen[key], namespace)
			}
			seen[key] = namespace
			role, ok := o["roleRef"].(map[string]any)
			if ok && all["ClusterRole /"+role["name"].(string)] == nil {
				t.Errorf("%s in %s binds %s, which the release does not have", key, namespace, role["name"])
			}
		}
	}
	for _, want := range []string{"ClusterRole /responder-read", "ClusterRole /responder-team-a-read", "RoleBinding serving/responder-team-b-lever-scale"} {
		if seen[want] == "" {
			t.Errorf("no %s", want)
		}
	}
}

// TestSystemTrust: with a certificate of a public CA, nothing refers to a key that the
// Secret does not have.
func TestSystemTrust(t *testing.T) {
	values := func(key string) map[string]any {
		return map[string]any{
			"tls":            map[string]any{"existingSecret": "public", "caKey": key},
			"serviceMonitor": map[string]any{"enabled": true}, "alertmanagerConfig": map[string]any{"enabled": true},
		}
	}
	for key, n := range map[string]int{"": 0, "chain.pem": 2} {
		files, err := render(values(key))
		if err != nil {
			t.Fatal(err)
		}
		objects(t, files)
		text := files["responder/templates/monitoring.yaml"]
		if got := strings.Count(text, "ca: {secret: {name: public, key: chain.pem}}"); got != n || strings.Contains(text, "ca.crt") {
			t.Errorf("caKey %q: %d references to a CA, want %d:\n%s", key, got, n, text)
		}
		if got := strings.Count(text, "tlsConfig:"); got != 1+n/2 { // that of the ServiceMonitor names the server
			t.Errorf("caKey %q: %d tlsConfig:\n%s", key, got, text)
		}
	}
}

// TestPodSecurityContext: null removes a field, from the pods of service and agents.
func TestPodSecurityContext(t *testing.T) {
	files, err := render(map[string]any{
		"agent":              map[string]any{"enabled": true},
		"podSecurityContext": map[string]any{"runAsUser": nil, "runAsGroup": nil, "fsGroup": nil, "supplementalGroups": []any{1000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"}, "supplementalGroups": []any{1000}}
	for _, key := range []string{"Deployment responder/responder", "DaemonSet responder/responder-agent"} {
		pod := objects(t, files)[key]["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		if diff := cmp.Diff(want, pod["securityContext"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

// TestAgentMetrics: the account by whose token the agents are scraped is one that they let in.
func TestAgentMetrics(t *testing.T) {
	files, err := render(map[string]any{"agent": map[string]any{"enabled": true}, "serviceMonitor": map[string]any{"enabled": true}})
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, files)
	for _, key := range []string{"PodMonitor responder/responder-agent", "ServiceAccount responder/responder-agent-metrics", "Secret responder/responder-agent-metrics"} {
		if all[key] == nil {
			t.Errorf("no %s", key)
		}
	}
	if text := files["responder/templates/agent.yaml"]; !strings.Contains(text, "- --allow-metrics=responder/responder-agent-metrics\n") {
		t.Errorf("the agents let nobody scrape them by the PodMonitor:\n%s", text)
	}
}

// TestNetworkPolicyOfOthers: DNS and Argo CD are where the values say.
func TestNetworkPolicyOfOthers(t *testing.T) {
	values, err := chartutil.ReadValues([]byte(`networkPolicy:
  dns: {peers: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: openshift-dns}}}], ports: [5353]}
  argocdNamespace: gitops`))
	if err != nil {
		t.Fatal(err)
	}
	files, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	space := func(name string) []any {
		return []any{map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": name}}}}
	}
	port := func(port int, protocol string) map[string]any {
		return map[string]any{"port": port, "protocol": protocol}
	}
	rules := objects(t, files)["NetworkPolicy responder/responder"]["spec"].(map[string]any)["egress"].([]any)
	for _, want := range []map[string]any{
		{"to": space("openshift-dns"), "ports": []any{port(5353, "UDP"), port(5353, "TCP")}},
		{"to": space("gitops"), "ports": []any{port(8080, "TCP")}},
	} {
		if !slices.ContainsFunc(rules, func(rule any) bool { return cmp.Equal(rule, any(want)) }) {
			t.Errorf("no rule %v in %v", want, rules)
		}
	}
}

// TestNotes: what Helm prints after an install names what is still to do.
func TestNotes(t *testing.T) {
	for _, tt := range []struct {
		values, want string
		not          bool
	}{
		{"alertmanagerConfig: {enabled: true}", "alertmanagerConfigMatcherStrategy: {type: None}", false},
		{"alertmanagerConfig: {enabled: true}", "kube-prometheus-stack", false},
		{"{}", "alertmanagerConfigMatcherStrategy", true},
		{"{}", "responder doctor", false},
		{"prometheusRule: {enabled: true, gpus: true}", "deploy/prometheus/agents.scrape.yaml", false},
		{"{prometheusRule: {enabled: true, gpus: true}, agent: {enabled: true}}", "deploy/prometheus/agents.scrape.yaml", false},
		{"{prometheusRule: {enabled: true, gpus: true}, agent: {enabled: true}, serviceMonitor: {enabled: true}}", "agents.scrape.yaml", true},
		{"rbac: {levers: {kube.scale: []}}", "It may change nothing", false},
		{"rbac: {levers: {kube.scale: [serving]}}", "It may change nothing", true},
	} {
		values, err := chartutil.ReadValues([]byte(tt.values))
		if err != nil {
			t.Fatal(err)
		}
		files, err := render(values)
		if err != nil {
			t.Fatal(err)
		}
		if notes := files["responder/templates/NOTES.txt"]; strings.Contains(notes, tt.want) == tt.not {
			t.Errorf("%s: the notes contain %q: %t\n%s", tt.values, tt.want, tt.not, notes)
		}
	}
}
