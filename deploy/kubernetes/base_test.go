package kubernetes

import (
	"maps"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
)

// built returns the objects that `kubectl apply -k` applies.
func built(t *testing.T, dir string) []runtime.Object {
	t.Helper()
	return build(t, filesys.MakeFsOnDisk(), dir)
}

// build builds a kustomization. Objects have to be of kinds that there are, with no field
// that there is not.
func build(t *testing.T, fs filesys.FileSystem, dir string) []runtime.Object {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(fs, dir)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	for _, r := range all.Resources() {
		data, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := decoder.Decode(data, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", r.CurId(), err)
		}
		out = append(out, o)
	}
	return out
}

// of returns the objects of one kind.
func of[T runtime.Object](all []runtime.Object) []T {
	var out []T
	for _, o := range all {
		if o, ok := o.(T); ok {
			out = append(out, o)
		}
	}
	return out
}

// configured returns the configuration of the base.
func configured(t *testing.T) config.Config {
	t.Helper()
	c, err := config.Parse("responder.yaml", []byte(of[*corev1.ConfigMap](built(t, "."))[0].Data["responder.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// howTo is the directory of the pages that tell how to install the bases.
const howTo = "../../docs/how-to/"

// created returns the keys of the Secrets that the how-to creates.
func created(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(howTo + "install.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, m := range regexp.MustCompile(`create secret (generic|tls) (\S+)((?:.*\\\n)*.*)`).FindAllStringSubmatch(string(page), -1) {
		out[m[2]] = []string{"tls.crt", "tls.key"}
		if m[1] == "generic" {
			out[m[2]] = nil
			for _, key := range regexp.MustCompile(`--from-literal=(\w+)="\$\(openssl rand -hex 32\)"`).FindAllStringSubmatch(m[3], -1) {
				out[m[2]] = append(out[m[2]], key[1])
			}
			slices.Sort(out[m[2]])
		}
	}
	return out
}

// What objects refer to is in the base. Only Secrets are not: the how-to creates those that
// the pod mounts, with the keys that the configuration names.
func TestReferences(t *testing.T) {
	all := built(t, ".")
	there := map[string]bool{}
	for _, o := range all {
		there[o.GetObjectKind().GroupVersionKind().Kind+" "+o.(metav1.Object).GetName()] = true
	}
	d := of[*appsv1.Deployment](all)[0]
	pod := d.Spec.Template.Spec
	need := []string{"ServiceAccount " + pod.ServiceAccountName}
	secrets := map[string][]string{} // the keys of each that are read
	files := regexp.MustCompile(`/etc/\S+`).FindAllString(of[*corev1.ConfigMap](all)[0].Data["responder.yaml"], -1)
	for _, v := range pod.Volumes {
		switch {
		case v.ConfigMap != nil:
			need = append(need, "ConfigMap "+v.ConfigMap.Name)
		case v.PersistentVolumeClaim != nil:
			need = append(need, "PersistentVolumeClaim "+v.PersistentVolumeClaim.ClaimName)
		case v.Secret != nil:
			i := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
			for _, file := range files {
				if dir, key := path.Split(file); dir == pod.Containers[0].VolumeMounts[i].MountPath+"/" {
					secrets[v.Secret.SecretName] = append(secrets[v.Secret.SecretName], key)
				}
			}
			slices.Sort(secrets[v.Secret.SecretName])
		case v.EmptyDir == nil:
			t.Errorf("volume %s is of a kind that this test does not know", v.Name)
		}
	}
	for _, b := range of[*rbacv1.RoleBinding](all) {
		need = append(need, b.RoleRef.Kind+" "+b.RoleRef.Name, b.Subjects[0].Kind+" "+b.Subjects[0].Name)
	}
	for _, b := range of[*rbacv1.ClusterRoleBinding](all) {
		need = append(need, b.RoleRef.Kind+" "+b.RoleRef.Name, b.Subjects[0].Kind+" "+b.Subjects[0].Name)
	}
	for _, o := range need {
		if !there[o] {
			t.Errorf("there is no %s", o)
		}
	}
	if diff := cmp.Diff(created(t), secrets); diff != "" {
		t.Errorf("Secrets of the how-to and of the pod (-how-to +pod):\n%s", diff)
	}
	for name, labels := range map[string]map[string]string{
		"Deployment": d.Spec.Selector.MatchLabels, "Service": of[*corev1.Service](all)[0].Spec.Selector, "NetworkPolicy": of[*networkingv1.NetworkPolicy](all)[0].Spec.PodSelector.MatchLabels,
	} {
		if diff := cmp.Diff(d.Spec.Template.Labels, labels); diff != "" {
			t.Errorf("the %s does not select the pod (-pod +selector):\n%s", name, diff)
		}
	}
}

// overlay builds the kustomization that a page shows, beside what is in deploy/. Files are
// its own others.
func overlay(t *testing.T, page, dir string, files map[string]string) []runtime.Object {
	t.Helper()
	fs := filesys.MakeFsInMemory()
	write := func(name string, data []byte) {
		if err := fs.WriteFile(name, data); err != nil {
			t.Fatal(err)
		}
	}
	read := func(file string) []byte {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	manifests, err := filepath.Glob("../*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range manifests {
		write(path.Join("/deploy/kubernetes", file), read(file))
	}
	text := regexp.MustCompile(`(?s)\n( *)# ` + dir + `/kustomization\.yaml.*?` + "```").FindStringSubmatch(string(read(howTo + page)))
	if text == nil {
		t.Fatalf("%s has no %s/kustomization.yaml", page, dir)
	}
	write("/"+dir+"/kustomization.yaml", []byte(strings.TrimSuffix(strings.ReplaceAll(text[0], "\n"+text[1], "\n"), "```")))
	for name, content := range files {
		write("/"+dir+"/"+name, []byte(content))
	}
	return build(t, fs, "/"+dir)
}

// The kustomizations of the pages change the images, the configuration and what is read.
func TestOverlays(t *testing.T) {
	reading, err := os.ReadFile("example-reading.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := overlay(t, "install.md", "my-responder", map[string]string{"reading.yaml": string(reading), "responder.yaml": "listen: mine\n"})
	if image := of[*appsv1.Deployment](all)[0].Spec.Template.Spec.Containers[0].Image; image != "registry.example/responder:v1" {
		t.Errorf("the image is %s", image)
	}
	configs := of[*corev1.ConfigMap](all)
	if len(configs) != 1 || configs[0].Name != "responder-config" || configs[0].Data["responder.yaml"] != "listen: mine\n" {
		t.Errorf("the configuration is %+v", configs)
	}
	if !slices.ContainsFunc(of[*rbacv1.RoleBinding](all), func(b *rbacv1.RoleBinding) bool {
		return b.Namespace == "serving" && b.RoleRef.Name == "responder-read"
	}) {
		t.Error("the namespace serving is not read")
	}
	agent := of[*appsv1.DaemonSet](overlay(t, "gpu-nodes.md", "my-agents", nil))[0].Spec.Template.Spec
	if agent.Containers[0].Image != "registry.example/responder-agent:v1" || agent.RuntimeClassName != nil {
		t.Errorf("the agent runs %s in %v", agent.Containers[0].Image, agent.RuntimeClassName)
	}
}

// The shipped configuration serves TLS, lets nobody decide, and gives each sender a credential that
// may do one thing and that the base does not hold.
func TestShippedConfiguration(t *testing.T) {
	c := configured(t)
	if e := c.Exposures(); len(e) > 0 || c.TLS.KeyFile == "" {
		t.Errorf("it is exposed: %q, with the key %q", e, c.TLS.KeyFile)
	}
	if c.Auth.Insecure || c.Autonomy != playbook.Observe {
		t.Errorf("insecure is %v, and autonomy %s", c.Auth.Insecure, c.Autonomy)
	}
	for _, credential := range c.Auth.Tokens {
		if len(credential.Scopes) != 1 || !slices.Contains([]string{"intake", "metrics", "read"}, credential.Scopes[0]) {
			t.Errorf("%s may %q: whoever has the Secret decides in nobody's name", credential.Name, credential.Scopes)
		}
	}
	for _, credential := range c.Auth.Basic {
		if !slices.Equal(credential.Scopes, []string{"read"}) {
			t.Errorf("%s may %q on the page", credential.Name, credential.Scopes)
		}
	}
	if s := of[*corev1.Secret](built(t, ".")); len(s) > 0 {
		t.Errorf("the base has credentials that everybody knows: %v", s)
	}
}

// Service and agents have a policy each, for both ways, and none lets cloud metadata be reached.
func TestNetworkPolicies(t *testing.T) {
	for dir, name := range map[string]string{".": "responder", "../agent": "responder-agent"} {
		policies := of[*networkingv1.NetworkPolicy](built(t, dir))
		if len(policies) != 1 {
			t.Fatalf("%s has %d policies", dir, len(policies))
		}
		p := policies[0]
		if p.Spec.PodSelector.MatchLabels["app.kubernetes.io/name"] != name || !slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{"Ingress", "Egress"}) {
			t.Errorf("%s is of %v, for %v", dir, p.Spec.PodSelector, p.Spec.PolicyTypes)
		}
		for _, rule := range p.Spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) == 0 {
				t.Errorf("%s lets everybody in: %+v", dir, rule)
			}
		}
		for _, rule := range p.Spec.Egress {
			if len(rule.To) == 0 {
				t.Errorf("%s lets everything out: %+v", dir, rule)
			}
			for _, to := range rule.To {
				if to.IPBlock == nil {
					continue
				}
				for _, metadata := range []string{"169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fe80::a9fe:a9fe"} {
					if reaches(t, to.IPBlock, netip.MustParseAddr(metadata)) {
						t.Errorf("%s: %s reaches %s", dir, to.IPBlock.CIDR, metadata)
					}
				}
			}
		}
	}
}

// What is shipped asks Prometheus over plain HTTP, and lets the service reach HTTPS, SSH and
// API servers of every public address: the documentation says so.
func TestWhatIsShippedLeavesOpen(t *testing.T) {
	if c := configured(t); !strings.HasPrefix(c.Prometheus.URL, "http://") {
		t.Errorf("Prometheus is at %s", c.Prometheus.URL)
	}
	p := of[*networkingv1.NetworkPolicy](built(t, "."))[0]
	open := map[int]bool{}
	for _, rule := range p.Spec.Egress {
		for _, to := range rule.To {
			if to.IPBlock == nil || !reaches(t, to.IPBlock, netip.MustParseAddr("93.184.215.14")) {
				continue
			}
			for _, port := range rule.Ports {
				open[port.Port.IntValue()] = true
			}
		}
	}
	if want := map[int]bool{22: true, 443: true, 6443: true}; !maps.Equal(open, want) {
		t.Errorf("ports of the internet: %v", open)
	}
}

func reaches(t *testing.T, b *networkingv1.IPBlock, ip netip.Addr) bool {
	t.Helper()
	in := func(cidr string) bool {
		p, err := netip.ParsePrefix(cidr)
		if err != nil {
			t.Fatal(err)
		}
		return p.Contains(ip)
	}
	return in(b.CIDR) && !slices.ContainsFunc(b.Except, in)
}
