package flux

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// labels are those that Flux gives what a Kustomization deploys.
const labels = `"labels": {"kustomize.toolkit.fluxcd.io/name": "models", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}, `

const inInventory = `, "inventory": {"entries": [{"id": "serving_chat_helm.toolkit.fluxcd.io_HelmRelease", "v": "v2"}]}`

var applied = conditions("True", "ReconciliationSucceeded", "Applied revision") + revisions(newSHA, newSHA) + inInventory

// releasing returns a cluster with a HelmRelease of the generation 4, whose manifest the
// Kustomization deploys.
func releasing(kustomization, meta, spec, status string) *cluster {
	c := with("", kustomization, "")
	c.objects["helmreleases serving/chat"] = fmt.Sprintf(`{"metadata": {%s"namespace": "serving", "name": "chat", "uid": "u-2", "generation": 4},
		"spec": {"chart": {"spec": {"chart": "./charts/engine", "sourceRef": {"kind": "GitRepository", "name": "fleet", "namespace": "flux-system"}}}%s},
		"status": {%s}}`, meta, spec, status)
	return c
}

// at returns a condition with the generation that it is about.
func at(generation int, kind, status, reason, message string) string {
	return fmt.Sprintf(`{"type": %q, "status": %q, "reason": %q, "message": %q, "observedGeneration": %d, "lastTransitionTime": "2026-11-28T12:05:00Z"}`, kind, status, reason, message, generation)
}

func observed(generation int, list ...string) string {
	return fmt.Sprintf(`"observedGeneration": %d, "conditions": [%s]`, generation, strings.Join(list, ", "))
}

// TestReleaseSettled: a commit that Flux has applied is in effect once Helm has released
// the HelmRelease as it is now, and fails when Helm does.
func TestReleaseSettled(t *testing.T) {
	upgrading := at(4, "Ready", "Unknown", "Progressing", "Running 'upgrade' action with timeout of 5m0s")
	failed := at(4, "Ready", "False", "UpgradeFailed", "Helm upgrade failed for release serving/chat.v3: timed out waiting for the condition")
	before := at(3, "Ready", "False", "UpgradeFailed", "Helm upgrade failed for release serving/chat.v2")
	for name, tt := range map[string]struct {
		kustomization, spec, status string
		want                        gitops.Rollout
		why                         string
	}{
		"released":                   {status: observed(4, at(4, "Ready", "True", "UpgradeSucceeded", "Helm upgrade succeeded")), want: gitops.RolloutSettled, why: "healthy"},
		"looked at again":            {status: observed(4, at(4, "Reconciling", "True", "Progressing", "Fulfilling prerequisites"), at(4, "Ready", "True", "UpgradeSucceeded", "")), want: gitops.RolloutSettled, why: "healthy"},
		"not seen yet":               {status: observed(3, at(3, "Ready", "True", "UpgradeSucceeded", "Helm upgrade succeeded")), want: gitops.RolloutWaiting, why: "Flux has not released HelmRelease serving/chat as it is now"},
		"never seen":                 {status: observed(0), want: gitops.RolloutWaiting, why: "Flux has not released"},
		"being upgraded":             {status: observed(3, upgrading), want: gitops.RolloutWaiting, why: "HelmRelease serving/chat: Progressing: Running 'upgrade' action with timeout of 5m0s"},
		"failed":                     {status: observed(3, failed), want: gitops.RolloutFailed, why: "UpgradeFailed: Helm upgrade failed for release serving/chat.v3: timed out"},
		"failed, tried again":        {status: observed(3, failed, at(4, "Reconciling", "True", "ProgressingWithRetry", "retrying")), want: gitops.RolloutFailed, why: "UpgradeFailed"},
		"rolled back":                {status: observed(4, at(4, "Ready", "False", "RollbackSucceeded", "Helm rollback to previous release serving/chat.v2 succeeded")), want: gitops.RolloutFailed, why: "Helm rollback to previous release"},
		"out of retries":             {status: observed(4, upgrading, at(4, "Stalled", "True", "RetriesExceeded", "Failed to upgrade after 3 attempt(s)")), want: gitops.RolloutFailed, why: "RetriesExceeded: Failed to upgrade after 3 attempt(s)"},
		"failed before it":           {status: observed(3, before, at(3, "Stalled", "True", "RetriesExceeded", "Failed to upgrade")), want: gitops.RolloutWaiting, why: "Flux has not released"},
		"waits for another":          {status: observed(3, at(4, "Ready", "False", "DependencyNotReady", "dependency 'serving/crds' is not ready")), want: gitops.RolloutWaiting, why: "serving/crds"},
		"suspended":                  {spec: `, "suspend": true`, status: observed(3, before), want: gitops.RolloutWaiting, why: "HelmRelease serving/chat is suspended"},
		"not applied, failed before": {kustomization: conditions("Unknown", "Progressing", "", reconciling("Building manifests for revision x")) + revisions(oldSHA, newSHA) + inInventory, status: observed(4, failed), want: gitops.RolloutWaiting, why: "started by Flux"},
		"of an earlier commit":       {kustomization: conditions("True", "ReconciliationSucceeded", "") + revisions(oldSHA, oldSHA) + inInventory, status: observed(4, failed), want: gitops.RolloutWaiting, why: "Flux has compared 1111111111 so far"},
		"cannot be applied":          {kustomization: conditions("False", "ReconciliationFailed", "HelmRelease/serving/chat dry-run failed") + revisions(oldSHA, newSHA) + inInventory, status: observed(4), want: gitops.RolloutFailed, why: "dry-run failed"},
		"the Kustomization waits for it, and it failed": {kustomization: conditions("Unknown", "Progressing", "", reconciling("Running health checks for revision x")) + revisions(oldSHA, newSHA) + inInventory, status: observed(3, failed), want: gitops.RolloutFailed, why: "UpgradeFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.kustomization == "" {
				tt.kustomization = applied
			}
			app, err := New(releasing(tt.kustomization, labels, tt.spec, tt.status)).Application(t.Context(), gitops.FluxHelmName("serving", "chat"))
			if err != nil {
				t.Fatal(err)
			}
			if got, why := gitops.Settled(app, newSHA, nil); got != tt.want || !strings.Contains(why, tt.why) {
				t.Errorf("%s: %s; want %s: %s", got, why, tt.want, tt.why)
			}
		})
	}
}

// TestReleaseApplication: what a plan is made from.
func TestReleaseApplication(t *testing.T) {
	ready := observed(4, at(4, "Ready", "True", "UpgradeSucceeded", ""))
	name := gitops.FluxHelmName("serving", "chat")
	for what, tt := range map[string]struct {
		spec    string
		release string
		values  [][]string
	}{
		"a chart of the repository": {"", "chat", [][]string{{"../charts/engine"}}},
		"another source":            {`, "chart": {"spec": {"chart": "vllm-stack", "sourceRef": {"kind": "HelmRepository", "name": "fleet", "namespace": "flux-system"}}}`, "chat", [][]string{nil}},
		"a source of the same name": {`, "chart": {"spec": {"chart": "charts/engine", "sourceRef": {"kind": "GitRepository", "name": "fleet", "namespace": "serving"}}}`, "chat", [][]string{nil}},
		"a name":                    {`, "releaseName": "prod", "targetNamespace": "x"`, "prod", [][]string{{"../charts/engine"}}},
		"another namespace":         {`, "targetNamespace": "x"`, "x-chat", [][]string{{"../charts/engine"}}},
	} {
		app, err := New(releasing(applied, labels, tt.spec, ready)).Application(t.Context(), name)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got := []any{app.Name, app.Title(), app.Releases, app.Values, app.Sources[0].Path, app.Target[0], app.Revisions[0]}
		if diff := cmp.Diff([]any{name, "Flux HelmRelease serving/chat", []string{tt.release}, tt.values, "serving", "main", newSHA}, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	// The hash is that of Flux's documentation.
	h := helmRelease{}
	h.Spec.ReleaseName = "a-very-lengthy-target-namespace-with-a-nice-object-name"
	if got := h.release(); len(got) != 53 || !strings.HasSuffix(got, "-97af5d7f41f3") {
		t.Errorf("%d: %s", len(got), got)
	}
	app, err := New(releasing(applied, labels, `, "suspend": true`, ready)).Application(t.Context(), name)
	if err != nil || app.Suspended != "HelmRelease serving/chat" {
		t.Errorf("%q, %v", app.Suspended, err)
	}
}

// TestReleaseMade: what Helm has released is known since Flux 2.8.
func TestReleaseMade(t *testing.T) {
	ready := observed(4, at(4, "Ready", "True", "UpgradeSucceeded", ""))
	for status, want := range map[string][]gitops.Resource{
		ready: nil,
		ready + `, "inventory": {"entries": [{"id": "serving_chat-engine_apps_Deployment", "v": "v1"}, {"id": "serving_chat__Service", "v": "v1"}]}`: {
			{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "chat-engine", Sync: "Synced"}, {Kind: "Service", Namespace: "serving", Name: "chat", Sync: "Synced"},
		},
	} {
		app, err := New(releasing(applied, labels, "", status)).Application(t.Context(), gitops.FluxHelmName("serving", "chat"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, app.Made); diff != "" {
			t.Errorf("%s (-want +got):\n%s", status, diff)
		}
	}
}

// TestReleaseRefused: a HelmRelease that no commit changes is refused, with the reason.
func TestReleaseRefused(t *testing.T) {
	ready := observed(4, at(4, "Ready", "True", "UpgradeSucceeded", ""))
	name := gitops.FluxHelmName("serving", "chat")
	for what, tt := range map[string]struct {
		c      *cluster
		app    string
		reason fault.Reason
		says   string
	}{
		"applied by hand":    {releasing(applied, "", "", ready), name, fault.Owned, "is not labelled with the Kustomization"},
		"labels of a copy":   {releasing(strings.ReplaceAll(applied, "serving_chat", "serving_code"), labels, "", ready), name, fault.Owned, "is not among what Flux Kustomization flux-system/models has applied"},
		"another cluster":    {releasing(applied, labels, `, "kubeConfig": {"secretRef": {"name": "far"}}`, ready), name, fault.Owned, "spec.kubeConfig"},
		"no HelmRelease":     {releasing(applied, labels, "", ready), gitops.FluxHelmName("serving", "code"), fault.NotFound, "helmreleases serving/code"},
		"not as documented":  {releasing(applied, labels, `, "suspend": "maybe"`, ready), name, fault.ServerError, "Flux HelmRelease serving/chat"},
		"no name of anybody": {releasing(applied, labels, "", ready), "flux-helm:chat", fault.Invalid, "does not name a HelmRelease"},
	} {
		_, err := New(tt.c).Application(t.Context(), tt.app)
		if e := new(fault.Error); !errors.As(err, &e) || e.Reason != tt.reason || !strings.Contains(e.Error(), tt.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestReleaseRefresh: the source is fetched and the Kustomization applied; Flux releases
// what that changes by itself.
func TestReleaseRefresh(t *testing.T) {
	c := releasing(conditions("True", "ReconciliationSucceeded", "")+revisions(oldSHA, oldSHA)+inInventory, labels, "", observed(4))
	if err := New(c).Refresh(t.Context(), gitops.FluxHelmName("serving", "chat")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"gitrepositories flux-system/fleet", "kustomizations flux-system/models"}, c.annotated); diff != "" {
		t.Error(diff)
	}
}
