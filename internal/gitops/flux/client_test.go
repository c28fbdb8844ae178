package flux

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

const (
	oldSHA = "1111111111111111111111111111111111111111"
	newSHA = "2222222222222222222222222222222222222222"
)

// cluster has the objects of Flux, as JSON by resource and name.
type cluster struct {
	objects   map[string]string
	annotated []string
	err       error
}

func (c *cluster) Custom(_ context.Context, r schema.GroupVersionResource, namespace, name string) ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	o, ok := c.objects[r.Resource+" "+namespace+"/"+name]
	if !ok {
		return nil, &fault.Error{Reason: fault.NotFound, Message: r.Resource + " " + namespace + "/" + name}
	}
	return []byte(o), nil
}

func (c *cluster) Annotate(_ context.Context, r schema.GroupVersionResource, namespace, name, key, value string) error {
	if key != "reconcile.fluxcd.io/requestedAt" || value == "" {
		return errors.New("another annotation: " + key)
	}
	c.annotated = append(c.annotated, r.Resource+" "+namespace+"/"+name)
	return nil
}

// with returns a cluster with one Kustomization and its source.
func with(spec, status, source string) *cluster {
	return &cluster{objects: map[string]string{
		"kustomizations flux-system/models": fmt.Sprintf(`{"metadata": {"namespace": "flux-system", "name": "models", "uid": "u-1", "generation": 3},
			"spec": {"path": "./serving", "prune": true, "sourceRef": {"kind": "GitRepository", "name": "fleet"}%s},
			"status": {"observedGeneration": 3, %s}}`, spec, status),
		"gitrepositories flux-system/fleet": fmt.Sprintf(`{"metadata": {"namespace": "flux-system", "name": "fleet"},
			"spec": {"url": "https://robot:secret@git.example/ml/fleet", "ref": {"branch": "main"}%s},
			"status": {"artifact": {"revision": "main@sha1:%s"}}}`, source, newSHA),
	}}
}

func conditions(ready, reason, message string, more ...string) string {
	list := append([]string{fmt.Sprintf(`{"type": "Ready", "status": %q, "reason": %q, "message": %q, "lastTransitionTime": "2026-11-28T12:00:00Z"}`, ready, reason, message)}, more...)
	return `"conditions": [` + strings.Join(list, ", ") + "]"
}

func reconciling(message string) string {
	return fmt.Sprintf(`{"type": "Reconciling", "status": "True", "reason": "Progressing", "message": %q}`, message)
}

func revisions(applied, attempted string) string {
	return fmt.Sprintf(`, "lastAppliedRevision": "main@sha1:%s", "lastAttemptedRevision": "main@sha1:%s"`, applied, attempted)
}

// TestSettled: what Flux says of a commit becomes what the levers on Git wait for.
func TestSettled(t *testing.T) {
	for name, tt := range map[string]struct {
		spec, status, source string
		want                 gitops.Rollout
		why                  string
	}{
		"applied":               {status: conditions("True", "ReconciliationSucceeded", "Applied revision") + revisions(newSHA, newSHA), want: gitops.RolloutSettled, why: "healthy"},
		"not fetched yet":       {status: conditions("True", "ReconciliationSucceeded", "Applied revision") + revisions(oldSHA, oldSHA), want: gitops.RolloutWaiting, why: "Flux has compared 1111111111 so far"},
		"being applied":         {status: conditions("Unknown", "Progressing", "Reconciliation in progress", reconciling("Building manifests for revision x")) + revisions(oldSHA, newSHA), want: gitops.RolloutWaiting, why: "started by Flux"},
		"becoming healthy":      {status: conditions("Unknown", "Progressing", "Reconciliation in progress", reconciling("Running health checks for revision x with a timeout of 5m")) + revisions(oldSHA, newSHA), want: gitops.RolloutWaiting, why: "health Progressing"},
		"unhealthy":             {status: conditions("False", "HealthCheckFailed", "timeout waiting for: [Deployment/serving/chat status: 'InProgress']") + revisions(oldSHA, newSHA), want: gitops.RolloutDegraded, why: "Deployment/serving/chat"},
		"cannot be built":       {status: conditions("False", "BuildFailed", "kustomize build failed: accumulating resources") + revisions(oldSHA, newSHA), want: gitops.RolloutFailed, why: "kustomize build failed"},
		"refused by the server": {status: conditions("False", "ReconciliationFailed", "Deployment/serving/chat dry-run failed: admission webhook denied it") + revisions(oldSHA, newSHA), want: gitops.RolloutFailed, why: "admission webhook"},
		"waits for another":     {status: conditions("False", "DependencyNotReady", "dependency 'flux-system/crds' is not ready") + revisions(oldSHA, newSHA), want: gitops.RolloutWaiting, why: "flux-system/crds"},
		"failed before it":      {status: conditions("False", "BuildFailed", "kustomize build failed") + revisions(oldSHA, oldSHA), want: gitops.RolloutWaiting, why: "Flux has compared 1111111111 so far"},
		"changed itself":        {status: `"observedGeneration": 2, ` + conditions("True", "ReconciliationSucceeded", "Applied revision") + revisions(newSHA, newSHA), want: gitops.RolloutWaiting, why: "OutOfSync"},
		"looked at again":       {status: conditions("Unknown", "Progressing", "Reconciliation in progress", reconciling("Detecting drift for revision x")) + revisions(newSHA, newSHA), want: gitops.RolloutWaiting, why: "health Progressing"},
		"suspended":             {spec: `, "suspend": true`, status: conditions("True", "ReconciliationSucceeded", "Applied revision") + revisions(oldSHA, oldSHA), want: gitops.RolloutWaiting, why: "suspended: Kustomization flux-system/models"},
		"nothing yet":           {status: `"conditions": []`, want: gitops.RolloutWaiting, why: "Flux has compared nothing so far"},
	} {
		t.Run(name, func(t *testing.T) {
			app, err := New(with(tt.spec, tt.status, tt.source)).Application(t.Context(), gitops.FluxName("flux-system", "models"))
			if err != nil {
				t.Fatal(err)
			}
			if got, why := gitops.Settled(app, newSHA, nil); got != tt.want || !strings.Contains(why, tt.why) {
				t.Errorf("%s: %s; want %s: %s", got, why, tt.want, tt.why)
			}
		})
	}
}

// TestApplication: what a plan is made from.
func TestApplication(t *testing.T) {
	app, err := New(with(
		`, "patches": [{"patch": "x"}], "images": [], "postBuild": {"substitute": {"a": "b"}}`,
		conditions("True", "ReconciliationSucceeded", "Applied revision")+revisions(newSHA, newSHA)+`, "inventory": {"entries": [{"id": "serving_chat_apps_Deployment", "v": "v1"}, {"id": "_system__chat_rbac.authorization.k8s.io_ClusterRole", "v": "v1"}, {"id": "broken"}]}`,
		"",
	)).Application(t.Context(), "flux:flux-system/models")
	if err != nil {
		t.Fatal(err)
	}
	want := gitops.Application{
		Name: "flux:flux-system/models", UID: "u-1", Sources: []gitops.Source{{Repository: "https://git.example/ml/fleet", Branch: "main", Path: "serving"}},
		Chart: []string{""}, Target: []string{"main"}, Values: [][]string{nil}, Refs: []string{""}, Releases: []string{""}, Revisions: []string{newSHA},
		Sync: "Synced", Health: "Healthy", Automated: true, SelfHeal: true, Prunes: true,
		Operation: gitops.Operation{Phase: "Succeeded", By: "Flux", Revisions: []string{newSHA}, Message: "Applied revision", Finished: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)},
		Overrides: []gitops.Override{{Field: "spec.patches"}, {Field: "spec.postBuild"}},
		Resources: []gitops.Resource{
			{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "chat", Sync: "Synced"},
			{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "system:chat", Sync: "Synced"},
		},
		History: []gitops.Deployment{{Revisions: []string{newSHA}}},
	}
	if diff := cmp.Diff(want, app); diff != "" {
		t.Error(diff)
	}
	if app.Title() != "Flux Kustomization flux-system/models" || app.Deployer() != "Flux" {
		t.Error(app.Title(), app.Deployer())
	}
}

// TestTarget: only a branch is written as one.
func TestTarget(t *testing.T) {
	for ref, want := range map[string]string{
		`{}`: "master", `{"branch": "main"}`: "main", `{"branch": "main", "tag": "v1"}`: "refs/tags/v1", `{"tag": "v1", "semver": ">=1"}`: "refs/tags/>=1",
		`{"name": "refs/heads/live"}`: "refs/heads/live", `{"branch": "main", "commit": "` + oldSHA + `"}`: oldSHA,
	} {
		r, err := decode[repository]([]byte(`{"spec": {"ref": `+ref+`}}`), "a GitRepository")
		if err != nil {
			t.Fatal(err)
		}
		if got := target(r); got != want {
			t.Errorf("%s: %q, want %q", ref, got, want)
		}
	}
}

// TestHistory: a release that never became healthy was deployed too, and a commit that
// came back was deployed when it came back.
func TestHistory(t *testing.T) {
	entry := func(sha, status, first, last string) string {
		return fmt.Sprintf(`{"firstReconciled": "2026-11-28T%s:00Z", "lastReconciled": "2026-11-28T%s:00Z", "lastReconciledStatus": %q, "metadata": {"revision": "main@sha1:%s"}}`, first, last, status, sha)
	}
	k, err := decode[kustomization]([]byte(`{"status": {"history": [`+strings.Join([]string{
		entry(oldSHA, "ReconciliationSucceeded", "08:00", "13:00"),
		entry(newSHA, "HealthCheckFailed", "12:00", "12:40"),
		entry(strings.Repeat("3", 40), "ReconciliationFailed", "11:00", "11:10"),
	}, ", ")+`]}}`), "a Kustomization")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range history(k) {
		got = append(got, d.At.Format("15:04 ")+d.Revisions[0][:1])
	}
	if diff := cmp.Diff([]string{"12:00 2", "12:40 1"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestRefused: what a commit would not change is refused, with the reason.
func TestRefused(t *testing.T) {
	other := with("", conditions("True", "", ""), "")
	other.objects["kustomizations flux-system/models"] = `{"metadata": {"namespace": "flux-system", "name": "models"}, "spec": {"sourceRef": {"kind": "OCIRepository", "name": "fleet"}}}`
	gone := with("", conditions("True", "", ""), "")
	delete(gone.objects, "gitrepositories flux-system/fleet")
	broken := with("", conditions("True", "", ""), "")
	broken.objects["kustomizations flux-system/models"] = `{"spec": {"suspend": "maybe"}}`
	for name, tt := range map[string]struct {
		c      *cluster
		app    string
		reason fault.Reason
		says   string
	}{
		"another kind of source": {other, "flux:flux-system/models", fault.Owned, "OCIRepository flux-system/fleet"},
		"no source":              {gone, "flux:flux-system/models", fault.NotFound, "gitrepositories flux-system/fleet"},
		"no Kustomization":       {gone, "flux:flux-system/other", fault.NotFound, "kustomizations flux-system/other"},
		"of Argo CD":             {gone, "argocd/chat", fault.Invalid, "argocd/chat"},
		"not as documented":      {broken, "flux:flux-system/models", fault.ServerError, "Flux Kustomization flux-system/models"},
	} {
		_, err := New(tt.c).Application(t.Context(), tt.app)
		if e := new(fault.Error); !errors.As(err, &e) || e.Reason != tt.reason || !strings.Contains(e.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := New(gone).Sync(t.Context(), gitops.Sync{Application: "flux:flux-system/models"})
	if e := new(fault.Error); !errors.As(err, &e) || e.Reason != fault.Owned {
		t.Error(err)
	}
}

// TestRefresh: the source is fetched first, and a Kustomization that stands is not
// reconciled for nothing.
func TestRefresh(t *testing.T) {
	standing := with("", conditions("True", "ReconciliationSucceeded", "")+revisions(newSHA, newSHA), "")
	behind := with("", conditions("True", "ReconciliationSucceeded", "")+revisions(oldSHA, oldSHA), "")
	for name, tt := range map[string]struct {
		c    *cluster
		want []string
	}{
		"standing": {standing, []string{"gitrepositories flux-system/fleet"}},
		"behind":   {behind, []string{"gitrepositories flux-system/fleet", "kustomizations flux-system/models"}},
	} {
		if err := New(tt.c).Refresh(t.Context(), "flux:flux-system/models"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, tt.c.annotated); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestWatch: an outage of the API server does not end the wait; a commit that cannot be
// applied does.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := with("", conditions("True", "ReconciliationSucceeded", "")+revisions(oldSHA, oldSHA), "")
		c.err = &fault.Error{Reason: fault.Unreachable, Message: "connection refused"}
		var told []string
		seen := 0
		judge := func(app gitops.Application) (gitops.Rollout, string) {
			if seen++; seen == 2 {
				return gitops.RolloutFailed, "cannot be built"
			}
			return gitops.RolloutWaiting, "on its way"
		}
		time.AfterFunc(5*time.Second, func() { c.err = nil })
		_, err := New(c).Watch(t.Context(), "flux:flux-system/models", judge, func(s string) { told = append(told, s) })
		if e := new(fault.Error); !errors.As(err, &e) || e.Reason != fault.Conflict {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"connection refused", "on its way", "cannot be built"}, told); diff != "" {
			t.Error(diff)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = New(c).Watch(ctx, "flux:flux-system/models", func(gitops.Application) (gitops.Rollout, string) { return gitops.RolloutWaiting, "not yet" }, func(string) {})
		if e := new(fault.Error); !errors.As(err, &e) || e.Reason != fault.Timeout || !strings.Contains(err.Error(), "not yet") {
			t.Error(err)
		}
	})
}
