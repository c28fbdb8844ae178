//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// release is a chart, installed by Helm under a name of its own.
type release struct {
	cp    *rig.ControlPlane
	name  string // of its namespace and of its objects
	helm  string
	chart string // path; empty: deploy/chart
}

// run runs Helm and returns what it printed.
func (r release) run(t *testing.T, values string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	if slices.Contains([]string{"install", "upgrade", "template"}, args[0]) {
		args = append(args, "chart", cmp.Or(r.chart, filepath.Join(rig.Repository(), "deploy", "chart")), "--values", file, "--set", "fullnameOverride="+r.name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.helm, append(args, "--namespace", r.name)...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.cp.Kubeconfig(t, rig.Admin), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// secret returns a Secret of the release.
func (r release) secret(t *testing.T, suffix string) map[string][]byte {
	t.Helper()
	s, err := r.cp.Client.CoreV1().Secrets(r.name).Get(t.Context(), r.name+suffix, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Data
}

// serve starts the service as its pod does, as its service account and with the
// configuration, the playbooks and the Secrets of the release, on a journal in a
// directory. It returns its address.
func (r release) serve(t *testing.T, journal string) (address string, process *rig.Process) {
	t.Helper()
	dir := t.TempDir()
	config, err := r.cp.Client.CoreV1().ConfigMaps(r.name).Get(t.Context(), r.name+"-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text := config.Data["responder.yaml"]
	for place, suffix := range map[string]string{"/etc/responder-tokens": "-tokens", "/etc/responder-tls": "-tls"} {
		text = strings.ReplaceAll(text, place, dir)
		for name, data := range r.secret(t, suffix) {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if strings.Contains(text, "/etc/responder-playbooks") {
		own := t.TempDir()
		text = strings.ReplaceAll(text, "/etc/responder-playbooks", own)
		playbooks, err := r.cp.Client.CoreV1().ConfigMaps(r.name).Get(t.Context(), r.name+"-playbooks", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range playbooks.Data {
			if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	addr, probes := rig.FreeAddr(t), rig.FreeAddr(t)
	all["listen"], all["listen_probes"] = addr, probes
	all["journal"] = map[string]any{"dir": journal}
	all["kubernetes"] = map[string]any{"kubeconfig": r.cp.Kubeconfig(t, rig.ServiceAccount(r.name, r.name))}
	data, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "responder.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	process = rig.Start(t, rig.Spec{Name: "responder", Path: rig.BuildResponder(t, false), Args: []string{"serve", "--config", file}, Dir: dir, Ready: "http://" + probes + "/readyz"})
	_, port, _ := strings.Cut(addr, ":")
	return "https://localhost:" + port, process
}

// ask asks the service over TLS, which the CA of the release vouches for.
func (r release) ask(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	client := r.client(t)
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+string(r.secret(t, "-tokens")[token]))
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// client trusts the CA of the release, and keeps cookies.
func (r release) client(t *testing.T) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.secret(t, "-tls")["ca.crt"])
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: 10 * time.Second}
}

// wantSignIn signs in on the page as the user page with the password of the release's
// Secret, as a browser does, and looks at the page. A wrong password lets nobody in.
func (r release) wantSignIn(t *testing.T, address string) {
	t.Helper()
	for password, status := range map[string]int{"wrong": http.StatusUnauthorized, string(r.secret(t, "-tokens")["page"]): http.StatusOK} {
		client := r.client(t)
		form := url.Values{"name": {"page"}, "password": {password}, "next": {"/"}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/signin", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", address)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		in, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = in.Body.Close()
		again, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		page, err := client.Do(again)
		if err != nil {
			t.Fatal(err)
		}
		_ = page.Body.Close()
		if in.StatusCode != status || page.StatusCode != status {
			t.Errorf("a sign-in is answered %d, and the page after it %d; want %d", in.StatusCode, page.StatusCode, status)
		}
	}
}

// TestChart installs the chart with Helm as a newcomer does, sees the first alert
// observed under exactly the rights that it renders, raises them for one lever, and
// uninstalls it without leftovers but the journal's volume, which a second install adopts.
func TestChart(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	ns, _ := cp.Own(t, 1, 8)
	r := release{cp: cp, name: cp.Namespace(t), helm: rig.Helm(t)}
	cp.Kubectl(t, "label", "namespace", r.name, "pod-security.kubernetes.io/enforce=restricted")
	cp.Apply(t, ns, inference("chat", "vllm:v1", 1))
	cp.AwaitRollout(t, ns, "chat", time.Minute)
	cp.Kubectl(t, "-n", ns, "label", "deployment/chat", "responder.dev/service=true")
	cp.Kubectl(t, "-n", ns, "annotate", "deployment/chat", "responder.dev/engine=vllm", "responder.dev/model=llama-70b")

	if out, err := exec.CommandContext(t.Context(), r.helm, "lint", "--strict", filepath.Join(rig.Repository(), "deploy", "chart")).CombinedOutput(); err != nil {
		t.Errorf("helm lint: %v\n%s", err, out)
	}
	values := "rbac: {read: [" + ns + "]}\n"
	began := time.Now()
	out := r.run(t, values, "install")
	if !strings.Contains(out, "with autonomy observe") || !strings.Contains(out, "It may change nothing") {
		t.Errorf("helm install says\n%s", out)
	}
	rig.Await(t, 30*time.Second, "the pod under restricted pod security", func(ctx context.Context) (bool, string) {
		pods, err := cp.Client.CoreV1().Pods(r.name).List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 1, fmt.Sprint(err)
	})
	address, _ := r.serve(t, filepath.Join(t.TempDir(), "data"))
	if code, body := r.ask(t, http.MethodPost, address+"/api/v1/alertmanager", "alertmanager", string(alertBody(t, ns, "chat"))); code != http.StatusOK {
		t.Fatalf("the alert is answered %d: %s", code, body)
	}
	rig.Await(t, time.Minute, "the first observed alert", func(context.Context) (bool, string) {
		code, body := r.ask(t, http.MethodGet, address+"/api/v1/runs", "reader", "")
		var list struct {
			Runs []struct{ Playbook, Service string }
		}
		_ = json.Unmarshal([]byte(body), &list)
		return code == http.StatusOK && len(list.Runs) == 1 && list.Runs[0].Service == ns+"/chat", body
	})
	r.wantSignIn(t, address)
	t.Logf("from helm install to the first observed alert: %s", time.Since(began).Round(time.Second))

	// The commands of docs/how-to/install.md that check a configuration before an upgrade.
	rendered := filepath.Join(t.TempDir(), "config.yaml")
	text := r.run(t, values+"playbooks: {hello.yaml: 'x'}\n", "template", "--kube-version", "1.31.0", "--show-only", "templates/config.yaml")
	if err := os.WriteFile(rendered, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	text = cp.Kubectl(t, "create", "--dry-run=client", "--output", `jsonpath={.data.responder\.yaml}`, "--filename", rendered)
	if err := yaml.Unmarshal([]byte(text), new(map[string]any)); err != nil || !strings.Contains(text, "autonomy: observe\n") {
		t.Errorf("responder.yaml as rendered: %v\n%s", err, text)
	}

	r.mayScale(t, ns, false)
	before, pod := r.secret(t, "-tokens"), r.template(t)
	r.run(t, values+"config: {autonomy: suggest}\n", "upgrade")
	if now := r.secret(t, "-tokens"); string(now["alertmanager"]) != string(before["alertmanager"]) {
		t.Error("an upgrade makes a new token: Alertmanager is locked out")
	}
	if r.template(t) == pod {
		t.Error("a changed configuration starts no new pod")
	}
	r.run(t, "rbac: {read: ["+ns+"], levers: {kube.scale: ["+ns+"]}}\n", "upgrade")
	r.mayScale(t, ns, true)

	r.run(t, "", "uninstall", "chart")
	if left := r.objects(t, ns); !slices.Equal(left, []string{"persistentvolumeclaim/" + r.name}) {
		t.Errorf("after uninstall there are still %q", left)
	}

	claim := r.claim(t)
	r.run(t, values, "install")
	if now := r.claim(t); now != claim {
		t.Errorf("a reinstall has the claim %s, not the one that was kept, %s", now, claim)
	}
	if now := r.secret(t, "-tokens"); string(now["alertmanager"]) == string(before["alertmanager"]) {
		t.Error("a token outlives the release")
	}
	r.run(t, "", "uninstall", "chart")
}

// objects returns the objects of the release, and of no other one, in the whole cluster,
// in its own namespace and in that of the services.
func (r release) objects(t *testing.T, ns string) []string {
	t.Helper()
	const label = "app.kubernetes.io/instance=chart"
	all := r.cp.Kubectl(t, "-n", ns, "get", "rolebindings", "-l", label, "-o", "name")
	all += r.cp.Kubectl(t, "-n", r.name, "get", "deployments,services,secrets,configmaps,networkpolicies,serviceaccounts,persistentvolumeclaims,rolebindings", "-l", label, "-o", "name")
	for _, name := range strings.Fields(r.cp.Kubectl(t, "get", "clusterroles,clusterrolebindings", "-l", label, "-o", "name")) {
		if strings.Contains(name, "/"+r.name+"-") { // a test beside has a release, too
			all += name + "\n"
		}
	}
	out := strings.Fields(all)
	slices.Sort(out)
	return out
}

// claim returns the UID of the journal's claim.
func (r release) claim(t *testing.T) string {
	t.Helper()
	c, err := r.cp.Client.CoreV1().PersistentVolumeClaims(r.name).Get(t.Context(), r.name, metav1.GetOptions{})
	if err != nil || c.DeletionTimestamp != nil {
		t.Fatalf("the claim is %v, %v", c, err)
	}
	return string(c.UID)
}

// template returns the pod template of the release, as text.
func (r release) template(t *testing.T) string {
	t.Helper()
	d, err := r.cp.Client.AppsV1().Deployments(r.name).Get(t.Context(), r.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(d.Spec.Template.Annotations, d.Spec.Template.Spec)
}

// mayScale holds that the service account may, or may not, scale in a namespace, and may
// not roll back there.
func (r release) mayScale(t *testing.T, ns string, may bool) {
	t.Helper()
	client, err := kube.New(kube.Options{Kubeconfig: r.cp.Kubeconfig(t, rig.ServiceAccount(r.name, r.name))})
	if err != nil {
		t.Fatal(err)
	}
	rig.Await(t, 30*time.Second, "the rights", func(ctx context.Context) (bool, string) {
		scale, err := client.May(ctx, kube.Right{Verb: "patch", Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: ns})
		undo, err2 := client.May(ctx, kube.Right{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: ns})
		return err == nil && err2 == nil && scale == may && !undo, fmt.Sprint("scale ", scale, " undo ", undo, err, err2)
	})
}
