package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox/physics"
	"github.com/inference-responder/responder/internal/step"
)

// warmSpec is a revision that is kept ready beside a service: the one that was
// current when the world's history began.
type warmSpec struct {
	replicas int
	each     float64 // percent of the requests that one replica takes; 0: as many as one of the service's has
}

// split is the HTTPRoute in front of a service and its warm revision.
type split struct {
	warm       *fleet
	weights    [2]int64 // of the service's own backend and of the warm one
	generation int64
	notes      map[string]string // annotations
	owed       int64             // requests, times the sum of the weights, that the warm backend is behind
}

// keepWarm adds the warm revision of a service, behind a route that sends it nothing.
func (f *fleet) keepWarm(start time.Time, rng hash) *fleet {
	spec := *f.spec
	spec.service.Workload.Name, spec.replicas = warmName(f.ref.Name), f.spec.warm.replicas
	spec.hpa, spec.git, spec.scaled, spec.sick, spec.leaves = nil, false, nil, nil, 0
	spec.revisions = slices.DeleteFunc(slices.Clone(f.spec.revisions), func(r revisionSpec) bool { return r.age < history })
	spec.revisions = spec.revisions[len(spec.revisions)-1:]
	f.split = &split{warm: newFleet(&spec, warmSubnet+f.subnet, start, rng), weights: [2]int64{100, 0}, generation: 1, notes: map[string]string{}}
	f.split.warm.of = f
	return f.split.warm
}

// warmSubnet is added to the number of a service's subnet for its warm revision.
const warmSubnet = 64

func warmName(service string) string { return service + "-stable" }

// withWarm declares the warm revision in the service's entry of the catalog.
func (s *serviceSpec) withWarm(w warmSpec) {
	s.warm = &w
	s.service.Warm = playbook.Warm{
		Route: playbook.Workload{Kind: kube.HTTPRoute, Name: s.service.Workload.Name}, Backend: warmName(s.service.Workload.Name),
		Workload: playbook.Workload{Kind: "Deployment", Name: warmName(s.service.Workload.Name)}, Each: w.each,
	}
}

// backend returns the fleet that the next request of a service goes to.
func (f *fleet) backend() *fleet {
	s := f.split
	if s == nil || s.weights[1] == 0 {
		return f
	}
	total := s.weights[0] + s.weights[1]
	if s.owed += s.weights[1]; s.owed < total {
		return f
	}
	s.owed -= total
	return s.warm
}

// routes returns the fleet that a single request of a service goes to.
func (f *fleet) routes(prompt string) *fleet {
	if s := f.split; s != nil && f.rng.of("split"+prompt, f.ticks)%uint64(s.weights[0]+s.weights[1]) < uint64(s.weights[1]) {
		return s.warm
	}
	return f
}

// service is the fleet that the catalog knows: of a warm revision, the one that it is
// kept beside.
func (f *fleet) service() *fleet {
	if f.of != nil {
		return f.of
	}
	return f
}

// awake returns the pods that take requests, with their engines, and those of them
// that take steps.
func (f *fleet) awake(at, start time.Time, d time.Duration) (pods, moving []*pod) {
	pods = f.serving()
	for _, p := range pods {
		if p.engine == nil {
			p.engine = f.newEngine(p.set, at.Add(-d))
		}
		p.engine.Set(p.condition(p.set.image, factor(f.spec.decodes, at.Sub(start))))
		if !p.stuck {
			moving = append(moving, p)
		}
	}
	return pods, moving
}

// take hands a request to the next of the pods. Clients of a stuck one send theirs
// again, to another.
func (f *fleet) take(r physics.Request, pods, moving []*pod) {
	if len(pods) == 0 {
		f.service().dropped++ // the gateway answers it with an error: no engine knows of it
		return
	}
	p := pods[f.turn%len(pods)]
	p.engine.Arrive(r)
	if p.stuck && len(moving) > 0 {
		moving[f.turn/len(pods)%len(moving)].engine.Arrive(r)
	}
	f.turn++
}

// routed returns the service that a route belongs to.
func (w *World) routed(ref kube.Ref) (*fleet, error) {
	for _, f := range w.fleets {
		if f.split != nil && ref == (kube.Ref{Kind: kube.HTTPRoute, Namespace: f.ref.Namespace, Name: f.ref.Name}) {
			return f, nil
		}
	}
	return nil, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("%s is not in the sandbox", name(ref))}
}

// Route returns how the requests of a service are split.
func (w *World) Route(_ context.Context, ref kube.Ref) (kube.Route, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f, err := w.routed(ref)
	if err != nil {
		return kube.Route{}, err
	}
	return f.route(f.split.weights), nil
}

func (f *fleet) route(weights [2]int64) kube.Route {
	s := f.split
	return kube.Route{
		Ref:        kube.Ref{Kind: kube.HTTPRoute, Namespace: f.ref.Namespace, Name: f.ref.Name},
		APIVersion: "gateway.networking.k8s.io/v1", UID: "route-" + f.uid, Generation: s.generation, Annotations: maps.Clone(s.notes),
		Rules: []kube.RouteRule{{Path: "spec.rules[0].backendRefs", Backends: []kube.Backend{
			{Name: f.ref.Name, Weight: weights[0]}, {Name: s.warm.ref.Name, Weight: weights[1]},
		}}},
	}
}

// SetRoute sets the weights of a route.
func (w *World) SetRoute(_ context.Context, c kube.RouteChange) (kube.Route, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f, err := w.routed(c.Ref)
	if err != nil {
		return kube.Route{}, err
	}
	now := f.route(f.split.weights)
	if c.Pre.UID != now.UID || c.Pre.Generation != now.Generation || !kube.SameBackends(now.Rules, c.Rules) {
		return kube.Route{}, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("change %s: it moved since the plan (generation %d, planned on %d); plan again", name(c.Ref), now.Generation, c.Pre.Generation)}
	}
	weights := [2]int64{c.Rules[0].Backends[0].Weight, c.Rules[0].Backends[1].Weight}
	if c.DryRun {
		return f.route(weights), nil
	}
	if err := w.commit(change{At: w.clock.Now(), Ref: f.ref, Weights: weights[:], Run: c.Run, Key: c.Key}); err != nil {
		return kube.Route{}, err
	}
	return f.route(f.split.weights), nil
}

// applyRoute applies a change of weights.
func (f *fleet) applyRoute(c change) {
	s := f.split
	s.weights, s.owed = [2]int64{c.Weights[0], c.Weights[1]}, 0
	s.generation++
	s.notes[kube.AnnotationRun], s.notes[kube.AnnotationEffect], s.notes[kube.ShiftMark(s.warm.ref.Name)] = c.Run, c.Key, c.Key
}

var _ step.Routes = (*World)(nil)
