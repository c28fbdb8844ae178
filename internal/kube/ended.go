package kube

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// slack is the time between the end of a container and what the kubelet says of its pod.
const slack = time.Minute

// lastEnd returns how a container of a pod last ended that should not have.
func lastEnd(p corev1.Pod) *Ended {
	var last *Ended
	for _, cs := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		for i, ended := range []*corev1.ContainerStateTerminated{cs.State.Terminated, cs.LastTerminationState.Terminated} {
			if ended == nil || ended.ExitCode == 0 && ended.Reason != "OOMKilled" || last != nil && !ended.FinishedAt.After(last.At) {
				continue
			}
			last = &Ended{
				Container: cs.Name, Reason: ended.Reason, ExitCode: int(ended.ExitCode), Began: ended.StartedAt.Time, At: ended.FinishedAt.Time,
				Message: ended.Message, MemoryLimit: memoryLimit(p.Spec, cs.Name), Again: i == 1, Served: served(p, cs, ended),
			}
		}
	}
	return last
}

func memoryLimit(spec corev1.PodSpec, container string) int64 {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if c.Name == container {
			return c.Resources.Limits.Memory().Value()
		}
	}
	return 0
}

// served tells whether a container was ready before it ended, by when its pod's
// readiness last changed. A pod that turned unready as the container ended had
// served. One that was unready for longer had not. Of a pod that is ready again
// the moment before is lost: then a container that had run for longer than the
// one now took to become ready had been ready, too.
func served(p corev1.Pod, cs corev1.ContainerStatus, ended *corev1.ContainerStateTerminated) Served {
	for _, cond := range p.Status.Conditions {
		if cond.Type != corev1.PodReady || cond.LastTransitionTime.IsZero() {
			continue
		}
		changed := cond.LastTransitionTime.Time
		if cond.Status != corev1.ConditionTrue {
			if changed.Before(ended.FinishedAt.Add(-slack)) {
				return ServedNo
			}
			if changed.Before(ended.FinishedAt.Add(slack)) && changed.After(ended.StartedAt.Time) {
				return ServedYes
			}
			return ServedUnknown
		}
		if cs.State.Running == nil || cs.State.Running.StartedAt.IsZero() || changed.Before(cs.State.Running.StartedAt.Time) {
			return ServedUnknown // a container beside the one that readiness is about
		}
		if ended.FinishedAt.Sub(ended.StartedAt.Time) > changed.Sub(cs.State.Running.StartedAt.Time) {
			return ServedYes
		}
		return ServedNo
	}
	return ServedUnknown
}
