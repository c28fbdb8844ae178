//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// With the component pod-resources, the agents' pods are admitted to their own
// namespace, and would not be to the responder's.
func TestAgentsThatAskTheKubeletAreAdmitted(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	cp.Deploy(t)
	cp.Apply(t, "", "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\n")
	dir := t.TempDir()
	base, err := filepath.Rel(dir, filepath.Join(rig.Repository(), "deploy", "agent"))
	if err != nil {
		t.Fatal(err)
	}
	overlay := fmt.Sprintf("resources: [%s]\ncomponents: [%s/pod-resources]\n", base, base)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600); err != nil {
		t.Fatal(err)
	}
	var daemons appsv1.DaemonSet
	for doc := range strings.SplitSeq(cp.Kubectl(t, "kustomize", dir), "\n---\n") {
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "Namespace", "ServiceAccount": // the pod needs them; the rest is another test's, which deploys it elsewhere
			cp.Apply(t, "", doc)
		case "DaemonSet":
			if err := yaml.UnmarshalStrict([]byte(doc), &daemons); err != nil {
				t.Fatal(err)
			}
		}
	}
	cp.Kubectl(t, "apply", "--dry-run=server", "-k", dir)
	// Without its account the responder's namespace would refuse the pod for another reason.
	cp.Apply(t, "", fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: %s, namespace: %s}\n", daemons.Spec.Template.Spec.ServiceAccountName, rig.ResponderNamespace))

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "responder-agent-"}, Spec: daemons.Spec.Template.Spec}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := cp.Client.CoreV1().Pods(daemons.Namespace).Create(t.Context(), pod, dry); err != nil || daemons.Namespace != "responder-agents" {
		t.Errorf("in namespace %q: %v", daemons.Namespace, err)
	}
	if _, err := cp.Client.CoreV1().Pods(rig.ResponderNamespace).Create(t.Context(), pod, dry); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("in the responder's namespace: %v", err)
	}
}

// agentRights holds the deployed agent to its one right.
func agentRights(t *testing.T, cp *rig.ControlPlane) {
	t.Helper()
	for resource, want := range map[string]bool{
		"create authentication.k8s.io/tokenreviews": true, "create authorization.k8s.io/subjectaccessreviews": false, "list /pods": false, "get /nodes": false,
		"get /secrets": false, "list authentication.k8s.io/tokenreviews": false,
	} {
		verb, rest, _ := strings.Cut(resource, " ")
		group, name, _ := strings.Cut(rest, "/")
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               rig.ServiceAccount(rig.ResponderNamespace, "responder-agent"),
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + rig.ResponderNamespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: rig.ResponderNamespace, Verb: verb, Group: group, Resource: name},
		}}
		if name == "nodes" || group == "authentication.k8s.io" {
			review.Spec.ResourceAttributes.Namespace = ""
		}
		got, err := cp.Client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Status.Allowed != want {
			t.Errorf("the agent may %s: %v, want %v", resource, got.Status.Allowed, want)
		}
	}
}
