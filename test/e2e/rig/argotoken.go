//go:build e2e

package rig

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Token makes a new token of the responder's account, with the rights of
// deploy/argocd/account.yaml in the tests' projects. revoke ends it.
func (a *ArgoCD) Token(t testing.TB) (token string, revoke func()) {
	t.Helper()
	a.cp.mu.Lock()
	a.cp.files++
	id := fmt.Sprintf("rig-%d", a.cp.files)
	a.cp.mu.Unlock()
	path := "/api/v1/account/" + argoAccount + "/token"
	var made struct{ Token string }
	a.accounts.Lock()
	defer a.accounts.Unlock()
	if err := a.Call(t, a.admin, http.MethodPost, path, map[string]any{"name": argoAccount, "id": id, "expiresIn": 3600}, &made); err != nil {
		t.Fatalf("make a token: %v", err)
	}
	a.awaitToken(t, made.Token, true)
	return made.Token, func() {
		t.Helper()
		a.accounts.Lock()
		defer a.accounts.Unlock()
		a.revoke(t, path+"/"+id)
		a.awaitToken(t, made.Token, false)
	}
}

// Token makes a new token of the role of deploy/argocd/project-role.yaml, which
// it adds to the application's project. revoke ends it.
func (app *Application) Token(t testing.TB) (token string, revoke func()) {
	t.Helper()
	role, err := deployed("project-role.yaml", app.Name)
	if err != nil {
		t.Fatal(err)
	}
	return app.tokenOf(t, role)
}

// ReadToken is Token without the right to sync.
func (app *Application) ReadToken(t testing.TB) (token string, revoke func()) {
	t.Helper()
	role, err := deployed("project-role.yaml", app.Name)
	if err != nil {
		t.Fatal(err)
	}
	var reads []string
	for line := range strings.Lines(role) {
		if !strings.Contains(line, "applications, sync,") {
			reads = append(reads, line)
		}
	}
	return app.tokenOf(t, strings.Join(reads, ""))
}

// tokenOf makes a token of a role, which it adds to the application's project.
func (app *Application) tokenOf(t testing.TB, role string) (token string, revoke func()) {
	t.Helper()
	app.argo.cp.Kubectl(t, "-n", argoNamespace, "patch", "appproject", app.Name, "--type=merge", "--patch="+role)
	path := "/api/v1/projects/" + app.Name + "/roles/" + argoAccount + "/token"
	var made struct{ Token string }
	Await(t, 30*time.Second, "a token of the project's role", func(ctx context.Context) (bool, string) { // Argo CD has to see the role first
		err := app.argo.call(ctx, app.argo.admin, http.MethodPost, path, map[string]any{"project": app.Name, "role": argoAccount, "expiresIn": 3600}, &made)
		return err == nil, fmt.Sprint(err)
	})
	return made.Token, func() {
		t.Helper()
		var project struct {
			Status struct {
				JWTTokensByRole map[string]struct{ Items []struct{ IAT int64 } }
			}
		}
		if err := app.argo.Call(t, app.argo.admin, http.MethodGet, "/api/v1/projects/"+app.Name, nil, &project); err != nil {
			t.Fatalf("read the project: %v", err)
		}
		for _, item := range project.Status.JWTTokensByRole[argoAccount].Items {
			app.argo.revoke(t, fmt.Sprintf("%s/%d", path, item.IAT))
		}
	}
}

// awaitToken waits until the API server knows that a token is valid, or no
// longer. It changes the account's list of tokens as it knew it last, so that the
// next change has to wait for this one.
func (a *ArgoCD) awaitToken(t testing.TB, token string, valid bool) {
	t.Helper()
	Await(t, 30*time.Second, fmt.Sprintf("a token is valid: %t", valid), func(ctx context.Context) (bool, string) {
		var user struct{ LoggedIn bool }
		err := a.call(ctx, token, http.MethodGet, "/api/v1/session/userinfo", nil, &user)
		return err == nil && user.LoggedIn == valid, fmt.Sprint(user.LoggedIn, err)
	})
}

func (a *ArgoCD) revoke(t testing.TB, path string) {
	t.Helper()
	if err := a.Call(t, a.admin, http.MethodDelete, path, struct{}{}, nil); err != nil {
		t.Fatalf("revoke a token: %v", err)
	}
}
