package sandbox

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/steptest"
)

// chatInGit is where the chat service's manifest is.
var (
	chatSource = gitops.Source{Repository: repositoryURL, Branch: branchName, Path: "apps/inference-chat"}
	chatTarget = gitops.Target{Kind: "Deployment", Namespace: "serving", Name: "inference-chat", Container: "vllm"}
)

// setFlag commits a flag.
func setFlag(t *testing.T, w *World, flag, value, key string) gitops.Landing {
	t.Helper()
	g := w.Git()
	p, err := g.Propose(t.Context(), gitops.Want{Source: chatSource, Target: chatTarget, Set: []gitops.Assignment{{Variable: gitops.Variable{Flag: flag}, Value: value}}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := g.Commit(t.Context(), gitops.Request{Proposal: p, What: "set " + flag, Run: "r-1", Effect: key})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func argoApp(t *testing.T, w *World) gitops.Application {
	t.Helper()
	app, err := w.Git().Application(t.Context(), "argocd/inference-chat")
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// current returns a field of the current revision.
func current(t *testing.T, w *World, field string) string {
	t.Helper()
	_, ref := chat(w)
	all, err := w.Revisions(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Current {
			return r.Fields[field]
		}
	}
	return ""
}

// TestACommitReachesTheEngines: nothing changes before Argo CD has synced a commit, then
// pods are replaced, and the application says so until all of them are.
func TestACommitReachesTheEngines(t *testing.T) {
	w, clock := open(t, "flag-change")
	const field = "containers[vllm].args[--max-num-batched-tokens]"
	before := argoApp(t, w)
	sha := setFlag(t, w, "max-num-batched-tokens", "4096", "r-1/fix#1/apply").SHA
	clock.Advance(syncDelay - 2*tick)
	if app := argoApp(t, w); app.Revisions[0] != before.Revisions[0] || current(t, w, field) != "64" {
		t.Errorf("before the sync: revision %s, %s", app.Revisions[0], current(t, w, field))
	}
	clock.Advance(2 * tick)
	app := argoApp(t, w)
	if state, why := gitops.Settled(app, sha, nil); state != gitops.RolloutWaiting || current(t, w, field) != "4096" {
		t.Errorf("right after the sync: %s, %s; runs %s", state, why, current(t, w, field))
	}
	clock.Advance(10 * time.Minute)
	if state, why := gitops.Settled(argoApp(t, w), sha, nil); state != gitops.RolloutSettled {
		t.Errorf("ten minutes later: %s, %s", state, why)
	}
	s, _ := chat(w)
	if late := one(t, w, ttftErrors(s, "5m"), clock.Now()); late > 0.01 {
		t.Errorf("with a larger budget %.1f %% of the first tokens are late", 100*late)
	}
	if got := len(argoApp(t, w).History) - len(before.History); got != 1 {
		t.Errorf("the history of Argo CD has %d more entries, want 1", got)
	}
}

// TestARevertFindsTheFormerRevision: the Deployment controller takes the ReplicaSet that
// has the template already, and with it what its image is like.
func TestARevertFindsTheFormerRevision(t *testing.T) {
	w, clock := open(t, "flag-change")
	_, ref := chat(w)
	g := w.Git()
	made := setFlag(t, w, "max-num-seqs", "12", "r-1/fix#1/apply")
	clock.Advance(10 * time.Minute)
	had, err := w.Revisions(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	p, err := g.Reverting(t.Context(), chatSource, chatTarget, []string{made.SHA})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Commit(t.Context(), gitops.Request{Proposal: p, What: "Revert", Run: "r-1", Effect: "r-1/fix#1/undo"}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(10 * time.Minute)
	has, err := w.Revisions(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if len(has) != len(had) || current(t, w, "containers[vllm].args[--max-num-seqs]") != "18" {
		t.Errorf("%d revisions, %d before the revert; --max-num-seqs %s", len(has), len(had), current(t, w, "containers[vllm].args[--max-num-seqs]"))
	}
	head := w.git.head()
	if got, want := string(head.file("apps/inference-chat/deployment.yaml")), string(w.git[len(w.git)-3].file("apps/inference-chat/deployment.yaml")); got != want {
		t.Errorf("the manifest after the revert:\n%s", cmp.Diff(want, got))
	}
}

// TestAPushMeetsTheHead: somebody else's commit refuses a proposal over an older one, and
// the same key makes one commit.
func TestAPushMeetsTheHead(t *testing.T) {
	w, _ := open(t, "flag-change")
	g := w.Git()
	p, err := g.Propose(t.Context(), gitops.Want{Source: chatSource, Target: chatTarget, Set: []gitops.Assignment{{Variable: gitops.Variable{Flag: "max-num-seqs"}, Value: "9"}}})
	if err != nil {
		t.Fatal(err)
	}
	first := setFlag(t, w, "max-num-batched-tokens", "4096", "r-2/fix#1/apply")
	if _, err := g.Commit(t.Context(), gitops.Request{Proposal: p, What: "late", Effect: "r-1/fix#1/apply"}); !step.HasReason(err, fault.Conflict) {
		t.Errorf("a commit over a head that moved: %v", err)
	}
	p.Base = first.SHA
	again, err := g.Commit(t.Context(), gitops.Request{Proposal: p, What: "again", Effect: "r-2/fix#1/apply"})
	if err != nil || again.SHA != first.SHA {
		t.Errorf("the same key made %s, %v; want %s", again.SHA, err, first.SHA)
	}
}

// TestAResumedWorldHasItsCommits: a service that is killed finds its commit, and the sync
// of it goes on.
func TestAResumedWorldHasItsCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "sandbox.json")
		w, err := Resume(file, "flag-change", 10)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		made := setFlag(t, w, "max-num-batched-tokens", "4096", "r-1/fix#1/apply")
		time.Sleep(time.Second)
		again, err := Resume(file, "flag-change", 10)
		if err != nil {
			t.Fatal(err)
		}
		found, err := again.Git().Find(t.Context(), chatSource, "r-1/fix#1/apply")
		if err != nil || found.SHA != made.SHA {
			t.Fatalf("found %+v, %v; want commit %s", found, err, made.SHA)
		}
		time.Sleep(time.Minute)
		if diff := cmp.Diff(argoApp(t, w), argoApp(t, again)); diff != "" {
			t.Errorf("the application after the restart (-left +found):\n%s", diff)
		}
		if app := argoApp(t, again); app.Revisions[0] != made.SHA || app.Health != "Healthy" {
			t.Errorf("the sync did not go on: %s at %s", app.Health, app.Revisions[0])
		}
		sameSeries(t, w, again)
	})
}

// TestGitLevers holds the simulated repository and Argo CD to what levers demand of real ones.
func TestGitLevers(t *testing.T) {
	fresh := func(flag string) func(t *testing.T) steptest.World {
		return func(t *testing.T) steptest.World {
			w, clock := open(t, "flag-change")
			svc, _ := chat(w)
			svc.MaxScale = 20
			g, n := w.Git(), 0
			return steptest.World{
				Service: svc, Finds: true,
				Deps: step.Deps{
					Workloads: w, Changer: w, Objects: w, Manifests: g, Commits: g, Pulls: g, History: g, Applications: g, Journal: everything{}, Now: clock.Now,
				},
				Spec:   func(testing.TB) string { return string(w.git.head().file("apps/inference-chat/deployment.yaml")) },
				Settle: func(testing.TB) { clock.Advance(10 * time.Minute) },
				Meddle: func(testing.TB) {
					n++
					meddle(t, w, flag, fmt.Sprint(20+n))
				},
			}
		}
	}
	t.Run("set_flag", func(t *testing.T) {
		steptest.TestLever(t, "gitops.set_flag", map[string]any{"flag": "max-num-seqs", "value": "12"}, fresh("max-num-seqs"))
	})
	t.Run("set_replicas", func(t *testing.T) {
		steptest.TestLever(t, "kube.scale", map[string]any{"by": int64(1)}, fresh("replicas"))
	})
	t.Run("revert", func(t *testing.T) {
		steptest.TestLever(t, "gitops.revert", map[string]any{"window": "1h"}, fresh("max-num-batched-tokens"))
	})
}

// everything is a journal that has every commit that claims to be of a run.
type everything struct{}

func (everything) Committed(string, string) (bool, error) { return true, nil }

// meddle pushes a change of the chat service as a person.
func meddle(t *testing.T, w *World, flag, value string) {
	t.Helper()
	v := gitops.Variable{Flag: flag}
	if flag == "replicas" {
		v = gitops.Variable{Replicas: true}
	}
	p, err := w.Git().Propose(t.Context(), gitops.Want{Source: chatSource, Target: chatTarget, Set: []gitops.Assignment{{Variable: v, Value: value}}})
	if err != nil {
		t.Fatal(err)
	}
	f := w.fleets[0]
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.commit(change{At: w.clock.Now(), Push: new(f.person("other", p.Files[0].Data))}); err != nil {
		t.Fatal(err)
	}
}

// TestLiveLeversMeetTheOwner: what Argo CD owns is not changed in the cluster.
func TestLiveLeversMeetTheOwner(t *testing.T) {
	w, _ := open(t, "flag-change")
	_, ref := chat(w)
	now := workload(t, w, ref)
	if err := step.Owned("kube.rollout_undo", now, "spec.template"); !step.HasReason(err, fault.Owned) || !strings.Contains(err.Error(), "Argo CD application inference-chat") {
		t.Errorf("the pod template is owned by nobody: %v", err)
	}
	neighbour := kube.Ref{Kind: ref.Kind, Namespace: ref.Namespace, Name: "inference-code"}
	if err := step.Owned("kube.rollout_undo", workload(t, w, neighbour), "spec.template"); err != nil {
		t.Errorf("a service that is not in Git: %v", err)
	}
	if plain, _ := open(t, "bad-rollout"); plain.Git() != nil {
		t.Error("a world without a service in Git has a repository")
	}
}
