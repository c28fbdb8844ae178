//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// A dry-run against the real cluster, by an account that could act: it shows
// the change and makes none, as the API server's own log proves.
func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{noResponder: true})
	w.setImage(t, "vllm:v2-bad")
	w.awaitAlert(t)
	before := w.spec(t)

	said := w.dryRun(t, 2)
	for _, want := range []string{"inference-slo-breach", "service.rollback", "vllm:v2-bad", "vllm:v1"} {
		if !strings.Contains(said, want) {
			t.Errorf("the dry-run does not say %q:\n%s", want, said)
		}
	}
	if doc := w.dryRun(t, 2, "-o", "json"); !json.Valid([]byte(doc)) {
		t.Errorf("-o json is not JSON:\n%s", doc)
	}
	real, dry := w.writes(t)
	if len(real) != 0 {
		t.Errorf("the dry-run wrote:\n%s", strings.Join(real, "\n"))
	}
	if len(dry) == 0 || slices.ContainsFunc(dry, func(s string) bool { return s != w.patched(200) }) {
		t.Errorf("server-side dry-runs: %v; want only %s", dry, w.patched(200))
	}
	if after := w.spec(t); after != before {
		t.Errorf("the Deployment's spec is\n%s\nwant it untouched\n%s", after, before)
	}
	if _, err := os.Stat(w.responder.Journal()); !os.IsNotExist(err) {
		t.Errorf("the dry-run left a journal in %s (%v)", w.responder.Journal(), err)
	}
}

// What is not bound cannot happen: without the lever's role the plan is
// refused, with the right that is missing.
func TestLeverWithoutItsRoleIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOptions{noResponder: true, noLevers: true})
	w.setImage(t, "vllm:v2-bad")
	w.awaitAlert(t)
	said := w.dryRun(t, 3)
	for _, want := range []string{"forbidden", "patch", "deployments", w.ns} {
		if !strings.Contains(said, want) {
			t.Errorf("the refusal does not say %q:\n%s", want, said)
		}
	}
	if real, _ := w.writes(t); len(real) != 0 {
		t.Errorf("wrote without the right to:\n%s", strings.Join(real, "\n"))
	}
}

// awaitAlert waits until Alertmanager has the burn-rate alert.
func (w *world) awaitAlert(t *testing.T) {
	t.Helper()
	rig.Await(t, time.Minute, "the alert in Alertmanager", func(ctx context.Context) (bool, string) {
		alerts, err := w.managers[0].Alerts(ctx)
		return err == nil && slices.Contains(alerts, "InferenceTTFTFastBurn"), fmt.Sprint(alerts, err)
	})
}

// dryRun asks what the responder would do about Alertmanager's alerts.
func (w *world) dryRun(t *testing.T, code int, args ...string) string {
	t.Helper()
	all := append([]string{"dry-run", "--config", w.responder.Config, "--from-alertmanager", w.managers[0].URL}, args...)
	r, err := w.responder.CLI(t.Context(), all...)
	if err != nil || r.Code != code {
		t.Fatalf("%v: exit %d, %v; want %d\n%s%s", all, r.Code, err, code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// The deployed account, with every lever bound, can read nothing secret, run
// nothing in a pod and give itself no more rights.
func TestDeployedRoleIsLeast(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	ns := cp.Namespace(t)
	cp.Deploy(t)
	cp.BindLevers(t, ns)
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig(t, rig.Responder))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{ns, rig.ResponderNamespace, "kube-system"} {
		review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Incomplete {
			t.Fatalf("incomplete review of %s: %s", namespace, review.Status.EvaluationError)
		}
		for _, rule := range review.Status.ResourceRules {
			wantHarmless(t, namespace, namespace == ns, rule)
		}
	}
}

// wantHarmless fails when a rule allows more than reading, reviewing oneself,
// cordoning nodes (which belong to no namespace) and, where levers are bound,
// patching workloads, autoscalers and routes, and asking for evictions.
func wantHarmless(t *testing.T, namespace string, levers bool, rule authorizationv1.ResourceRule) {
	t.Helper()
	for _, resource := range rule.Resources {
		if slices.Contains([]string{"*", "secrets", "pods/exec", "pods/attach", "pods/portforward", "serviceaccounts/token", "pods/ephemeralcontainers"}, resource) {
			t.Errorf("in %s the account may %v %s", namespace, rule.Verbs, resource)
		}
	}
	if slices.Contains(rule.APIGroups, "authorization.k8s.io") || slices.Contains(rule.APIGroups, "authentication.k8s.io") {
		return // every account may ask what it may
	}
	allowed := []string{"get", "list", "watch"}
	switch {
	case levers && slices.Equal(rule.APIGroups, []string{"apps"}), slices.Equal(rule.Resources, []string{"nodes"}):
		allowed = append(allowed, "patch")
	case levers && slices.Equal(rule.Resources, []string{"pods"}): // kube.replace_pod takes a pod out of rotation
		allowed = append(allowed, "patch")
	case levers && !slices.ContainsFunc(rule.Resources, func(r string) bool {
		return !slices.Contains([]string{
			"horizontalpodautoscalers", "scaledobjects", "httproutes", "inferenceservices", "leaderworkersets",
			"dynamographdeployments", "dynamographdeploymentscalingadapters", "rollouts/scale", "rollouts/status",
		}, r)
	}):
		allowed = append(allowed, "patch")
	case levers && slices.Equal(rule.Resources, []string{"pods/eviction"}):
		allowed = append(allowed, "create")
	}
	for _, verb := range rule.Verbs {
		if !slices.Contains(allowed, verb) {
			t.Errorf("in %s the account may %s %v %v", namespace, verb, rule.APIGroups, rule.Resources)
		}
	}
}
