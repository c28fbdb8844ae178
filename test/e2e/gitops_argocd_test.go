//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/argocd"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// The client of Argo CD against a real one: an application that syncs and heals
// by itself.
func TestArgoClientAutomated(t *testing.T) {
	t.Parallel()
	w := newArgoWorld(t, rig.ApplicationOptions{})
	w.app.AwaitSynced(t, w.git.Head(t), time.Minute)

	report, err := w.client.Check(t.Context(), w.app.Name)
	if err != nil || !strings.HasPrefix(report.Version, "v2.14.21") || report.Account != "responder" || len(report.Lacking)+len(report.Excess) > 0 {
		t.Errorf("check: %+v, %v; want the account responder with exactly the rights it needs", report, err)
	}
	app, err := w.client.Application(t.Context(), "argocd/"+w.app.Name)
	if err != nil {
		t.Fatal(err)
	}
	chat := gitops.Resource{Group: "apps", Kind: "Deployment", Namespace: w.ns, Name: "chat"}
	if !app.Automated || !app.SelfHeal || app.Sync != "Synced" || app.Health != "Healthy" || app.Window != "" || len(app.Sources) != 1 ||
		app.Sources[0].Repository != w.git.URL || app.Sources[0].Path != "serving" || !slices.Equal(app.Revisions, []string{w.git.Head(t)}) {
		t.Errorf("the application is %+v", app)
	}
	if err := argocd.Owns(app, chat); err != nil {
		t.Error(err)
	}
	if _, err := w.client.Owner(t.Context(), app.Name, gitops.Resource{Group: "apps", Kind: "Deployment", Namespace: w.ns, Name: "other"}); reason(err) != fault.Owned {
		t.Errorf("owner of another object: %v, want refused", err)
	}

	sha := w.git.Edit(t, "Serve fewer", manifestPath, "--max-num-seqs=64", "--max-num-seqs=32")
	if err := w.client.Refresh(t.Context(), w.app.Name); err != nil {
		t.Fatal(err)
	}
	w.watch(t, sha)
	if got := liveSeqs(t, w.cp, w.ns, "chat"); got != "--max-num-seqs=32" {
		t.Errorf("watched to the end, and the Deployment has %s", got)
	}
	if err := w.client.Sync(t.Context(), gitops.Sync{Application: w.app.Name, Revisions: []string{sha}, Key: "k-1"}); reason(err) != fault.Owned {
		t.Errorf("sync of an application that does it by itself: %v, want refused", err)
	}
}

// A sync by hand is pinned to its commit, and is asked for once.
func TestArgoClientManual(t *testing.T) {
	t.Parallel()
	w := newArgoWorld(t, rig.ApplicationOptions{Manual: true})
	first := w.git.Head(t)
	w.git.Edit(t, "Serve fewer", manifestPath, "--max-num-seqs=64", "--max-num-seqs=32")
	for range 2 { // the second is the same one
		if err := w.client.Sync(t.Context(), gitops.Sync{Application: w.app.Name, Revisions: []string{first}, Key: "k-1"}); err != nil {
			t.Fatal(err)
		}
	}
	rig.Await(t, time.Minute, "the pinned commit is rolled out", func(ctx context.Context) (bool, string) {
		if err := w.client.Refresh(ctx, w.app.Name); err != nil {
			return false, err.Error()
		}
		app, err := w.client.Application(ctx, w.app.Name)
		if err != nil {
			return false, err.Error()
		}
		how, why := gitops.Operated(app, []string{first})
		return how == gitops.RolloutSettled, why
	})
	if got := liveSeqs(t, w.cp, w.ns, "chat"); got != "--max-num-seqs=64" {
		t.Errorf("the Deployment has %s, want the pinned commit's 64 and not the head's", got)
	}
	app, err := w.client.Application(t.Context(), w.app.Name)
	if err != nil || len(app.History) != 1 {
		t.Errorf("synced %d times, want once: %v", len(app.History), err)
	}
	w.wantSelectiveForgotten(t)
	w.wantOtherThen(t)

	w.cp.Kubectl(t, "-n", "argocd", "patch", "appproject", w.app.Name, "--type=merge", "-p", closedWindow)
	rig.Await(t, 30*time.Second, "the window is seen", func(ctx context.Context) (bool, string) {
		app, err := w.client.Application(ctx, w.app.Name)
		return err == nil && app.Window != "", app.Window
	})
	if err := w.client.Sync(t.Context(), gitops.Sync{Application: w.app.Name, Revisions: []string{first}, Key: "k-2"}); reason(err) != fault.Throttled || !strings.Contains(err.Error(), "window") {
		t.Errorf("sync in a closed window: %v, want it put off, and the window named", err)
	}
}

// What a sync to a former revision does not bring back is known: what the
// application itself said then.
func (w *argoWorld) wantOtherThen(t *testing.T) {
	t.Helper()
	for _, c := range []struct{ patch, want string }{
		{`{"spec": {"source": {"directory": {"recurse": true}}}}`, "spec.source.directory"},
		{`{"spec": {"source": {"directory": null}}}`, ""},
	} {
		w.cp.Kubectl(t, "-n", "argocd", "patch", "application", w.app.Name, "--type=merge", "-p", c.patch)
		app, err := w.client.Application(t.Context(), w.app.Name)
		if err != nil || len(app.History) != 1 || app.History[0].Differs != c.want {
			t.Errorf("with %s the history is %+v, %v; want %q different then", c.patch, app.History, err, c.want)
		}
	}
}

// Why a change is synced with its application and never as a selected resource:
// Argo CD forgets such a sync. It runs no hooks and leaves no entry in the
// history, which from then on names a commit that does not run.
func (w *argoWorld) wantSelectiveForgotten(t *testing.T) {
	t.Helper()
	before, err := w.client.Application(t.Context(), w.app.Name)
	if err != nil {
		t.Fatal(err)
	}
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {%s}}\n"
	head := w.git.Commit(t, "Add neighbours", map[string]string{
		"serving/neighbour.yaml": fmt.Sprintf(object, "neighbour", ""),
		"serving/hook.yaml":      fmt.Sprintf(object, "hook", "argocd.argoproj.io/hook: PostSync"),
	})
	w.app.SyncOnly(t, "chat", head)
	w.app.Await(t, time.Minute, "the selective sync is over", func(s rig.ApplicationStatus) bool {
		return s.Phase == "Succeeded" && s.Synced == head && !s.Running
	})
	if got := liveSeqs(t, w.cp, w.ns, "chat"); got != "--max-num-seqs=32" {
		t.Errorf("the Deployment has %s, want the head's 32", got)
	}
	if others := w.cp.Kubectl(t, "-n", w.ns, "get", "configmap", "-o", "name"); strings.Contains(others, "neighbour") || strings.Contains(others, "hook") {
		t.Errorf("the selective sync made %q, too", others)
	}
	after, err := w.client.Application(t.Context(), w.app.Name)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(after.History, before.History, func(a, b gitops.Deployment) bool { return a.ID == b.ID }) {
		t.Errorf("the history has %+v after a selective sync, and %+v before", after.History, before.History)
	}
	if after.Operation.Phase != "Succeeded" || !slices.Equal(after.Operation.Revisions, []string{head}) {
		t.Errorf("the operation is %+v, want one that succeeded at %s", after.Operation, head)
	}
}

// An Argo CD that goes away and a token that is taken away have their reasons,
// and a watch outlives the first.
func TestArgoClientFaults(t *testing.T) {
	t.Parallel()
	w := newArgoWorld(t, rig.ApplicationOptions{})
	w.app.AwaitSynced(t, w.git.Head(t), time.Minute)
	sha := w.git.Edit(t, "Serve fewer", manifestPath, "--max-num-seqs=64", "--max-num-seqs=32")

	w.proxy.Shut()
	if _, err := w.client.Application(t.Context(), w.app.Name); reason(err) != fault.Unreachable {
		t.Errorf("away: %v, want unreachable", err)
	}
	watched := make(chan error, 1)
	go func() {
		_, err := w.client.Watch(t.Context(), w.app.Name, settledAt(sha), func(string) {})
		watched <- err
	}()
	w.proxy.Open(t)
	w.app.Refresh(t)
	select {
	case err := <-watched:
		if err != nil {
			t.Errorf("the watch that began while it was away: %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the watch did not see the end")
	}

	w.revoke()
	rig.Await(t, 30*time.Second, "the revoked token is refused", func(ctx context.Context) (bool, string) {
		_, err := w.client.Application(ctx, w.app.Name)
		if err != nil && strings.Contains(err.Error(), "eyJ") { // how every such token begins
			t.Errorf("the error says the token: %v", err)
		}
		return reason(err) == fault.Forbidden, ""
	})
}

// argoWorld is an application and the client of the service.
type argoWorld struct {
	cp     *rig.ControlPlane
	ns     string
	git    *rig.Git
	app    *rig.Application
	proxy  *rig.Proxy
	revoke func()
	client *argocd.Client

	options argocd.Options // of client
}

const closedWindow = `{"spec": {"syncWindows": [{"kind": "deny", "schedule": "* * * * *", "duration": "24h", "applications": ["*"], "manualSync": false}]}}`

func newArgoWorld(t *testing.T, o rig.ApplicationOptions) *argoWorld {
	t.Helper()
	w := &argoWorld{cp: rig.Shared(t)}
	argo := rig.SharedArgoCD(t)
	w.ns, _ = w.cp.Own(t, 1, 8)
	w.git = rig.StartGit(t, map[string]string{manifestPath: manifest(64)})
	w.app = argo.Application(t, w.ns, w.git, o)
	w.proxy = rig.StartProxy(t, strings.Replace(argo.Addr, "localhost", "127.0.0.1", 1))
	token, revoke := argo.Token(t)
	w.revoke = revoke
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	w.options = argocd.Options{Server: w.proxy.Addr, TokenFile: file, CAFile: argo.CA}
	client, err := argocd.New(w.options)
	if err != nil {
		t.Fatal(err)
	}
	w.client = client
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// watch waits until the client says that the commit is rolled out.
func (w *argoWorld) watch(t *testing.T, sha string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said []string
	if _, err := w.client.Watch(ctx, w.app.Name, settledAt(sha), func(s string) { said = append(said, s) }); err != nil {
		t.Fatalf("watch: %v; it said:\n%s", err, strings.Join(said, "\n"))
	}
	s, err := w.app.Status(t.Context())
	if err != nil || s.Sync != "Synced" || s.Revision != sha || s.Health != "Healthy" || s.Running || s.Synced != sha {
		t.Errorf("the watch ended at: %s, %v; want it synced to %s", s, err, sha)
	}
}

// settledAt is the rule for a commit.
func settledAt(sha string) argocd.Judge {
	return func(app gitops.Application) (gitops.Rollout, string) { return gitops.Settled(app, sha, nil) }
}

func reason(err error) fault.Reason {
	var e *fault.Error
	if !errors.As(err, &e) {
		return ""
	}
	return e.Reason
}
