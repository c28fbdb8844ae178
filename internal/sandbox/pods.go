package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// appLabel is the label by which workloads and Services select pods.
const appLabel = "app.kubernetes.io/name"

func uidOf(pod string) string { return "uid-of-" + pod }

// describe returns the workload as the API would.
func (f *fleet) describe(at time.Time) kube.Workload {
	w := kube.Workload{
		Ref: f.ref, APIVersion: "apps/v1", UID: f.uid, Generation: f.generation, Observed: f.observed,
		Replicas: f.replicas, Revision: f.revision(), Updated: f.updated(),
		Strategy:    kube.Strategy{Type: "RollingUpdate", MaxSurge: f.surge()},
		Labels:      map[string]string{appLabel: f.ref.Name, "app.kubernetes.io/component": "engine"},
		Selector:    map[string]string{appLabel: f.ref.Name},
		Annotations: maps.Clone(f.annotations), ScaledBy: f.scaledBy,
	}
	if f.app != nil {
		w.Owners = append(w.Owners, f.argoOwner())
		w.Annotations[trackingID] = f.tracking()
	}
	if f.hpa != nil {
		w.Owners = append(w.Owners, f.hpa.owner(f.ref.Name, f.replicas))
	}
	for _, p := range f.pods {
		w.Pods = append(w.Pods, p.describe(f.spec.service.Container, at))
		if p.ready {
			w.Ready++
		}
	}
	w.Available = w.Ready
	w.Stuck = f.stuck(at)
	f.describeHold(&w)
	w.Unavailable = max(0, max(len(f.pods), f.replicas)-w.Available)
	return w
}

// describe returns the pod; its engine's container answers the kubelet at /health.
func (p *pod) describe(container string, at time.Time) kube.Pod {
	out := kube.Pod{Name: p.name, UID: uidOf(p.name), Node: p.node, Phase: "Running", Ready: p.ready, Revision: p.set.revision, Created: p.created, Started: p.created}
	if p.node == "" {
		out.Phase, out.Message, out.Started = "Pending", "0 nodes are available: insufficient nvidia.com/gpu", time.Time{}
	}
	if p.node != "" {
		out.IP = p.ip
		out.Containers = []kube.PodContainer{{Name: container, Port: port, Since: p.runsSince(at), Readiness: kube.HealthProbe{Kind: "http", Path: "/health", Port: port}}}
	}
	if p.ready {
		out.ReadySince = p.created
		if p.loaded.After(p.created) {
			out.ReadySince = p.loaded
		}
		if p.restarts == 0 { // else what it took is not known, as of a real pod
			out.Loading = max(0, p.loaded.Sub(p.created))
		}
	}
	p.container(&out, at)
	return out
}

// runsSince returns when the engine's container last started; zero: it waits to.
func (p *pod) runsSince(at time.Time) time.Time {
	switch {
	case p.restarts == 0:
		return p.created
	case at.Before(p.again):
		return time.Time{}
	}
	return p.again
}

// pod returns a pod of the fleet, or one that it let go of; nil: there is none.
func (f *fleet) pod(name string) *pod {
	for _, p := range slices.Concat(f.pods, f.apart) {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Pod returns one pod.
func (w *World) Pod(_ context.Context, namespace, name string) (kube.PodState, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f := w.fleetOf(namespace, name)
	if f == nil {
		return kube.PodState{}, noPod(namespace, name)
	}
	return f.podState(f.pod(name)), nil
}

func (f *fleet) podState(p *pod) kube.PodState {
	return kube.PodState{
		Namespace: f.ref.Namespace, Name: p.name, UID: uidOf(p.name), Labels: maps.Clone(p.labels), Annotations: maps.Clone(p.notes), Ready: p.ready,
		IP: p.ip, Containers: []kube.PodContainer{{Name: f.spec.service.Container, Port: port}},
	}
}

func noPod(namespace, name string) error {
	return &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("pod %s/%s is not in the sandbox", namespace, name)}
}

// ChangePod edits the labels and annotations of one pod.
func (w *World) ChangePod(_ context.Context, c kube.PodChange) (kube.PodState, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f := w.fleetOf(c.Namespace, c.Name)
	switch {
	case f == nil:
		return kube.PodState{}, noPod(c.Namespace, c.Name)
	case c.UID != uidOf(c.Name):
		return kube.PodState{}, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("change pod %s/%s: it was deleted and recreated since it was read", c.Namespace, c.Name)}
	case c.DryRun:
		out := f.podState(f.pod(c.Name))
		edit(out.Labels, c.Labels)
		edit(out.Annotations, c.Annotate)
		return out, nil
	default:
		if err := w.commit(change{At: w.clock.Now(), Ref: f.ref, Pod: c.Name, Labels: c.Labels, Annotate: c.Annotate}); err != nil {
			return kube.PodState{}, err
		}
	}
	return f.podState(f.pod(c.Name)), nil
}

// applyPod edits a pod. A fleet lets go of one that lost its label, and takes one
// that has it.
func (w *World) applyPod(c change) {
	f := w.fleet(c.Ref)
	p := f.pod(c.Pod)
	if p == nil {
		return
	}
	edit(p.labels, c.Labels)
	edit(p.notes, c.Annotate)
	same := func(x *pod) bool { return x == p }
	f.pods, f.apart = slices.DeleteFunc(f.pods, same), slices.DeleteFunc(f.apart, same)
	if p.labels[appLabel] == f.ref.Name {
		f.pods = append(f.pods, p)
		slices.SortStableFunc(f.pods, func(a, b *pod) int { return a.created.Compare(b.created) })
	} else {
		f.apart = append(f.apart, p)
	}
}

// edit sets the values of a map; an empty one removes its key.
func edit(m, changes map[string]string) {
	for k, v := range changes {
		if v == "" {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
}

var _ step.Pods = (*World)(nil)
