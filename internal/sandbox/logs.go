package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// Log returns what a container printed last: that it serves, or the words with
// which it ended.
func (w *World) Log(_ context.Context, q kube.LogQuery) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	for _, f := range w.fleets {
		for _, p := range f.pods {
			if f.ref.Namespace != q.Namespace || p.name != q.Pod {
				continue
			}
			if p.node == "" || q.Previous && p.ended == nil {
				break
			}
			return f.printed(p, q.Previous, w.at), nil
		}
	}
	return "", &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("pod %s/%s has no such container in the sandbox", q.Namespace, q.Pod)}
}

// printed returns the last lines of a pod's container. The last words of one that
// has not been started again are in its own log.
func (f *fleet) printed(p *pod, previous bool, at time.Time) string {
	lines := []string{fmt.Sprintf("INFO %s Starting to load model %s...", p.created.Format("01-02 15:04:05"), f.spec.service.Model)}
	if p.ended != nil && (previous || at.Before(p.again)) {
		return strings.Join(append(lines, p.ended.Message), "\n")
	}
	if p.ready {
		lines = append(lines, fmt.Sprintf("INFO %s Application startup complete.", p.loaded.Format("01-02 15:04:05")))
	}
	return strings.Join(lines, "\n")
}

// Events returns the warnings about a workload and its pods. The simulated cluster
// has no others.
func (w *World) Events(ctx context.Context, ref kube.Ref, since time.Time) ([]kube.EventCount, []string, error) {
	got, err := w.Workload(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	return slices.DeleteFunc(got.Events, func(e kube.EventCount) bool { return e.Last.Before(since) }), nil, nil
}

var (
	_ step.Logs   = (*World)(nil)
	_ step.Events = (*World)(nil)
)
