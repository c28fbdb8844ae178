package kube

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestJobBegan: a Job that only waited is told from one that was suspended anew after it had
// run, whose pods are gone and not counted.
func TestJobBegan(t *testing.T) {
	made := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		status batchv1.JobStatus
		began  bool
	}{
		"new":       {},
		"suspended": {status: suspendedAt(made.Add(time.Second))},
		"preempted": {suspendedAt(made.Add(10 * time.Minute)), true},
		"failed":    {batchv1.JobStatus{Failed: 1}, true},
	} {
		j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(made)}, Status: tt.status}
		if got := describeJob(&j).Began; got != tt.began {
			t.Errorf("%s: %t", name, got)
		}
	}
	for name, tt := range map[string]struct {
		pod corev1.PodStatus
		ran bool
	}{
		"pending": {pod: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{}}}},
		"init":    {corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}, true},
		"running": {corev1.PodStatus{Phase: corev1.PodRunning}, true},
	} {
		if got := hasRun(&corev1.Pod{Status: tt.pod}); got != tt.ran {
			t.Errorf("pod %s: %t", name, got)
		}
	}
}

func suspendedAt(at time.Time) batchv1.JobStatus {
	return batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobSuspended, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}}
}
