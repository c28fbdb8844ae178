package kube

import (
	"maps"
	"sync"
	"time"
)

// idleFor is how far apart nothing has to be in flight twice: what sends requests may
// not have noticed yet that a pod is out of rotation.
const idleFor = 5 * time.Second

// idle remembers since when nothing is in flight on pods, by UID. Nothing is lost
// with it: a pod is asked twice again.
type idle struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// twice notes that nothing is in flight on a pod, and reports whether that was so
// long enough before, too.
func (i *idle) twice(uid string, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.since, func(_ string, at time.Time) bool { return now.Sub(at) > 2*maxDrain })
	if _, ok := i.since[uid]; !ok {
		i.since[uid] = now
	}
	return now.Sub(i.since[uid]) >= idleFor
}

// forget notes that something is in flight on a pod, or that it is not known.
func (i *idle) forget(uid string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.since, uid)
}
