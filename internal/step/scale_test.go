package step_test

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// TestScaleBack: the return of a loan takes away what was lent, and nothing that was
// there before: somebody may have taken some of it back meanwhile.
func TestScaleBack(t *testing.T) {
	svc := playbook.Service{Name: "chat", MinReady: 1, MaxScale: 10}
	for now, want := range map[int]int{9: 7, 8: 6, 6: 4, 5: 4, 4: 0, 3: 0} { // 4 were there, 2 are on loan; 0: nothing to do
		back := step.ScaleBack(4, 6)
		by, above := back["by"].(int), back["above"].(int)
		to, note, err := step.ScaleTarget("kube.scale", step.ScaleWith{By: &by, Above: &above}, svc, now)
		if want == 0 {
			if step.AsError(err).Reason != fault.NothingToDo {
				t.Errorf("of %d replicas: %d, %v", now, to, err)
			}
			continue
		}
		if err != nil || to != want || strings.Contains(note, "took the rest away") != (now == 5) {
			t.Errorf("of %d replicas: %d %q %v, want %d", now, to, note, err, want)
		}
	}
	if back := step.ScaleBack(6, 4); back["by"] != 2 || len(back) != 1 {
		t.Errorf("fewer replicas: %v", back)
	}
}

// TestScaleFrom: what was to be added to the replicas of the evidence is not added once
// more to those that somebody added meanwhile.
func TestScaleFrom(t *testing.T) {
	svc, by, from := playbook.Service{Name: "chat", MaxScale: 12}, 2, 4
	for now, want := range map[int]int{3: 6, 4: 6, 5: 6, 6: 0, 9: 0} { // 0: nothing to do
		to, _, err := step.ScaleTarget("kube.scale", step.ScaleWith{By: &by, From: &from}, svc, now)
		if want == 0 && step.AsError(err).Reason != fault.NothingToDo || want > 0 && (err != nil || to != want) {
			t.Errorf("of %d replicas: %d, %v, want %d", now, to, err, want)
		}
	}
}

func TestStartable(t *testing.T) {
	old := kube.Pod{Name: "old", Revision: 4, Ready: true}
	dead := kube.Pod{Name: "new", Revision: 5, Waiting: "CrashLoopBackOff"}
	up := kube.Pod{Name: "new", Revision: 5, Node: "a", Phase: "Running", Restarts: 3, Ended: &kube.Ended{Served: kube.ServedNo}}
	loads := kube.Pod{Name: "new", Revision: 5, Node: "a", Phase: "Running"}
	for _, c := range []struct {
		name    string
		pods    []kube.Pod
		refused bool
	}{
		{"a release crashes", []kube.Pod{old, old, dead}, true},
		{"it loads between two crashes", []kube.Pod{old, old, up}, true},
		{"it loads", []kube.Pod{old, old, loads}, false},
		{"one of it serves", []kube.Pod{old, old, dead, {Revision: 5, Ready: true}}, false},
		{"replicas of before are missing", []kube.Pod{old, dead}, false},
		{"one of the revision before crashes", []kube.Pod{old, old, {Name: "x", Revision: 4, Waiting: "CrashLoopBackOff"}}, false},
	} {
		err := step.Startable("kube.scale", kube.Workload{Revision: 5, Replicas: 2, Pods: c.pods})
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
