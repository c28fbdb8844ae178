package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/forge"
	"github.com/inference-responder/responder/internal/gitops/gittest"
	"github.com/inference-responder/responder/internal/gitops/manifests"
	"github.com/inference-responder/responder/internal/gitops/repository"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// pullRig is a service in a repository whose main branch only pull requests
// reach. That is said by git alone: the forge's API does not tell.
type pullRig struct {
	*gitRig

	t     *testing.T
	forge *gittest.Forge
	set   *step.Set
}

func newPullRig(t *testing.T, kind string) *pullRig {
	t.Helper()
	h, deps := newGitRig(t, chatManifest)
	f := gittest.NewForge(t, h.git, kind, "token")
	h.git.Hook("update", `test "$1" != refs/heads/main || { echo 'GH006: Protected branch update failed for refs/heads/main.' >&2; exit 1; }`)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := forge.New(forge.Options{Kind: forge.Kind(kind), API: f.API(), Repository: f.Repository(), TokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifests.New(manifests.Options{Dir: t.TempDir(), Remotes: []manifests.Remote{{
		Branch: "main", Forge: client,
		Repository: repository.Options{URL: h.git.RepositoryURL(), Author: gitops.Person{Name: "responder", Email: "r@example.com"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	deps.Manifests, deps.Commits, deps.Pulls, deps.History = m, m, m, m
	return &pullRig{gitRig: h, t: t, forge: f, set: kinds.New(deps)}
}

// do carries out an action of the lever, merged by Responder, and holds the
// status and a part of the message.
func (h *pullRig) do(a machine.Action, plan *machine.Plan, receipt json.RawMessage, want machine.Status, words string) machine.Outcome {
	h.t.Helper()
	o := h.set.Do(h.t.Context(), machine.Effect{
		Key: "r-1/cap#1/" + string(a) + "#1", Run: "r-1", State: "cap", Action: a, Step: "gitops.set_flag", Attempt: 1,
		With: map[string]any{"flag": "max-num-seqs", "value": "192"}, Plan: plan, Receipt: receipt, MergeBy: machine.MergeResponder,
		Service: playbook.Service{
			Name: "serving/chat", Namespace: "serving", Engine: "vllm", Container: "vllm", Workload: playbook.Workload{Kind: "Deployment", Name: "chat"},
			GitOps: playbook.GitOps{Application: "argocd/chat"},
		},
	})
	if o.Status != want || !strings.Contains(o.Message, words) {
		h.t.Fatalf("%s: %s %s %q, want %s ...%s...", a, o.Status, o.Reason, o.Message, want, words)
	}
	return o
}

// TestPullRequestToItsEnd: a change is planned as a push, which the branch
// refuses; the fresh plan goes by pull request, waits for what is missing, is
// merged, rolled out, and taken back by one that a person squashes.
func TestPullRequestToItsEnd(t *testing.T) {
	for _, kind := range []string{"github", "gitlab", "gitea"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := newPullRig(t, kind)
			before := h.git.Show("main", "apps/chat/deployment.yaml")
			pushed := h.do(machine.ActionPlan, nil, nil, machine.StatusOK, "").Plan
			if o := h.do(machine.ActionApply, pushed, nil, machine.StatusFailed, "the branch needs a pull request"); o.Reason != fault.Conflict {
				t.Fatalf("%s: it is not planned afresh", o.Reason)
			}
			plan := h.do(machine.ActionPlan, nil, nil, machine.StatusOK, "").Plan
			if plan.Digest() == pushed.Digest() || !strings.HasSuffix(plan.Summary, ", by pull request") || plan.MergeWithin != manifests.MergeWithin {
				t.Fatalf("the fresh plan is %+v", plan)
			}
			made := h.do(machine.ActionApply, plan, nil, machine.StatusOK, "")
			if made.Waits == "" || !strings.Contains(h.forge.Pulls()[0].Text, plan.Undo) {
				t.Fatalf("made %+v, asked for\n%s", made, h.forge.Pulls()[0].Text)
			}
			h.forge.Check("ci", "failure")
			h.forge.Bypass()
			h.do(machine.ActionSettle, plan, made.Data, machine.StatusPending, "by Responder: ")
			if h.git.Show("main", "apps/chat/deployment.yaml") != before {
				t.Fatal("merged over a failed check")
			}
			h.forge.Check("ci", "success")
			h.do(machine.ActionSettle, plan, made.Data, machine.StatusPending, "by Responder")
			if now := h.git.Show("main", "apps/chat/deployment.yaml"); now != strings.Replace(before, "=256", "=192", 1) {
				t.Fatalf("merged is\n%s", now)
			}
			h.sync()
			settled := h.do(machine.ActionSettle, plan, made.Data, machine.StatusOK, "")
			back := h.do(machine.ActionUndo, plan, settled.Data, machine.StatusOK, "")
			sha := h.forge.MergeAs(t, "ada", 2, "squash")
			if strings.Contains(h.git.GitBare("show", "--no-patch", "--format=%B", sha), gitops.TrailerEffect) {
				t.Fatal("the squash kept the trailers: the test tests nothing")
			}
			h.sync()
			h.do(machine.ActionUnwind, plan, back.Data, machine.StatusOK, "")
			if now := h.git.Show("main", "apps/chat/deployment.yaml"); now != before {
				t.Errorf("after the undo\n%s", now)
			}
		})
	}
}
