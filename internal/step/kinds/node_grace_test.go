package kinds_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// graceful gives the engine of a pod what it needs to leave without losing
// requests, and that many seconds for it.
func graceful(seconds int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = &seconds
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 15}}}
		p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{}
	}
}

// TestPlanSaysWhatRequestsAreLost: who leaves an engine with GPUs too little
// time, or no warning, is told so before it is decided.
func TestPlanSaysWhatRequestsAreLost(t *testing.T) {
	const short, given, abrupt, unproven = "too little time to finish their requests, less than 1m: ", "by their own terminationGracePeriodSeconds too little", "without a preStop hook", "without a readiness probe"
	for name, c := range map[string]struct {
		with map[string]any
		edit func(*corev1.Pod)
		says []string // notes that begin so, with the pod
	}{
		"as it should be":       {edit: graceful(60)},
		"a second too short":    {edit: graceful(59), says: []string{short}},
		"none at all":           {edit: graceful(0), says: []string{short}},
		"grace makes up for it": {with: map[string]any{"grace": "90s"}, edit: graceful(30), says: []string{given}},
		"grace is too short":    {with: map[string]any{"grace": "45s"}, edit: graceful(30), says: []string{short}},
		"grace is not needed":   {with: map[string]any{"grace": "10s"}, edit: graceful(60)},
		"nothing is said":       {says: []string{short, abrupt, unproven}},
		"the hook is a sidecar's": {edit: func(p *corev1.Pod) {
			graceful(60)(p)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy", Lifecycle: p.Spec.Containers[0].Lifecycle})
			p.Spec.Containers[0].Lifecycle = nil
		}, says: []string{abrupt}},
		"a sidecar has none": {edit: func(p *corev1.Pod) {
			graceful(60)(p)
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy"})
		}},
		"it has no GPU": {edit: func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = nil }},
		"it serves nobody": {edit: func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
		}},
	} {
		t.Run(name, func(t *testing.T) {
			x := newNodeTrial(t, "node.drain", c.with)
			for _, pod := range []string{"chat-0", "chat-2"} {
				x.Delete(kubetest.PodPath("serving", pod))
			}
			x.Pod(t, kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "summarise"}, "summarise-0", "node-0", c.edit)
			var lost []string
			for _, note := range x.plan(t).Notes {
				for _, begins := range []string{short, given, abrupt, unproven} {
					if strings.HasPrefix(note, begins) && strings.Contains(note, "serving/summarise-0") {
						lost = append(lost, begins)
					}
				}
			}
			if got, want := strings.Join(lost, "; "), strings.Join(c.says, "; "); got != want {
				t.Errorf("it says %q, want %q", got, want)
			}
		})
	}
}

// TestDrainWaitsForRotation: a pod that is gone counts as gone when nobody is
// told any more that it is ready, and what is never told so is given up.
func TestDrainWaitsForRotation(t *testing.T) {
	x := newNodeTrial(t, "node.drain", map[string]any{"within": "10m", "at_once": int64(3)})
	slice := func(uid string, ready *bool) {
		x.Put("/apis/discovery.k8s.io/v1/namespaces/serving/endpointslices/chat-x7k2p", discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "chat-x7k2p", Namespace: "serving"},
			Endpoints: []discoveryv1.Endpoint{
				{TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "chat-1", UID: "uid-of-chat-1"}},
				{TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "summarise-0", UID: types.UID(uid)}, Conditions: discoveryv1.EndpointConditions{Ready: ready}},
			},
		})
	}
	slice("uid-of-summarise-0", nil)
	plan := x.applied(t)
	for range 3 {
		x.do(t, machine.ActionSettle, plan, "")
	}
	const listed = "3 of 3 pods have left node node-0, in rotation all the same: serving/summarise-0 (EndpointSlice chat-x7k2p)"
	x.settles(t, plan, machine.StatusPending, listed)
	late := *x
	late.now = x.now.Add(11 * time.Minute)
	late.deps.Now = func() time.Time { return late.now }
	late.settles(t, plan, machine.StatusFailed, listed+"; not done within 10m")
	slice("uid-of-summarise-0", new(false))
	x.settles(t, plan, machine.StatusOK, "3 of 3 pods have left")
	slice("uid-of-its-namesake", new(true))
	x.settles(t, plan, machine.StatusOK, "3 of 3 pods have left")
}

// TestDrainWithoutTheRightToSeeRotation: it is said before anything is done.
func TestDrainWithoutTheRightToSeeRotation(t *testing.T) {
	x := newNodeTrial(t, "node.drain", nil)
	x.Fail(func(r *http.Request) kubetest.Fault {
		if strings.HasSuffix(r.URL.Path, "/endpointslices") {
			return kubetest.Fault{Status: http.StatusForbidden}
		}
		return kubetest.Fault{}
	})
	if plan := x.plan(t); !strings.Contains(plan.Lacks, "list endpointslices.discovery.k8s.io serving: allow it") {
		t.Errorf("the plan lacks %q, want the right to list EndpointSlices", plan.Lacks)
	}
}
