//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// readerWorld is what readers of all pages have: a cluster, and helm, kubectl and
// responder on their PATH.
type readerWorld struct {
	cp  *rig.ControlPlane
	bin string
}

func newReaderWorld(t *testing.T) *readerWorld {
	t.Helper()
	w := &readerWorld{cp: rig.StartControlPlane(t), bin: t.TempDir()}
	w.cp.AddNodes(t, "any", 1, 8)
	for name, path := range map[string]string{"helm": rig.Helm(t), "responder": rig.BuildResponder(t, false)} {
		if err := os.Symlink(path, filepath.Join(w.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.bin, "kubectl"), []byte(kubectlOfReaders), 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// kubectlOfReaders is kubectl, but for what it runs in Responder's pod: KWOK's pods run no
// program, so that it runs here, with the pod's files below $POD and a kubeconfig in place of the pod's account.
const kubectlOfReaders = `#!/usr/bin/env bash
set -euo pipefail
case " $* " in
*" exec --stdin deploy/responder -- "*)
	while [ "$1" != -- ]; do shift; done
	shift
	sed "s#/etc/responder#$POD/etc/responder#g; s#in_cluster: true#kubeconfig: $KUBECONFIG#" | "$@"
	;;
*) exec "$KUBECTL" "$@" ;;
esac
`

// reader follows one page: a person with a clone, in which the commands are run.
type reader struct {
	*readerWorld
	dir     string
	pod     string // the files of Responder's pod, see kubectlOfReaders
	env     []string
	replace *strings.Replacer // what a command names that is elsewhere here
}

// reader returns a reader with an empty cluster and a clone of their own. The cluster is
// emptied when the page has been read.
func (w *readerWorld) reader(t *testing.T) *reader {
	t.Helper()
	home := t.TempDir()
	r := &reader{readerWorld: w, dir: t.TempDir(), pod: filepath.Join(home, "pod"), replace: strings.NewReplacer()}
	r.env = append(os.Environ(), "PATH="+w.bin+":"+os.Getenv("PATH"), "HOME="+home, "SESSION="+filepath.Join(home, "session"),
		"KUBECTL="+w.cp.KubectlPath(), "POD="+r.pod, "KUBECONFIG="+w.cp.Kubeconfig(t, rig.Admin))
	if err := os.CopyFS(filepath.Join(r.dir, "deploy"), os.DirFS(filepath.Join(rig.Repository(), "deploy"))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.remove(t, "serving") })
	return r
}

// run runs a command in bash and returns what it printed on the standard output. What it exports is
// there for the commands after it.
func (r *reader) run(t *testing.T, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	script := "[ ! -f \"$SESSION\" ] || . \"$SESSION\"\n" + r.replace.Replace(command) + "\ncode=$?\nexport -p >\"$SESSION\"\nexit $code\n"
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = r.dir, r.env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s\n%v\n%s%s", command, err, out, stderr.String())
	}
	return string(out)
}

// write writes a file of the clone.
func (r *reader) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *reader) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// page runs the commands of another page that begin so, one for each beginning.
func (r *reader) page(t *testing.T, page string, beginnings ...string) {
	t.Helper()
	commands := documentedCommands(t)[page]
	for _, b := range beginnings {
		found := false
		for _, c := range commands {
			if !found && strings.HasPrefix(c.key(), b) {
				found = true
				r.run(t, c.text)
			}
		}
		if !found {
			t.Fatalf("%s has no command %q", page, b)
		}
	}
}

// serve makes the service that most pages take for granted.
func (r *reader) serve(t *testing.T, workloads ...string) {
	t.Helper()
	r.cp.Kubectl(t, "create", "namespace", "serving")
	for _, name := range workloads {
		r.cp.Apply(t, "serving", inference(name, "vllm:v1", 1))
	}
}

// withChart installs the chart as docs/how-to/install.md does.
func (r *reader) withChart(t *testing.T) {
	t.Helper()
	r.write(t, "my-values.yaml", pageBlock(t, install, "my-values.yaml"))
	r.page(t, install, "kubectl create namespace responder", "kubectl label namespace responder", "helm install responder")
}

// withManifests installs the manifests as docs/how-to/install.md does.
func (r *reader) withManifests(t *testing.T) {
	t.Helper()
	r.page(t, install, "mkdir my-responder", "sed ", "cp deploy/kubernetes/example-reading.yaml")
	r.write(t, "my-responder/kustomization.yaml", pageBlock(t, install, "my-responder/kustomization.yaml"))
	r.page(t, install, "kubectl create namespace responder", "kubectl -n responder create secret generic", "openssl req", "kubectl -n responder create secret tls", "kubectl apply -k my-responder")
}

const install = "docs/how-to/install.md"

// remove removes Responder, and the namespaces that are named.
func (r *reader) remove(t *testing.T, namespaces ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	kubectl := func(args ...string) string {
		out, err := r.cp.TryKubectl(ctx, args...)
		if err != nil {
			t.Error(err)
		}
		return out
	}
	kubectl("delete", "rolebindings", "-A", "-l", "app.kubernetes.io/name=responder")
	kubectl(append([]string{"delete", "namespace", "--ignore-not-found", "responder"}, namespaces...)...)
	var rest []string
	for _, name := range strings.Fields(kubectl("get", "clusterroles,clusterrolebindings", "-o", "name")) {
		if _, bare, _ := strings.Cut(name, "/"); strings.HasPrefix(bare, "responder") {
			rest = append(rest, name)
		}
	}
	if len(rest) > 0 {
		kubectl(append([]string{"delete"}, rest...)...)
	}
}

// volume makes the volume that the journal's claim waits for, so that the pod can run.
func (r *reader) volume(t *testing.T) {
	t.Helper()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "journal"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/journal"}},
	}}
	if _, err := r.cp.Client.CoreV1().PersistentVolumes().Create(t.Context(), v, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// secret returns a Secret of Responder.
func (r *reader) secret(t *testing.T, name string) map[string]string {
	t.Helper()
	s, err := r.cp.Client.CoreV1().Secrets("responder").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for k, v := range s.Data {
		out[k] = string(v)
	}
	return out
}

// mount writes the Secrets that Responder's pod mounts into its files.
func (r *reader) mount(t *testing.T) {
	t.Helper()
	for _, name := range []string{"responder-tokens", "responder-tls"} {
		dir := filepath.Join(r.pod, "etc", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for key, value := range r.secret(t, name) {
			if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// deployment returns a Deployment.
func (r *reader) deployment(t *testing.T, namespace, name string) *appsv1.Deployment {
	t.Helper()
	d, err := r.cp.Client.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// config returns the configuration that the pod of Responder mounts.
func (r *reader) config(t *testing.T) map[string]any {
	t.Helper()
	for _, v := range r.deployment(t, "responder", "responder").Spec.Template.Spec.Volumes {
		if v.ConfigMap == nil || !strings.HasPrefix(v.ConfigMap.Name, "responder-config") {
			continue
		}
		m, err := r.cp.Client.CoreV1().ConfigMaps("responder").Get(t.Context(), v.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var out map[string]any
		if err := yaml.Unmarshal([]byte(m.Data["responder.yaml"]), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	t.Fatal("the pod mounts no configuration")
	return nil
}

// bindings returns the bindings of Responder's service account, in all namespaces and of
// the cluster.
func (r *reader) bindings(t *testing.T) []string {
	t.Helper()
	var out []string
	take := func(namespace, name string, subjects []rbacv1.Subject) {
		if slices.Contains(subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "responder", Name: "responder"}) {
			out = append(out, namespace+"/"+name)
		}
	}
	spaced, err := r.cp.Client.RbacV1().RoleBindings("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range spaced.Items {
		take(b.Namespace, b.Name, b.Subjects)
	}
	whole, err := r.cp.Client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range whole.Items {
		take("", b.Name, b.Subjects)
	}
	slices.Sort(out)
	return out
}

// awaitPod waits until Responder's pod is there: the pod security of the namespace and the
// service account admit it.
func (r *reader) awaitPod(t *testing.T) {
	t.Helper()
	rig.Await(t, time.Minute, "the pod of Responder", func(ctx context.Context) (bool, string) {
		pods, err := r.cp.Client.CoreV1().Pods("responder").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=responder"})
		return err == nil && len(pods.Items) == 1, fmt.Sprint(err)
	})
}
