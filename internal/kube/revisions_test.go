package kube_test

import (
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// TestUndoneRollbackIsNoRepair: the undo of a rollback puts back what somebody else
// released. It is no repair of ours, and none of their work either.
func TestUndoneRollbackIsNoRepair(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		ref := kube.Ref{Kind: kind, Namespace: "serving", Name: "chat"}
		s := kubetest.New(t)
		s.Workload(t, ref, 3, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"))
		c := s.Client(t)
		undo := func(ch kube.UndoChange, after time.Duration) kube.Revision {
			t.Helper()
			w, err := c.Workload(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			ch.Ref, ch.Run, ch.Pre = ref, "r-1", kube.Precondition{UID: w.UID, Generation: w.Generation}
			if _, err := c.Undo(t.Context(), ch); err != nil {
				t.Fatal(err)
			}
			s.Settle(ref, kubetest.Epoch().Add(after))
			all, err := c.Revisions(t.Context(), ref)
			if err != nil || len(all) != 2 || !all[1].Current {
				t.Fatalf("%s: %+v, %v", kind, all, err)
			}
			return all[1]
		}
		if r := undo(kube.UndoChange{Revision: 1, Key: "r-1/back#1/apply#1"}, time.Hour); !r.Ours || r.PutBack {
			t.Errorf("%s: the rollback: %+v", kind, r)
		}
		if r := undo(kube.UndoChange{Revision: 2, PutBack: true, Key: "r-1/back#1/undo#1"}, 2*time.Hour); r.Number != 4 || r.Ours || !r.PutBack || r.Acquitted {
			t.Errorf("%s: its undo: %+v", kind, r)
		}
		undo(kube.UndoChange{Revision: 3, Key: "r-2/back#1/apply#1"}, 3*time.Hour)
		if r := undo(kube.UndoChange{Revision: 4, PutBack: true, Acquits: true, Key: "r-2/back#1/undo#1"}, 4*time.Hour); r.Ours || !r.PutBack || !r.Acquitted {
			t.Errorf("%s: the undo of one that did not help: %+v", kind, r)
		}
		s.Edit(kubetest.Path(ref), func(spec map[string]any) { pod(spec)["hostname"] = "x" })
		s.Settle(ref, kubetest.Epoch().Add(5*time.Hour))
		all, err := c.Revisions(t.Context(), ref)
		if err != nil || all[2].Ours || all[2].PutBack || all[2].Acquitted {
			t.Errorf("%s: a person's rollout after it: %+v, %v", kind, all, err)
		}
	}
}

// TestActiveOfOneThatCameBack: a revision that was rolled back to, and replaced since,
// did not become current before the one whose rollback it was.
func TestActiveOfOneThatCameBack(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		ref := kube.Ref{Kind: kind, Namespace: "serving", Name: "chat"}
		s := kubetest.New(t)
		s.Workload(t, ref, 3, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"))
		c := s.Client(t)
		w, err := c.Workload(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Undo(t.Context(), kube.UndoChange{Ref: ref, Revision: 1, Pre: kube.Precondition{UID: w.UID, Generation: w.Generation}}); err != nil {
			t.Fatal(err)
		}
		s.Settle(ref, kubetest.Epoch().Add(time.Hour))
		s.Edit(kubetest.Path(ref), func(spec map[string]any) { pod(spec)["hostname"] = "x" })
		s.Settle(ref, kubetest.Epoch().Add(2*time.Hour))
		all, err := c.Revisions(t.Context(), ref)
		if err != nil || len(all) != 3 || all[1].Number != 3 || all[1].Fields["containers[vllm].image"] != "vllm:v1" {
			t.Fatalf("%s: %+v, %v", kind, all, err)
		}
		if !all[1].Created.Equal(kubetest.Epoch()) || !all[1].Became().Equal(kubetest.Epoch().Add(10*time.Minute)) {
			t.Errorf("%s: created %s, became %s", kind, all[1].Created, all[1].Became())
		}
	}
}

// TestRestartIsNoRepair: a restart rolls out once more what was there. A release of
// others is theirs as before, and a repair of ours is a repair as before.
func TestRestartIsNoRepair(t *testing.T) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		ref := kube.Ref{Kind: kind, Namespace: "serving", Name: "chat"}
		s := kubetest.New(t)
		s.Workload(t, ref, 3, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"))
		c := s.Client(t)
		current := func(change func(kube.Precondition) error, after time.Duration) kube.Revision {
			t.Helper()
			w, err := c.Workload(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			if err := change(kube.Precondition{UID: w.UID, Generation: w.Generation}); err != nil {
				t.Fatal(err)
			}
			s.Settle(ref, kubetest.Epoch().Add(after))
			all, err := c.Revisions(t.Context(), ref)
			if err != nil || !all[len(all)-1].Current {
				t.Fatalf("%s: %+v, %v", kind, all, err)
			}
			return all[len(all)-1]
		}
		restart := func(pre kube.Precondition) error {
			_, err := c.Restart(t.Context(), kube.RestartChange{Ref: ref, At: kubetest.Epoch().Add(time.Hour), Run: "r-1", Key: "r-1/again#1/apply#1", Pre: pre})
			return err
		}
		if r := current(restart, time.Hour); r.Ours || !r.PutBack {
			t.Errorf("%s: the restart of somebody's release: %+v", kind, r)
		}
		back := func(pre kube.Precondition) error {
			_, err := c.Undo(t.Context(), kube.UndoChange{Ref: ref, Revision: 1, Run: "r-1", Key: "r-1/back#1/apply#1", Pre: pre})
			return err
		}
		if r := current(back, 2*time.Hour); !r.Ours {
			t.Errorf("%s: the rollback: %+v", kind, r)
		}
		if r := current(restart, 3*time.Hour); !r.Ours || r.PutBack {
			t.Errorf("%s: the restart of the rollback: %+v", kind, r)
		}
	}
}
