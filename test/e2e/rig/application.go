//go:build e2e

package rig

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Application is an application of Argo CD in a project of its own: it keeps a
// namespace as a repository says.
type Application struct {
	Name      string // without the namespace of Argo CD; its project has the same
	Namespace string // of what it deploys
	Git       *Git

	argo  *ArgoCD
	index int // of Git among several sources; -1: it is the only one
}

// ApplicationOptions say what is not as usual. An application has one source,
// the directory "serving", syncs by itself and heals itself.
type ApplicationOptions struct {
	Manual    bool   // synced by hand only
	NoHeal    bool   // syncs new commits by itself, leaves live changes alone
	Windows   string // spec.syncWindows of its project, as a YAML list in one line
	Path      string // of its source; empty: serving
	Source    string // more of its source, as YAML fields in one line: "helm: {releaseName: x}, "
	Generated bool   // an ApplicationSet of the same name makes it

	// ChartSource is a source before the one in Git: a chart whose values are in Git,
	// which is then known to it as $values.
	ChartSource *ChartSource
}

// ChartSource is another source of an application.
type ChartSource struct {
	Git    *Git
	Source string // YAML fields in one line, without the repository and the revision
}

// spec is the application's, as YAML in one line.
func (o ApplicationOptions) spec(namespace string, git *Git) string {
	policy := fmt.Sprintf("automated: {selfHeal: %t, prune: false}, ", !o.NoHeal)
	if o.Manual {
		policy = ""
	}
	from := func(git *Git, more string) string {
		return fmt.Sprintf("{repoURL: %q, targetRevision: %s, %s}", git.URL, git.Branch, more)
	}
	source := "source: " + from(git, o.Source+"path: "+cmp.Or(o.Path, "serving"))
	if b := o.ChartSource; b != nil {
		source = "sources: [" + from(b.Git, b.Source) + ", " + from(git, "ref: values") + "]"
	}
	return fmt.Sprintf(`{project: %[1]s, %[2]s, destination: {server: https://kubernetes.default.svc, namespace: %[1]s}, `+
		`syncPolicy: {%[3]sretry: {limit: 1, backoff: {duration: 1s, maxDuration: 2s}}}}`, namespace, source, policy)
}

// repositories are the project's, and Argo CD's credentials for them.
func (o ApplicationOptions) repositories(git *Git) []*Git {
	if o.ChartSource != nil {
		return []*Git{git, o.ChartSource.Git}
	}
	return []*Git{git}
}

// Application makes an application of a namespace that [ControlPlane.Namespace]
// made, and its project. Both go when the test ends, before the namespace.
func (a *ArgoCD) Application(t testing.TB, namespace string, git *Git, o ApplicationOptions) *Application {
	t.Helper()
	app := &Application{Name: namespace, Namespace: namespace, Git: git, argo: a, index: -1}
	if o.ChartSource != nil {
		app.index = 1
	}
	var manifests, urls, objects []string
	for i, repo := range o.repositories(git) {
		name := fmt.Sprintf("repo-%s-%d", namespace, i)
		urls, objects = append(urls, fmt.Sprintf("%q", repo.URL)), append(objects, "secret/"+name)
		manifests = append(manifests, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: %s, labels: {argocd.argoproj.io/secret-type: repository}}
stringData: {type: git, url: %q, username: argocd, password: %q}
`, name, repo.URL, repo.Token))
	}
	manifests = append(manifests, fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: %[1]s}
spec:
  sourceRepos: [%[2]s]
  destinations: [{server: https://kubernetes.default.svc, namespace: %[1]s}]
  syncWindows: %[3]s
`, namespace, strings.Join(urls, ", "), cmp.Or(o.Windows, "[]")))
	kind, made := "application", "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: %s}\nspec: %s\n"
	if o.Generated {
		a.startGenerator(t)
		kind, made = "applicationset", "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: %[1]s}\n"+
			"spec: {syncPolicy: {preserveResourcesOnDeletion: true}, generators: [{list: {elements: [{name: %[1]s}]}}], template: {metadata: {name: '{{name}}'}, spec: %[2]s}}\n"
	}
	manifests = append(manifests, fmt.Sprintf(made, namespace, o.spec(namespace, git)))
	a.cp.Apply(t, argoNamespace, strings.Join(manifests, "---\n"))
	t.Cleanup(func() { app.delete(t, append([]string{kind + "/" + namespace, "appproject/" + namespace}, objects...)) })
	return app
}

func (app *Application) delete(t testing.TB, objects []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if t.Failed() {
		if s, err := app.Status(ctx); err == nil {
			t.Logf("application %s at the end: %s", app.Name, s)
		}
	}
	for _, together := range [][]string{objects[:1], objects[1:]} { // its project must outlive the application
		if _, err := app.argo.cp.TryKubectl(ctx, append([]string{"-n", argoNamespace, "delete", "--cascade=foreground"}, together...)...); err != nil {
			t.Errorf("delete %s: %v", strings.Join(together, " "), err)
		}
	}
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

	History []string // revisions that it was synced to, oldest first
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
			Sync           revised
			Health         struct{ Status string }
			History        []revised
			OperationState struct {
				Phase, Message string
				SyncResult     revised
			}
		}
	}
	err := app.argo.call(ctx, app.argo.admin, http.MethodGet, "/api/v1/applications/"+app.Name+query, nil, &object)
	s := object.Status
	var history []string
	for _, entry := range s.History {
		history = append(history, entry.of(app.index))
	}
	return ApplicationStatus{
		Sync: s.Sync.Status, Revision: s.Sync.of(app.index), Health: s.Health.Status,
		Running: object.Operation != nil, Phase: s.OperationState.Phase,
		Synced: s.OperationState.SyncResult.of(app.index), Message: s.OperationState.Message,
		History: history,
	}, err
}

// revised is a state and the revisions it is of.
type revised struct {
	Status, Revision string
	Revisions        []string
}

// of is the revision of the source at an index, or of the only one.
func (r revised) of(index int) string {
	if index >= 0 && index < len(r.Revisions) {
		return r.Revisions[index]
	}
	return r.Revision
}

// Sync syncs an application that does not do so by itself, as a click does.
func (app *Application) Sync(t testing.TB) {
	t.Helper()
	if err := app.argo.Call(t, app.argo.admin, http.MethodPost, "/api/v1/applications/"+app.Name+"/sync", struct{}{}, nil); err != nil {
		t.Fatalf("sync %s: %v", app.Name, err)
	}
}

// SyncOnly syncs a Deployment of its namespace to a commit, and nothing else: what
// Argo CD calls a selective sync.
func (app *Application) SyncOnly(t testing.TB, deployment, sha string) {
	t.Helper()
	body := map[string]any{
		"revision":  sha,
		"resources": []map[string]string{{"group": "apps", "kind": "Deployment", "namespace": app.Namespace, "name": deployment}},
	}
	if err := app.argo.Call(t, app.argo.admin, http.MethodPost, "/api/v1/applications/"+app.Name+"/sync", body, nil); err != nil {
		t.Fatalf("sync %s of %s: %v", deployment, app.Name, err)
	}
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
