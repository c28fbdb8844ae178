package kubernetes

import (
	"errors"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	networkingv1 "k8s.io/api/networking/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// Every lever that writes to the cluster has a role, and every role is of levers that
// there are: an installation is checked and bound by these names.
func TestEveryLeverHasItsRole(t *testing.T) {
	roles, err := Roles()
	if err != nil {
		t.Fatal(err)
	}
	if len(roles) < 5 || roles[0].Name != "responder-read" || len(roles[0].Levers) > 0 {
		t.Fatalf("roles are %+v", roles)
	}
	var levers []string
	for _, k := range kinds.Declarations() {
		if k.Role != playbook.RoleLever {
			continue
		}
		levers = append(levers, k.Name)
		writesGit := strings.HasPrefix(k.Name, "gitops.") || strings.HasPrefix(k.Name, "argocd.")
		if n := len(Needed(roles, k.Name)); (n == 0) != writesGit {
			t.Errorf("%s is named by %d roles of levers.yaml", k.Name, n)
		}
	}
	for _, r := range roles {
		if len(r.Rules) == 0 {
			t.Errorf("role %s has no rules", r.Name)
		}
		for _, lever := range r.Levers {
			if !slices.Contains(levers, lever) {
				t.Errorf("role %s names %q, which is no lever", r.Name, lever)
			}
		}
	}
}

// The role of scaling is a right to a number of replicas and to nothing else: only a
// rollback may replace what a workload runs.
func TestScalingIsNoRightToTheWorkload(t *testing.T) {
	roles, err := Roles()
	if err != nil {
		t.Fatal(err)
	}
	may := map[string][]string{}
	for _, r := range roles {
		for _, rule := range r.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					if !slices.Contains([]string{"get", "list", "watch"}, verb) {
						may[r.Name] = append(may[r.Name], verb+" "+resource)
					}
				}
			}
		}
	}
	want := map[string][]string{
		"responder-lever-scale":        {"patch deployments/scale", "patch statefulsets/scale"},
		"responder-lever-autoscaler":   {"patch horizontalpodautoscalers", "patch scaledobjects"},
		"responder-lever-rollout-undo": {"patch deployments", "patch statefulsets"},
		"responder-lever-hold":         {"patch deployments"},
		"responder-lever-job":          {"create jobs", "delete jobs"},
		"responder-lever-node":         {"patch nodes"},
		"responder-lever-evict":        {"create pods/eviction"},
		"responder-flux-reconcile":     {"patch kustomizations", "patch gitrepositories"},
	}
	for role, rights := range want {
		if !slices.Equal(may[role], rights) {
			t.Errorf("%s may %q, want %q", role, may[role], rights)
		}
	}
	for role, rights := range may {
		if want[role] == nil && !slices.ContainsFunc(roles, func(r Role) bool { return r.Name == role && len(r.Levers) > 0 }) {
			t.Errorf("%s, which is no role of a lever, may %q", role, rights)
		}
	}
}

// What the kustomization binds for the whole cluster shows no pod, no event and no log:
// those are read where somebody opened a namespace.
func TestReadingIsPerNamespace(t *testing.T) {
	roles, err := Roles()
	if err != nil {
		t.Fatal(err)
	}
	var bound []string
	for _, o := range manifests(t) {
		if o.Kind != "ClusterRoleBinding" {
			continue
		}
		bound = append(bound, o.RoleRef.Name)
		i := slices.IndexFunc(roles, func(r Role) bool { return r.Name == o.RoleRef.Name })
		if i < 0 || !roles[i].Cluster {
			t.Fatalf("%s binds %s, which is no role for the whole cluster", o.Metadata.Name, o.RoleRef.Name)
		}
		for _, rule := range roles[i].Rules {
			for _, resource := range rule.Resources {
				want := []string{"nodes"}
				if o.RoleRef.Name == "responder-discovery" {
					want = []string{"deployments", "statefulsets"}
				}
				if !slices.Contains(want, resource) {
					t.Errorf("%s may %v %s of all namespaces", roles[i].Name, rule.Verbs, resource)
				}
			}
		}
	}
	if want := []string{"responder-read-cluster", "responder-discovery"}; !slices.Equal(bound, want) {
		t.Errorf("bound for the whole cluster: %q, want %q", bound, want)
	}
}

// manifest is what the tests look at of an object that the kustomization applies.
type manifest struct {
	Kind     string
	Metadata struct {
		Name        string
		Annotations map[string]string
	}
	RoleRef struct{ Name string } `yaml:"roleRef"`
	Data    map[string]string     // of a ConfigMap
	Spec    map[string]any
}

// manifests returns every object of the kustomization.
func manifests(t *testing.T) []manifest {
	t.Helper()
	var list struct{ Resources []string }
	read(t, "kustomization.yaml", func(d *yaml.Decoder) error { return d.Decode(&list) })
	var out []manifest
	for _, file := range list.Resources {
		read(t, file, func(d *yaml.Decoder) error {
			var m manifest
			err := d.Decode(&m)
			if err == nil {
				out = append(out, m)
			}
			return err
		})
	}
	if len(out) < 10 {
		t.Fatalf("only %d objects in %v", len(out), list.Resources)
	}
	return out
}

// read decodes all documents of a file.
func read(t *testing.T, file string, decode func(*yaml.Decoder) error) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := yaml.NewDecoder(f); ; {
		err := decode(d)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// The shipped configuration serves TLS, lets nobody decide, and gives each sender a credential that
// may do one thing.
func TestShippedConfiguration(t *testing.T) {
	i := slices.IndexFunc(manifests(t), func(m manifest) bool { return m.Kind == "ConfigMap" })
	c, err := config.Parse("responder.yaml", []byte(manifests(t)[i].Data["responder.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
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
}

// Service and agents have a policy each, for both ways, and none lets cloud metadata be reached.
func TestNetworkPolicies(t *testing.T) {
	for file, name := range map[string]string{"networkpolicy.yaml": "responder", "../agent/networkpolicy.yaml": "responder-agent"} {
		var p networkingv1.NetworkPolicy
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := sigsyaml.UnmarshalStrict(data, &p); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if p.Spec.PodSelector.MatchLabels["app.kubernetes.io/name"] != name || !slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{"Ingress", "Egress"}) {
			t.Errorf("%s is of %v, for %v", file, p.Spec.PodSelector, p.Spec.PolicyTypes)
		}
		for _, rule := range p.Spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) == 0 {
				t.Errorf("%s lets everybody in: %+v", file, rule)
			}
		}
		for _, rule := range p.Spec.Egress {
			if len(rule.To) == 0 {
				t.Errorf("%s lets everything out: %+v", file, rule)
			}
			for _, to := range rule.To {
				if to.IPBlock == nil {
					continue
				}
				for _, metadata := range []string{"169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fe80::a9fe:a9fe"} {
					if reaches(t, to.IPBlock, netip.MustParseAddr(metadata)) {
						t.Errorf("%s: %s reaches %s", file, to.IPBlock.CIDR, metadata)
					}
				}
			}
		}
	}
}

// What is shipped asks Prometheus over plain HTTP, and lets the service reach HTTPS, SSH and
// API servers of every public address: the documentation says so.
func TestWhatIsShippedLeavesOpen(t *testing.T) {
	i := slices.IndexFunc(manifests(t), func(m manifest) bool { return m.Kind == "ConfigMap" })
	c, err := config.Parse("responder.yaml", []byte(manifests(t)[i].Data["responder.yaml"]))
	if err != nil || !strings.HasPrefix(c.Prometheus.URL, "http://") {
		t.Errorf("Prometheus is at %s, %v", c.Prometheus.URL, err)
	}
	var p networkingv1.NetworkPolicy
	data, err := os.ReadFile("networkpolicy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := sigsyaml.UnmarshalStrict(data, &p); err != nil {
		t.Fatal(err)
	}
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

// The account of the node agents may ask whose a token is, and nothing else.
func TestAgentMayOnlyReviewTokens(t *testing.T) {
	var bound []string
	roles := map[string][]Rule{}
	read(t, "../agent/rbac.yaml", func(d *yaml.Decoder) error {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
			RoleRef  struct{ Name string } `yaml:"roleRef"`
			Rules    []Rule
			Subjects []struct{ Name string }
		}
		err := d.Decode(&o)
		roles[o.Metadata.Name] = append(roles[o.Metadata.Name], o.Rules...)
		if slices.ContainsFunc(o.Subjects, func(s struct{ Name string }) bool { return s.Name == "responder-agent" }) {
			bound = append(bound, o.RoleRef.Name)
		}
		return err
	})
	if len(bound) != 1 || len(roles[bound[0]]) != 1 {
		t.Fatalf("it is bound to %q, of %v", bound, roles)
	}
	if r := roles[bound[0]][0]; !slices.Equal(r.Resources, []string{"tokenreviews"}) || !slices.Equal(r.Verbs, []string{"create"}) {
		t.Errorf("it may %+v", r)
	}
}
