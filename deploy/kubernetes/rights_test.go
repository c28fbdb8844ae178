package kubernetes

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

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
		"responder-lever-scale":        {"patch deployments/scale", "patch statefulsets/scale", "patch rollouts/scale"},
		"responder-lever-autoscaler":   {"patch horizontalpodautoscalers", "patch scaledobjects"},
		"responder-lever-serving":      {"patch inferenceservices", "patch leaderworkersets", "patch dynamographdeployments", "patch dynamographdeploymentscalingadapters"},
		"responder-lever-rollout-undo": {"patch deployments", "patch statefulsets"},
		"responder-lever-hold":         {"patch deployments", "patch rollouts/status"},
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

// What the base binds for the whole cluster shows no pod, no event and no log: those are
// read where somebody opened a namespace. No role of a lever is bound.
func TestReadingIsPerNamespace(t *testing.T) {
	roles, err := Roles()
	if err != nil {
		t.Fatal(err)
	}
	var bound []string
	for _, o := range of[*rbacv1.ClusterRoleBinding](built(t, ".")) {
		bound = append(bound, o.RoleRef.Name)
		i := slices.IndexFunc(roles, func(r Role) bool { return r.Name == o.RoleRef.Name })
		if i < 0 || !roles[i].Cluster {
			t.Fatalf("%s binds %s, which is no role for the whole cluster", o.Name, o.RoleRef.Name)
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
	for _, o := range of[*rbacv1.RoleBinding](built(t, ".")) {
		if o.Namespace != "responder" || o.RoleRef.Name != "responder-read" {
			t.Errorf("%s is bound in %s", o.RoleRef.Name, o.Namespace)
		}
	}
}

// The account of the node agents may ask whose a token is, and nothing else.
func TestAgentMayOnlyReviewTokens(t *testing.T) {
	agents := built(t, "../agent")
	var bound []string
	for _, o := range of[*rbacv1.ClusterRoleBinding](agents) {
		if slices.ContainsFunc(o.Subjects, func(s rbacv1.Subject) bool { return s.Name == "responder-agent" }) {
			bound = append(bound, o.RoleRef.Name)
		}
	}
	roles := of[*rbacv1.ClusterRole](agents)
	if len(roles) != 1 || !slices.Equal(bound, []string{roles[0].Name}) || len(of[*rbacv1.RoleBinding](agents)) > 0 || len(roles[0].Rules) != 1 {
		t.Fatalf("it is bound to %q, of %v", bound, roles)
	}
	if r := roles[0].Rules[0]; !slices.Equal(r.Resources, []string{"tokenreviews"}) || !slices.Equal(r.Verbs, []string{"create"}) {
		t.Errorf("it may %+v", r)
	}
}
