//go:build e2e

package rig

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// Application is an application of Argo CD in a project of its own: it keeps a
// namespace as the directory "serving" of a repository says.
type Application struct {
	Name      string // without the namespace of Argo CD; its project has the same
	Namespace string // of what it deploys
	Git       *Git

	argo *ArgoCD
}

// ApplicationOptions say what is not as usual. An application syncs by itself
// and heals itself.
type ApplicationOptions struct {
	Manual  bool   // synced by hand only
	NoHeal  bool   // syncs new commits by itself, leaves live changes alone
	Windows string // spec.syncWindows of its project, as a YAML list in one line
}

// Application makes an application of a namespace that [ControlPlane.Namespace]
// made, and its project. Both go when the test ends, before the namespace.
func (a *ArgoCD) Application(t testing.TB, namespace string, git *Git, o ApplicationOptions) *Application {
	t.Helper()
	app := &Application{Name: namespace, Namespace: namespace, Git: git, argo: a}
	policy := fmt.Sprintf("automated: {selfHeal: %t, prune: false}, ", !o.NoHeal)
	if o.Manual {
		policy = ""
	}
	windows := o.Windows
	if windows == "" {
		windows = "[]"
	}
	a.cp.Apply(t, argoNamespace, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: repo-%[1]s, labels: {argocd.argoproj.io/secret-type: repository}}
stringData: {type: git, url: %[2]q, username: argocd, password: %[3]q}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: %[1]s}
spec:
  sourceRepos: [%[2]q]
  destinations: [{server: https://kubernetes.default.svc, namespace: %[1]s}]
  syncWindows: %[5]s
---
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %[1]s}
spec:
  project: %[1]s
  source: {repoURL: %[2]q, targetRevision: %[4]s, path: serving}
  destination: {server: https://kubernetes.default.svc, namespace: %[1]s}
  syncPolicy: {%[6]sretry: {limit: 1, backoff: {duration: 1s, maxDuration: 2s}}}
`, namespace, git.URL, git.Token, git.Branch, windows, policy))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if t.Failed() {
			if s, err := app.Status(ctx); err == nil {
				t.Logf("application %s at the end: %s", app.Name, s)
			}
		}
		for _, object := range []string{"application/" + namespace, "appproject/" + namespace, "secret/repo-" + namespace} {
			if _, err := a.cp.TryKubectl(ctx, "-n", argoNamespace, "delete", object); err != nil {
				t.Errorf("delete %s: %v", object, err)
			}
		}
	})
	return app
}

// ApplicationStatus is what Argo CD says of an application.
type ApplicationStatus struct {
	Sync     string // Synced, OutOfSync, Unknown
	Revision string // compared with
	Health   string // Healthy, Progressing, Degraded, Missing, Unknown
	Running  bool   // an operation is asked for or under way
	Phase    string // of the last operation: Succeeded, Failed, Error, Running
	Synced   string // revision of the last operation
	Message  string // of the last operation
}

// String is the status in one line of a test's message.
func (s ApplicationStatus) String() string {
	return fmt.Sprintf("%s to %.8s, %s; operation %s of %.8s (running: %t) %s", s.Sync, s.Revision, s.Health, s.Phase, s.Synced, s.Running, s.Message)
}

// Status asks Argo CD.
func (app *Application) Status(ctx context.Context) (ApplicationStatus, error) {
	return app.status(ctx, "")
}

func (app *Application) status(ctx context.Context, query string) (ApplicationStatus, error) {
	var object struct {
		Operation *struct{}
		Status    struct {
			Sync           struct{ Status, Revision string }
			Health         struct{ Status string }
			OperationState struct {
				Phase, Message string
				SyncResult     struct{ Revision string }
			}
		}
	}
	err := app.argo.call(ctx, app.argo.admin, http.MethodGet, "/api/v1/applications/"+app.Name+query, nil, &object)
	s := object.Status
	return ApplicationStatus{
		Sync: s.Sync.Status, Revision: s.Sync.Revision, Health: s.Health.Status,
		Running: object.Operation != nil, Phase: s.OperationState.Phase,
		Synced: s.OperationState.SyncResult.Revision, Message: s.OperationState.Message,
	}, err
}

// Refresh has Argo CD look at the repository now, as a click does; by itself it
// looks every three minutes. It returns when Argo CD has compared.
func (app *Application) Refresh(t testing.TB) ApplicationStatus {
	t.Helper()
	s, err := app.status(t.Context(), "?refresh=normal")
	if err != nil {
		t.Fatalf("refresh %s: %v", app.Name, err)
	}
	return s
}

// AwaitSynced waits until the application is synced to that commit, its
// operation is over and it is healthy. Somebody has to have refreshed it.
func (app *Application) AwaitSynced(t testing.TB, sha string, limit time.Duration) {
	t.Helper()
	app.Await(t, limit, fmt.Sprintf("%s synced to %.8s and healthy", app.Name, sha), func(s ApplicationStatus) bool {
		return s.Sync == "Synced" && s.Revision == sha && s.Health == "Healthy" && !s.Running && s.Phase == "Succeeded" && s.Synced == sha
	})
}

// Await waits until the application is as the test wants it.
func (app *Application) Await(t testing.TB, limit time.Duration, what string, wanted func(ApplicationStatus) bool) {
	t.Helper()
	Await(t, limit, what, func(ctx context.Context) (bool, string) {
		s, err := app.Status(ctx)
		if err != nil {
			return false, err.Error()
		}
		return wanted(s), s.String()
	})
}
