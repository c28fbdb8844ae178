package step_test

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/fault"
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
