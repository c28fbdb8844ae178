//go:build e2e

package e2e

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// reading is how a page is read: the world that its reader has, and the commands in their
// order, with what is true after each.
type reading struct {
	world func(*testing.T, *reader)
	steps []pageStep
}

// pageStep is about the command that begins so.
type pageStep struct {
	command string
	before  func(*testing.T, *reader)
	after   func(t *testing.T, r *reader, out string)
}

// readings are the pages with commands other than responder's own that do more than set
// a variable.
var readings = map[string]reading{
	"README.md": {
		world: func(t *testing.T, r *reader) { r.serve(t, "chat") },
		steps: []pageStep{{command: "helm install responder deploy/chart", after: func(t *testing.T, r *reader, _ string) { wantInstalled(t, r, "v1") }}},
	},
	install: {world: func(t *testing.T, r *reader) {
		r.serve(t, "chat")
		r.write(t, "my-values.yaml", pageBlock(t, install, "my-values.yaml"))
	}, steps: slices.Concat(chartSteps, manifestSteps, checkSteps)},
	"docs/how-to/operate.md": {world: func(t *testing.T, r *reader) {
		r.serve(t, "chat", "embed")
		r.withChart(t)
	}, steps: operateSteps},
	"docs/how-to/raise-autonomy.md": {
		world: func(t *testing.T, r *reader) { r.serve(t, "embed") },
		steps: []pageStep{{command: "kubectl -n serving annotate deployment embed", after: func(t *testing.T, r *reader, _ string) {
			want(t, "level of embed", r.deployment(t, "serving", "embed").Annotations["responder.dev/autonomy"], "observe")
		}}},
	},
	"docs/how-to/rotate-keys.md": {world: func(t *testing.T, r *reader) {
		r.serve(t, "chat")
		r.withChart(t)
	}, steps: []pageStep{rotation()}},
	"docs/how-to/when-responder-misbehaves.md": {world: func(t *testing.T, r *reader) {
		r.serve(t, "chat")
		r.withChart(t)
	}, steps: misbehavingSteps},
	"docs/tutorial-kind.md": {world: func(t *testing.T, r *reader) {
		for _, name := range []string{"servicemonitor", "prometheusrule", "alertmanagerconfig"} {
			r.cp.Define(t, name)
		}
		r.volume(t)
		r.write(t, "kind-values.yaml", pageBlock(t, "docs/tutorial-kind.md", "kind-values.yaml"))
	}, steps: kindSteps},
}

// chartSteps are of install.md, With Helm.
var chartSteps = []pageStep{
	{command: "kubectl create namespace responder"},
	{command: "kubectl label namespace responder", after: func(t *testing.T, r *reader, _ string) {
		ns, err := r.cp.Client.CoreV1().Namespaces().Get(t.Context(), "responder", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want(t, "pod security", ns.Labels["pod-security.kubernetes.io/enforce"], "restricted")
	}},
	{command: "helm install responder", after: func(t *testing.T, r *reader, out string) {
		if !strings.Contains(out, "with autonomy observe") {
			t.Errorf("helm install says\n%s", out)
		}
		wantInstalled(t, r, "v1")
		r.awaitPod(t)
	}},
	{command: "helm template responder", before: func(t *testing.T, r *reader) { r.mount(t) }, after: func(t *testing.T, r *reader, out string) {
		if !strings.Contains(out, "/dev/stdin") {
			t.Errorf("config check says\n%s", out)
		}
	}},
}

// manifestSteps are of install.md, Without Helm and Name the services.
var manifestSteps = []pageStep{
	{
		command: "mkdir my-responder",
		before:  func(t *testing.T, r *reader) { r.remove(t) },
		after: func(t *testing.T, r *reader, _ string) {
			r.write(t, "my-responder/kustomization.yaml", pageBlock(t, install, "my-responder/kustomization.yaml"))
		},
	},
	{command: "sed ", after: func(t *testing.T, r *reader, _ string) {
		var base struct{ Data map[string]string }
		if err := yaml.Unmarshal([]byte(r.read(t, "deploy/kubernetes/config.yaml")), &base); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(base.Data["responder.yaml"], r.read(t, "my-responder/responder.yaml")); diff != "" {
			t.Errorf("responder.yaml (-of the base +copied):\n%s", diff)
		}
	}},
	{command: "cp deploy/kubernetes/example-reading.yaml"},
	{command: "kubectl create namespace responder"},
	{command: "kubectl -n responder create secret generic", after: func(t *testing.T, r *reader, _ string) {
		wantTokens(t, r.secret(t, "responder-tokens"))
	}},
	{command: "openssl req", after: func(t *testing.T, r *reader, _ string) {
		block, _ := pem.Decode([]byte(r.read(t, "tls.crt")))
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "names of the certificate", strings.Join(certificate.DNSNames, " "), "responder.responder.svc localhost")
	}},
	{command: "kubectl -n responder create secret tls", after: func(t *testing.T, r *reader, _ string) {
		want(t, "the Secret's certificate", r.secret(t, "responder-tls")["tls.crt"], r.read(t, "tls.crt"))
	}},
	{command: "kubectl apply -k my-responder", after: func(t *testing.T, r *reader, _ string) {
		wantInstalled(t, r, "v1")
		r.awaitPod(t)
	}},
	{command: "kubectl -n responder get secret responder-tokens", after: wantPassword},
	{command: "kubectl -n serving label deployment chat", after: wantMarked},
}

// checkSteps are of install.md, Check, which is about the chart's Secrets.
var checkSteps = []pageStep{
	{
		command: "kubectl -n responder get secret responder-tls",
		before: func(t *testing.T, r *reader) {
			r.remove(t)
			r.withChart(t)
		},
		after: func(t *testing.T, r *reader, _ string) {
			want(t, "ca.crt", r.read(t, "ca.crt"), r.secret(t, "responder-tls")["ca.crt"])
		},
	},
	{command: "(umask 077; kubectl -n responder get secret responder-tokens", after: wantReader},
	{command: "export RESPONDER_SERVER=https://localhost:8080", after: wantServices},
}

var operateSteps = []pageStep{
	{
		command: "helm upgrade responder",
		before: func(t *testing.T, r *reader) {
			r.write(t, "my-values.yaml", strings.Replace(r.read(t, "my-values.yaml"), "tag: v1", "tag: v2", 1))
		},
		after: func(t *testing.T, r *reader, _ string) { wantInstalled(t, r, "v2") },
	},
	{
		command: "kubectl apply -k my-responder",
		before: func(t *testing.T, r *reader) {
			r.remove(t)
			r.withManifests(t)
			file := "my-responder/kustomization.yaml"
			r.write(t, file, strings.Replace(r.read(t, file), "newTag: v1", "newTag: v2", 1))
		},
		after: func(t *testing.T, r *reader, _ string) { wantInstalled(t, r, "v2") },
	},
	{
		command: "kubectl get deployments,statefulsets -A",
		before: func(t *testing.T, r *reader) {
			r.cp.Kubectl(t, "-n", "serving", "label", "deployment", "chat", "embed", "responder.dev/service=true")
			r.cp.Kubectl(t, "-n", "serving", "annotate", "deployment", "embed", "responder.dev/name=vectors")
		},
		after: func(t *testing.T, _ *reader, out string) {
			var got []string
			for line := range strings.Lines(out) {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
			if diff := cmp.Diff([]string{"KIND NAMESPACE WORKLOAD NAME", "Deployment serving chat <none>", "Deployment serving embed vectors"}, got); diff != "" {
				t.Errorf("marked workloads (-want +got):\n%s", diff)
			}
		},
	},
}

// rotation replaces one token. What the page says of upgrades is tried, too.
func rotation() pageStep {
	var before map[string]string
	return pageStep{
		command: "kubectl -n responder patch secret responder-tokens",
		before:  func(t *testing.T, r *reader) { before = r.secret(t, "responder-tokens") },
		after: func(t *testing.T, r *reader, _ string) {
			now := r.secret(t, "responder-tokens")
			wantTokens(t, now)
			for key := range before {
				if (before[key] == now[key]) == (key == "alertmanager") {
					t.Errorf("the key %s: changed is %t", key, before[key] != now[key])
				}
			}
			r.page(t, "docs/how-to/operate.md", "helm upgrade")
			if diff := cmp.Diff(now, r.secret(t, "responder-tokens")); diff != "" {
				t.Error("an upgrade does not keep what the Secret holds")
			}
			r.cp.Kubectl(t, "-n", "responder", "delete", "secret", "responder-tokens")
			r.page(t, "docs/how-to/operate.md", "helm upgrade")
			again := r.secret(t, "responder-tokens")
			wantTokens(t, again)
			for key := range now {
				if now[key] == again[key] {
					t.Errorf("the key %s is the deleted Secret's", key)
				}
			}
		},
	}
}

var misbehavingSteps = []pageStep{
	{command: "kubectl -n responder scale deployment/responder --replicas=0", after: func(t *testing.T, r *reader, _ string) {
		want(t, "replicas", *r.deployment(t, "responder", "responder").Spec.Replicas, 0)
	}},
	{
		command: "kubectl delete rolebindings,clusterrolebindings",
		before: func(t *testing.T, r *reader) { // some bind levers by hand
			r.cp.Kubectl(t, "apply", "-f", filepath.Join(r.dir, "deploy/kubernetes/example-binding.yaml"), "-f", filepath.Join(r.dir, "deploy/kubernetes/example-node-binding.yaml"))
		},
		after: func(t *testing.T, r *reader, _ string) {
			if left := r.bindings(t); len(left) > 0 {
				t.Errorf("Responder still has %v", left)
			}
			r.page(t, "docs/how-to/operate.md", "helm upgrade")
			wantInstalled(t, r, "v1")
			r.remove(t)
			r.withManifests(t)
			r.page(t, "docs/how-to/when-responder-misbehaves.md", "kubectl -n responder scale", "kubectl delete rolebindings,clusterrolebindings")
			if left := r.bindings(t); len(left) > 0 {
				t.Errorf("without Helm, Responder still has %v", left)
			}
			r.page(t, "docs/how-to/operate.md", "kubectl apply -k")
			wantInstalled(t, r, "v1")
		},
	},
	{
		command: "kubectl get nodes,pods,deployments,statefulsets,hpa -A",
		before: func(t *testing.T, r *reader) {
			r.cp.Kubectl(t, "-n", "serving", "patch", "deployment", "chat", "--subresource=scale", "--field-manager=responder/5f2c", "--type=merge", "--patch", `{"spec": {"replicas": 2}}`)
		},
		after: func(t *testing.T, _ *reader, out string) {
			want(t, "what it changed", out, "Deployment serving chat responder/5f2c\n")
		},
	},
	{
		command: "git log --grep",
		before: func(t *testing.T, r *reader) {
			r.run(t, `git init -q && git config user.name ada && git config user.email ada@example.com &&
git commit -q --allow-empty -m 'by a person' && git commit -q --allow-empty -m 'by a run' -m 'Responder-Run: r-1'`)
		},
		after: func(t *testing.T, _ *reader, out string) {
			if !strings.Contains(out, "by a run") || strings.Contains(out, "by a person") {
				t.Errorf("git log prints\n%s", out)
			}
		},
	},
}

var kindSteps = []pageStep{
	{command: "kubectl create namespace serving"},
	{command: "kubectl -n serving create deployment chat"},
	{command: "kubectl -n serving label deployment chat", after: wantMarked},
	{command: "kubectl create namespace responder"},
	{command: "kubectl label namespace responder"},
	{command: "helm install responder deploy/chart", after: func(t *testing.T, r *reader, _ string) {
		want(t, "ready replicas", r.deployment(t, "responder", "responder").Status.ReadyReplicas, 1)
		for _, selected := range [][]string{{"servicemonitors", "-l", "release=monitoring"}, {"prometheusrules", "-l", "release=monitoring"}, {"alertmanagerconfigs"}} {
			if r.cp.Kubectl(t, append([]string{"-n", "responder", "get", "-o", "name"}, selected...)...) == "" {
				t.Errorf("the Prometheus operator finds no %s", selected[0])
			}
		}
	}},
	{command: "kubectl -n responder get secret responder-tls", after: func(t *testing.T, r *reader, _ string) {
		want(t, "ca.crt", r.read(t, "ca.crt"), r.secret(t, "responder-tls")["ca.crt"])
	}},
	{command: "(umask 077; kubectl -n responder get secret responder-tokens", after: wantReader},
	{command: "export RESPONDER_SERVER=https://localhost:8080", after: wantServices},
	{command: "kubectl -n responder get secret responder-tokens", after: wantPassword},
	{
		command: "curl ",
		before: func(t *testing.T, r *reader) {
			am := rig.StartAlertmanager(t, 1, "route: {receiver: people}\nreceivers: [{name: people}]\n")
			r.replace = strings.NewReplacer("http://localhost:9093", am[0].URL)
			r.env = append(r.env, "ALERTMANAGER="+am[0].URL)
		},
		after: func(t *testing.T, r *reader, _ string) {
			var alerts []struct{ Labels map[string]string }
			if err := json.Unmarshal([]byte(r.run(t, `curl --silent --fail "$ALERTMANAGER/api/v2/alerts"`)), &alerts); err != nil {
				t.Fatal(err)
			}
			if len(alerts) != 1 || alerts[0].Labels["alertname"] != "InferenceTTFTFastBurn" || alerts[0].Labels["service"] != "chat" {
				t.Errorf("Alertmanager has %v", alerts)
			}
		},
	},
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// wantInstalled checks an installation of install.md or of README.md: what runs, what it is told, and
// that it may read serving.
func wantInstalled(t *testing.T, r *reader, tag string) {
	t.Helper()
	d := r.deployment(t, "responder", "responder")
	want(t, "image", d.Spec.Template.Spec.Containers[0].Image, "registry.example/responder:"+tag)
	want(t, "replicas", *d.Spec.Replicas, 1)
	config := r.config(t)
	want(t, "autonomy", config["autonomy"], any("observe"))
	url, _ := config["prometheus"].(map[string]any)
	want(t, "Prometheus", url["url"], any("http://prometheus-operated.monitoring:9090"))
	if !slices.Contains(r.bindings(t), "serving/responder-read") {
		t.Errorf("Responder may not read serving: %v", r.bindings(t))
	}
}

// wantTokens checks that all tokens are there, and each is another one.
func wantTokens(t *testing.T, tokens map[string]string) {
	t.Helper()
	seen := map[string]bool{}
	for _, key := range []string{"alertmanager", "prometheus", "reader", "page"} {
		seen[tokens[key]] = true
		if !regexp.MustCompile(`^[0-9a-zA-Z]{32,}$`).MatchString(tokens[key]) {
			t.Errorf("the token %s is no secret", key)
		}
	}
	want(t, "tokens", len(seen), 4)
}

func wantPassword(t *testing.T, r *reader, out string) {
	want(t, "password", out, r.secret(t, "responder-tokens")["page"])
}

func wantMarked(t *testing.T, r *reader, _ string) {
	want(t, "label of chat", r.deployment(t, "serving", "chat").Labels["responder.dev/service"], "true")
}

// wantReader checks the file with the reader's token, which nobody else may read.
func wantReader(t *testing.T, r *reader, _ string) {
	want(t, "reader.token", r.read(t, "reader.token"), r.secret(t, "responder-tokens")["reader"])
	info, err := os.Stat(filepath.Join(r.dir, "reader.token"))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "mode of reader.token", info.Mode(), fs.FileMode(0o600))
}

// wantServices checks that the reader, with the variables that were exported, is shown the service.
func wantServices(t *testing.T, r *reader, _ string) {
	address, _ := release{cp: r.cp, name: "responder"}.serve(t, filepath.Join(t.TempDir(), "data"))
	out := r.run(t, "RESPONDER_SERVER="+address+" responder services")
	if !regexp.MustCompile(`(?m)^serving/chat .*\bobserve\b`).MatchString(out) {
		t.Errorf("responder services prints\n%s", out)
	}
}
