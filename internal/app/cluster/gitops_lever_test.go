package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/gittest"
	"github.com/inference-responder/responder/internal/gitops/manifests"
	"github.com/inference-responder/responder/internal/gitops/repository"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/steptest"
)

const chatManifest = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: chat
  namespace: serving
spec:
  replicas: 3
  # three pods hold the peak
  template:
    spec:
      # one engine to a pod
      containers:
        - name: vllm
          image: vllm:v0.11
          # measured in May
          args:
            - --model=llama
            - --max-num-seqs=256
            - --port=8000
`

// gitRig is a service in a real repository, deployed by a stand-in of Argo CD
// that syncs by itself whenever it is asked to look.
type gitRig struct {
	git *gittest.Server
	app gitops.Application

	refreshed int
}

func newGitRig(t *testing.T, manifest string) (*gitRig, step.Deps) {
	t.Helper()
	h := &gitRig{git: gittest.NewServer(t)}
	h.git.Push("first", map[string]string{"apps/chat/deployment.yaml": manifest})
	release := strings.NewReplacer("--port=8000", "--port=8000\n            - --stream-interval=2", "image: vllm:v0.11", "image: vllm:v0.12")
	h.git.Push("a release", map[string]string{"apps/chat/deployment.yaml": release.Replace(manifest)})
	h.app = gitops.Application{
		Name: "argocd/chat", Project: "serving", Automated: true, Sync: "Synced", Health: "Healthy",
		Sources:   []gitops.Source{{Repository: h.git.RepositoryURL(), Branch: "main", Path: "apps/chat"}},
		Target:    []string{"main"},
		Resources: []gitops.Resource{{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "chat"}},
	}
	h.sync()
	m, err := manifests.New(manifests.Options{Dir: t.TempDir(), Remotes: []manifests.Remote{{
		Branch: "main", Repository: repository.Options{URL: h.git.RepositoryURL(), Author: gitops.Person{Name: "responder", Email: "r@example.com"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, step.Deps{Workloads: chatFleet{}, Manifests: m, Commits: m, Pulls: m, History: m, Applications: h, Objects: h}
}

func (h *gitRig) sync() {
	sha := h.git.Head("main")
	h.app.Revisions = []string{sha}
	h.app.Operation = gitops.Operation{Phase: "Succeeded", Revisions: []string{sha}, Finished: time.Now()}
	h.app.History = append(h.app.History, gitops.Deployment{ID: int64(len(h.app.History) + 1), Revisions: []string{sha}, At: time.Now()})
}

// Application implements [step.Applications].
func (h *gitRig) Application(context.Context, string) (gitops.Application, error) {
	return h.app, nil
}

// Refresh implements [step.Applications].
func (h *gitRig) Refresh(context.Context, string) error {
	h.refreshed++
	return nil
}

// Lacks implements [step.Applications].
func (h *gitRig) Lacks(context.Context, string) (string, error) { return "", nil }

// Sync implements [step.Applications].
func (h *gitRig) Sync(context.Context, gitops.Sync) error { return nil }

// Stop implements [step.Applications].
func (h *gitRig) Stop(context.Context, string, string) error { return nil }

// Object implements [step.Objects]: what was synced last.
func (h *gitRig) Object(_ context.Context, id kube.ObjectID) ([]byte, error) {
	if id.Kind != "Deployment" || id.Name != "chat" {
		return nil, &fault.Error{Reason: fault.NotFound, Message: "no " + id.String()}
	}
	return []byte(h.git.Show(h.app.Revisions[0], "apps/chat/deployment.yaml")), nil
}

// Try implements [step.Objects].
func (h *gitRig) Try(_ context.Context, _ string, manifest []byte) ([]byte, error) {
	return manifest, nil
}

// chatFleet is the live workload.
type chatFleet struct{ step.Workloads }

// Workload implements [step.Workloads].
func (chatFleet) Workload(_ context.Context, r kube.Ref) (kube.Workload, error) {
	return kube.Workload{
		Ref: r, APIVersion: "apps/v1", UID: "uid-chat", Generation: 1, Observed: 1, Replicas: 3, Ready: 3, Updated: 3, Available: 3,
		Strategy: kube.Strategy{Type: "RollingUpdate", MaxUnavailable: 1},
		Owners:   []kube.Owner{{Field: "*", Kind: "ArgoCD", Name: "argocd/chat", Why: "annotation"}},
	}, nil
}

// TestGitLeversOverRealGit holds the levers that commit to the contract of every
// lever, on a real repository over HTTP.
func TestGitLeversOverRealGit(t *testing.T) {
	const radix = "            - --disable-radix-cache\n"
	without := strings.NewReplacer("max-num-seqs", "max-running-requests", "image: vllm:v0.11", "image: lmsysorg/sglang:v0.5.5", "--model=", "--model-path=").Replace(chatManifest)
	to := func(key, value string) func(string) string {
		return func(text string) string { return meddled(text, key, value) }
	}
	toggle := func(text string) string {
		if strings.Contains(text, radix) {
			return strings.Replace(text, radix, "", 1)
		}
		return text + radix
	}
	for name, tt := range map[string]struct {
		engine, kind string
		with         map[string]any
		manifest     string
		meddle       func(text string) string // what somebody else changes, over whatever stands there
	}{
		"set_flag":     {"vllm", "gitops.set_flag", map[string]any{"flag": "max-num-seqs", "value": "192"}, chatManifest, to("--max-num-seqs=", "64")},
		"switch off":   {"sglang", "gitops.set_flag", map[string]any{"flag": "disable-radix-cache", "value": "false"}, without + radix, toggle},
		"set_replicas": {"vllm", "gitops.set_replicas", map[string]any{"by": int64(1)}, chatManifest, to("replicas: ", "9")},
		"revert":       {"vllm", "gitops.revert", map[string]any{"to": "previous"}, chatManifest, to("image: ", "vllm:v0.13")},
		"window":       {"vllm", "gitops.revert", map[string]any{"window": "1h"}, chatManifest, to("image: ", "vllm:v0.13")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steptest.TestLever(t, tt.kind, tt.with, func(t *testing.T) steptest.World {
				h, deps := newGitRig(t, tt.manifest)
				show := func() string { return h.git.Show("main", "apps/chat/deployment.yaml") }
				return steptest.World{
					Service: playbook.Service{
						Name: "serving/chat", Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "chat"},
						Container: "vllm", Engine: tt.engine, MinReady: 1, MaxScale: 12, Autonomy: playbook.Auto,
					},
					Deps: deps, Finds: true,
					Spec:   func(testing.TB) string { return show() },
					Settle: func(testing.TB) { h.sync() },
					Meddle: func(testing.TB) {
						h.git.Push("other plans", map[string]string{"apps/chat/deployment.yaml": tt.meddle(show())})
					},
				}
			})
		})
	}
}

// meddled is the text with another value after a key.
func meddled(text, key, value string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if before, _, ok := strings.Cut(l, key); ok {
			lines[i] = before + key + value
			break
		}
	}
	return strings.Join(lines, "\n")
}
