package kube_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

var chatRollout = kube.Ref{Kind: kube.Rollout, Namespace: "serving", Name: "chat"}

// halfWayRollout is a Rollout whose third revision one of four replicas runs.
func halfWayRollout(t *testing.T) (*kubetest.Server, *kube.Client) {
	s := kubetest.New(t)
	s.Serve("argoproj.io/v1alpha1", "rollouts")
	s.Workload(t, chatRollout, 4, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"))
	s.HalfWay(chatRollout, kubetest.Template("chat", "vllm:v3"), 1, kubetest.Epoch().Add(time.Hour))
	return s, s.Client(t)
}

// TestRollout: a canary of Argo Rollouts is read with its ReplicaSets, its pods by their
// revisions, and what its requests would go back to.
func TestRollout(t *testing.T) {
	s, c := halfWayRollout(t)
	w, err := c.Workload(t.Context(), chatRollout)
	if err != nil {
		t.Fatal(err)
	}
	if w.APIVersion != "argoproj.io/v1alpha1" || w.Replicas != 4 || w.Updated != 1 || w.Revision != 3 || w.Observed != w.Generation || !w.RollingOut() ||
		w.Template == "" || w.Stable == "" || w.Template == w.Stable || w.Paused || w.Held != "" || w.Strategy != (kube.Strategy{Type: "Canary", MaxUnavailable: 1}) {
		t.Errorf("%+v", w)
	}
	count := map[int64]int{}
	for _, p := range w.Pods {
		count[p.Revision]++
	}
	if d := cmp.Diff(map[int64]int{2: 3, 3: 1}, count); d != "" {
		t.Errorf("pods by revision (-want +got):\n%s", d)
	}
	revisions, err := c.Revisions(t.Context(), chatRollout)
	if err != nil || len(revisions) != 3 {
		t.Fatalf("%+v, %v", revisions, err)
	}
	current, previous := kube.Newest(revisions)
	if current.Number != 3 || current.Name != w.Template || previous.Name != w.Stable {
		t.Errorf("current %+v, before it %+v", current, previous)
	}
	if d := kube.Diff(previous.Fields, current.Fields); len(d) != 1 || d[0].To != "vllm:v3" {
		t.Errorf("what changed: %+v", d)
	}
	n, err := c.Replicas(t.Context(), []kube.Ref{chatRollout})
	if err != nil || n[chatRollout] != (kube.ReplicaCount{Wanted: 4, Ready: 4}) {
		t.Errorf("counted %+v, %v", n, err)
	}
	// Pods of the release before stay for a while, and no rollout is under way.
	s.Change(kubetest.Path(chatRollout), func(m map[string]any) {
		status := m["status"].(map[string]any)
		status["stableRS"] = status["currentPodHash"]
	})
	if w, err := c.Workload(t.Context(), chatRollout); err != nil || w.RollingOut() {
		t.Errorf("promoted: %+v, %v", w, err)
	}
}

// TestRolloutStrategy: nothing but a plain canary bounds how many pods an abort takes.
func TestRolloutStrategy(t *testing.T) {
	s, c := halfWayRollout(t)
	for _, tt := range []struct {
		strategy map[string]any
		want     kube.Strategy
	}{
		{map[string]any{"canary": map[string]any{}}, kube.Strategy{Type: "Canary", MaxUnavailable: 1}},
		{map[string]any{"canary": map[string]any{"maxUnavailable": "50%"}}, kube.Strategy{Type: "Canary", MaxUnavailable: 2}},
		{map[string]any{"canary": map[string]any{"trafficRouting": map[string]any{"istio": map[string]any{}}}}, kube.Strategy{Type: "Canary", MaxUnavailable: 4}},
		{map[string]any{"blueGreen": map[string]any{"activeService": "chat"}}, kube.Strategy{Type: "BlueGreen", MaxUnavailable: 4}},
	} {
		s.Edit(kubetest.Path(chatRollout), func(spec map[string]any) { spec["strategy"] = tt.strategy })
		w, err := c.Workload(t.Context(), chatRollout)
		if err != nil || w.Strategy != tt.want {
			t.Errorf("%v: %+v, %v", tt.strategy, w.Strategy, err)
		}
	}
}

// TestAbort: an abort is one write of the status with the name of its effect, which its
// controller has to see; and one of somebody else is not ours.
func TestAbort(t *testing.T) {
	s, c := halfWayRollout(t)
	w, err := c.Workload(t.Context(), chatRollout)
	if err != nil {
		t.Fatal(err)
	}
	hold := kube.HoldChange{Ref: chatRollout, Set: w.Template, Run: "r-1", Key: "r-1/hold#1/apply#1", Pre: kube.Precondition{UID: w.UID, Generation: w.Generation, Version: w.Version}}
	if _, err := c.Hold(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	if got := s.Writes(); len(got) != 1 || got[0] != "PATCH "+kubetest.Path(chatRollout)+"/status" {
		t.Errorf("wrote %q", got)
	}
	now, err := c.Workload(t.Context(), chatRollout)
	if err != nil || !now.Paused || now.Held != w.Template || now.PausedBy != kube.FieldManager || now.AbortedBy != kube.EffectManager(hold.Key) || now.Observed >= now.Generation || now.Generation != w.Generation {
		t.Errorf("aborted: %+v, %v", now, err)
	}
	s.Settle(chatRollout, kubetest.Epoch().Add(2*time.Hour))
	if now, err := c.Workload(t.Context(), chatRollout); err != nil || now.Observed < now.Generation || now.Updated != 0 || !now.RollingOut() {
		t.Errorf("seen: %+v, %v", now, err)
	}
	s.Abort(chatRollout, "kubectl-argo-rollouts", false)
	_, err = c.Hold(t.Context(), hold) // on its way since before
	wantReason(t, err, fault.Conflict, "changed since it was read")
	s.Abort(chatRollout, "kubectl-argo-rollouts", true)
	if now, err := c.Workload(t.Context(), chatRollout); err != nil || !now.Paused || now.Held != "" || now.PausedBy != "kubectl-argo-rollouts" {
		t.Errorf("aborted by a person: %+v, %v", now, err)
	}
	_, err = c.Hold(t.Context(), hold)
	wantReason(t, err, fault.NothingToDo, "status.abort is true already")
	_, err = c.Restart(t.Context(), kube.RestartChange{Ref: chatRollout, Pre: kube.Precondition{UID: w.UID, Generation: w.Generation}})
	wantReason(t, err, fault.Invalid, "only the replicas and the abort")
}

// TestRolloutNotRead: a Rollout that is not there is told from a cluster without Argo
// Rollouts, and a pod template elsewhere is not read as none.
func TestRolloutNotRead(t *testing.T) {
	s, c := halfWayRollout(t)
	_, err := c.Workload(t.Context(), kube.Ref{Kind: kube.Rollout, Namespace: "serving", Name: "gone"})
	if wantReason(t, err, fault.NotFound, "get rollouts.argoproj.io serving/gone"); strings.Contains(err.Error(), "not installed") {
		t.Errorf("it is installed: %v", err)
	}
	s.Edit(kubetest.Path(chatRollout), func(spec map[string]any) { spec["workloadRef"] = map[string]any{"kind": "Deployment", "name": "chat"} })
	_, err = c.Workload(t.Context(), chatRollout)
	wantReason(t, err, fault.OutOfBounds, "its pod template from Deployment chat (spec.workloadRef)")
	_, err = kubetest.New(t).Client(t).Workload(t.Context(), chatRollout)
	wantReason(t, err, fault.NotFound, "Argo Rollouts is not installed")
}

func wantReason(t *testing.T, err error, reason fault.Reason, text string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Reason != reason || !strings.Contains(f.Error(), text) {
		t.Errorf("%v, want %s: %s", err, reason, text)
	}
}
