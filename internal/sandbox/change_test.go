package sandbox

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
)

func pre(w kube.Workload) kube.Precondition {
	return kube.Precondition{UID: w.UID, Generation: w.Generation}
}

func TestDryRunChangesNothing(t *testing.T) {
	w, _ := open(t, "bad-rollout")
	_, ref := chat(w)
	before := workload(t, w, ref)
	revisions, err := w.Revisions(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	scaled, err := w.Scale(t.Context(), kube.ScaleChange{Ref: ref, Replicas: 6, Pre: pre(before), DryRun: true, Run: "r", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	undone, err := w.Undo(t.Context(), kube.UndoChange{Ref: ref, Revision: 2, Pre: pre(before), DryRun: true, Run: "r", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if scaled.Replicas != 6 || scaled.Generation != before.Generation+1 || undone.Generation != before.Generation+1 {
		t.Errorf("the dry-runs answer %+v and %+v, not what the change would give", scaled, undone)
	}
	if diff := cmp.Diff(revisions[1].Fields, undone.Fields); diff != "" {
		t.Errorf("the dry-run of undo shows another template than revision 2:\n%s", diff)
	}
	after, err := w.Revisions(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, workload(t, w, ref)) + cmp.Diff(revisions, after); diff != "" {
		t.Errorf("a dry-run changed the workload:\n%s", diff)
	}
}

func TestPreconditionsHold(t *testing.T) {
	w, _ := open(t, "bad-rollout")
	_, ref := chat(w)
	before := workload(t, w, ref)
	for _, p := range []kube.Precondition{
		{},
		{UID: "someone else", Generation: before.Generation},
		{UID: before.UID, Generation: before.Generation - 1},
	} {
		_, err := w.Scale(t.Context(), kube.ScaleChange{Ref: ref, Replicas: 6, Pre: p})
		wantReason(t, err, fault.Conflict)
		_, err = w.Undo(t.Context(), kube.UndoChange{Ref: ref, Revision: 2, Pre: p})
		wantReason(t, err, fault.Conflict)
	}
	_, err := w.Undo(t.Context(), kube.UndoChange{Ref: ref, Revision: 77, Pre: pre(before)})
	wantReason(t, err, fault.NotFound)
	_, err = w.Scale(t.Context(), kube.ScaleChange{Ref: kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "nobody"}, Replicas: 1})
	wantReason(t, err, fault.NotFound)
	if diff := cmp.Diff(before, workload(t, w, ref)); diff != "" {
		t.Errorf("a refused change changed the workload:\n%s", diff)
	}
}

func wantReason(t *testing.T, err error, want fault.Reason) {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) || e.Reason != want || e.Unknown {
		t.Errorf("error %v, want a fault.Error with reason %s that certainly did not happen", err, want)
	}
}

// Undo renumbers as the Deployment controller does: the revision that comes
// back is the newest, and its old number is gone.
func TestUndoRenumbersAndRollsOutWithoutLosingReplicas(t *testing.T) {
	w, clock := open(t, "bad-rollout")
	_, ref := chat(w)
	before := workload(t, w, ref)
	applied, err := w.Undo(t.Context(), kube.UndoChange{Ref: ref, Revision: 2, Pre: pre(before), Run: "r-1", Key: "r-1/rollback#1/apply#1"})
	if err != nil {
		t.Fatal(err)
	}
	revisions, err := w.Revisions(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	var numbers []int64
	for _, r := range revisions {
		numbers = append(numbers, r.Number)
	}
	if diff := cmp.Diff([]int64{1, 3, 4}, numbers); diff != "" {
		t.Errorf("revision numbers after undo:\n%s", diff)
	}
	if last := revisions[2]; !last.Current || !last.Active.Equal(clock.Now()) || last.Cause != "release 2026.46" {
		t.Errorf("the current revision is %+v, want release 2026.46, active since now", last)
	}
	now := workload(t, w, ref)
	if now.Generation != applied.Generation || now.Annotations[kube.AnnotationRun] != "r-1" || now.Annotations[kube.AnnotationEffect] != "r-1/rollback#1/apply#1" {
		t.Errorf("after the change: generation %d, annotations %v", now.Generation, now.Annotations)
	}
	if now.Observed >= now.Generation {
		t.Error("the controller has seen the change before it ran: settling too early would not be noticed")
	}
	for range 60 {
		clock.Advance(5 * time.Second)
		now = workload(t, w, ref)
		if now.Ready < now.Replicas || len(now.Pods) > now.Replicas+now.Strategy.MaxSurge {
			t.Fatalf("during the rollout: %d ready of %d, %d pods; want never fewer ready, never more than one surplus", now.Ready, now.Replicas, len(now.Pods))
		}
	}
	if now.Updated != now.Replicas || len(now.Pods) != now.Replicas || now.Observed != now.Generation {
		t.Errorf("five minutes after the undo: %d of %d updated, %d pods", now.Updated, now.Replicas, len(now.Pods))
	}
}

func TestPodsTakeTimeToLoadAndNodesFillUp(t *testing.T) {
	w, clock := open(t, "traffic-burst")
	_, ref := chat(w)
	if _, err := w.Scale(t.Context(), kube.ScaleChange{Ref: ref, Replicas: 15, Pre: pre(workload(t, w, ref))}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(20 * time.Second)
	if now := workload(t, w, ref); now.Ready != 4 || len(now.Pods) != 15 || now.Unavailable != 11 {
		t.Errorf("20 s after scaling to 15: %d ready, %d unavailable of %d pods, want 4 ready: models take longer to load", now.Ready, now.Unavailable, len(now.Pods))
	}
	clock.Advance(2 * time.Minute)
	now := workload(t, w, ref)
	pending := 0
	for _, p := range now.Pods {
		if p.Phase == "Pending" && p.Message != "" && !p.Ready {
			pending++
		}
	}
	// 16 places, of which the neighbour has 2.
	if now.Ready != 14 || pending != 1 {
		t.Errorf("two minutes later: %d ready, %d pending, want 14 and 1 that no node takes", now.Ready, pending)
	}
	found := false
	for _, e := range now.Events {
		found = found || e.Reason == "FailedScheduling" && e.Count > 1
	}
	if !found {
		t.Errorf("no FailedScheduling event among %v", now.Events)
	}
	nodes, err := w.Nodes(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, n := range nodes {
		total += n.Pods
		if !n.Ready || len(n.Conditions) > 0 {
			t.Errorf("node %+v is not healthy", n)
		}
	}
	if total != 14 {
		t.Errorf("the nodes hold %d pods of the workload, want 14", total)
	}
}

func TestProbeAnswersAsTheEngineWould(t *testing.T) {
	w, _ := open(t, "bad-rollout")
	s, _ := chat(w)
	for path, want := range map[string]int{"/health": 200, "/v1/models": 200, "/nothing": 404} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Endpoint+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := w.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, resp.StatusCode, want)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://elsewhere:8000/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := w.Do(req); err == nil {
		t.Errorf("a host that is no service's answered %d, closed with %v", resp.StatusCode, resp.Body.Close())
	}
}
