package kube

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// eventAge is the age up to which a warning counts as current.
const eventAge = time.Hour

// occurred returns when an event last happened and how often. Both have moved
// between fields with the versions of the API.
func occurred(e corev1.Event) (last time.Time, count int) {
	last, count = e.LastTimestamp.Time, int(e.Count)
	if e.EventTime.After(last) {
		last = e.EventTime.Time
	}
	if e.Series != nil {
		count = max(count, int(e.Series.Count))
		if e.Series.LastObservedTime.After(last) {
			last = e.Series.LastObservedTime.Time
		}
	}
	if last.IsZero() {
		last = e.CreationTimestamp.Time
	}
	return last, max(count, 1)
}
