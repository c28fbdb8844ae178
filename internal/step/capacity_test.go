package step

import (
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestNotPutBack: a release of which nothing serves is never put back by a verdict; one
// that serves, or of which nothing is known, is judged as any rollback.
func TestNotPutBack(t *testing.T) {
	pod := func(revision int64, ready bool) kube.Pod { return kube.Pod{Revision: revision, Ready: ready} }
	for name, tt := range map[string]struct {
		pods []kube.Pod
		want playbook.Class
	}{
		"none of it is ready": {[]kube.Pod{pod(4, true), pod(5, false), pod(5, false)}, playbook.ClassHardware},
		"one of it is ready":  {[]kube.Pod{pod(4, true), pod(5, false), pod(5, true)}, ""},
		"it has no pods":      {[]kube.Pod{pod(4, true)}, ""},
		"no pods are known":   {nil, ""},
		"revisions are not":   {[]kube.Pod{pod(0, false)}, ""},
		"all are down":        {[]kube.Pod{pod(4, false), pod(5, false)}, playbook.ClassHardware},
	} {
		plan := machine.Plan{}
		NotPutBack(&plan, kube.Workload{Revision: 5, Pods: tt.pods})
		if plan.Class != tt.want || (len(plan.Notes) > 0) != (tt.want != "") {
			t.Errorf("%s: class %q, notes %q; want %q", name, plan.Class, plan.Notes, tt.want)
		}
		if f := machine.FateOf(tt.want, true, machine.VerdictWorse); tt.want != "" && f.Then != machine.Keep {
			t.Errorf("%s: made worse, %s", name, f.Text())
		}
	}
}
