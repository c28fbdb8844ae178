//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// playbook is the shipped playbook with windows a test can wait for. Nothing
// else of it is changed: states, edges, queries and proofs are the shipped ones.
func playbook(t testing.TB) string {
	t.Helper()
	const burn = "with: {short: 10s, long: 40s, recent: 4s, lookback: 2m}"
	return scaled(t, "playbooks/inference-slo-breach.yaml", []string{
		"{check: slo.burn}", "{check: slo.burn, " + burn + "}", "{check: engine.snapshot}", "{check: engine.snapshot, with: {window: 10s}}",
		"{check: engine.compare}", "{check: engine.compare, with: {window: 10s}}", `duration("2m")`, `duration("0s")`, "wait: 1m", "wait: 1s",
		"verify: {within: 8m}, approve: {by: service.owners, within: 15m, on_expiry: escalate}", "approve: {by: service.owners, within: 15m, on_expiry: escalate}, verify: {within: 25s, hold: 4s, interval: 1s}",
		"      verify: {within: 8m}\n", "",
		"{check: slo.burn, until", "{check: slo.burn, " + burn + ", until", "every: 30s", "every: 5s",
		"      approve: {by: service.owners, within: 15m, on_expiry: escalate}\n", quickProof,
		"autonomy: suggest", "autonomy: auto",
	})
}

// quickProof is the approval of a shipped lever with a proof that a test can wait
// for. The service's objectives prove it, as they do without.
const quickProof = "      approve: {by: service.owners, within: 15m, on_expiry: escalate}\n      verify: {within: 25s, hold: 4s, interval: 1s}\n"

// rules are those that `responder slo rules` makes of services, with windows a test
// can wait for.
func rules(t testing.TB, services string) string {
	t.Helper()
	return rescale(t, "the rules of the services", unscaledRules(t, services), []string{
		"[5m]", "[10s]", "[30m]", "[20s]", "[1h]", "[40s]", "[2h]", "[60s]", "[6h]", "[80s]", "[1d]", "[100s]", "[3d]", "[120s]",
	})
}

// unscaledRules are the rules of the objectives of services, as they are loaded into a
// Prometheus.
func unscaledRules(t testing.TB, services string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "responder.yaml")
	if err := os.WriteFile(file, []byte("auth: {insecure: true}\nservices:"+services), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), rig.BuildResponder(t, false), "slo", "rules", "--only", "slo", "--config", file).Output()
	if err != nil {
		t.Fatalf("slo rules: %v of\n%s", err, services)
	}
	return string(out)
}

// scaled is a file of the repository with texts, the even ones, replaced.
func scaled(t testing.TB, path string, replace []string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(rig.Repository(), path))
	if err != nil {
		t.Fatal(err)
	}
	return rescale(t, path, string(data), replace)
}

// rescale is a text, of what is named, with texts in it, the even ones, replaced.
func rescale(t testing.TB, what, text string, replace []string) string {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("%s: there is no %q any more: scale its new times down here", what, replace[i])
		}
	}
	return strings.NewReplacer(replace...).Replace(text)
}

// world is one inference service, chat, in a namespace of its own, with engines,
// a Prometheus, Alertmanagers and a responder that is allowed to act on it.
type world struct {
	cp         *rig.ControlPlane
	ns         string
	nodes      []string // the only ones for its pods
	fleet      *rig.Fleet
	prometheus *rig.Prometheus
	managers   []*rig.Alertmanager
	responder  *rig.Service
	apiServer  *rig.Proxy // between the responder and the API server, with the option proxied
}

// worldOptions say what is not as usual.
type worldOptions struct {
	autonomy      string            // of the service; default auto
	alertmanagers int               // each on its own, as a pair that cannot see each other; default 1
	settings      string            // of responder.yaml
	service       string            // more of the service's entry in the catalog
	chat          string            // the Deployment; default [inference] with two replicas of vllm:v1
	manifests     string            // applied after the Deployment
	discover      bool              // the service is found in the cluster instead of configured
	files         map[string]string // next to responder.yaml
	unscaled      bool              // the shipped playbooks and rules as they are
	noLevers      bool              // the responder's account may only read
	noResponder   bool
	proxied       bool // the API server can be taken from the responder alone
}

// newWorld starts it, healthy, and waits until Prometheus says so. Tests that
// use it run in parallel: most of their time is waiting.
func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	w := &world{cp: rig.Shared(t)}
	w.ns, w.nodes = w.cp.Own(t, 2, 8)
	w.cp.Deploy(t)
	w.cp.BindReading(t, w.ns)
	if !o.noLevers {
		w.cp.BindLevers(t, w.ns)
	}
	w.cp.Apply(t, w.ns, cmp.Or(o.chat, inference("chat", "vllm:v1", 2))+o.manifests)
	w.fleet = rig.StartFleet(t, w.cp, w.ns, "chat")

	addr := rig.FreeAddr(t)
	for range max(1, o.alertmanagers) {
		w.managers = append(w.managers, rig.StartAlertmanager(t, 1, rig.WebhookConfig(rig.WebhookURL(addr), rig.IntakeToken))...)
	}
	entry := service(w.ns, "chat", o.autonomy) + o.service
	inForce, alerting := playbook(t), rules(t, entry)
	if o.unscaled {
		inForce, alerting = "", unscaledRules(t, entry)
	}
	w.prometheus = rig.StartPrometheus(t, rig.PrometheusOptions{
		Rules:         alerting,
		Targets:       []string{w.fleet.Addr},
		Alertmanagers: rig.Addrs(w.managers),
	})
	kubeconfig := ""
	if o.proxied {
		w.apiServer = rig.StartProxy(t, strings.TrimPrefix(w.cp.URL, "https://"))
		kubeconfig = w.cp.KubeconfigThrough(t, rig.Responder, w.apiServer)
	} else {
		kubeconfig = w.cp.Kubeconfig(t, rig.Responder)
	}
	options := rig.ServiceOptions{
		Addr: addr, Prometheus: w.prometheus.URL, Playbook: inForce, Settings: "autonomy: auto\n" + o.settings,
		Kubeconfig: kubeconfig, Services: "services:" + entry, Files: o.files,
	}
	if o.discover {
		options.Services = "discovery: {enabled: true, interval: 1s}"
	}
	if o.noResponder {
		w.responder = rig.NewService(t, options)
	} else {
		w.responder = rig.StartService(t, options)
	}
	w.cp.AwaitRollout(t, w.ns, "chat", 30*time.Second)
	w.prometheus.AwaitQuery(t, 30*time.Second, requestRate(w.ns), func(v float64) bool { return v > 150 && v < 250 })
	w.prometheus.AwaitQuery(t, 20*time.Second, slowShare(w.ns), func(v float64) bool { return v < 0.01 })
	return w
}

// service is an entry of the catalog.
func service(ns, name, autonomy string) string {
	if autonomy == "" {
		autonomy = "auto"
	}
	return fmt.Sprintf(`
  - name: %[1]s/%[2]s
    namespace: %[1]s
    workload: {kind: Deployment, name: %[2]s}
    container: engine
    engine: vllm
    model: %[2]s
    selector: 'namespace="%[1]s",service="%[2]s"'
    match: ['{namespace="%[1]s", service="%[2]s"}']
    owners: ['group:oncall']
    autonomy: %[3]s
    min_ready: 1
    max_scale: 6
    slos:
      - {name: ttft, objective: 0.99, window: 28d, threshold: 0.5}
      - {name: tpot, objective: 0.99, window: 28d, threshold: 0.05}
`, ns, name, autonomy)
}

// inference is the Deployment of an engine: one GPU a pod, replaced one by one,
// and described for discovery.
func inference(name, image string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
  labels: {responder.dev/service: "true"}
  annotations: {responder.dev/owners: 'group:oncall', responder.dev/min-ready: "1", responder.dev/max-scale: "6"}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: engine
          image: %[2]s
          args: [--model=%[1]s, --gpu-memory-utilization=0.9]
          resources: {limits: {nvidia.com/gpu: 1}}
`, name, image, replicas)
}

// setImage rolls out another image and waits until it is everywhere.
func (w *world) setImage(t *testing.T, image string) {
	t.Helper()
	w.cp.Kubectl(t, "-n", w.ns, "set", "image", "deployment/chat", "engine="+image)
	w.cp.AwaitRollout(t, w.ns, "chat", 30*time.Second)
}

// image is what the Deployment asks for now.
func (w *world) image(t *testing.T) string {
	t.Helper()
	d, err := w.cp.Client.AppsV1().Deployments(w.ns).Get(t.Context(), "chat", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d.Spec.Template.Spec.Containers[0].Image
}

// replicas is what the Deployment asks for now.
func (w *world) replicas(t *testing.T) int {
	t.Helper()
	d, err := w.cp.Client.AppsV1().Deployments(w.ns).Get(t.Context(), "chat", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return int(*d.Spec.Replicas)
}

// spec is the Deployment's spec, as the API server would print it.
func (w *world) spec(t *testing.T) string {
	t.Helper()
	return w.cp.Kubectl(t, "-n", w.ns, "get", "deployment/chat", "-o", "jsonpath={.spec}")
}

// writes lists what the responder's account wrote in the world's namespace, the
// dry-runs apart.
func (w *world) writes(t *testing.T) (real, dry []string) {
	t.Helper()
	for _, e := range w.cp.AuditWrites(t, rig.Responder) {
		switch {
		case e.Namespace != w.ns:
		case strings.Contains(e.URI, "dryRun=All"):
			dry = append(dry, e.String())
		default:
			real = append(real, e.String())
		}
	}
	return real, dry
}

// wantWrites fails unless exactly these writes were made, and dry-runs before.
func (w *world) wantWrites(t *testing.T, want ...string) {
	t.Helper()
	real, dry := w.writes(t)
	if strings.Join(real, "\n") != strings.Join(want, "\n") {
		t.Errorf("the responder's account wrote:\n%s\nwant:\n%s", strings.Join(real, "\n"), strings.Join(want, "\n"))
	}
	if len(want) > 0 && len(dry) == 0 {
		t.Error("the responder wrote without a dry-run before")
	}
}

// patched is a write of the Deployment in the audit log.
func (w *world) patched(code int) string {
	return fmt.Sprintf("patch deployments %s/chat -> %d", w.ns, code)
}

// scaled is a write of the Deployment's replicas in the audit log.
func (w *world) scaled(code int) string {
	return fmt.Sprintf("patch deployments/scale %s/chat -> %d", w.ns, code)
}

// awaitHealthy waits until Prometheus neither sees slow requests nor an alert.
func (w *world) awaitHealthy(t *testing.T) {
	t.Helper()
	w.prometheus.AwaitQuery(t, 30*time.Second, slowShare(w.ns), func(v float64) bool { return v < 0.01 })
	rig.Await(t, 30*time.Second, "no alert in Prometheus", func(ctx context.Context) (bool, string) {
		state, err := w.prometheus.AlertState(ctx, "InferenceTTFTFastBurn")
		return err == nil && state == "inactive", fmt.Sprint(state, err)
	})
}

// wantIntact takes a copy of the journal of a running service and verifies it.
func wantIntact(t *testing.T, s *rig.Service) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "copy.db")
	s.Must(t, "audit", "export", "--to", file)
	verify(t, s, file)
}

// verify proves a journal's file offline, with the public key only.
func verify(t *testing.T, s *rig.Service, file string) {
	t.Helper()
	out := s.Must(t, "audit", "verify", file, "--key", filepath.Join(s.Journal(), "journal.pub"))
	if !strings.Contains(out, "intact: "+file) {
		t.Errorf("audit verify says:\n%s", out)
	}
}

// alertBody is the notification of one alert that has just begun to fire.
func alertBody(t *testing.T, ns, name string) []byte {
	t.Helper()
	labels := map[string]any{"alertname": "InferenceTTFTFastBurn", "namespace": ns, "service": name, "severity": "critical"}
	return notification(t, labels, `service="`+name+`"`, "0123456789abcdef")
}
