//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// The rig itself: what a person commits Argo CD rolls out, what somebody
// changes past Git Argo CD puts back, and the responder's token may do no more
// than it needs.
func TestArgoSyncsACommit(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	argo := rig.SharedArgoCD(t)
	ns, _ := cp.Own(t, 1, 8)
	git := rig.StartGit(t, map[string]string{manifestPath: manifest(64)})
	app := argo.Application(t, ns, git, rig.ApplicationOptions{})
	app.AwaitSynced(t, git.Head(t), time.Minute)

	pushed := time.Now()
	sha := git.Edit(t, "Serve fewer at a time", manifestPath, "--max-num-seqs=64", "--max-num-seqs=32")
	app.Refresh(t)
	app.AwaitSynced(t, sha, time.Minute)
	t.Logf("from the push to synced and healthy: %v", time.Since(pushed).Round(100*time.Millisecond))
	if got := liveSeqs(t, cp, ns, "chat"); got != "--max-num-seqs=32" {
		t.Errorf("the Deployment has %s, want the committed --max-num-seqs=32", got)
	}

	cp.Kubectl(t, "-n", ns, "scale", "deployment/chat", "--replicas=5")
	awaitField(t, cp, ns, "deployment/chat", "{.spec.replicas}", "2")
	app.AwaitSynced(t, sha, time.Minute)
}

// Both ways of deploy/argocd, an account and a role of a project: the token gets
// and syncs the applications of its project, Argo CD refuses it everything
// else, and it can be taken away.
func TestArgoLeastPrivilege(t *testing.T) {
	t.Parallel()
	cp := rig.Shared(t)
	argo := rig.SharedArgoCD(t)
	for _, way := range []string{"account", "project role"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			ns, _ := cp.Own(t, 1, 8)
			git := rig.StartGit(t, map[string]string{manifestPath: manifest(64)})
			app := argo.Application(t, ns, git, rig.ApplicationOptions{Manual: true})
			issue := argo.Token
			if way == "project role" {
				issue = app.Token
			}
			token, revoke := issue(t)
			wantLeastPrivilege(t, argo, app, token)
			app.AwaitSynced(t, git.Head(t), time.Minute) // what it may do it did

			revoke()
			rig.Await(t, 30*time.Second, "the revoked token is refused", func(context.Context) (bool, string) {
				got := status(argo.Call(t, token, http.MethodGet, "/api/v1/applications/"+app.Name, nil, nil))
				return got == http.StatusUnauthorized || got == http.StatusForbidden, fmt.Sprint(got)
			})
		})
	}
}

func wantLeastPrivilege(t *testing.T, argo *rig.ArgoCD, app *rig.Application, token string) {
	t.Helper()
	path := "/api/v1/applications/" + app.Name
	body := map[string]any{
		"metadata": map[string]any{"name": app.Name},
		"spec": map[string]any{
			"project":     app.Name,
			"source":      map[string]any{"repoURL": app.Git.URL, "path": "serving"},
			"destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": app.Namespace},
		},
	}
	other := map[string]any{"metadata": map[string]any{"name": "elsewhere"}, "spec": map[string]any{"project": "default"}}
	for _, c := range []struct {
		method, path string
		in           any
		want         int
	}{
		{http.MethodGet, path + "?refresh=normal", nil, http.StatusOK},
		{http.MethodPost, path + "/sync", map[string]any{"revision": app.Git.Head(t)}, http.StatusOK},
		{http.MethodPut, path, body, http.StatusForbidden},
		{http.MethodPut, path + "/spec", body["spec"], http.StatusForbidden},
		{http.MethodPatch, path, map[string]any{"patch": `{"spec":{"project":"default"}}`, "patchType": "merge"}, http.StatusForbidden},
		{http.MethodPost, "/api/v1/applications", other, http.StatusForbidden},
		{http.MethodDelete, path, nil, http.StatusForbidden},
		{http.MethodDelete, path + "/resource?namespace=" + app.Namespace + "&resourceName=chat&version=v1&group=apps&kind=Deployment", nil, http.StatusForbidden},
		{http.MethodGet, "/api/v1/applications/elsewhere", nil, http.StatusForbidden},
		{http.MethodGet, "/api/v1/projects/default", nil, http.StatusForbidden},
		{http.MethodPost, "/api/v1/projects", map[string]any{"project": map[string]any{"metadata": map[string]any{"name": "e2e-more"}}}, http.StatusForbidden},
		{http.MethodGet, "/api/v1/account/admin", nil, http.StatusForbidden},
		{http.MethodPost, "/api/v1/repositories", map[string]any{"repo": app.Git.URL}, http.StatusForbidden},
	} {
		if got := status(argo.Call(t, token, c.method, c.path, c.in, nil)); got != c.want {
			t.Errorf("%s %s answers %d, want %d", c.method, c.path, got, c.want)
		}
	}
}

// status is the HTTP status of an answer; 0 is none.
func status(err error) int {
	var refused *rig.APIError
	switch {
	case err == nil:
		return http.StatusOK
	case errors.As(err, &refused):
		return refused.Status
	}
	return 0
}

const manifestPath = "serving/chat.yaml"

// manifest is the Deployment of [inference] as people keep it in Git, with the
// flag that decides how many requests an engine takes at a time.
func manifest(maxNumSeqs int) string {
	return fmt.Sprintf(`# Chat. Ask the platform team before you change the number of replicas.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat
  labels: {responder.dev/service: "true"}
spec:
  replicas: 2  # one GPU each
  progressDeadlineSeconds: 10
  selector:
    matchLabels: {app: chat}
  template:
    metadata:
      labels: {app: chat}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: engine
          image: vllm:v1
          args:
            - --model=chat
            - --gpu-memory-utilization=0.9  # the sampler needs the rest
            - --max-num-seqs=%d
          resources: {limits: {nvidia.com/gpu: 1}}
`, maxNumSeqs)
}

// liveSeqs is the flag as the Deployment in the cluster has it.
func liveSeqs(t testing.TB, cp *rig.ControlPlane, ns, workload string) string {
	t.Helper()
	args := cp.Kubectl(t, "-n", ns, "get", "deployment/"+workload, "-o", "jsonpath={.spec.template.spec.containers[0].args}")
	for _, arg := range strings.Split(strings.Trim(args, "[]"), ",") {
		if strings.Contains(arg, "max-num-seqs") {
			return strings.Trim(arg, `"`)
		}
	}
	return "no --max-num-seqs in " + args
}

// The faults that the other tests inject: what a client of git and of Argo CD
// sees of them, and what of a push is then in the repository.
func TestRigGitFaults(t *testing.T) {
	t.Parallel()
	git := rig.StartGit(t, map[string]string{manifestPath: manifest(64)})
	proxy := rig.StartProxy(t, strings.TrimSuffix(strings.TrimPrefix(git.URL, "http://"), "/serving.git"))
	through := strings.Replace(git.URL, "//", "//ada:"+git.Token+"@", 1)
	clone := filepath.Join(t.TempDir(), "clone")
	run := func(args ...string) error {
		out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := run("clone", "--quiet", through, clone); err != nil {
		t.Fatal(err)
	}
	push := func(subject string) error {
		t.Helper()
		commit := []string{"-C", clone, "-c", "user.name=Eve", "-c", "user.email=eve@example.com", "commit", "--quiet", "--allow-empty", "-m", subject}
		if err := run(commit...); err != nil {
			t.Fatal(err)
		}
		return run("-C", clone, "push", "--quiet", "origin", "HEAD:main")
	}
	subjects := func() string { return strings.Join(git.Log(t, "%s"), "|") }
	want := func(what string, err error, log string) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: the push succeeded", what)
		}
		if got := subjects(); got != log {
			t.Errorf("%s: the branch has %s, want %s", what, got, log)
		}
	}

	git.SetPushable(false)
	want("not pushable", push("first"), "Serve chat")
	if err := run("-C", clone, "fetch", "--quiet"); err != nil {
		t.Errorf("reading does not work while pushing is off: %v", err)
	}
	git.SetPushable(true)
	git.Revoke(true)
	want("revoked", run("-C", clone, "push", "--quiet"), "Serve chat")
	git.Revoke(false)
	git.SetDown(true)
	want("down", run("-C", clone, "fetch", "--quiet"), "Serve chat")
	git.SetDown(false)
	git.CutPushes(1)
	want("cut", run("-C", clone, "push", "--quiet"), "first|Serve chat")

	faster := make(chan error, 1)
	git.BeforePush(func() bool {
		_, err := git.TryCommit(context.Background(), "faster", map[string]string{"README.md": "# Chat\n"})
		faster <- err
		return true
	})
	want("overtaken", push("second"), "faster|first|Serve chat")
	if err := <-faster; err != nil {
		t.Error(err)
	}

	url := strings.Replace(through, strings.SplitN(strings.SplitN(git.URL, "//", 2)[1], "/", 2)[0], proxy.Addr, 1)
	if err := run("ls-remote", "--quiet", url); err != nil {
		t.Errorf("through the proxy: %v", err)
	}
	proxy.Shut()
	if err := run("ls-remote", "--quiet", url); err == nil {
		t.Error("the proxy is shut and git comes through")
	}
	proxy.Open(t)
	if err := run("ls-remote", "--quiet", url); err != nil {
		t.Errorf("through the proxy, open again: %v", err)
	}
}
