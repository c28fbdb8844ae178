package kube

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How a container ended, and whether it had served before, follows from what the
// kubelet keeps of its pod.
func TestLastEnd(t *testing.T) {
	noon := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) metav1.Time { return metav1.Time{Time: noon.Add(d)} }
	died := &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", StartedAt: at(-30 * time.Minute), FinishedAt: at(-5 * time.Minute)}
	for _, c := range []struct {
		name    string
		ready   corev1.ConditionStatus
		changed time.Duration
		running time.Duration // since when the container runs again; 0: it does not
		ended   *corev1.ContainerStateTerminated
		want    Served
		none    bool
	}{
		{name: "it turned unready as the container ended", ready: corev1.ConditionFalse, changed: -5 * time.Minute, ended: died, want: ServedYes},
		{name: "it never was ready", ready: corev1.ConditionFalse, changed: -time.Hour, ended: died, want: ServedNo},
		{name: "ready again, and it ran longer than it takes to become ready", ready: corev1.ConditionTrue, changed: -time.Minute, running: -4 * time.Minute, ended: died, want: ServedYes},
		{
			name: "ready at last, and it ended before that", ready: corev1.ConditionTrue, changed: -time.Minute, running: -4 * time.Minute, want: ServedNo,
			ended: &corev1.ContainerStateTerminated{ExitCode: 1, StartedAt: at(-6 * time.Minute), FinishedAt: at(-5 * time.Minute)},
		},
		{name: "readiness is about another container", ready: corev1.ConditionTrue, changed: -time.Hour, running: -4 * time.Minute, ended: died, want: ServedUnknown},
		{name: "it turned unready later", ready: corev1.ConditionFalse, changed: -2 * time.Minute, ended: died, want: ServedUnknown},
		{name: "it ended as it should", ready: corev1.ConditionFalse, changed: -5 * time.Minute, none: true, ended: &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: at(-5 * time.Minute)}},
		{
			name: "killed for memory with exit code 0", ready: corev1.ConditionFalse, changed: -5 * time.Minute, want: ServedYes,
			ended: &corev1.ContainerStateTerminated{Reason: "OOMKilled", StartedAt: at(-time.Hour), FinishedAt: at(-5 * time.Minute)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cs := corev1.ContainerStatus{Name: "engine", RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: c.ended}}
			if c.running != 0 {
				cs.State.Running = &corev1.ContainerStateRunning{StartedAt: at(c.running)}
			}
			limits := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi")}
			got := lastEnd(corev1.Pod{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "engine", Resources: corev1.ResourceRequirements{Limits: limits}}}},
				Status: corev1.PodStatus{
					Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: c.ready, LastTransitionTime: at(c.changed)}},
					ContainerStatuses: []corev1.ContainerStatus{cs},
				},
			})
			if c.none {
				if got != nil {
					t.Fatalf("got %+v", got)
				}
				return
			}
			if got == nil || got.Served != c.want || got.Container != "engine" || !got.Again || got.MemoryLimit != 64<<30 {
				t.Fatalf("got %+v, want served %s", got, c.want)
			}
		})
	}
}
